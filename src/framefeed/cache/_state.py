"""Hold the state of a cache in one process: frames in memory and on disk, counts, and the chosen codec."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from framefeed._checks import expected
from framefeed._lru import Lru
from framefeed.cache._choosing import (
    BudgetedCodec,
    choose_budgeted_codec,
    choose_exact_codec,
    compute_overhead,
    compute_usable_bytes,
)
from framefeed.cache._keys import EXACT, FORMS, Form
from framefeed.cache._planned import PlannedFrames
from framefeed.cache.codecs._codec import FrameCodec
from framefeed.cache.codecs._registry import find_codec, find_codec_for, find_labelled_codec
from framefeed.cache.store._format import StoredFrame, StoreOptions
from framefeed.cache.store._store import FrameStore
from framefeed.decode import Pixels, PlaneLayout
from framefeed.parallel import renew_after_fork

_ENTRY_NBYTES = 400
"""Memory of a frame besides its bytes, about: two dictionary entries, the key, the objects."""


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


class MemoryTier:
    """The last used frames, by stream key and packet number. Safe to share between threads.

    Args:
        max_bytes: Largest size of all together; 0 keeps none.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._frames = Lru[tuple[bytes, int], StoredFrame](max_bytes, _count_frame_bytes)
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Replace the lock, which a thread of the parent may have held."""
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def nbytes(self) -> int:
        """Bytes of all frames."""
        return self._frames.weight

    def get(self, key: bytes, packets: Sequence[int]) -> list[StoredFrame | None]:
        """Look up frames of one stream."""
        if not len(self._frames):
            return [None] * len(packets)
        with self._lock:
            return [self._frames.get((key, packet)) for packet in packets]

    def put(self, key: bytes, frame: StoredFrame) -> None:
        """Keep a frame whose data are its own bytes, and remove the least recently used ones for it."""
        if _count_frame_bytes(frame) > self.max_bytes:
            return
        with self._lock:
            self._frames.put((key, frame.number), frame)

    def drop(self, key: bytes, packet: int) -> None:
        """Remove a frame."""
        with self._lock:
            self._frames.pop((key, packet))

    def clear(self) -> None:
        """Remove all frames."""
        with self._lock:
            self._frames.clear()


def _count_frame_bytes(frame: StoredFrame) -> int:
    return len(frame.data) + _ENTRY_NBYTES


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


class CacheState:
    """State of one cache in one process, and in processes that are forked from it.

    Args:
        options: Of the cache.

    Attributes:
        options: Of the cache.
        memory: The frames in memory.
        counters: Counts of this process.
        pixels: "exact", or the recipe of a lossy codec. It is part of every key, so frames of a lossy codec are found
            only with that codec.
        planned: Frames of the plan that will be stored, if there is one; codec="auto" chooses by it.
        find_missing: Finds the frames of the plan that this cache lacks.
        shortage: Resource that ran out at the last attempt to store frames, or None.
    """

    def __init__(self, options: CacheOptions) -> None:
        self.options = options
        self.memory = MemoryTier(options.memory_bytes)
        self.counters = CacheCounters()
        self._codec: FrameCodec | None = None if options.codec == AUTO else find_codec(options.codec)
        self.pixels = EXACT if self._codec is None or self._codec.is_exact else self._codec.recipe
        self.planned: PlannedFrames | None = None
        self.find_missing: Callable[..., npt.NDArray[np.bool_]] | None = None
        self._budgeted: BudgetedCodec | None = None
        self.shortage: str | None = None
        self._store: FrameStore | None = None
        self._has_warned = False
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Replace the lock, which a thread of the parent may have held."""
        self._lock = Lock()

    @property
    def store(self) -> FrameStore:
        """The frames on disk.

        Raises:
            CacheError: The path is a file, or a folder that others may write to.
        """
        if self._store is None:
            with self._lock:
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
        self.memory.clear()
        if self._store is not None:
            self._store.close()

    @property
    def is_filling(self) -> bool:
        """Whether more frames are stored on disk."""
        store = self.store
        return not store.is_full and store.trouble is None

    @property
    def has_codec(self) -> bool:
        """Whether the codec is given, or chosen already."""
        return self._codec is not None

    @property
    def is_lossy(self) -> bool:
        """Whether storing changes the pixels."""
        return self.pixels != EXACT

    def select_codec(self, layout: PlaneLayout, samples: Sequence[Pixels]) -> FrameCodec:
        """Return the codec for the next frames of a layout; codec="auto" is measured at the first call.

        Args:
            layout: Of the frames.
            samples: Some of them, uint8 [layout.nbytes] each.
        """
        codec = self._codec
        if codec is None:
            with self._lock:
                codec = self._codec = self._codec or self._choose_auto_codec(layout, samples)
        return find_codec_for(codec, layout)

    def _choose_auto_codec(self, layout: PlaneLayout, samples: Sequence[Pixels]) -> FrameCodec:
        info = None if self._store is None else self._store.info()
        kinds = {} if info is None else info.kinds
        planned, max_bytes = self.planned, self.options.max_bytes
        size = None if planned is None else planned.estimate_size()
        if planned is None or size is None or max_bytes is None:
            codec = choose_exact_codec(layout, samples, None if size is None else size.raw_bytes, max_bytes, kinds)
        else:
            usable = compute_usable_bytes(max_bytes, 0 if info is None else info.bytes_on_disk)
            if kinds and self.find_missing is not None:
                share = planned.estimate_missing_share(partial(self.find_missing, self))
                size = replace(size, raw_bytes=math.ceil(share * size.raw_bytes))
            if size.raw_bytes * (1 + compute_overhead(size)) <= usable:
                codec = choose_exact_codec(layout, samples, size.raw_bytes, None, kinds)
            else:
                plan_samples = planned.decode_samples() or [(layout, sample) for sample in samples]
                self._budgeted = choose_budgeted_codec(plan_samples, size, usable, kinds)
                codec = find_labelled_codec(self._budgeted.codec)
        self.planned = self.find_missing = None
        return codec

    def note_stored(self, frames: Sequence[StoredFrame]) -> None:
        """Revise the codec of "auto" by the size of frames that were stored."""
        if self._budgeted is None:
            return
        with self._lock:
            for frame in frames:
                self._budgeted.note_stored(frame.raw_nbytes, memoryview(frame.data).nbytes)
            self._codec = find_labelled_codec(self._budgeted.codec)

    def warn_of_trouble(self) -> None:
        """Warn, once in a process, if no more frames are stored."""
        trouble = self.store.trouble
        if trouble is None:
            return
        with self._lock:
            if self._has_warned:
                return
            self._has_warned = True
        with suppress(UserWarning):  # Raised if warnings are errors, but this warning must not stop anything.
            warnings.warn(trouble, UserWarning, stacklevel=_find_callers_level())

    def stats(self) -> CacheStats:
        """Return the counts of this process, and whether more frames are stored."""
        own = replace(self.counters.stats, codec=None if self._codec is None else self._codec.label)
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
            trouble=self._store.trouble,
        )


def _find_callers_level() -> int:
    """Find the ``stacklevel`` of the line that called framefeed, for a warning of the caller of this function."""
    frame, modules = inspect.currentframe(), list[str]()
    while frame is not None:
        modules.append(frame.f_globals.get("__name__", ""))
        frame = frame.f_back
    own = [level for level, name in enumerate(modules) if name.partition(".")[0] == "framefeed"]
    called_by = own[-1] + 1
    # In a thread of a loader no line of the user is on the stack, only Python's threading module.
    return called_by if called_by < len(modules) and modules[called_by] != "threading" else 2
