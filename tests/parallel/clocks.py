"""A clock that tests move by hand, so that deadlines are tested without waiting for them."""

from __future__ import annotations

import threading

from tests.patience import PATIENCE_SECONDS


class HandClock:
    """Stands in for ``time.monotonic``; stands still but for `advance`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._now = 0.0
        self._step = 0.0
        self.reads = 0

    def __call__(self) -> float:
        with self._changed:
            self._now += self._step
            self.reads += 1
            self._changed.notify_all()
            return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        with self._changed:
            self._now += seconds

    def advance_at_each_read(self, seconds: float) -> None:
        """Let time pass whenever the clock is read."""
        with self._changed:
            self._step = seconds

    def wait_for_reads_after(self, reads: int) -> None:
        """Wait until the clock was read more often than ``reads`` times."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.reads > reads, PATIENCE_SECONDS)
