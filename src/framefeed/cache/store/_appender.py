"""Add frames to the folder of a store."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.util import Finalize
from threading import Lock

from framefeed.cache.store._folder import BudgetReached, Folder, Part
from framefeed.cache.store._format import StoredFrame
from framefeed.cache.store._index import SegmentIndex
from framefeed.cache.store._segment_writer import SegmentFrames, SegmentWriter
from framefeed.errors import CacheError, ResourceExhausted
from framefeed.parallel import find_shortage, try_again_in_shortage


@dataclass(frozen=True, slots=True, eq=False)
class _OpenSegment:
    part: Part
    writer: SegmentWriter


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
                self._folder.drop(opened.part)
        if self._at_exit is not None:
            self._at_exit.cancel()

    @property
    def frames_written(self) -> int:
        """Stored frames, those of the open segment included."""
        opened = self._open
        return self._sealed_frames + (0 if opened is None else opened.writer.num_rows)

    @property
    def bytes_written(self) -> int:
        """Bytes of these frames."""
        opened = self._open
        return self._sealed_bytes + (0 if opened is None else opened.writer.num_bytes)

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

    def begin_in_child(self) -> None:
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
            if self.shortage is not None and self._open is not None and self._open.writer.num_rows:
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
        if self._open is not None and not self._open.writer.takes(clip):
            self._seal()
        if self._open is None:
            self._open = self._begin(clip.most_bytes)
        writer = self._open.writer
        rows = writer.append(clip)
        self._segments.append(clip.key, rows)
        self.shortage = None
        return True

    def _begin(self, needed: int) -> _OpenSegment:
        if self._at_exit is None:
            self._at_exit = Finalize(None, _flush_at_exit, (weakref.ref(self),), exitpriority=0)
        self._segments.refresh(thorough=True)  # so that the new segment is newer than all others
        part = self._folder.new_part(needed)
        try:
            created = max(time.time_ns(), self._segments.newest + 1)
            writer = SegmentWriter(part.data.number, part.directory.number, part.max_bytes, created)
            self._segments.begin(part.name, writer, part.data)
            return _OpenSegment(part, writer)
        except BaseException:
            self._folder.drop(part)
            self._segments.give_up()
            raise

    def _seal(self) -> bool:
        opened = self._open
        if opened is not None:
            directory = opened.writer.finish()
            self._folder.seal(opened.part)
            # From here on every process finds its frames, even if the next calls fail.
            self._sealed_frames += opened.writer.num_rows
            self._sealed_bytes += opened.writer.num_bytes
            self._open = None
            try:
                self._segments.settle(directory)
            except BaseException:
                self._segments.give_up()
                raise
            self._folder.flush()
        return True

    def _drop(self) -> None:
        opened = self._open
        if opened is not None:
            self._folder.drop(opened.part)
            self._segments.give_up()
            self.frames_lost += opened.writer.num_rows
            self._open = None


def _flush_at_exit(appender: weakref.ref[Appender]) -> None:
    """Seal the open segment when the process ends, also one that `multiprocessing` started."""
    alive = appender()
    if alive is not None:
        alive.flush()
