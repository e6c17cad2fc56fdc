"""The console script `framefeed`: it handles closed streams, and Ctrl-C already while framefeed is being imported."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from contextlib import suppress

_INTERRUPTED = 130  # 128 + SIGINT, as shells have it
_ENDING_SECONDS = 0.5  # for threads to end after an error


def _leave(number: int, frame: object) -> None:
    with suppress(OSError):
        os.write(2, b"framefeed: interrupted\n")
    os._exit(_INTERRUPTED)


def replace_closed_streams() -> None:
    """Open the null device in place of standard streams that are closed, as after ``>&-``: also for child processes.

    The next file that is opened would else get the number of a closed stream, and lines that are meant for it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
            is_closed = getattr(sys, name) is None
        except OSError:
            is_closed = True
        if is_closed:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest free number: that of the closed stream
            os.set_inheritable(descriptor, True)
            mode = "w" if number else "r"
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - stays open


def leave_on_interrupt() -> None:
    """Have Ctrl-C end the process with one line, where it is not ignored or handled already."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def _has_stuck_thread() -> bool:
    until = time.monotonic() + _ENDING_SECONDS
    threads = [each for each in threading.enumerate() if each.name.startswith("framefeed-") and not each.daemon]
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return any(thread.is_alive() for thread in threads)


def main() -> int:
    """Run the command line, and end the process with its exit code."""
    replace_closed_streams()
    leave_on_interrupt()
    from framefeed.cli import main as run

    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = run()
    if code == _INTERRUPTED or (code and _has_stuck_thread()):
        # Threads in native code cannot be interrupted, and the interpreter's own end would wait for them: also for a
        # function of the user's that took longer than its deadline.
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(code)
    return code
