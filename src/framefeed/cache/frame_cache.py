"""FrameCache: a folder of frames, and how it is filled."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

from framefeed._checks import check_integer, expected
from framefeed._units import parse_bytes
from framefeed.cache.caching import CachingDecoder
from framefeed.cache.keeper import AUTO, CacheOptions, Keeper
from framefeed.cache.keys import FORMS, Form
from framefeed.cache.planned import PlannedFrames
from framefeed.cache.store import FrameStore
from framefeed.cache.stored import StoreInfo, Verified
from framefeed.cache.tally import CacheStats
from framefeed.decode.decoder import Decoder
from framefeed.parallel.closing import ClosedByWith
from framefeed.plan.crops import CenterCrop, FixedCrop
from framefeed.plan.epoch import EpochPlan


class FrameCache(ClosedByWith):
    """Frames on disk, and optionally in memory: a frame that was decoded once is read from then on.

    Give it as ``cache=`` to a loader: decoded frames are stored in it, and frames that it has are read from it. Or fill
    it in advance with ``ff.cache.build``. With an exact codec, the pixels are bit for bit those of decoding. A frame is
    identified by the content of its source, not by its path: a cache and its data may be moved or copied.

    Any number of threads and processes may read and fill one cache at once. If it cannot store more, because the cache
    or the disk is full, or the folder is read-only or missing, it warns once, and decoding goes on without it.

    A cache pickles as its options: each process opens the folder for itself.

    Example: ``ff.ClipLoader(plan, batch_size=16, cache=ff.FrameCache("cache/", max_bytes="200GB"))``

    Args:
        path: The folder; it is made when the first frame is stored. ``~`` is the home folder.
        codec: How frames are stored: "auto" measures the exact codecs on the first clip and takes the one that reads
            fastest on this machine; where all that a plan wants would not fit ``max_bytes`` as it is, it measures
            frames from all over the plan, takes the fastest with which all fit, and a smaller one later if that turns
            out wrong; or a name of ``ff.cache.known_codecs()``, such as "raw",
            "lz4", "zstd" or, with loss, "jpeg:90". Loss is part of the pixels: what is decoded loses at once what it
            will have lost when it is read, whether it can be stored or not.
        max_bytes: Largest size of the files in the folder, by all processes together, as an int or "200GB"; None for no
            limit. Frames beyond it are not stored, and no stored frames are removed.
        form: "output" stores the pixels that the plan asks for; "planes" stores whole pictures as the decoder made
            them, from which any crop and size is made; "auto" stores planes where a plan draws random crops or asks
            for whole pictures, else outputs.
        memory_bytes: Also keep the last used frames in memory, up to this many bytes in each process.
        strict: Compare the encoded bytes of a frame on every use; otherwise only if the file's size, times or inode
            number have changed.
        shared: Accept a folder that belongs to another user, or that others may write to. Damaged files in it are
            found, but pixels that another user changed on purpose are not.

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
        budget = None if max_bytes is None else parse_bytes(max_bytes, "max_bytes")
        memory = 0 if isinstance(memory_bytes, int) and memory_bytes == 0 else parse_bytes(memory_bytes, "memory_bytes")
        self._open(CacheOptions(_folder(path), codec, budget, form, memory, strict, shared))

    def _open(self, options: CacheOptions) -> None:
        self.keeper = Keeper(options)

    def __repr__(self) -> str:
        given = self.keeper.options
        budget = "" if given.max_bytes is None else f", max_bytes={given.max_bytes}"
        return f"FrameCache({given.path!r}, codec={given.codec!r}, form={given.form!r}{budget})"

    def __reduce__(self) -> tuple[Callable[[CacheOptions], FrameCache], tuple[CacheOptions]]:
        return (_rebuilt, (self.keeper.options,))

    @property
    def path(self) -> str:
        """The folder, absolute."""
        return self.keeper.options.path

    @property
    def options(self) -> CacheOptions:
        """What the cache was made with."""
        return self.keeper.options

    @property
    def store(self) -> FrameStore:
        """The disk tier of this process.

        Raises:
            CacheError: The path is a file, or a folder that others may write to.
        """
        return self.keeper.store

    @property
    def is_filling(self) -> bool:
        """Whether more frames are stored on disk."""
        return self.keeper.is_filling

    # --- decoding -------------------------------------------------------------------------------------

    def decoder(self, inner: Decoder, form: Form | None = None) -> CachingDecoder:
        """Wrap a decoder so that it reads from this cache and fills it.

        Args:
            inner: Makes the frames that the cache does not have.
            form: For this decoder alone; None takes that of the cache.

        Raises:
            UsageError: ``inner`` or ``form`` is wrong.
            CacheError: The path is a file, or a folder that others may write to.
        """
        _check_inner(inner)
        if form is not None and form not in FORMS:
            raise expected("form", "'output', 'planes' or None", form)
        self.keeper.store.refresh()
        own = None if self.keeper.options.form == "auto" else self.keeper.options.form
        return CachingDecoder(inner, self.keeper, form or own)

    def decoder_for(self, plan: EpochPlan, inner: Decoder, epochs: int = 1) -> CachingDecoder:
        """Wrap a decoder for the clips of a plan, in the form that suits it.

        Args:
            plan: At its first epoch.
            inner: Makes the frames that the cache does not have.
            epochs: How many epochs will be stored; what codec="auto" means depends on it.

        Raises:
            UsageError: An argument is wrong.
        """
        form = self.form_for(plan)
        _check_inner(inner)
        check_integer("epochs", epochs, least=1)
        if len(plan) and not self.keeper.has_chosen:
            self.keeper.planned = PlannedFrames(plan, inner, form, epochs)
            self.keeper.lacks = _Lacks(inner, form)
        return self.decoder(inner, form)

    def form_for(self, plan: EpochPlan) -> Form:
        """The form in which frames of a plan are stored."""
        if not isinstance(plan, EpochPlan):
            raise expected("plan", "an EpochPlan (from ff.plan_clips or ff.plan_requests)", plan)
        own = self.keeper.options.form
        return form_for(plan) if own == "auto" else own

    # --- the folder -----------------------------------------------------------------------------------

    def stats(self) -> CacheStats:
        """Counts of this process, and whether the cache still stores frames."""
        return self.keeper.stats()

    def info(self) -> StoreInfo:
        """What is on disk."""
        return self.store.info()

    def verify(self, progress: Callable[[int], Any] | None = None) -> Verified:
        """Read every stored byte and compare its checksum; nothing is changed.

        Args:
            progress: Called with the bytes that were checked since the last call.

        Raises:
            UsageError: ``progress`` is not a function.
        """
        if progress is not None and not callable(progress):
            raise expected("progress", "a function that takes a number of bytes, or None", progress)
        return self.store.verify(progress)

    def clear(self) -> int:
        """Remove all frames of this cache, and no other files; return the number of freed bytes."""
        self.keeper.memory.clear()
        return self.store.clear()

    def flush(self) -> None:
        """Make all stored frames visible to other processes, and safe against a loss of power."""
        self.keeper.flush()

    def close(self) -> None:
        """Flush, and release files and memory; the cache may be used again afterwards."""
        self.keeper.close()


def form_for(plan: EpochPlan) -> Form:
    """The form that suits a plan: planes where crops are drawn, or whole pictures wanted."""
    crop, size = plan.options.pictures.crop, plan.options.pictures.size
    is_steady = crop is None or isinstance(crop, (CenterCrop, FixedCrop))
    return "output" if is_steady and (crop is not None or size is not None) else "planes"


class _Lacks:
    """Which frames a cache lacks; it does not keep the cache alive, which keeps this.

    Args:
        inner: Decodes them.
        form: In which they are stored.
    """

    def __init__(self, inner: Decoder, form: Form) -> None:
        self._inner = inner
        self._form = form

    def __call__(self, keeper: Keeper, *asked: Any) -> npt.NDArray[np.bool_]:
        return CachingDecoder(self._inner, keeper, self._form).lacks(*asked)


def _check_inner(inner: object) -> None:
    if isinstance(inner, type) or not isinstance(inner, Decoder):
        raise expected("inner", "an ff.Decoder: an object with name, decode() and close()", inner)


def _folder(path: object) -> str:
    name = os.fsdecode(path) if isinstance(path, (str, os.PathLike)) and not isinstance(path, type) else ""
    if not name or "\0" in name:
        raise expected("path", "a folder such as 'cache/'", path)
    return os.path.abspath(os.path.expanduser(name))


def _rebuilt(options: CacheOptions) -> FrameCache:
    cache = FrameCache.__new__(FrameCache)
    cache._open(options)
    return cache
