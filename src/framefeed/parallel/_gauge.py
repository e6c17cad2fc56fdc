"""Measure the workers of an iteration: seconds in calls, seconds of waiting, and how many results wait to be taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic


@dataclass(frozen=True, slots=True)
class WorkerTimes:
    """What the workers of an iteration did and do.

    ``busy_seconds + idle_seconds`` is the number of workers times the seconds from the first call to the end of the
    iteration. Without workers the caller's thread does the work, and is never idle.
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
    """Adds up the times of workers. One thread at a time records; any thread may read, without a lock."""

    __slots__ = ("_count_ready", "_end", "_sums", "max_in_flight", "workers")

    def __init__(self, workers: int, max_in_flight: int = 0, count_ready: Callable[[], int] = lambda: 0) -> None:
        self.workers = workers
        self.max_in_flight = max_in_flight
        self._count_ready = count_ready
        # Busy seconds, idle seconds and running calls, and the clock at which they were right, None before the first
        # call. One attribute, so that a reader in another thread never sees half of a change.
        self._sums: tuple[float, float, int, float | None] = 0.0, 0.0, 0, None
        self._end: float | None = None

    def read(self) -> WorkerTimes:
        """Return the times up to now, or up to the end of the iteration."""
        busy, idle, running = self._add_up(monotonic())
        if self._end is not None:
            return WorkerTimes(busy, idle)
        return WorkerTimes(busy, idle, running, self._count_ready())

    def record(self, running: int) -> None:
        """Note how many calls run from now on."""
        now = monotonic()
        busy, idle, _ = self._add_up(now)
        self._sums = busy, idle, running, now

    def stop(self) -> None:
        """Note that the iteration has ended. It takes no lock: the garbage collector may call it."""
        if self._end is None:
            self._end = monotonic()

    def _add_up(self, now: float) -> tuple[float, float, int]:
        busy, idle, running, clock = self._sums
        if clock is None:
            return busy, idle, running
        seconds = max(0.0, (now if self._end is None else min(now, self._end)) - clock)
        return busy + running * seconds, idle + max(0, self.workers - running) * seconds, running
