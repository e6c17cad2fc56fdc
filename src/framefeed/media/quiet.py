"""Suppress Pillow's warnings about unusual files while any thread reads one."""

from __future__ import annotations

import threading
import warnings
from typing import Any, cast

from framefeed.parallel.forking import renew_after_fork


class Quiet:
    """Suppress Pillow's warnings, so that they cannot become errors, while any thread is within the block.

    ``warnings.catch_warnings`` would put back, at the end of one thread's block, what another thread is still using.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._filters: list[Any] = []
        self._own: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                warnings.filterwarnings("ignore", module=r"PIL\.")
                self._filters = cast("list[Any]", warnings.filters)
                self._own = self._filters[0]

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._take_back()

    def begin_anew(self) -> None:
        """Forget who was within the block: in a forked process they are not."""
        if self._depth:
            self._take_back()
        self._begin()

    def _take_back(self) -> None:
        # A catch_warnings elsewhere may have put another list in the place of that one, or a copy.
        for filters in (self._filters, cast("list[Any]", warnings.filters)):
            if self._own in filters:
                filters.remove(self._own)


QUIET = Quiet()
"""The one of this process."""
renew_after_fork(QUIET)
