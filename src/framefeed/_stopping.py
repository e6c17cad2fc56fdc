"""Stop long work from outside: by a time limit, or because its run was cancelled; give up calls that never return.

Both belong to the thread that works. Loops over packets, frames and reads call `check_stop`.

A call that is late goes on in its thread, because a thread cannot be ended: so it returns a value, and must not write
to memory of the caller. The thread is a daemon, for which the end of the interpreter does not wait. Each call has its
own: neither a fork nor a call that hangs takes a thread from the next one.
"""

from __future__ import annotations

import errno
import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic, perf_counter
from typing import Generic, TypeVar, cast

from framefeed._checks import describe_value, is_finite
from framefeed._outcome import Err, Ok, catch_outcome
from framefeed.errors import DeadlineExceeded, LimitExceeded, UsageError

T = TypeVar("T")
R = TypeVar("R")

SILENCE_SECONDS = 60.0
"""Longest wait for storage to open an object, or to send 128 KB of it: 2 KB a second are enough."""
DEADLINE = "deadline_seconds"
"""Name of the limit in the error."""


class Cancelled(Exception):
    """The result of this call is no longer needed."""


class _Work(threading.local):
    """Limits of the work of the calling thread."""

    until: float = math.inf
    limit_seconds: float = math.inf
    name: str = ""
    fetch_until: float = math.inf
    is_cancelled: Callable[[], bool] | None = None


_work = _Work()


def check_stop() -> None:
    """Raise `Cancelled`, or LimitExceeded after its time limit, if the work of the calling thread must end."""
    if _work.is_cancelled is not None and _work.is_cancelled():
        raise Cancelled
    if _work.until < math.inf and monotonic() > _work.until:
        seconds = float(_work.limit_seconds)
        raise LimitExceeded(
            f"{_work.name}: took longer than {seconds:g} s (deadline_seconds): it may be damaged; raise "
            "deadline_seconds if such a file may take that long",
            limit=DEADLINE,
            source=_work.name,
        )


def check_deadline(seconds: object) -> None:
    """Raise UsageError unless ``deadline_seconds`` is a duration or None."""
    if seconds is not None and not ((is_finite(seconds) or seconds == math.inf) and cast("float", seconds) > 0):
        raise UsageError(f"deadline_seconds must be more than 0, or None for no bound, not {describe_value(seconds)}")


# A wait that returns later than this shows that the process did not run: a busy machine delays it less.
_STOP_SECONDS = 1.0


class StopDetector:
    """Detects that this process was stopped during a wait, as by Ctrl-Z: such a wait counts for no deadline.

    Several late waits in a row are no stop: another thread holds the interpreter's lock for seconds at a time.
    """

    def __init__(self) -> None:
        self._was_late = False

    def was_stopped(self, began: float, seconds: float) -> bool:
        """Whether this process was stopped during a wait that has just ended, and not already during the one before.

        ``began`` is ``perf_counter()`` at its start, ``seconds`` its longest duration.
        """
        was_late, self._was_late = self._was_late, perf_counter() - began > seconds + _STOP_SECONDS
        return self._was_late and not was_late


@contextmanager
def time_limit(seconds: float | None, name: str) -> Iterator[None]:
    """Limit the time of the work in the block; of nested limits the earlier one counts. None sets no limit."""
    before = (_work.until, _work.limit_seconds, _work.name)
    until = math.inf if seconds is None else monotonic() + seconds
    if seconds is not None and until < _work.until:
        _work.until, _work.limit_seconds, _work.name = until, seconds, name
    try:
        yield
    finally:
        _work.until, _work.limit_seconds, _work.name = before


@contextmanager
def fetch_limit(seconds: float | None) -> Iterator[None]:
    """Limit the time until which fetches of the block, those by URL, are waited for; other work is not limited.

    None sets no limit.
    """
    before = _work.fetch_until
    _work.fetch_until = before if seconds is None else min(before, monotonic() + seconds)
    try:
        yield
    finally:
        _work.fetch_until = before


@contextmanager
def cancelled_by(is_cancelled: Callable[[], bool]) -> Iterator[None]:
    """Make `check_stop` raise in the block as soon as a run is cancelled."""
    before = _work.is_cancelled
    _work.is_cancelled = is_cancelled if before is None else lambda: is_cancelled() or before()
    try:
        yield
    finally:
        _work.is_cancelled = before


CHECK_SECONDS = 0.2
"""Seconds between two checks whether the run was cancelled."""


def get_fetch_seconds() -> float:
    """Seconds for which the calling thread may wait for a fetch; 0 if its run was cancelled."""
    if _work.is_cancelled is not None and _work.is_cancelled():
        return 0.0
    return max(0.0, min(_work.until, _work.fetch_until) - monotonic())


def check_fetch(name: str, stage: str) -> None:
    """Raise `Cancelled` or DeadlineExceeded if the calling thread may wait for a fetch no longer."""
    if _work.is_cancelled is not None and _work.is_cancelled():
        raise Cancelled
    if not get_fetch_seconds():
        raise make_late_error(0, name, stage, is_deadline=True)


class PendingCall(Generic[R]):
    """A call that runs in a thread of its own; it goes on if it is late.

    The function gets ``is_abandoned``, which is set when its outcome is no longer waited for, so that it may end early.
    Without a thread for it, an OSError (EAGAIN) is raised.
    """

    def __init__(self, function: Callable[[threading.Event], R]) -> None:
        self.is_abandoned = threading.Event()
        self._outcome: Ok[R] | Err | None = None
        self._has_ended = threading.Event()
        _start_thread(partial(self._run, function))

    def _run(self, function: Callable[[threading.Event], R]) -> None:
        self._outcome = catch_outcome(function, self.is_abandoned)
        self._has_ended.set()

    @property
    def was_abandoned(self) -> bool:
        """Whether its outcome was no longer waited for."""
        return self.is_abandoned.is_set()

    def abandon(self) -> None:
        """Wait for the outcome no longer; more than once is fine."""
        self.is_abandoned.set()

    def wait(self, seconds: float, name: str, stage: str) -> Ok[R] | Err:
        """Wait for the outcome; see `call_in_time`."""
        try:
            return self._wait(seconds, name, stage)
        except BaseException:
            self.abandon()
            raise

    def _wait(self, seconds: float, name: str, stage: str) -> Ok[R] | Err:
        stops = StopDetector()
        silent_at, late_at = monotonic() + seconds, min(_work.until, _work.fetch_until)
        while (left := min(silent_at, late_at) - monotonic()) > 0:
            if _work.is_cancelled is not None and _work.is_cancelled():
                raise Cancelled
            wait_began, wait_seconds = perf_counter(), min(left, CHECK_SECONDS)
            if self._has_ended.wait(wait_seconds):
                return cast("Ok[R] | Err", self._outcome)
            if stops.was_stopped(wait_began, wait_seconds):
                silent_at += perf_counter() - wait_began
        raise make_late_error(seconds, name, stage, is_deadline=late_at < silent_at)


def call_in_time(function: Callable[[T], R], argument: T, seconds: float, name: str, stage: str) -> Ok[R] | Err:
    """Call a function in a thread of its own, and return its outcome.

    The limits of the calling thread, `time_limit` and `fetch_limit`, may end the wait of ``seconds`` before.
    """
    if monotonic() >= min(_work.until, _work.fetch_until):
        raise make_late_error(seconds, name, stage, is_deadline=True)
    return PendingCall(lambda _: function(argument)).wait(seconds, name, stage)


def make_late_error(seconds: float, name: str, stage: str, *, is_deadline: bool = False) -> DeadlineExceeded:
    """Build the error for storage that is late: for its own limit of seconds, or a ``deadline_seconds``."""
    limit = "deadline_seconds" if is_deadline else f"{seconds:g} s"
    advice = f"try again later{', or raise it if the object may take that long' if is_deadline else ''}"
    return DeadlineExceeded(
        f"{name}: the storage did not answer within {limit} (stage: {stage}): {advice}", source=name, stage=stage
    )


def _start_thread(run: Callable[[], None]) -> None:
    try:
        threading.Thread(target=run, name="framefeed-fetch", daemon=True).start()
    except RuntimeError as error:  # The system's limit on threads.
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from error
