"""Parts of the tests that need a process of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.conftest import CHECKOUT
from tests.lengths import either
from tests.patience import PATIENCE_SECONDS


def report_of(module: str, *arguments: str) -> Any:
    """Run a module of the tests as a program that says nothing but one JSON document on standard output."""
    run = run_python("-m", module, *arguments)
    assert (run.returncode, run.stderr) == (0, "")
    return json.loads(run.stdout)


def run_python(*words: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the checkout, with such arguments, to its end."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_SECONDS,
        check=False,
    )


def report_lines(lines: Sequence[str], log: Path | None) -> None:
    """Write lines to a log and say the last of them, or say all of them."""
    text = "\n".join(lines) + "\n"
    if log is None:
        sys.stdout.write(text)
        return
    write_log(log, text)
    sys.stdout.write(f"{lines[-1]}; see {log}\n")


def write_log(log: Path, text: str) -> None:
    """Write a log, in a folder that may not exist yet."""
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(text, encoding="utf-8")


class Program:
    """A script in a folder of its own; whatever of its processes is left when the test is over is killed.

    Args:
        folder: Where it is written.
        left: Ends its processes.
        beginning: Comes before each script.
    """

    def __init__(self, folder: Path, left: ExitStack, beginning: str) -> None:
        self.folder = folder
        self._left, self._beginning = left, beginning

    def start(self, script: str) -> subprocess.Popen[str]:
        path = self.folder / "script.py"
        path.write_text(self._beginning + script)
        command = [sys.executable, "-X", "dev", "-W", "error", str(path)]
        # Without the checks of each allocation, by which importing framefeed takes a third longer.
        environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT / 'src'}:{CHECKOUT}", "PYTHONMALLOC": "default"}
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return self._left.enter_context(running(command, env=environment, **options))

    def run(self, script: str) -> tuple[int, str, str]:
        started = self.start(script)
        out, err = started.communicate(timeout=either(short=PATIENCE_SECONDS, long=10 * PATIENCE_SECONDS))
        return started.returncode, out, err


@contextmanager
def running(command: Sequence[Any], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a program that Ctrl-C and SIGHUP end, in a process group of its own, of which nothing is left in the end.

    Where the tests themselves ignore them (``nohup``, a job in the background), it would inherit that.

    Args:
        command: The program and its arguments.
        options: Of ``subprocess.Popen``.
    """
    # A signal with a handler has its default action in the program.
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGINT, signal.SIGHUP)}
    try:
        process = subprocess.Popen(command, start_new_session=True, **options)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    # Popen's own end would wait for a program that hangs: it comes after the kill.
    with process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
