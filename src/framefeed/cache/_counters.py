"""Count the work of a cache in this process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from framefeed.parallel import renew_after_fork


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Counts of a cache in this process since it was made.

    ``ff.cache.build`` adds to the stored frames and bytes only, not to hits and misses: see its `BuildReport`.

    Attributes:
        frames_hit: Frames that a loader or a decoder asked for and that were read from memory or disk.
        frames_missed: Frames that a loader or a decoder asked for and that the cache lacked, or that were damaged.
        frames_from_memory: Hits that came from memory.
        frames_stored: Frames written to disk; frames of a file that could not be finished are subtracted again.
        frames_outdated: Frames that the cache had, but whose source has changed since.
        frames_damaged: Frames whose stored bytes did not match their checksum.
        bytes_read: Stored bytes read from disk.
        bytes_written: Stored bytes written to disk.
        codec: Label of the codec that frames are written with, or None before the first frame.
        is_full: Whether ``max_bytes`` is used up, so that no more frames are stored.
        trouble: Why no more frames are stored, or None.
    """

    frames_hit: int = 0
    frames_missed: int = 0
    frames_from_memory: int = 0
    frames_stored: int = 0
    frames_outdated: int = 0
    frames_damaged: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    codec: str | None = None
    is_full: bool = False
    trouble: str | None = None

    @property
    def hit_rate(self) -> float:
        """Share of the requested frames that the cache had, from 0 to 1; 0 before the first. Builds do not count."""
        requested = self.frames_hit + self.frames_missed
        return self.frames_hit / requested if requested else 0.0


class CacheCounters:
    """Counts of a cache, added by several threads."""

    def __init__(self) -> None:
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Count from zero in a forked process, and replace the lock, which a thread of the parent may have held."""
        self._sums: dict[str, Any] = {}
        self._lock = Lock()

    def add(self, **counts: int) -> None:
        """Add to some of the counts of ``CacheStats``."""
        with self._lock:
            for name, count in counts.items():
                self._sums[name] = self._sums.get(name, 0) + count

    @property
    def stats(self) -> CacheStats:
        """The sums so far."""
        with self._lock:
            return replace(CacheStats(), **self._sums)
