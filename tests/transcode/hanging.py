"""Functions that hang, and clocks by which only they are late: no test waits for a deadline, or names a slow frame."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from framefeed.parallel import _child
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


@contextmanager
def ending_time_of(list_processes: Callable[[], Container[int]]) -> Iterator[None]:
    """End the time of a call in a worker process as soon as its process is among these: they hang."""
    own, wait = threading.local(), _child.Child._wait

    def wait_for(child: Any, event: int) -> None:
        own.process = child._running.value.process.pid
        wait(child, event)

    def count_left(step: Any) -> float:
        is_over = getattr(own, "process", -1) in list_processes()
        return 0.0 if is_over else float(step.limit_seconds - step.spent_seconds)

    with (
        patch.object(_child.Child, "_wait", wait_for),
        patch.object(_child._Step, "left_seconds", property(count_left)),
    ):
        yield
