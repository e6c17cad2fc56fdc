"""Add frames to the folder of a store."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from multiprocessing.util import Finalize
from threading import Lock

from framefeed.cache.store._folder import BudgetReached, Folder
from framefeed.cache.store._format import StoreCounts, StoredFrame
from framefeed.cache.store._index import OpenSegment, SegmentIndex
from framefeed.cache.store._segment_writer import SegmentFrames, SegmentWriter
from framefeed.errors import CacheError, ResourceExhausted
from framefeed.parallel import find_shortage, try_again_in_shortage


class Appender:
    """Adds frames to a folder, one segment at a time; for several threads.

    Attributes:
        needed_bytes: If the budget is too small even for an empty folder, the bytes that the frames need, else None.
        shortage: Resource that ran out at the last attempt to store frames, or None; the next attempt may succeed.
        lost_by: The shortage by which stored frames were lost last, or None.
    """

    def __init__(self, folder: Folder, segments: SegmentIndex, counts: StoreCounts) -> None:
        self._folder = folder
        self._segments = segments
        self._counts = counts
        self._lock = Lock()
        self._at_exit: Finalize | None = None
        self.trouble: str | None = None
        self.is_full = False
        self.needed_bytes: int | None = None
        self.shortage: str | None = None
        self.lost_by: str | None = None
        self._has_new_names = False
        """Whether the folder is to be flushed."""

    def __del__(self) -> None:
        # May run inside the cyclic collector, while this thread holds any locks: so it takes no lock, its own
        # included, which is safe because nothing else refers to this object any more.
        opened = self._segments.open
        if opened is not None:
            try:
                opened.writer.finish()
                self._folder.seal(opened.part)
                self._folder.flush()
            except (OSError, MemoryError, ResourceExhausted):
                self._folder.drop(opened.part)
        if self._at_exit is not None:
            self._at_exit.cancel()

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

    def begin_in_child(self, counts: StoreCounts) -> None:
        """Replace what belongs to the parent in a forked process; the index leaves the open segment to it."""
        self._lock = Lock()
        self._at_exit = None
        self._counts = counts

    def _safely(self, change: Callable[[], bool]) -> bool:
        """Change the open segment; an error of its file ends it and all storing, a shortage ends only the segment."""
        if self.trouble is not None:
            return False
        try:
            return try_again_in_shortage(change, self._folder.path, "store")
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
            opened = self._segments.open
            if self.shortage is not None and opened is not None and opened.writer.num_rows:
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
                "stored frames stay in use"
            )

    def _append(self, clip: SegmentFrames) -> bool:
        opened = self._segments.open
        if opened is not None and not opened.writer.takes(clip):
            self._seal()
        opened = self._segments.open or self._begin(clip.most_bytes)
        rows = opened.writer.append(clip)
        # Counted first: after a shortage of memory the clip is written once more, or the segment dropped with it.
        self._counts.frames_written += len(rows)
        self._counts.bytes_written += clip.data_nbytes
        self._segments.append(clip.key, rows)
        self.shortage = None
        return True

    def _begin(self, needed: int) -> OpenSegment:
        if self._at_exit is None:
            self._at_exit = Finalize(None, _flush_at_exit, (weakref.ref(self),), exitpriority=0)
        self._segments.refresh(thorough=True)  # so that the new segment is newer than all others
        part = self._folder.new_part(needed)
        try:
            created = max(time.time_ns(), self._segments.newest + 1)
            writer = SegmentWriter(part.data, part.directory, part.max_bytes, created)
            return self._segments.begin(part, writer)
        except BaseException:
            self._folder.drop(part)
            self._segments.give_up()
            raise

    def _seal(self) -> bool:
        opened = self._segments.open
        if opened is not None:
            directory = opened.writer.finish()
            self._folder.seal(opened.part)
            # From here on every process finds its frames, even if the next calls fail.
            self._has_new_names = True
            try:
                self._segments.settle(directory)
            except BaseException:
                self._segments.give_up()
                raise
        if self._has_new_names:
            self._folder.flush()
            self._has_new_names = False
        return True

    def _drop(self) -> None:
        opened = self._segments.open
        if opened is not None:
            self._folder.drop(opened.part)
            self._segments.give_up()
            num_rows = opened.writer.num_rows
            self._counts.frames_lost += num_rows
            self._counts.frames_written -= num_rows
            self._counts.bytes_written -= opened.writer.num_bytes


def _flush_at_exit(appender: weakref.ref[Appender]) -> None:
    """Seal the open segment when the process ends, also one that `multiprocessing` started."""
    alive = appender()
    if alive is not None:
        alive.flush()
        alive._at_exit = None  # has run: later multiprocessing's module, which cancels it, may be cleared
