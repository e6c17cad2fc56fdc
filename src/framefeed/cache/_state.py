"""Hold the state of a cache in one process: frames in memory and on disk, counts, and the codec of new frames."""

from __future__ import annotations

import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from threading import Lock
from typing import Any, Literal

from framefeed._callers import find_callers_level
from framefeed._checks import expected
from framefeed._lru import Lru
from framefeed._per_process import PerProcess
from framefeed.cache._keys import EXACT, FORMS, Form
from framefeed.cache.codecs._codec import FrameCodec
from framefeed.cache.codecs._registry import find_codec, find_codec_for
from framefeed.cache.store._files import SharedLru
from framefeed.cache.store._format import StoredFrame, StoreInfo, StoreOptions
from framefeed.cache.store._store import FrameStore
from framefeed.decode import PlaneLayout
from framefeed.errors import MissingDependency, UsageError


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
        codec: Label of the codec that the last frames were written with, or None before the first frame.
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

    def __add__(self, other: CacheStats) -> CacheStats:
        """Add the counts of the cache in another process."""
        sums = {
            each.name: getattr(self, each.name) + getattr(other, each.name)
            for each in fields(CacheStats)
            if each.name.startswith(("frames", "bytes"))
        }
        return CacheStats(
            **sums,
            codec=other.codec or self.codec,
            is_full=other.is_full or self.is_full,
            trouble=other.trouble or self.trouble,
        )


AUTO = "auto"


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """The options of a cache; `FrameCache` describes them.

    Example: ``CacheOptions("/data/cache", max_bytes=200_000_000_000)``
    """

    path: str
    codec: str = AUTO
    max_bytes: int | None = None
    form: Literal["auto"] | Form = "auto"
    memory_bytes: int = 0
    strict: bool = False
    shared: bool = False

    def __post_init__(self) -> None:
        if self.form not in ("auto", *FORMS):
            raise expected("form", '"auto", "output" or "planes"', self.form)
        if not isinstance(self.codec, str):
            raise expected("codec", "the name of a codec such as 'auto' or 'lz4'", self.codec)
        if self.codec != AUTO:
            find_codec(self.codec)


_FRAME_OVERHEAD = 1000
"""Bytes of a stored frame besides its pixels, at most: its row, and key and description of a stream of its own."""


@dataclass(frozen=True, slots=True)
class PlannedFrames:
    """The frames that are to be stored, at most, counted before the first is; their bytes before they are encoded."""

    count: int
    raw_bytes: int


def choose_codec(
    name: str, form: Form, layout: PlaneLayout, info: StoreInfo, planned: PlannedFrames | None = None
) -> FrameCodec:
    """Choose the codec for frames that a cache lacks; pure.

    A codec that is given is used. With "auto", a cache that holds such frames keeps their codec; else planes are stored
    with lz4, and outputs raw, or with lz4 if ``max_bytes`` would not hold them raw (design/0008-frame-cache-codecs.md).
    """
    if name != AUTO:
        return find_codec(name)
    stored = find_stored_codec(layout, info)
    if stored is not None:
        return stored
    needed = 0 if planned is None else planned.raw_bytes + planned.count * _FRAME_OVERHEAD
    fits_raw = info.max_bytes is None or needed <= info.max_bytes - info.bytes_on_disk
    return find_codec("raw" if form == "output" and fits_raw else "lz4")


def find_stored_codec(layout: PlaneLayout, info: StoreInfo) -> FrameCodec | None:
    """Find the exact codec that most frames of a layout's pixel format are stored with; None if there are none."""
    frames: dict[str, int] = {}
    for kind, (count, _) in info.kinds.items():
        if kind.layout.partition(" ")[0] == layout.pixel_format:
            frames[kind.codec] = frames.get(kind.codec, 0) + count
    for label in sorted(frames, key=lambda label: (-frames[label], label)):
        try:
            codec = find_codec(label)
        except (UsageError, MissingDependency):
            continue  # Written by another version, or with codecs that are not installed here.
        if codec.is_exact and codec.can_store(layout):
            return codec
    return None


_ENTRY_NBYTES = 400
"""Memory of a frame besides its bytes, about: two dictionary entries, the key, the objects."""
FrameMemory = SharedLru[tuple[bytes, int], StoredFrame]


def _count_frame_bytes(frame: StoredFrame) -> int:
    return len(frame.data) + _ENTRY_NBYTES


class CacheState:
    """State of one cache in one process, and in processes that are forked from it.

    Attributes:
        pixels: "exact", or the recipe of a lossy codec. It is part of every key, so frames of a lossy codec are found
            only with that codec.
        planned: What will be stored, if that is known; codec="auto" chooses by it.
        shortage: Resource that ran out at the last attempt to store frames, or None.
        has_raw: Whether the frames that were met last are stored raw, or none was met yet.
    """

    def __init__(self, options: CacheOptions) -> None:
        self.options = options
        make_memory = partial(FrameMemory, partial(Lru, options.memory_bytes, _count_frame_bytes))
        self._memory = PerProcess(make_memory, FrameMemory.renew_lock)
        self._counts = PerProcess(Counter[str])
        self._counts_lock = PerProcess(Lock)
        given = None if options.codec == AUTO else find_codec(options.codec)
        self._codecs: dict[Form, FrameCodec] = {} if given is None else dict.fromkeys(FORMS, given)
        self._codec: FrameCodec | None = given
        self.pixels = EXACT if given is None or given.is_exact else given.recipe
        self.planned: PlannedFrames | None = None
        self.shortage: str | None = None
        self.has_raw = True
        self._store: FrameStore | None = None
        self._has_warned = False
        self._lock = PerProcess(Lock)

    def count(self, **counts: int) -> None:
        """Add to some of the counts of ``CacheStats``."""
        sums = self._counts.value
        with self._counts_lock.value:
            for name, count in counts.items():
                sums[name] += count

    @property
    def memory(self) -> FrameMemory:
        """The last used frames, by key of the stream and packet number."""
        return self._memory.value

    def keep_in_memory(self, key: bytes, frame: StoredFrame) -> None:
        """Keep a frame whose data are its own bytes, unless it is larger than all that may be kept."""
        if _count_frame_bytes(frame) <= self.options.memory_bytes:
            self.memory.put((key, frame.number), frame)

    @property
    def store(self) -> FrameStore:
        """The frames on disk."""
        if self._store is None:
            with self._lock.value:
                if self._store is None:
                    given = self.options
                    self._store = FrameStore(given.path, StoreOptions(given.max_bytes, shared=given.shared))
        return self._store

    def flush(self) -> None:
        """Write all stored frames to disk."""
        if self._store is not None:
            self._store.flush()
            self.warn_of_trouble()

    def close(self) -> None:
        """Flush, and release files and memory."""
        self.memory.release_idle()
        if self._store is not None:
            self._store.close()

    @property
    def is_filling(self) -> bool:
        """Whether more frames are stored on disk."""
        store = self.store
        return not store.is_full and store.trouble is None

    @property
    def is_lossy(self) -> bool:
        """Whether storing changes the pixels."""
        return self.pixels != EXACT

    def has_codec(self, form: Form) -> bool:
        """Whether the codec for frames of a form is given, or chosen already."""
        return form in self._codecs

    def select_codec(self, form: Form, layout: PlaneLayout) -> FrameCodec:
        """Return the codec for the next frames of a form and layout; codec="auto" is chosen at the first call."""
        if form not in self._codecs:
            store = self.store
            with self._lock.value:
                if form not in self._codecs:
                    self._codecs[form] = choose_codec(AUTO, form, layout, store.info(), self.planned)
        self._codec = self._codecs[form]
        return find_codec_for(self._codec, layout)

    @property
    def trouble(self) -> str | None:
        """Why no more frames are stored, and if the cache is full, what can be done; None if frames are stored."""
        store = self.store
        if not store.is_full or store.needed_bytes is not None:
            return store.trouble
        planned = "" if self.planned is None else f", and the plan needs {self.planned.count:,}"
        has_smaller = self._codec is not None and self._codec.name in ("raw", "lz4")
        others = [*['codec="lz4hc"'] * has_smaller, "a smaller size="]
        return (
            f"{store.trouble}: {store.num_frames:,} frames are stored{planned}; to store more, use a larger max_bytes, "
            f"or begin an empty folder with {' or '.join(others)}"
        )

    def warn_of_trouble(self) -> None:
        """Warn, once in a process, if no more frames are stored."""
        trouble = self.trouble
        if trouble is None:
            return
        with self._lock.value:
            if self._has_warned:
                return
            self._has_warned = True
        with suppress(UserWarning):  # Raised if warnings are errors, but this warning must not stop anything.
            warnings.warn(trouble, UserWarning, stacklevel=find_callers_level())

    def stats(self) -> CacheStats:
        """Return the counts of this process, and whether more frames are stored."""
        with self._counts_lock.value:
            counts: dict[str, Any] = dict(self._counts.value)
        own = CacheStats(codec=None if self._codec is None else self._codec.label, **counts)
        if self._store is None:
            return own
        disk = self._store.counts
        return replace(
            own,
            frames_damaged=own.frames_damaged + disk.frames_damaged,
            frames_stored=disk.frames_written,
            bytes_read=disk.bytes_read,
            bytes_written=disk.bytes_written,
            is_full=self._store.is_full,
            trouble=self.trouble,
        )
