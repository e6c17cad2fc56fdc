"""A function that hangs, and a clock by which only it is late: no test waits for a deadline, or names a slow frame."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from tests.parallel.clocks import HandClock
from tests.patience import PATIENCE_SECONDS


class HangingFunction:
    """Returns its frames, but hangs at one, once nothing else is in work; then the clock passes any deadline.

    Args:
        clock: The clock of the deadline.
        at: Number of the frame.
        is_alone: Set when no other call is in work, and none can begin.
        num_calls: Or so many calls have begun then, this one included.
    """

    def __init__(
        self, clock: HandClock, at: int, is_alone: threading.Event | None = None, num_calls: int | None = None
    ) -> None:
        self._clock, self._at, self._num_calls = clock, at, num_calls
        self._is_alone = threading.Event() if is_alone is None else is_alone
        self._lock = threading.Lock()
        self._num_begun = 0
        self.release = threading.Event()

    def __call__(self, frames: Any, *, index: Any, pts_seconds: Any) -> Any:
        with self._lock:
            self._num_begun += 1
            if self._num_begun == self._num_calls:
                self._is_alone.set()
        if self._at in np.atleast_1d(index):
            assert self._is_alone.wait(PATIENCE_SECONDS)
            self._clock.advance_at_each_read(0.1)
            assert self.release.wait(PATIENCE_SECONDS)
        return frames
