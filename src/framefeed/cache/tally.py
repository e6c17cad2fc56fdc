"""Counts of what a cache did in this process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from framefeed.parallel.forking import renew_after_fork


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What a cache did in this process since it was made.

    ``ff.cache.build`` counts no hits and no misses, only what it stores: which frames it found is in its `BuildReport`.

    Attributes:
        frames_hit: Frames that a loader or a decoder asked for and that were served from memory or disk.
        frames_missed: Frames that a loader or a decoder asked for and that were not there, or not sound.
        frames_from_memory: Those of the hits that came from the memory tier.
        frames_stored: Frames that were written to disk; those of a file that could not be finished are taken off again.
        frames_outdated: Frames that were there, but of a source that has changed since.
        frames_damaged: Frames whose stored bytes were not what was stored.
        bytes_read: Stored bytes read from disk.
        bytes_written: Stored bytes written to disk.
        codec: Label of the codec that frames are written with, or None before the first one.
        is_full: Whether the byte budget is used up, so that nothing more is stored.
        trouble: Why nothing more is stored, or None.
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
        """Share of the frames asked for that the cache had, from 0 to 1; 0 before the first. Builds do not count."""
        asked = self.frames_hit + self.frames_missed
        return self.frames_hit / asked if asked else 0.0


class Tally:
    """Adds up counts from several threads."""

    def __init__(self) -> None:
        self.begin_anew()
        renew_after_fork(self)

    def begin_anew(self) -> None:
        """Count from zero, as a child did nothing of what its parent did; replace the lock."""
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
