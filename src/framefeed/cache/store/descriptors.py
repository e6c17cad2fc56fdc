"""Open files of segments: a bounded number, closed when no read uses them any more."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from framefeed.parallel.shortage import register_releasable

MOST_OPEN = 128


class Descriptor:
    """A file descriptor that is closed when the last reference to it is gone.

    So another thread can never close it, and have its number given to another file, while one reads.

    Attributes:
        number: What the system calls it.
    """

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.number)  # as a default, because a module may be gone before the last of its objects


class Descriptors:
    """Those used last, by the number of their segment."""

    def __init__(self) -> None:
        self._open: OrderedDict[int, Descriptor] = OrderedDict()
        self._lock = Lock()
        register_releasable(self)

    def __len__(self) -> int:
        return len(self._open)

    def get(self, segment: int) -> Descriptor | None:
        """Give that of a segment, if it is open."""
        with self._lock:
            opened = self._open  # once: `release_idle` may replace it meanwhile
            found = opened.get(segment)
            if found is not None:
                opened.move_to_end(segment)
            return found

    def put(self, segment: int, descriptor: Descriptor) -> None:
        """Keep one open."""
        with self._lock:
            opened = self._open
            opened[segment] = descriptor
            opened.move_to_end(segment)
            if len(opened) > MOST_OPEN:
                opened.popitem(last=False)

    def drop(self, segment: int) -> None:
        """Release one."""
        with self._lock:
            self._open.pop(segment, None)

    def clear(self) -> None:
        """Release all."""
        with self._lock:
            self._open.clear()

    def release_idle(self) -> None:
        """Close those that are not being read from; without the lock, for any thread may call it at any time."""
        self._open = OrderedDict()

    def renew_lock(self) -> None:
        """After a fork: another thread of the parent may have held it."""
        self._lock = Lock()
