"""FrameCache: a folder of frames, and how it is filled."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Literal, SupportsIndex

from framefeed.cache.caching import CachingDecoder
from framefeed.cache.choosing import chosen_codec
from framefeed.cache.codecs import FrameCodec, codec_for, codec_named
from framefeed.cache.keys import EXACT, FORMS, Form
from framefeed.cache.memory import MemoryTier
from framefeed.cache.sizes import parse_bytes
from framefeed.cache.store import FrameStore
from framefeed.cache.stored import StoreInfo, StoreOptions, Verified
from framefeed.cache.tally import CacheStats, Tally
from framefeed.decode.decoder import Decoder, Pixels
from framefeed.decode.planes import PlaneLayout
from framefeed.errors import UsageError
from framefeed.parallel.closing import ClosedByWith
from framefeed.parallel.leaving import before_process_ends
from framefeed.plan.crops import CenterCrop, FixedCrop
from framefeed.plan.epoch import EpochPlan

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """The options of a cache; their meaning stands at ``FrameCache``.

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
            raise UsageError(f'form must be "auto", "output" or "planes", not {self.form!r}')
        if not isinstance(self.codec, str):
            raise UsageError(f"codec must be the name of a codec, not {self.codec!r}")
        if self.codec != AUTO:
            codec_named(self.codec)


class FrameCache(ClosedByWith):
    """Frames on disk, and in memory if wanted: what was decoded once is read from then on.

    Give it as ``cache=`` to a loader: it is filled as frames are decoded, and serves those that it has. Or fill it
    ahead with ``ff.cache.build``. With an exact codec what comes out is bit for bit what decoding gives. A frame is
    found again by what its source holds, not by where it lies: a cache and its data may be moved or copied.

    Any number of threads and processes may read and fill one cache at once. Where it cannot store any more, because it
    is full, the disk is, or the folder is read-only or gone, it warns once and decoding goes on without it.

    A cache pickles as its options: each process opens the folder for itself.

    Example: ``ff.ClipLoader(plan, batch_size=16, cache=ff.FrameCache("cache/", max_bytes="200GB"))``

    Args:
        path: The folder; it is made when the first frame is stored.
        codec: How frames are stored: "auto" measures the exact codecs on the first clip and takes the one that reads
            fastest on this machine within ``max_bytes``; or a name of ``ff.cache.known_codecs()``, such as "raw",
            "lz4", "zstd" or, with loss, "jpeg:90".
        max_bytes: Most bytes of files in the folder, whoever writes them, as an int or "200GB"; None for no bound.
            What would go beyond it is not stored, and nothing is removed for it.
        form: "output" stores the pixels that the plan asks for; "planes" stores whole pictures as the decoder made
            them, from which any crop and size is made; "auto" stores planes where a plan draws random crops or asks
            for whole pictures, else outputs.
        memory_bytes: Besides, keep stored bytes of the frames used last in memory, up to this many in each process.
        strict: Compare the encoded bytes that a frame was made of on every use; else only where the file's size,
            times or number say that it may have changed.
        shared: Take a folder that belongs to somebody else, or that others may write to. Their files are read as
            carefully as any, but pixels of whoever can write there are believed.

    Raises:
        UsageError: A wrong option.
        MissingDependency: The codec needs a library that is not installed.
        CacheError: The path is a file, or a folder that others may write to. Later, when the cache is first used.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        codec: str = AUTO,
        max_bytes: str | SupportsIndex | None = None,
        form: Literal["auto", "output", "planes"] = "auto",
        memory_bytes: str | SupportsIndex = 0,
        strict: bool = False,
        shared: bool = False,
    ) -> None:
        budget = None if max_bytes is None else parse_bytes(max_bytes)
        memory = 0 if memory_bytes == 0 else parse_bytes(memory_bytes)
        self._open(CacheOptions(_folder(path), codec, budget, form, memory, strict, shared))

    def _open(self, options: CacheOptions) -> None:
        self._options = options
        self.memory = MemoryTier(options.memory_bytes)
        self.tally = Tally()
        self.is_strict = options.strict
        self._codec: FrameCodec | None = None if options.codec == AUTO else codec_named(options.codec)
        self.pixels = EXACT if self._codec is None or self._codec.is_exact else self._codec.recipe
        """Part of the key of every frame: what a lossy codec makes is nobody else's frame."""
        self._expected_frames: int | None = None
        self._opening = Lock()
        self._store: FrameStore | None = None
        self._process = -1
        self._has_warned = False

    def __repr__(self) -> str:
        given = self._options
        budget = "" if given.max_bytes is None else f", max_bytes={given.max_bytes}"
        return f"FrameCache({given.path!r}, codec={given.codec!r}, form={given.form!r}{budget})"

    def __reduce__(self) -> tuple[Callable[[CacheOptions], FrameCache], tuple[CacheOptions]]:
        return (_rebuilt, (self._options,))

    @property
    def path(self) -> str:
        """The folder, absolute."""
        return self._options.path

    @property
    def options(self) -> CacheOptions:
        """What the cache was made with."""
        return self._options

    @property
    def store(self) -> FrameStore:
        """The disk tier of this process.

        Raises:
            CacheError: The path is a file, or a folder that others may write to.
        """
        if self._store is None or self._process != os.getpid():
            self._join()
        assert self._store is not None
        return self._store

    def _join(self) -> None:
        """Open the folder, once; in each process see to it that what it has written is not lost when it ends."""
        if self._process != os.getpid():
            # Whoever held the lock is not in a forked process.
            self._opening = Lock()
        with self._opening:
            if self._store is None:
                given = self._options
                self._store = FrameStore(given.path, StoreOptions(given.max_bytes, shared=given.shared))
                weakref.finalize(self, self._store.close)
            if self._process != os.getpid():
                self._process = os.getpid()
                before_process_ends(self.flush)

    # --- decoding -------------------------------------------------------------------------------------

    def decoder(self, inner: Decoder, form: Form | None = None) -> CachingDecoder:
        """Wrap a decoder so that it reads from this cache and fills it.

        Args:
            inner: Makes the frames that the cache does not have.
            form: For this decoder alone; None takes that of the cache.
        """
        own = None if self._options.form == "auto" else self._options.form
        return CachingDecoder(inner, self, form or own)

    def decoder_for(self, plan: EpochPlan, inner: Decoder) -> CachingDecoder:
        """Wrap a decoder for the clips of a plan, in the form that suits it."""
        if self._expected_frames is None and len(plan):
            self._expected_frames = _frames_of(plan)
        return self.decoder(inner, None if self._options.form != "auto" else form_for(plan))

    @property
    def is_filling(self) -> bool:
        """Whether the disk tier takes more frames."""
        store = self.store
        return not store.is_full and store.trouble is None

    def codec_for(self, layout: PlaneLayout, samples: Sequence[Pixels]) -> FrameCodec:
        """Settle how frames of a layout are stored; what "auto" means is measured on the first samples.

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
        expected = None if self._expected_frames is None else self._expected_frames * layout.nbytes
        return chosen_codec(layout, samples, expected, self._options.max_bytes)

    def say_trouble(self) -> None:
        """Warn, once a process, that nothing more is stored, if that is so."""
        trouble = self.store.trouble
        if trouble is None or self._has_warned:
            return
        self._has_warned = True
        with suppress(UserWarning):  # Raised where warnings are errors: but this one is to stop nobody.
            warnings.warn(f"the frame cache {self.path} stores nothing more: {trouble}; decoding goes on without it",
                          UserWarning, stacklevel=2)  # fmt: skip

    # --- the folder -----------------------------------------------------------------------------------

    def stats(self) -> CacheStats:
        """What was done in this process, and whether the cache still fills."""
        own = replace(self.tally.stats, codec=None if self._codec is None else self._codec.label)
        if self._store is None:
            return own
        disk = self._store.counts
        return replace(
            own,
            frames_damaged=own.frames_damaged + disk.frames_damaged,
            bytes_read=disk.bytes_read,
            bytes_written=disk.bytes_written,
            is_full=self._store.is_full,
            trouble=self._store.trouble,
        )

    def info(self) -> StoreInfo:
        """What is on disk."""
        return self.store.info()

    def verify(self, progress: Callable[[int], Any] | None = None) -> Verified:
        """Read every stored byte and compare its checksum; nothing is changed.

        Args:
            progress: Called with the bytes that were checked since the last call.
        """
        return self.store.verify(progress)

    def clear(self) -> int:
        """Remove all frames, and nothing that is not this cache's; give the bytes that were freed."""
        self.memory.clear()
        return self.store.clear()

    def flush(self) -> None:
        """Have all that was stored found by other processes, and survive a loss of power."""
        if self._store is not None:
            self._store.flush()

    def close(self) -> None:
        """Flush, and let go of files and memory; the cache may be used again afterwards."""
        self.memory.clear()
        if self._store is not None:
            self._store.close()


def form_for(plan: EpochPlan) -> Form:
    """The form that suits a plan: planes where crops are drawn, or whole pictures wanted."""
    crop, size = plan.options.pictures.crop, plan.options.pictures.size
    is_steady = crop is None or isinstance(crop, (CenterCrop, FixedCrop))
    return "output" if is_steady and (crop is not None or size is not None) else "planes"


def _frames_of(plan: EpochPlan) -> int | None:
    """Frames of one epoch on this rank, repeats included; None where clips differ in length."""
    try:
        return len(plan) * plan.num_frames_per_clip
    except UsageError:
        return None


def _folder(path: object) -> str:
    if not isinstance(path, (str, os.PathLike)) or not os.fsdecode(path):
        raise UsageError(f"a cache is a folder, named by its path, not {path!r}")
    return os.path.abspath(os.fsdecode(path))


def _rebuilt(options: CacheOptions) -> FrameCache:
    cache = FrameCache.__new__(FrameCache)
    cache._open(options)
    return cache
