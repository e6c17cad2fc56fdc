"""The console script `framefeed`: it handles Ctrl-C already while the rest of framefeed is being imported."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time

_INTERRUPTED = 130  # 128 + SIGINT, as shells have it
_ENDING_SECONDS = 0.5  # for threads to end after an error


def _leave(number: int, frame: object) -> None:
    os.write(2, b"framefeed: interrupted\n")
    os._exit(_INTERRUPTED)


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
