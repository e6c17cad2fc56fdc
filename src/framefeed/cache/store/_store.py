"""FrameStore: keep frames in one folder, for many processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import compress
from operator import eq
from threading import Lock
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from framefeed._arrays import IntArray
from framefeed._per_process import PerProcess
from framefeed._shortage import SuppressFaults
from framefeed.cache.store._appender import Appender
from framefeed.cache.store._check import check_all, count_contents, drop_damaged
from framefeed.cache.store._files import fill_buffer, find_parts
from framefeed.cache.store._folder import Folder
from framefeed.cache.store._format import (
    KEY_BYTES,
    MISS,
    FrameLocations,
    StoreCounts,
    StoredFrame,
    StoreInfo,
    StoreOptions,
    Verified,
    hash_bytes,
    make_seeds,
)
from framefeed.cache.store._index import SegmentIndex
from framefeed.errors import CacheError, UsageError
from framefeed.parallel import ClosedByWith, find_shortage, make_shortage_error, try_again_in_shortage

R = TypeVar("R")


class _OwnState:
    """What one process has of a store."""

    def __init__(self, folder: Folder) -> None:
        self.counts = StoreCounts()
        self.segments = SegmentIndex(folder, self.counts)
        self.appender = Appender(folder, self.segments, self.counts)
        self.lock = Lock()

    def begin_in_child(self) -> _OwnState:
        """Continue in a forked child with the sealed segments; leave the open one to the parent."""
        self.lock = Lock()
        self.counts = StoreCounts()
        self.appender.begin_in_child(self.counts)
        self.segments.begin_in_child(self.counts)
        return self


class FrameStore(ClosedByWith):
    """Frames in one folder, found by their stream's key and packet number.

    Any number of processes may have stores over one folder, and any number of threads may use one store. In a forked
    process, a store continues with the sealed segments; the open segment stays the parent's.

    Raises:
        CacheError: The folder cannot be trusted, or is a file.
    """

    def __init__(self, path: str, options: StoreOptions | None = None) -> None:
        self._options = options or StoreOptions()
        self._folder = Folder(path, self._options)
        self._state = PerProcess(partial(_OwnState, self._folder), _OwnState.begin_in_child)

    def __repr__(self) -> str:
        return f"FrameStore({self._folder.path!r})"

    def __reduce__(self) -> str:
        raise TypeError("a FrameStore cannot be pickled: make one in each process, or send the FrameCache")

    @property
    def _segments(self) -> SegmentIndex:
        return self._state.value.segments

    @property
    def appender(self) -> Appender:
        """What adds frames to the folder, in this process."""
        return self._state.value.appender

    @property
    def counts(self) -> StoreCounts:
        """Counts of this process."""
        return self._state.value.counts

    @property
    def trouble(self) -> str | None:
        """Why no more frames are stored, or None."""
        return self.appender.trouble

    @property
    def is_full(self) -> bool:
        """Whether no more frames are stored because the budget is used up."""
        return self.appender.is_full

    @property
    def needed_bytes(self) -> int | None:
        """Bytes of frames that do not fit the budget of even an empty cache, or None."""
        return self.appender.needed_bytes

    @property
    def num_frames(self) -> int:
        """Frames of sealed segments that this process knows."""
        return self._segments.num_frames

    def find(self, key: bytes, numbers: npt.NDArray[np.int64]) -> FrameLocations:
        """Find frames of one stream, int64 [N]; only a shortage is raised."""
        _check_key(key)
        return self.find_each([key] * len(numbers), np.asarray(numbers, np.int64))

    def find_each(self, keys: Sequence[bytes], numbers: npt.NDArray[np.int64]) -> FrameLocations:
        """Find frames of any streams, int64 [N], by the key of each; only a shortage is raised."""
        locations = self._segments.find(keys, numbers)
        if MISS in locations.refs.tolist() and self._segments.refresh(thorough=False):
            return self._segments.find(keys, numbers)
        return locations

    def read(
        self, locations: FrameLocations, indices: Sequence[int] | IntArray, buffers: Sequence[memoryview]
    ) -> list[bool]:
        """Read the stored bytes of some frames into memory of exactly ``nbytes`` of their rows; return which are sound.

        A damaged frame is counted, and not found again. Besides a wrong size, only a shortage is raised.
        """
        sizes, which = [buffer.nbytes for buffer in buffers], np.asarray(indices, np.int64)
        expected_sizes = locations.rows["nbytes"].take(which).tolist()
        if sizes != expected_sizes:
            raise UsageError(f"buffers: expected {expected_sizes} bytes, got {sizes}")
        order = locations.refs.take(which).argsort(kind="stable")  # that of their bytes in the files
        in_order = which[order]
        digests = self._hash_stored(locations, in_order, [buffers[i] for i in order.tolist()])
        checksums = locations.rows["checksum"].take(in_order).tolist()
        sound, num_sound = [True] * len(sizes), len(sizes)
        if digests != checksums:
            is_sound = np.empty(len(order), np.bool_)
            is_sound[order] = list(map(eq, digests, checksums))
            sound, num_sound = is_sound.tolist(), int(np.count_nonzero(is_sound))
            for i in which[~is_sound].tolist():
                self._segments.forget(locations.keys[i], int(locations.numbers[i]), int(locations.refs[i]))
        own = self._state.value
        with own.lock:
            own.counts.frames_read += num_sound
            own.counts.bytes_read += sum(compress(sizes, sound))
            own.counts.frames_damaged += len(sound) - num_sound
        return sound

    def _hash_stored(
        self, locations: FrameLocations, in_order: IntArray, buffers: Sequence[memoryview]
    ) -> list[int | None]:
        """Read frames in the order of their bytes in the files; return their checksums, None if they cannot be read."""
        keys, segments = [locations.keys[i] for i in in_order.tolist()], locations.segment.take(in_order).tolist()
        offsets = locations.rows["offset"].take(in_order).tolist()
        seeds = make_seeds(keys, locations.numbers.take(in_order))
        parts = list(find_parts(segments, offsets, locations.rows["nbytes"].take(in_order).tolist()))
        digests: list[int | None] = []
        opened, file = MISS, None
        # What is read evicts all else from the processor's cache: so little as possible is done between two reads.
        for part, nbytes in parts:
            some, offset = buffers[part], offsets[part.start]
            if segments[part.start] != opened:
                opened = segments[part.start]
                file = self._segments.descriptor(opened)
            if file is None:
                digests += [None] * len(some)
                continue
            is_whole = False
            with SuppressFaults(OSError):
                is_whole = os.preadv(file.number, some, offset) == nbytes
            if is_whole:
                digests += map(hash_bytes, some, seeds[part])
            else:
                each = zip(some, offsets[part], seeds[part], strict=True)
                digests += [hash_bytes(b, s) if fill_buffer(file, b, o) else None for b, o, s in each]
        return digests

    def add(self, key: bytes, description: str, frames: Sequence[StoredFrame]) -> bool:
        """Store a clip, its frames side by side, in the order in which they are likely to be read.

        They can be found here at once, and elsewhere once they are sealed.

        Returns:
            Whether it was stored. If not, ``trouble`` is the reason why no more is stored, or ``shortage`` the resource
            that ran out, unless these frames alone are larger than a segment may hold.
        """
        _check_key(key)
        return self.appender.add(key, description, frames)

    def refresh(self) -> None:
        """Look for segments that other processes sealed or removed."""
        self._try_again(lambda: self._segments.refresh(thorough=True))

    def flush(self) -> None:
        """Seal the added frames: from now on they survive a crash, and other processes find them."""
        self.appender.flush()

    def close(self) -> None:
        """Seal the added frames and close all files; the store can be used again."""
        self.flush()
        self._segments.release_idle()

    def info(self) -> StoreInfo:
        """Count the contents of the folder."""
        self.refresh()
        return self._try_again(lambda: count_contents(self._folder, self._segments, self._options.max_bytes))

    def verify(self, progress: Callable[[int], object] | None = None) -> Verified:
        """Read every sealed byte; damaged frames are not found any more.

        Args:
            progress: Called with the bytes that were checked since the last call.
        """
        self.refresh()
        try:
            return check_all(self._folder, self._segments, progress)
        except (OSError, MemoryError) as error:
            resource = find_shortage(error)
            if resource is None:
                raise
            raise make_shortage_error(resource, self._folder.path, "verify") from error

    def drop_damaged(self, verified: Verified) -> dict[str, int]:
        """Remove damaged and incomplete segments, so that their frames can be stored again; give the bytes of each.

        Files of another format, links and other users' files stay. Raise CacheError if one cannot be removed.

        Example: ``store.drop_damaged(store.verify())``
        """
        with self._removing("a damaged file cannot be removed"):
            return drop_damaged(self._folder, verified)

    def clear(self) -> int:
        """Remove all segments except those that others are writing; return the number of bytes freed."""
        with self._removing("the cache cannot be cleared"):
            before = self._folder.bytes_on_disk()
            self.appender.drop()
            self._folder.clear()
            return before - self._folder.bytes_on_disk()

    @contextmanager
    def _removing(self, failure: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CacheError(
                f"{self._folder.path}: {failure}: {error.strerror or error}; check that you may write to the folder"
            ) from error
        finally:
            self.refresh()

    def _try_again(self, call: Callable[[], R]) -> R:
        return try_again_in_shortage(call, self._folder.path, "cache")


def _check_key(key: bytes) -> None:
    if len(key) != KEY_BYTES:
        raise UsageError(f"key: expected {KEY_BYTES} bytes, got {len(key)}")
