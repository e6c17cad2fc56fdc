"""A worker of the exam as this side sees it: it gets a file and a deadline, and may crash or hang."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from tests.engines.jobs import INTRODUCE, Answer, Job

CHECKOUT = Path(__file__).resolve().parents[2]
START_SECONDS = 120.0
"""Until an engine is imported and has said its version."""


@dataclass(frozen=True, slots=True)
class Result:
    """An answer, or what became of the process in its place, and the first line that it printed meanwhile."""

    answer: Answer
    printed: str = ""


class EngineProcess:
    """Asks one engine after file and file; when its process ends, the next file gets a new one.

    Args:
        name: Name of a backend, or module:class.
        python: Interpreter of the environment that has the library.
    """

    def __init__(self, name: str, python: str = sys.executable) -> None:
        self.name = name
        self._python = python
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open until `close`
        self._read_until = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def introduce(self) -> Answer:
        """Start it, and learn versions; another status than "exact" means that it cannot be examined."""
        return self._ask(Job(INTRODUCE), START_SECONDS).answer

    def ask(self, job: Job, seconds: float) -> Result:
        """Give it a job with a deadline."""
        if self._process is None:
            started = self._ask(Job(INTRODUCE), START_SECONDS)
            if started.answer.status != "exact":
                return started
        return self._ask(job, seconds)

    def close(self) -> None:
        """End the process."""
        self._end()
        self._output.close()

    def _ask(self, job: Job, seconds: float) -> Result:
        connection = self._start()
        try:
            connection.send(job)
            if not connection.poll(seconds):
                self._end()
                return Result(Answer("hung", f"no answer in {seconds:g} s"), self._read_output())
            answer: Answer = connection.recv()
        except (EOFError, OSError):
            return Result(Answer("crashed", self._end()), self._read_output())
        return Result(answer, self._read_output())

    def _start(self) -> Connection:
        if self._connection is None:
            self._connection, theirs = Pipe()
            with theirs:
                self._process = subprocess.Popen(
                    [self._python, "-m", "tests.engines.worker", str(theirs.fileno()), self.name],
                    cwd=CHECKOUT,
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=self._output,
                    stderr=self._output,
                    start_new_session=True,
                )
        return self._connection

    def _end(self) -> str:
        """End the process, and say how it ended."""
        if self._process is None or self._connection is None:
            return ""
        self._connection.close()
        with suppress(subprocess.TimeoutExpired):  # one that crashed has ended; its own status says how
            self._process.wait(1)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        self._process = self._connection = None
        return signal.Signals(-code).name if code < 0 else f"it ended with status {code}"

    def _read_output(self) -> str:
        end = os.fstat(self._output.fileno()).st_size
        text = os.pread(self._output.fileno(), end - self._read_until, self._read_until)
        self._read_until = end
        return (text.decode(errors="replace").strip().splitlines() or [""])[0]
