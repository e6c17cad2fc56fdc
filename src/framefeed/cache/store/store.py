"""The store of a frame cache: one folder, many processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from operator import not_
from threading import Lock
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from framefeed.cache.store.appending import Appender
from framefeed.cache.store.checking import check_all, drop_damaged, look_at
from framefeed.cache.store.folder import Folder
from framefeed.cache.store.known import KnownSegments
from framefeed.cache.store.reading import read_frames
from framefeed.cache.store.segment_format import KEY_BYTES
from framefeed.cache.stored import MISS, Found, StoreCounts, StoredFrame, StoreInfo, StoreOptions, Verified
from framefeed.errors import CacheError, UsageError
from framefeed.parallel.closing import ClosedByWith
from framefeed.parallel.forking import renew_after_fork
from framefeed.parallel.shortage import resource_exhausted, shortage_in, try_again_in_shortage

R = TypeVar("R")


class FrameStore(ClosedByWith):
    """Frames in one folder, found by their stream's key and their number.

    Any number of processes may have stores over one folder, and any number of threads may use one store. In a child
    that was forked a store goes on with what was sealed; what the parent is writing stays the parent's.

    Args:
        path: Of the folder; it is made when the first frames are added.
        options: How it is kept.

    Attributes:
        counts: What was done in this process.

    Raises:
        CacheError: The folder cannot be trusted, or is a file.
    """

    def __init__(self, path: str, options: StoreOptions | None = None) -> None:
        self._options = options or StoreOptions()
        self._folder = Folder(path, self._options)
        self._known = KnownSegments(self._folder)
        self._appender = Appender(self._folder, self._known)
        self._lock = Lock()
        self._counts = StoreCounts()
        renew_after_fork(self)

    def __repr__(self) -> str:
        return f"FrameStore({self._folder.path!r})"

    def __reduce__(self) -> str:
        raise TypeError("a FrameStore cannot be pickled: make one in each process, or send the FrameCache")

    @property
    def counts(self) -> StoreCounts:
        """What was done in this process."""
        counts, appender = self._counts, self._appender
        counts.segments_refused = self._known.num_refused
        counts.frames_written, counts.bytes_written = appender.frames_written, appender.bytes_written
        counts.frames_lost = appender.frames_lost
        return counts

    @property
    def trouble(self) -> str | None:
        """Why nothing is stored any more, or None."""
        return self._appender.trouble

    @property
    def shortage(self) -> str | None:
        """What ran out when frames were not stored the last time, or None; the next ones may be."""
        return self._appender.shortage

    @property
    def lost_by(self) -> str | None:
        """What ran out when frames that were stored were lost the last time, or None."""
        return self._appender.lost_by

    @property
    def is_full(self) -> bool:
        """Whether nothing is stored any more because the budget is used up."""
        return self._appender.is_full

    @property
    def needed_bytes(self) -> int | None:
        """Bytes of frames that do not fit the budget of even an empty cache; None where there were none."""
        return self._appender.needed_bytes

    def find(self, key: bytes, numbers: npt.NDArray[np.int64]) -> Found:
        """Find frames of one stream.

        Args:
            key: Of the stream, 16 bytes.
            numbers: Of the frames, int64 [N].

        Raises:
            OSError: Something ran out, which says nothing about the frames.
        """
        _check_key(key)
        numbers = np.asarray(numbers, np.int64)
        found = self._known.find(key, numbers)
        if MISS in found.segment.tolist() and self._known.refresh(thorough=False):
            return self._known.find(key, numbers)
        return found

    def read(self, found: Found, where: Sequence[int], buffers: Sequence[memoryview]) -> list[bool]:
        """Read the stored bytes of frames.

        Args:
            found: Where they are.
            where: Which of them.
            buffers: What their bytes are written to; of exactly ``found.nbytes`` bytes each.

        Returns:
            Whether each is what was stored. One that is not was counted, and is not found there again.

        Raises:
            UsageError: A buffer has another size.
            OSError: Something ran out, which says nothing about the frames.
        """
        sizes = [buffer.nbytes for buffer in buffers]
        stored = found.nbytes.tolist()
        if sizes != [stored[at] for at in where]:
            raise UsageError(f"buffers: expected {found.nbytes[where].tolist()} bytes, got {sizes}")
        sound = read_frames(found, where, buffers, self._known.descriptor)
        num_sound = sum(sound)
        if num_sound < len(sound):
            for at in compress(where, map(not_, sound)):
                self._known.forget(found.key, int(found.numbers[at]), int(found.segment[at]), int(found.row[at]))
        with self._lock:
            self._counts.frames_read += num_sound
            self._counts.bytes_read += sum(compress(sizes, sound))
            self._counts.frames_damaged += len(sound) - num_sound
        return sound

    def add(self, key: bytes, description: str, frames: Sequence[StoredFrame]) -> bool:
        """Store a clip, its frames side by side; they can be found here at once, and elsewhere once they are sealed.

        Args:
            key: Of the stream, 16 bytes.
            description: Of the stream.
            frames: In the order in which they are likely to be read.

        Returns:
            Whether it was stored; where not, ``trouble`` says why nothing will be any more, or ``shortage`` what ran
            out just now, unless these frames alone are larger than a segment may hold.
        """
        _check_key(key)
        return self._appender.add(key, description, frames)

    def refresh(self) -> None:
        """See what others sealed, and what is gone.

        Raises:
            ResourceExhausted: Something ran out.
        """
        self._in_shortage_again(lambda: self._known.refresh(thorough=True))

    def flush(self) -> None:
        """Seal what was added: from now on it survives a crash, and others find it."""
        self._appender.flush()

    def close(self) -> None:
        """Seal what was added and close all files; the store can be used again."""
        self.flush()
        self._known.close_files()

    def info(self) -> StoreInfo:
        """Count what is on disk.

        Raises:
            ResourceExhausted: Something ran out.
        """
        self.refresh()
        return self._in_shortage_again(lambda: look_at(self._folder, self._known, self._options.max_bytes))

    def verify(self, progress: Callable[[int], object] | None = None) -> Verified:
        """Read every sealed byte; what is damaged is not found any more.

        Args:
            progress: Called with the bytes that were checked since the last call.

        Raises:
            ResourceExhausted: Something ran out, so that not all could be checked.
        """
        self.refresh()
        try:
            return check_all(self._known, progress)
        except (OSError, MemoryError) as error:
            resource = shortage_in(error)
            if resource is None:
                raise
            raise resource_exhausted(resource, self._folder.path, "verify") from error

    def drop_damaged(self, verified: Verified) -> dict[str, int]:
        """Remove what a check found damaged or torn, whole segments each, so that their frames can be stored again.

        Example: ``store.drop_damaged(store.verify())``

        Args:
            verified: What ``verify`` gave. Files of another format, links and files of others stay.

        Returns:
            File name -> bytes, of each that was removed.

        Raises:
            CacheError: One cannot be removed.
        """
        try:
            return drop_damaged(self._folder, verified)
        except OSError as error:
            raise CacheError(
                f"{self._folder.path}: a damaged file cannot be removed: {error.strerror or error}; check that you may "
                "write to the folder"
            ) from error
        finally:
            self.refresh()

    def clear(self) -> int:
        """Remove all segments but those that others are writing; gives the bytes that were freed.

        Raises:
            CacheError: Some cannot be removed.
        """
        try:
            before = self._folder.bytes_on_disk()
            self._appender.drop()
            self._folder.clear()
            return before - self._folder.bytes_on_disk()
        except OSError as error:
            raise CacheError(
                f"{self._folder.path}: the cache cannot be cleared: {error.strerror or error}; check that you may "
                "write to the folder"
            ) from error
        finally:
            self.refresh()

    def _in_shortage_again(self, call: Callable[[], R]) -> R:
        return try_again_in_shortage(call, self._folder.path, "cache")

    def begin_anew(self) -> None:
        """In a forked child: go on with what was sealed; what the parent is writing stays the parent's."""
        self._lock = Lock()
        self._counts = StoreCounts()
        self._appender.renew_after_fork()
        self._known.renew_after_fork()


def _check_key(key: bytes) -> None:
    if len(key) != KEY_BYTES:
        raise UsageError(f"key: expected {KEY_BYTES} bytes, got {len(key)}")
