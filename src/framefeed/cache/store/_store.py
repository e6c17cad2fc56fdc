"""FrameStore: keep frames in one folder, for many processes."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from itertools import compress
from multiprocessing.util import Finalize
from operator import not_
from threading import Lock
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from framefeed.cache.store._check import check_all, count_contents, drop_damaged
from framefeed.cache.store._files import Descriptor, read_frames
from framefeed.cache.store._folder import BudgetReached, Folder, Part
from framefeed.cache.store._format import (
    KEY_BYTES,
    MISS,
    FrameLocations,
    StoreCounts,
    StoredFrame,
    StoreInfo,
    StoreOptions,
    Verified,
)
from framefeed.cache.store._index import OpenRows, SegmentIndex
from framefeed.cache.store._segment_writer import SegmentFrames, SegmentWriter
from framefeed.errors import CacheError, ResourceExhausted, UsageError
from framefeed.parallel import ClosedByWith, find_shortage, make_shortage_error, renew_after_fork, try_again_in_shortage


class _OpenSegment:
    """A segment that is being written.

    Attributes:
        num_frames: In it so far.
        num_bytes: Of these frames.
    """

    def __init__(self, part: Part, rows: OpenRows, created: int, descriptor: Descriptor) -> None:
        self.part = part
        self.rows = rows
        self.descriptor = descriptor
        self.writer = SegmentWriter(descriptor.number, part.max_bytes, created)
        self.num_frames = 0
        self.num_bytes = 0


class Appender:
    """Adds frames to a folder, one segment at a time; for several threads.

    Args:
        folder: The folder.
        segments: Its segments.

    Attributes:
        trouble: Why no more frames are stored, or None.
        is_full: Whether the budget is the reason.
        needed_bytes: If the budget is too small even for an empty folder, the bytes that the frames need, else None.
        shortage: Resource that ran out at the last attempt to store frames, or None; the next attempt may succeed.
        frames_lost: Frames that were added, and lost with a segment that could not be finished.
        lost_by: The shortage by which frames were lost last, or None.
    """

    def __init__(self, folder: Folder, segments: SegmentIndex) -> None:
        self._folder = folder
        self._segments = segments
        self._lock = Lock()
        self._open: _OpenSegment | None = None
        self._at_exit: Finalize | None = None
        self.trouble: str | None = None
        self.is_full = False
        self.needed_bytes: int | None = None
        self.shortage: str | None = None
        self.frames_lost = 0
        self.lost_by: str | None = None
        self._sealed_frames = 0
        self._sealed_bytes = 0

    def __del__(self) -> None:
        # May run inside the cyclic collector, while this thread holds any locks: so it takes no lock, its own
        # included, which is safe because nothing else refers to this object any more.
        opened, self._open = self._open, None
        if opened is not None:
            try:
                opened.writer.finish()
                self._folder.seal(opened.part)
                self._folder.flush()
            except (OSError, MemoryError, ResourceExhausted):
                self._folder.remove(opened.part.path)
        if self._at_exit is not None:
            self._at_exit.cancel()

    @property
    def frames_written(self) -> int:
        """Stored frames, those of the open segment included."""
        opened = self._open
        return self._sealed_frames + (0 if opened is None else opened.num_frames)

    @property
    def bytes_written(self) -> int:
        """Bytes of these frames."""
        opened = self._open
        return self._sealed_bytes + (0 if opened is None else opened.num_bytes)

    def add(self, key: bytes, description: str, frames: Sequence[StoredFrame]) -> bool:
        """Add a clip; return whether it was stored."""
        if self.trouble is not None:
            return False
        if not frames:
            return True
        clip = SegmentFrames(key, description, frames)
        if not clip.is_storable:
            return False
        with self._lock:
            return self._safely(lambda: self._append(clip))

    def flush(self) -> None:
        """Seal the open segment."""
        with self._lock:
            self._safely(self._seal)

    def drop(self) -> None:
        """Drop the open segment, and allow storing again."""
        with self._lock:
            self._drop()
            self.trouble, self.is_full, self.needed_bytes, self.shortage = None, False, None, None

    def renew_after_fork(self) -> None:
        """Leave the open segment to the parent, in a forked process; only this copy of its lock is dropped."""
        self._lock = Lock()
        self._at_exit = None
        self._open = None
        self.frames_lost = self._sealed_frames = self._sealed_bytes = 0

    def _safely(self, change: Callable[[], bool]) -> bool:
        """Change the open segment; an error of its file ends it and all storing, a shortage ends only the segment."""
        if self.trouble is not None:
            return False
        try:
            return change()
        except BudgetReached as reached:
            if not reached.is_final:
                # Other writers have reserved the rest, and may not use all of it.
                return False
            self.is_full = True
            self._note_budget(reached)
        except CacheError as error:
            self.trouble = str(error)
        except (OSError, MemoryError, ResourceExhausted) as error:
            self.shortage = find_shortage(error)
            if self.shortage is not None and self._open is not None and self._open.num_frames:
                self.lost_by = self.shortage
            if self.shortage is None:
                self.trouble = (
                    f"{self._folder.path}: the frame cache stores no more frames, because its folder cannot be "
                    f"written: {getattr(error, 'strerror', None) or error}; stored frames stay in use"
                )
        except BaseException:
            self._drop()
            raise
        self._drop()
        return False

    def _note_budget(self, reached: BudgetReached) -> None:
        path, needed = self._folder.path, reached.needed
        if needed > reached.max_bytes:
            self.needed_bytes = needed
            self.trouble = (
                f"{path}: max_bytes={reached.max_bytes} is too small for frames that need {needed} bytes: the frame "
                f"cache stores no more frames; use max_bytes={needed} or more (on the command line: --max-bytes "
                f"{needed})"
            )
        else:
            self.trouble = (
                f"{path}: the frame cache is full (max_bytes is {reached.max_bytes:,}) and stores no more frames; "
                "stored frames stay in use: give it a larger max_bytes"
            )

    def _append(self, clip: SegmentFrames) -> bool:
        if self._open is not None and not self._open.writer.takes(clip):
            self._seal()
        if self._open is None:
            self._open = self._begin(clip.most_bytes)
        opened = self._open
        rows = opened.writer.append(clip)
        opened.rows.append(clip.key, rows, list(opened.writer.kinds))
        opened.num_frames += len(clip.frames)
        opened.num_bytes += sum(buffer.nbytes for buffer in clip.buffers)
        self.shortage = None
        return True

    def _begin(self, needed: int) -> _OpenSegment:
        if self._at_exit is None:
            self._at_exit = Finalize(None, _flush_at_exit, (weakref.ref(self),), exitpriority=0)
        self._segments.refresh(thorough=True)  # so that the new segment is newer than all others
        part = self._folder.new_part(needed)
        descriptor = Descriptor(part.descriptor)
        try:
            created = max(time.time_ns(), self._segments.newest + 1)
            return _OpenSegment(part, self._segments.begin(part.name, descriptor), created, descriptor)
        except BaseException:
            self._folder.remove(part.path)
            self._segments.give_up()
            raise

    def _seal(self) -> bool:
        opened = self._open
        if opened is not None:
            checksum = opened.writer.finish()
            self._folder.seal(opened.part)
            # From here on every process finds its frames, even if the next calls fail.
            self._sealed_frames += opened.num_frames
            self._sealed_bytes += opened.num_bytes
            self._open = None
            try:
                self._segments.settle(checksum)
            except BaseException:
                self._segments.give_up()
                raise
            self._folder.flush()
        return True

    def _drop(self) -> None:
        opened = self._open
        if opened is not None:
            self._folder.remove(opened.part.path)
            self._segments.give_up()
            self.frames_lost += opened.num_frames
            self._open = None


def _flush_at_exit(appender: weakref.ref[Appender]) -> None:
    """Seal the open segment when the process ends, also one that `multiprocessing` started."""
    alive = appender()
    if alive is not None:
        alive.flush()


R = TypeVar("R")


class FrameStore(ClosedByWith):
    """Frames in one folder, found by their stream's key and packet number.

    Any number of processes may have stores over one folder, and any number of threads may use one store. In a forked
    process, a store continues with the sealed segments; the open segment stays the parent's.

    Args:
        path: The folder; it is made when the first frames are added.
        options: Options of the store.

    Attributes:
        counts: Counts of this process.

    Raises:
        CacheError: The folder cannot be trusted, or is a file.
    """

    def __init__(self, path: str, options: StoreOptions | None = None) -> None:
        self._options = options or StoreOptions()
        self._folder = Folder(path, self._options)
        self._segments = SegmentIndex(self._folder)
        self._appender = Appender(self._folder, self._segments)
        self._lock = Lock()
        self._counts = StoreCounts()
        renew_after_fork(self)

    def __repr__(self) -> str:
        return f"FrameStore({self._folder.path!r})"

    def __reduce__(self) -> str:
        raise TypeError("a FrameStore cannot be pickled: make one in each process, or send the FrameCache")

    @property
    def counts(self) -> StoreCounts:
        """Counts of this process."""
        counts, appender = self._counts, self._appender
        counts.segments_refused = self._segments.num_refused
        counts.frames_written, counts.bytes_written = appender.frames_written, appender.bytes_written
        counts.frames_lost = appender.frames_lost
        return counts

    @property
    def trouble(self) -> str | None:
        """Why no more frames are stored, or None."""
        return self._appender.trouble

    @property
    def shortage(self) -> str | None:
        """Resource that ran out at the last attempt to store frames, or None; the next attempt may succeed."""
        return self._appender.shortage

    @property
    def lost_by(self) -> str | None:
        """Resource that ran out when stored frames were lost the last time, or None."""
        return self._appender.lost_by

    @property
    def is_full(self) -> bool:
        """Whether no more frames are stored because the budget is used up."""
        return self._appender.is_full

    @property
    def needed_bytes(self) -> int | None:
        """Bytes of frames that do not fit the budget of even an empty cache, or None."""
        return self._appender.needed_bytes

    def find(self, key: bytes, numbers: npt.NDArray[np.int64]) -> FrameLocations:
        """Find frames of one stream.

        Args:
            key: Of the stream, 16 bytes.
            numbers: Of the frames, int64 [N].

        Raises:
            OSError: A resource ran out.
        """
        _check_key(key)
        numbers = np.asarray(numbers, np.int64)
        locations = self._segments.find(key, numbers)
        if MISS in locations.segment.tolist() and self._segments.refresh(thorough=False):
            return self._segments.find(key, numbers)
        return locations

    def read(self, locations: FrameLocations, indices: Sequence[int], buffers: Sequence[memoryview]) -> list[bool]:
        """Read the stored bytes of frames.

        Args:
            locations: Locations of frames.
            indices: Indices of the frames to read.
            buffers: Memory for their bytes, of exactly ``locations.nbytes`` bytes each.

        Returns:
            Whether each frame is undamaged. A damaged frame is counted, and not found again.

        Raises:
            UsageError: A buffer has another size.
            OSError: A resource ran out.
        """
        sizes = [buffer.nbytes for buffer in buffers]
        stored = locations.nbytes.tolist()
        if sizes != [stored[i] for i in indices]:
            raise UsageError(f"buffers: expected {locations.nbytes[indices].tolist()} bytes, got {sizes}")
        sound = read_frames(locations, indices, buffers, self._segments.descriptor)
        num_sound = sum(sound)
        if num_sound < len(sound):
            for i in compress(indices, map(not_, sound)):
                self._segments.forget(
                    locations.key, int(locations.numbers[i]), int(locations.segment[i]), int(locations.row[i])
                )
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
            Whether it was stored. If not, ``trouble`` is the reason why no more is stored, or ``shortage`` the resource
            that ran out, unless these frames alone are larger than a segment may hold.
        """
        _check_key(key)
        return self._appender.add(key, description, frames)

    def refresh(self) -> None:
        """Look for segments that other processes sealed or removed.

        Raises:
            ResourceExhausted: A resource ran out.
        """
        self._try_again(lambda: self._segments.refresh(thorough=True))

    def flush(self) -> None:
        """Seal the added frames: from now on they survive a crash, and other processes find them."""
        self._appender.flush()

    def close(self) -> None:
        """Seal the added frames and close all files; the store can be used again."""
        self.flush()
        self._segments.close_files()

    def info(self) -> StoreInfo:
        """Count the contents of the folder.

        Raises:
            ResourceExhausted: A resource ran out.
        """
        self.refresh()
        return self._try_again(lambda: count_contents(self._folder, self._segments, self._options.max_bytes))

    def verify(self, progress: Callable[[int], object] | None = None) -> Verified:
        """Read every sealed byte; damaged frames are not found any more.

        Args:
            progress: Called with the bytes that were checked since the last call.

        Raises:
            ResourceExhausted: A resource ran out, so that not all could be checked.
        """
        self.refresh()
        try:
            return check_all(self._segments, progress)
        except (OSError, MemoryError) as error:
            resource = find_shortage(error)
            if resource is None:
                raise
            raise make_shortage_error(resource, self._folder.path, "verify") from error

    def drop_damaged(self, verified: Verified) -> dict[str, int]:
        """Remove damaged and incomplete segments, so that their frames can be stored again.

        Example: ``store.drop_damaged(store.verify())``

        Args:
            verified: Result of ``verify``. Files of another format, links and other users' files stay.

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
        """Remove all segments except those that others are writing; return the number of bytes freed.

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

    def _try_again(self, call: Callable[[], R]) -> R:
        return try_again_in_shortage(call, self._folder.path, "cache")

    def after_fork(self) -> None:
        """Continue in a forked process with the sealed segments; leave the open one to the parent."""
        self._lock = Lock()
        self._counts = StoreCounts()
        self._appender.renew_after_fork()
        self._segments.renew_after_fork()


def _check_key(key: bytes) -> None:
    if len(key) != KEY_BYTES:
        raise UsageError(f"key: expected {KEY_BYTES} bytes, got {len(key)}")
