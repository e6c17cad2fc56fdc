"""Directories of segments in memory: those used last, within a number of bytes."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from framefeed.cache.store.segment_reader import Directory

MOST_BYTES = 64 << 20


class Directories:
    """Those used last, by the number of their segment."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, Directory] = OrderedDict()
        self._nbytes = 0
        self._lock = Lock()

    def get(self, segment: int) -> Directory | None:
        """Give that of a segment, if it is there."""
        with self._lock:
            found = self._kept.get(segment)
            if found is not None:
                self._kept.move_to_end(segment)
            return found

    def put(self, segment: int, directory: Directory) -> None:
        """Keep one."""
        with self._lock:
            self._take_out(segment)
            self._kept[segment] = directory
            self._nbytes += directory.nbytes
            while self._nbytes > MOST_BYTES and len(self._kept) > 1:
                self._take_out(next(iter(self._kept)))

    def drop(self, segment: int) -> None:
        """Release one."""
        with self._lock:
            self._take_out(segment)

    def clear(self) -> None:
        """Release all."""
        with self._lock:
            self._kept.clear()
            self._nbytes = 0

    def renew_lock(self) -> None:
        """After a fork: another thread of the parent may have held it."""
        self._lock = Lock()

    def _take_out(self, segment: int) -> None:
        directory = self._kept.pop(segment, None)
        if directory is not None:
            self._nbytes -= directory.nbytes
