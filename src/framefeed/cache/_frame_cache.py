"""FrameCache: decoded frames in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, Literal, SupportsIndex

from framefeed._checks import check_integer, expand_home, expected
from framefeed._names import refuse_url
from framefeed._units import parse_bytes
from framefeed.cache._caching import CachingDecoder
from framefeed.cache._keys import FORMS, Form
from framefeed.cache._state import AUTO, CacheOptions, CacheState, CacheStats, PlannedFrames
from framefeed.cache.store._format import StoreInfo, Verified
from framefeed.cache.store._store import FrameStore
from framefeed.decode import Decoder
from framefeed.parallel import ClosedByWith


class FrameCache(ClosedByWith):
    """Store decoded frames on disk, and optionally in memory, so that each frame is decoded only once.

    Give it as ``cache=`` to a loader: the loader reads frames that the cache has, and stores the others in it. Or fill
    it in advance with ``ff.cache.build``. With an exact codec, the pixels are bit for bit those of decoding. A frame is
    identified by the content of its source, not by its path, so the cache and its sources may be moved or copied.

    Any number of threads and processes may read and fill one cache at the same time. If no more can be stored, because
    the cache or the disk is full, or the folder is read-only or missing, there is one warning, and decoding continues
    without storing.

    Pickling a cache sends its options; each process then opens the folder itself.

    Example: ``ff.ClipLoader(plan, batch_size=16, cache=ff.FrameCache("cache/", max_bytes="200GB"))``

    Args:
        path: The folder; it is created when the first frame is stored. ``~`` is the home folder.
        codec: How frames are stored. "auto" stores outputs raw and planes with "lz4"; outputs with "lz4" too if
            ``max_bytes`` would not hold those of the plan raw. A cache that holds frames keeps their codec. Or a name
            from ``ff.cache.known_codecs()``, such as "lz4hc", "zstd" or the lossy "jpeg:90". With a lossy codec, newly
            decoded frames get the same loss as stored ones, so that the pixels do not depend on what the cache holds.
        max_bytes: Largest size of the files in the folder, by all processes together, as an int or "200GB"; None for no
            limit. Frames beyond it are not stored, and no stored frames are removed.
        form: "output" stores the pixels after crop and resize; "planes" stores whole pictures as the decoder made
            them, from which any crop and size can be made; "auto" stores planes if a plan draws random crops or has
            neither crop nor size, else outputs.
        memory_bytes: Also keep the last used frames in memory, up to this many bytes in each process; 0 keeps none.
        strict: True compares the encoded bytes of a frame with its source on every use. False compares the file's
            size, times and inode number, and if they have changed, its fingerprint: an edit of a video that keeps
            size and fingerprint is noticed only with True, whether or not it keeps the modification time. A strict
            cache decodes and stores again the frames of videos that a cache without ``strict`` stored.
        shared: True accepts a folder that belongs to another user, or that others may write to. Damaged files in it
            are detected; pixels that another user changed on purpose are not.

    Raises:
        UsageError: An option is wrong.
        MissingDependency: The codec needs a library that is not installed.
        CacheError: The path is a file, or a folder that others may write to. Raised when the cache is first used.
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
        name = os.fsdecode(path) if isinstance(path, (str, os.PathLike)) and not isinstance(path, type) else ""
        if not name or "\0" in name:
            raise expected("path", "a folder such as 'cache/'", path)
        folder = os.path.abspath(expand_home(refuse_url("path of the cache folder", name)))
        self.state = CacheState(CacheOptions(folder, codec, budget, form, memory, strict, shared))

    def __repr__(self) -> str:
        options = self.options
        budget = "" if options.max_bytes is None else f", max_bytes={options.max_bytes}"
        return f"FrameCache({options.path!r}, codec={options.codec!r}, form={options.form!r}{budget})"

    def __reduce__(self) -> tuple[Callable[[], FrameCache], tuple[()]]:
        return (partial(FrameCache, **asdict(self.options)), ())

    @property
    def path(self) -> str:
        """Absolute path of the folder."""
        return self.state.options.path

    @property
    def options(self) -> CacheOptions:
        """The options that the cache was made with."""
        return self.state.options

    @property
    def store(self) -> FrameStore:
        """The store that keeps the files, in this process.

        Raises:
            CacheError: The path is a file, or a folder that others may write to.
        """
        return self.state.store

    @property
    def is_filling(self) -> bool:
        """Whether new frames are still stored on disk."""
        return self.state.is_filling

    # --- decoding -------------------------------------------------------------------------------------

    def decoder(self, inner: Decoder, form: Form | None = None) -> CachingDecoder:
        """Wrap a decoder so that it reads from this cache and fills it.

        Args:
            inner: Decodes the frames that the cache lacks.
            form: Form of this decoder's frames; None uses the form of the cache.

        Raises:
            CacheError: The path is a file, or a folder that others may write to.
            UsageError: ``inner`` is not a decoder, or there is no such form.
        """
        if isinstance(inner, type) or not isinstance(inner, Decoder):
            raise expected("inner", "an ff.Decoder: an object with name, decode() and close()", inner)
        if form not in (None, *FORMS):
            raise expected("form", '"output", "planes" or None', form)
        self.state.store.refresh()
        own = None if self.state.options.form == "auto" else self.state.options.form
        return CachingDecoder(inner, self.state, form or own)

    def expect(self, count: int, raw_bytes: int) -> None:
        """Tell the cache how many frames will be stored, before the first is: codec="auto" is chosen by it.

        Loaders and ``ff.cache.make_decoder`` do this for a plan.

        Args:
            count: Number of frames, at most.
            raw_bytes: Their bytes before they are encoded.

        Raises:
            UsageError: A number is not an integer, or negative.
        """
        check_integer("count", count, least=0)
        check_integer("raw_bytes", raw_bytes, least=0)
        self.state.planned = PlannedFrames(count, raw_bytes)

    # --- the folder -----------------------------------------------------------------------------------

    def stats(self) -> CacheStats:
        """Return the counts of this process, and whether the cache still stores frames."""
        return self.state.stats()

    def info(self) -> StoreInfo:
        """Return the sizes and contents of the cache on disk."""
        return self.store.info()

    def verify(self, progress: Callable[[int], Any] | None = None) -> Verified:
        """Read every stored frame and compare its checksum; no file is changed.

        Args:
            progress: Called with the number of bytes checked since its last call.

        Raises:
            UsageError: ``progress`` is not a function.
        """
        if progress is not None and not callable(progress):
            raise expected("progress", "a function that takes a number of bytes, or None", progress)
        return self.store.verify(progress)

    def clear(self) -> int:
        """Remove all frames of this cache and no other files; return the number of bytes freed."""
        self.state.memory.release_idle()
        return self.store.clear()

    def flush(self) -> None:
        """Write all stored frames to disk, so that other processes see them and they survive a power failure."""
        self.state.flush()

    def close(self) -> None:
        """Flush, and release files and memory; the cache can be used again after that."""
        self.state.close()
