"""Call a function that may never return, and give it up in time.

A call that is late goes on in its thread, because a thread cannot be ended: so it returns a value, and must not write
to memory of the caller. The thread is a daemon, for which the end of the interpreter does not wait. Each call has its
own: neither a fork nor a call that hangs takes a thread from the next one.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import monotonic, perf_counter
from typing import TypeVar

from framefeed.errors import DeadlineExceeded
from framefeed.parallel._outcome import Err, Ok, catch_outcome
from framefeed.parallel._stopping import StopDetector, check_cancelled, get_fetch_end

T = TypeVar("T")
R = TypeVar("R")

# Seconds between two checks whether the run was cancelled.
_CHECK_SECONDS = 0.2


def call_in_time(function: Callable[[T], R], argument: T, seconds: float, name: str, stage: str) -> Ok[R] | Err:
    """Call a function in a thread of its own, and return its outcome.

    Args:
        function: Called once; it goes on if it is late.
        argument: Of the function.
        seconds: Longest wait. The limits of the calling thread, `time_limit` and `fetch_limit`, may end it before.
        name: Name of the source, for the message.
        stage: Stage of the work, for the message.

    Raises:
        DeadlineExceeded: It is late.
        Cancelled: The run of the calling thread was cancelled.
        OSError: EAGAIN, as there is no thread.
    """
    outcomes: SimpleQueue[Ok[R] | Err] = SimpleQueue()
    stops, began = StopDetector(), monotonic()
    silent_at, late_at = began + seconds, get_fetch_end()
    if began < late_at:
        _start_thread(lambda: outcomes.put(catch_outcome(function, argument)))
    while (left := min(silent_at, late_at) - monotonic()) > 0:
        check_cancelled()
        wait_began, wait_seconds = perf_counter(), min(left, _CHECK_SECONDS)
        try:
            return outcomes.get(timeout=wait_seconds)
        except Empty:
            if stops.was_stopped(wait_began, wait_seconds):
                silent_at += perf_counter() - wait_began
    is_deadline = late_at < silent_at
    limit = "deadline_seconds" if is_deadline else f"{seconds:g} s"
    advice = f"try again later{', or raise it if the object may take that long' if is_deadline else ''}"
    raise DeadlineExceeded(
        f"{name}: the storage did not answer within {limit} (stage: {stage}): {advice}", source=name, stage=stage
    )


def _start_thread(run: Callable[[], None]) -> None:
    try:
        threading.Thread(target=run, name="framefeed-fetch", daemon=True).start()
    except RuntimeError as error:  # The system's limit on threads.
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from error
