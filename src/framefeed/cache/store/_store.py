"""The store of a frame cache: one folder, many processes.

Adding frames to a folder: one segment at a time, until something is in the way.
"""

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

from framefeed.cache.store._check import check_all, drop_damaged, look_at
from framefeed.cache.store._files import Descriptor, read_frames
from framefeed.cache.store._folder import BudgetReached, Folder, Part
from framefeed.cache.store._format import (
    KEY_BYTES,
    MISS,
    Found,
    StoreCounts,
    StoredFrame,
    StoreInfo,
    StoreOptions,
    Verified,
)
from framefeed.cache.store._index import KnownSegments, OpenRows
from framefeed.cache.store._segment_writer import Clip, SegmentWriter
from framefeed.errors import CacheError, ResourceExhausted, UsageError
from framefeed.parallel import ClosedByWith, renew_after_fork, resource_exhausted, shortage_in, try_again_in_shortage


class _Begun:
    """A segment that is being written.

    Attributes:
        num_frames: In it so far.
        num_bytes: Of these frames.
    """

    def __init__(self, part: Part, rows: OpenRows, created: int, descriptor: Descriptor) -> None:
        self.part = part
        self.rows = rows
        self.descriptor = descriptor
        self.writer = SegmentWriter(descriptor.number, part.room, created)
        self.num_frames = 0
        self.num_bytes = 0


class Appender:
    """Adds frames; for several threads.

    Args:
        folder: Where they go.
        known: Learns of them.

    Attributes:
        trouble: Why nothing is stored any more, or None.
        is_full: Whether that is the budget.
        needed_bytes: Where the budget is too small even for an empty folder: what the frames need that did not fit.
        shortage: What ran out when frames were not stored the last time, or None: the next ones may be.
        frames_lost: Frames that were added, and lost with a segment that could not be finished.
        lost_by: The shortage by which frames were lost last, or None.
    """

    def __init__(self, folder: Folder, known: KnownSegments) -> None:
        self._folder = folder
        self._known = known
        self._lock = Lock()
        self._begun: _Begun | None = None
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
        # May run inside the cyclic collector, whatever this thread holds just then: so it takes no lock, its own
        # included, which is safe because nothing else refers to this object any more.
        begun, self._begun = self._begun, None
        if begun is not None:
            try:
                begun.writer.finish()
                self._folder.seal(begun.part)
                self._folder.flush()
            except (OSError, MemoryError, ResourceExhausted):
                self._folder.remove(begun.part.path)
        if self._at_exit is not None:
            self._at_exit.cancel()

    @property
    def frames_written(self) -> int:
        """Frames that were stored, those of the segment that is being written included."""
        begun = self._begun
        return self._sealed_frames + (0 if begun is None else begun.num_frames)

    @property
    def bytes_written(self) -> int:
        """Bytes of these frames."""
        begun = self._begun
        return self._sealed_bytes + (0 if begun is None else begun.num_bytes)

    def add(self, key: bytes, description: str, frames: Sequence[StoredFrame]) -> bool:
        """Add a clip; False where it was not."""
        if self.trouble is not None:
            return False
        if not frames:
            return True
        clip = Clip(key, description, frames)
        if not clip.is_storable:
            return False
        with self._lock:
            return self._safely(lambda: self._append(clip))

    def flush(self) -> None:
        """Seal what is being written."""
        with self._lock:
            self._safely(self._seal)

    def drop(self) -> None:
        """Leave what is being written; and try again to write."""
        with self._lock:
            self._drop()
            self.trouble, self.is_full, self.needed_bytes, self.shortage = None, False, None, None

    def renew_after_fork(self) -> None:
        """In a child: what the parent writes is left alone; only this process's copy of its lock is dropped."""
        self._lock = Lock()
        self._at_exit = None
        self._begun = None
        self.frames_lost = self._sealed_frames = self._sealed_bytes = 0

    def _safely(self, change: Callable[[], bool]) -> bool:
        """Do something to the segment; whatever goes wrong with its file ends it, and all storing.

        A shortage of the machine ends the segment alone.
        """
        if self.trouble is not None:
            return False
        try:
            return change()
        except BudgetReached as reached:
            if not reached.is_final:
                # Others have claimed what is left, and may give some of it back.
                return False
            self.is_full = True
            self._note_budget(reached)
        except CacheError as error:
            self.trouble = str(error)
        except (OSError, MemoryError, ResourceExhausted) as error:
            self.shortage = shortage_in(error)
            if self.shortage is not None and self._begun is not None and self._begun.num_frames:
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

    def _append(self, clip: Clip) -> bool:
        if self._begun is not None and not self._begun.writer.takes(clip):
            self._seal()
        if self._begun is None:
            self._begun = self._begin(clip.most_bytes)
        begun = self._begun
        rows = begun.writer.append(clip)
        begun.rows.append(clip.key, rows, list(begun.writer.kinds))
        begun.num_frames += len(clip.frames)
        begun.num_bytes += sum(piece.nbytes for piece in clip.pieces)
        self.shortage = None
        return True

    def _begin(self, needed: int) -> _Begun:
        if self._at_exit is None:
            self._at_exit = Finalize(None, _flush_at_exit, (weakref.ref(self),), exitpriority=0)
        self._known.refresh(thorough=True)  # so that what is written now is newer than all that others wrote before
        part = self._folder.new_part(needed)
        descriptor = Descriptor(part.descriptor)
        try:
            created = max(time.time_ns(), self._known.newest + 1)
            return _Begun(part, self._known.begin(part.name, descriptor), created, descriptor)
        except BaseException:
            self._folder.remove(part.path)
            self._known.give_up()
            raise

    def _seal(self) -> bool:
        begun = self._begun
        if begun is not None:
            checksum = begun.writer.finish()
            self._folder.seal(begun.part)
            # From here on every process finds its frames, whatever becomes of the next calls.
            self._sealed_frames += begun.num_frames
            self._sealed_bytes += begun.num_bytes
            self._begun = None
            try:
                self._known.settle(checksum)
            except BaseException:
                self._known.give_up()
                raise
            self._folder.flush()
        return True

    def _drop(self) -> None:
        begun = self._begun
        if begun is not None:
            self._folder.remove(begun.part.path)
            self._known.give_up()
            self.frames_lost += begun.num_frames
            self._begun = None


def _flush_at_exit(appender: weakref.ref[Appender]) -> None:
    """Seal what a process was writing when it ends; also one that `multiprocessing` started."""
    alive = appender()
    if alive is not None:
        alive.flush()


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
