"""Measure the workers of an iteration: seconds in calls, seconds of waiting, and how many results wait to be taken."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic


@dataclass(frozen=True, slots=True)
class WorkerTimes:
    """What the workers of an iteration did and do.

    ``busy_seconds + idle_seconds`` is the number of workers times the seconds from the first call to the end of the
    iteration. Without workers the caller's thread does the work, and is never idle.

    Attributes:
        busy_seconds: Time of all workers in calls.
        idle_seconds: Time of all workers between calls.
        running: Number of calls that run now.
        ready: Number of results that wait to be taken now.
    """

    busy_seconds: float = 0.0
    idle_seconds: float = 0.0
    running: int = 0
    ready: int = 0

    def __add__(self, later: WorkerTimes) -> WorkerTimes:
        """Add the seconds of a later iteration, whose numbers of now are kept."""
        return WorkerTimes(
            self.busy_seconds + later.busy_seconds,
            self.idle_seconds + later.idle_seconds,
            later.running,
            later.ready,
        )


class Gauge:
    """Adds up the times of workers. One thread at a time records; any thread may read, without a lock.

    Args:
        workers: Number of workers.
        max_in_flight: Most items that are read and not yet yielded.
    """

    __slots__ = ("_end", "_last", "max_in_flight", "workers")

    def __init__(self, workers: int, max_in_flight: int = 0) -> None:
        self.workers = workers
        self.max_in_flight = max_in_flight
        # The times, and the clock at which they were right; None before the first call. One attribute, so that a reader
        # in another thread never sees half of a change.
        self._last: tuple[WorkerTimes, float | None] = WorkerTimes(), None
        self._end: float | None = None

    def read(self) -> WorkerTimes:
        """Return the times up to now, or up to the end of the iteration."""
        times = self._advance(monotonic())
        return times if self._end is None else WorkerTimes(times.busy_seconds, times.idle_seconds)

    def record(self, running: int, ready: int) -> None:
        """Note how many calls run, and how many results are ready, from now on."""
        now = monotonic()
        times = self._advance(now)
        self._last = WorkerTimes(times.busy_seconds, times.idle_seconds, running, ready), now

    def stop(self) -> None:
        """Note that the iteration has ended. It takes no lock: the garbage collector may call it."""
        if self._end is None:
            self._end = monotonic()

    def _advance(self, now: float) -> WorkerTimes:
        times, clock = self._last
        if clock is None:
            return times
        seconds = max(0.0, (now if self._end is None else min(now, self._end)) - clock)
        return WorkerTimes(
            times.busy_seconds + times.running * seconds,
            times.idle_seconds + max(0, self.workers - times.running) * seconds,
            times.running,
            times.ready,
        )
