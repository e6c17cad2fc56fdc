"""Adding frames to a folder: one segment at a time, until something is in the way."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from multiprocessing.util import Finalize
from threading import Lock

from framefeed.cache.store.descriptors import Descriptor
from framefeed.cache.store.folder import BudgetReached, Folder, Part
from framefeed.cache.store.known import KnownSegments
from framefeed.cache.store.open_rows import OpenRows
from framefeed.cache.store.segment_writer import Clip, SegmentWriter
from framefeed.cache.stored import StoredFrame
from framefeed.errors import CacheError, ResourceExhausted
from framefeed.parallel.shortage import shortage_in


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
