"""What the parts of a cache share in one process: both tiers, counts, the codec, and what went wrong.

The memory tier: stored bytes of the frames that were used last, up to a budget.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Literal

import numpy as np
import numpy.typing as npt

from framefeed._checks import expected
from framefeed.cache._choosing import Fitting, chosen_codec, fitting_of, overhead_of, usable_bytes
from framefeed.cache._counters import CacheStats, Tally
from framefeed.cache._keys import EXACT, FORMS, Form
from framefeed.cache._planned import PlannedFrames
from framefeed.cache.codecs._codec import FrameCodec
from framefeed.cache.codecs._registry import codec_for, codec_labelled, codec_named
from framefeed.cache.store._format import Kind, StoredFrame, StoreOptions
from framefeed.cache.store._store import FrameStore
from framefeed.decode import Pixels, PlaneLayout
from framefeed.parallel import renew_after_fork

_ENTRY_NBYTES = 400
"""What a frame costs besides its bytes, about: two dictionary slots, the key, the objects."""


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Stored bytes of one frame in memory.

    Attributes:
        kind: How they are to be read.
        data: The bytes.
        stamp: Of the source file when the frame was decoded.
        content: Hash of the encoded bytes that the frame depends on.
    """

    kind: Kind
    data: bytes
    stamp: int
    content: int


class MemoryTier:
    """Frames by stream key and number, the least recently used forgotten first. Safe to share between threads.

    Args:
        max_bytes: What all of them may weigh; 0 keeps none.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._frames: OrderedDict[tuple[bytes, int], Held] = OrderedDict()
        self._nbytes = 0
        self.begin_anew()
        renew_after_fork(self)

    def begin_anew(self) -> None:
        """Replace the lock, which a thread of the parent may have held."""
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def nbytes(self) -> int:
        """What the frames weigh."""
        return self._nbytes

    def get(self, key: bytes, numbers: Sequence[int]) -> list[Held | None]:
        """Look some frames of one stream up."""
        if not self._frames:
            return [None] * len(numbers)
        with self._lock:
            return [self._use((key, number)) for number in numbers]

    def _use(self, name: tuple[bytes, int]) -> Held | None:
        held = self._frames.get(name)
        if held is not None:
            self._frames.move_to_end(name)
        return held

    def put(self, key: bytes, number: int, held: Held) -> None:
        """Keep a frame, and forget others for it."""
        nbytes = len(held.data) + _ENTRY_NBYTES
        if nbytes > self.max_bytes:
            return
        with self._lock:
            self._forget((key, number))
            self._frames[key, number] = held
            self._nbytes += nbytes
            while self._nbytes > self.max_bytes:
                self._forget(next(iter(self._frames)))

    def drop(self, key: bytes, number: int) -> None:
        """Forget a frame."""
        with self._lock:
            self._forget((key, number))

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._frames.clear()
            self._nbytes = 0

    def _forget(self, name: tuple[bytes, int]) -> None:
        held = self._frames.pop(name, None)
        if held is not None:
            self._nbytes -= len(held.data) + _ENTRY_NBYTES


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
            codec_named(self.codec)


class Keeper:
    """One cache in one process, and in those that are forked from it.

    Args:
        options: Of the cache.

    Attributes:
        options: Of the cache.
        memory: The memory tier.
        tally: Counts what happened.
        pixels: What decides the pixels besides source and decoder: "exact", or the recipe of a lossy codec. Part of the
            key of every frame: frames of a lossy codec are found with that codec alone.
        planned: The frames that will be stored, where a plan says so; what "auto" means depends on it.
        lacks: Which of them this cache lacks.
        shortage: What ran out when frames were to be stored the last time, or None.
    """

    def __init__(self, options: CacheOptions) -> None:
        self.options = options
        self.memory = MemoryTier(options.memory_bytes)
        self.tally = Tally()
        self._codec: FrameCodec | None = None if options.codec == AUTO else codec_named(options.codec)
        self.pixels = EXACT if self._codec is None or self._codec.is_exact else self._codec.recipe
        self.planned: PlannedFrames | None = None
        self.lacks: Callable[..., npt.NDArray[np.bool_]] | None = None
        self._fitting: Fitting | None = None
        self.shortage: str | None = None
        self.begin_anew()
        self._store: FrameStore | None = None
        self._has_warned = False
        renew_after_fork(self)

    def begin_anew(self) -> None:
        """Replace the lock, which a thread of the parent may have held."""
        self._opening = Lock()

    @property
    def store(self) -> FrameStore:
        """The disk tier.

        Raises:
            CacheError: The path is a file, or a folder that others may write to.
        """
        if self._store is None:
            with self._opening:
                if self._store is None:
                    given = self.options
                    self._store = FrameStore(given.path, StoreOptions(given.max_bytes, shared=given.shared))
        return self._store

    def flush(self) -> None:
        """Seal what was stored."""
        if self._store is not None:
            self._store.flush()
            self.say_trouble()

    def close(self) -> None:
        """Flush, and release files and memory."""
        self.memory.clear()
        if self._store is not None:
            self._store.close()

    @property
    def is_filling(self) -> bool:
        """Whether the disk tier takes more frames."""
        store = self.store
        return not store.is_full and store.trouble is None

    @property
    def has_chosen(self) -> bool:
        """Whether it is settled how frames are stored."""
        return self._codec is not None

    @property
    def is_lossy(self) -> bool:
        """Whether frames lose something by being stored."""
        return self.pixels != EXACT

    def codec_for(self, layout: PlaneLayout, samples: Sequence[Pixels]) -> FrameCodec:
        """Say how frames of a layout are stored next; what "auto" means is measured when it is asked first.

        Args:
            layout: Of the frames.
            samples: Some of them, uint8 [layout.nbytes] each.
        """
        codec = self._codec
        if codec is None:
            with self._opening:
                codec = self._codec = self._codec or self._chosen(layout, samples)
        return codec_for(codec, layout)

    def _chosen(self, layout: PlaneLayout, samples: Sequence[Pixels]) -> FrameCodec:
        info = None if self._store is None else self._store.info()
        kinds = {} if info is None else info.kinds
        planned, max_bytes = self.planned, self.options.max_bytes
        demand = None if planned is None else planned.demand()
        if planned is None or demand is None or max_bytes is None:
            codec = chosen_codec(layout, samples, None if demand is None else demand.raw_bytes, max_bytes, kinds)
        else:
            room = usable_bytes(max_bytes, 0 if info is None else info.bytes_on_disk)
            if kinds and self.lacks is not None:
                share = planned.lacking_share(partial(self.lacks, self))
                demand = replace(demand, raw_bytes=math.ceil(share * demand.raw_bytes))
            if demand.raw_bytes * (1 + overhead_of(demand)) <= room:
                codec = chosen_codec(layout, samples, demand.raw_bytes, None, kinds)
            else:
                found = planned.samples() or [(layout, sample) for sample in samples]
                self._fitting = fitting_of(found, demand, room, kinds)
                codec = codec_labelled(self._fitting.codec)
        self.planned = self.lacks = None
        return codec

    def note_stored(self, frames: Sequence[StoredFrame]) -> None:
        """Revise what "auto" means by what frames take that were stored."""
        if self._fitting is None:
            return
        with self._opening:
            for frame in frames:
                self._fitting.note(frame.raw_nbytes, memoryview(frame.data).nbytes)
            self._codec = codec_labelled(self._fitting.codec)

    def say_trouble(self) -> None:
        """Warn, once a process, that nothing more is stored, if that is so."""
        trouble = self.store.trouble
        if trouble is None or self._has_warned:
            return
        self._has_warned = True
        with suppress(UserWarning):  # Raised where warnings are errors: but this one is to stop nothing.
            warnings.warn(trouble, UserWarning, stacklevel=_callers_level())

    def stats(self) -> CacheStats:
        """What was done in this process, and whether the cache still fills."""
        own = replace(self.tally.stats, codec=None if self._codec is None else self._codec.label)
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


def _callers_level() -> int:
    """Find the ``stacklevel`` of the line that called framefeed, for a warning of the caller of this function."""
    frame, modules = inspect.currentframe(), list[str]()
    while frame is not None:
        modules.append(frame.f_globals.get("__name__", ""))
        frame = frame.f_back
    own = [level for level, name in enumerate(modules) if name.partition(".")[0] == "framefeed"]
    called_by = own[-1] + 1
    # In a thread of a loader no line of the user is on the stack, only Python's threading module.
    return called_by if called_by < len(modules) and modules[called_by] != "threading" else 2
