"""Running the command as a user does: another process, its two streams, its exit code."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE_SECONDS

CHECKOUT = Path(__file__).resolve().parents[2]
SECONDS = 3 * PATIENCE_SECONDS
"""Of a whole program, which imports much; a hang is a failure."""

Result = subprocess.CompletedProcess[bytes]
Answer = Callable[..., Any]
"""The fixture ``answer``: the command in this process."""


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(CHECKOUT / "src"), **(extra or {})}


def run(*words: str | bytes | Path, cwd: Path | None = None, extra: Mapping[str, str] | None = None) -> Result:
    """Run ``framefeed WORDS`` with both streams piped."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "framefeed", *words],
        cwd=cwd,
        env=environment(extra),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
    )


def run_on_terminal(*words: str | bytes | Path) -> tuple[Result, bytes]:
    """Run ``framefeed WORDS`` with standard error on a terminal; also return what that shows."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    result = subprocess.run(
        [sys.executable, "-W", "error", "-m", "framefeed", *words],
        env=environment(), stdout=subprocess.PIPE, stderr=theirs, timeout=SECONDS,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # what Linux says once the other end is closed
        while more := os.read(ours, 65536):
            shown += more
    os.close(ours)
    return result, shown


def run_script(script: str, *words: str | bytes | Path, cwd: Path | None = None) -> Result:
    """Run a Python script that may call ``main`` itself."""
    return subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
    )


def only_line(stream: bytes | str) -> str:
    """Return the only line of an output, which must be printable and no traceback."""
    text = stream.decode() if isinstance(stream, bytes) else stream
    lines = text.splitlines()
    assert len(lines) == 1, text
    assert lines[0].isprintable(), text
    assert lines[0].startswith("framefeed: "), text
    return lines[0]
