"""Run one program in a process of its own: what it reported counts, even if it crashes or hangs. Linux."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import secrets
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen, TimeoutExpired
from tempfile import TemporaryDirectory
from typing import Any

from framefeed._names import escape_invisible
from framefeed._shown import show_text
from framefeed._units import format_count, format_seconds
from framefeed.errors import FramefeedError
from framefeed.parallel import Err, catch_outcome

Report = Callable[[Any], None]
"""Writes a JSON value for the parent; each call replaces the value of the one before."""
Program = Callable[[Mapping[str, Any], Report], None]

_CLEANING_SECONDS = 3.0
"""For a process to remove its temporary folders after SIGTERM, before it is killed."""
_GRACE_SECONDS = 2.0
"""For helpers, as of multiprocessing, to end by themselves after the process that started them."""
_KILL_SECONDS = 2.0
"""For the kernel to end what was killed. What waits in it, as for a file server that does not answer, ends later."""
_SHOWN_BYTES = 1 << 16
"""Of what a program printed, at its begin and at its end."""
_POLL_SECONDS = 0.02
_MARK = "FRAMEFEED_BENCH_ROW"
_OPTIONS, _REPORT, _FAILURE, _PRINTED = "options.json", "report.json", "failure.json", "printed.txt"
_START = "import pkgutil, sys; from framefeed.bench._isolated import serve; serve(pkgutil.resolve_name, *sys.argv[1:])"
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended."""

    value: Any  # what it reported last; None if nothing
    failure: str = ""  # why it did not end well, on one line; empty if it did
    notes: tuple[str, ...] = ()  # that it printed, or left processes
    is_late: bool = False  # whether it had to be killed


class Interrupted(KeyboardInterrupt):
    """The caller was interrupted; ``value`` is what the program had reported last, None if nothing."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def run_isolated(program: Program, options: Mapping[str, Any], folder: Path, *, seconds: float) -> Ended:
    """Run a function of a module in a fresh process of its own session, for so many seconds at most.

    In the end, and if the caller is interrupted, all that it started is killed, and ``folder`` is as it was.

    Raises:
        Interrupted: The caller was interrupted.
    """
    token = secrets.token_hex(16)
    with TemporaryDirectory(prefix="isolated_", dir=folder) as name:
        scratch = Path(name)
        (scratch / _OPTIONS).write_text(json.dumps(dict(options)), encoding="ascii")
        words = [f"{program.__module__}:{program.__qualname__}", os.path.abspath(name), str(os.getpid())]
        process = None
        try:
            try:
                with (scratch / _PRINTED).open("wb") as printed:
                    process = Popen(
                        [sys.executable, "-P", "-u", "-W", "ignore", "-c", _START, *words],
                        stdin=DEVNULL,
                        stdout=printed,
                        stderr=STDOUT,
                        env={**os.environ, _MARK: token},
                        start_new_session=True,
                    )
                with suppress(TimeoutExpired):
                    process.wait(seconds)
                status = process.returncode
                # Before it is ended, because what processes say then is no news.
                text = _read_printed(scratch / _PRINTED)
            finally:
                num_left = _end(process, f"{_MARK}={token}".encode())
        except KeyboardInterrupt as error:
            raise Interrupted(_read(scratch / _REPORT)) from error
        lines = [line for line in text.splitlines() if line.strip()]
        failure = (status is not None and _read(scratch / _FAILURE)) or _explain(status, seconds, lines)
        return Ended(_read(scratch / _REPORT), failure, tuple(_make_notes(lines, num_left)), is_late=status is None)


def serve(find: Callable[[str], Program], name: str, folder: str, parent: str) -> None:
    """Run a program in this process, which `run_isolated` started for it."""
    # As Ctrl-C does, so that temporary folders go.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):
        sys.exit("the parent has ended")
    scratch = Path(folder)
    options = json.loads((scratch / _OPTIONS).read_bytes())
    outcome = catch_outcome(lambda report: find(name)(options, report), lambda value: _write(scratch / _REPORT, value))
    if isinstance(outcome, Err):
        if isinstance(outcome.error, SystemExit):
            raise outcome.error
        _write(scratch / _FAILURE, _describe(outcome.error))


def _write(path: Path, value: Any) -> None:
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(value, allow_nan=False), encoding="ascii")
    os.replace(unfinished, path)


def _read(path: Path) -> Any:
    return json.loads(path.read_bytes()) if path.exists() else None


def _read_printed(path: Path) -> str:
    """Read the begin and the end of what was printed."""
    with path.open("rb") as file:
        head, size = file.read(_SHOWN_BYTES), path.stat().st_size
        file.seek(max(len(head), size - _SHOWN_BYTES))
        tail = file.read(_SHOWN_BYTES)
    return (head + tail).decode("utf-8", errors="surrogateescape")


def _describe(error: BaseException) -> str:
    kind, message = type(error).__name__, str(error)
    text = message if isinstance(error, FramefeedError) else f"{kind}: {message}"
    return _shorten(text if message else kind, 500)


def _shorten(text: str, length: int = 100) -> str:
    line = escape_invisible(show_text(" ".join(text.split())))
    return line if len(line) <= length else f"{line[: length - 3]}..."


def _explain(status: int | None, seconds: float, lines: list[str]) -> str:
    """Say why a process ended, from its exit status, which is None if it had to be ended; empty if it ended well."""
    if status is None:
        return f"it did not end within {format_seconds(seconds)} and was killed"
    if status < 0:
        name = signal.Signals(-status).name if -status in {*signal.Signals} else -status
        return f"it crashed: signal {name}"
    last = f": {_shorten(lines[-1])}" if lines else ""
    return f"it ended with status {status}{last}" if status else ""


def _make_notes(lines: list[str], num_left: int) -> list[str]:
    notes = []
    if lines:
        first = ", the first" if len(lines) > 1 else ""
        notes.append(f"it printed {format_count(len(lines), 'line')}{first}: {_shorten(lines[0])}")
    if num_left:
        processes, verb = format_count(num_left, "process", "processes"), "was" if num_left == 1 else "were"
        notes.append(f"it left {processes} running, which {verb} ended")
    return notes


def _end(process: Popen[bytes] | None, mark: bytes) -> int:
    """End a process that still runs, and those that it left; return how many of these had to be ended."""
    try:
        if process is not None and process.poll() is None:
            _stop(process)
    finally:
        try:
            num_left = _end_left(mark)
        finally:
            if process is not None:
                _signal_group(process, signal.SIGKILL)
    return num_left


def _stop(process: Popen[bytes]) -> None:
    try:
        _signal_group(process, signal.SIGTERM)
        with suppress(TimeoutExpired):
            process.wait(_CLEANING_SECONDS)
    finally:
        if process.poll() is None:
            _signal_group(process, signal.SIGKILL)
            with suppress(TimeoutExpired):
                process.wait(_KILL_SECONDS)


def _signal_group(process: Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _end_left(mark: bytes) -> int:
    ended = set[int]()
    until = time.monotonic() + _GRACE_SECONDS
    try:
        while time.monotonic() < until and _find_marked(mark):
            time.sleep(_POLL_SECONDS)
    finally:
        until = time.monotonic() + _KILL_SECONDS
        # Again and again: each may have started another one before it was killed.
        while (left := _find_marked(mark)) and time.monotonic() < until:
            for pid in left:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                    ended.add(pid)
            time.sleep(_POLL_SECONDS)
    return len(ended)


def _find_marked(mark: bytes) -> list[int]:
    """Ids of the processes that have a variable in their environment, also of those that left session and parent."""
    marked = []
    with suppress(FileNotFoundError):
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            with suppress(OSError):
                if mark in Path("/proc", pid, "environ").read_bytes():
                    marked.append(int(pid))
    return marked
