"""Keep track of the segments in a folder, and find frames in them.

Files that are missing, damaged or hostile are left out. An ``OSError`` that is raised here tells that a resource ran
out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from threading import RLock
from time import monotonic

import numpy as np

from framefeed._arrays import IntArray
from framefeed._lru import Lru
from framefeed.cache.store._directory import Directory, read_directory
from framefeed.cache.store._files import DataFile, Descriptor, SharedLru
from framefeed.cache.store._folder import Folder, FolderFiles, Part
from framefeed.cache.store._format import (
    MISS,
    REF_BITS,
    ROW,
    FrameLocations,
    Kind,
    Refused,
    Rows,
    StoreCounts,
)
from framefeed.cache.store._segment_writer import SegmentWriter
from framefeed.cache.store._streams import Streams, list_frames
from framefeed.parallel import find_shortage, register_releasable

MAX_OPEN = 128
"""Data files that are kept open."""
MOST_BYTES = 42 << 20
"""Of the directories of the last used segments."""
_ROW_MASK = (1 << REF_BITS) - 1
_SETTLED_SECONDS = 0.05
"""A folder's time is no finer than the kernel's clock, 10 ms at most: a file that is added right after the folder was
listed may not change it. So the folder is listed once more after this time."""


@dataclass(slots=True, eq=False)
class Segment:
    """A segment that this process knows; its number is its index in the list of all."""

    name: str  # of its files, without an ending
    checksum: bytes  # of its directory; a segment of the same name with another checksum is another one
    is_there: bool = True

    @property
    def file(self) -> str:
        """Name of its data file, by which users know it."""
        return f"{self.name}.data"


@dataclass(frozen=True, slots=True, eq=False)
class OpenSegment:
    """The segment that this process writes.

    Its row references, by key of the stream and packet number, come to the others when the segment is sealed.
    """

    number: int
    part: Part
    writer: SegmentWriter
    refs: dict[bytes, dict[int, int]] = field(default_factory=dict)


class SegmentIndex:
    """Sealed segments, and the one that this process writes.

    Several threads may search and read while one thread changes it.

    Attributes:
        open: The segment that this process writes, or None.
        refused: Maps names of data files, and of files of other versions, to the reason why they cannot be used.
        newest: Latest time of creation of a segment so far.
    """

    def __init__(self, folder: Folder, counts: StoreCounts) -> None:
        self._folder = folder
        self._counts = counts
        self._forget_all()
        register_releasable(self)

    def _forget_all(self) -> None:
        self._lock = RLock()
        self.open: OpenSegment | None = None
        self.refused: dict[str, str] = {}
        self.newest = 0
        self._segments: list[Segment] = []
        self._numbers: dict[str, int] = {}
        self._streams = Streams()
        self._directories = SharedLru[int, Directory](
            lambda: Lru(MOST_BYTES, lambda directory: directory.nbytes, min_count=1)
        )
        self._descriptors = SharedLru[int, Descriptor](lambda: Lru(MAX_OPEN))
        self._stamp: tuple[int, int, int] | None = None
        self._settles_at = 0.0
        self._is_settled = True
        self._refused_stamps: dict[str, tuple[int, ...]] = {}

    @property
    def num_frames(self) -> int:
        """Frames of the sealed segments."""
        return len(self._streams)

    # --- finding --------------------------------------------------------------------------------------

    def find(self, keys: Sequence[bytes], numbers: IntArray) -> FrameLocations:
        """Find frames, by the keys of their streams and their packet numbers, in the known segments."""
        refs = self._find_refs(keys, numbers)
        listed: list[int] = refs.tolist()
        if listed and listed[0] != MISS and listed == list(range(listed[0], listed[0] + len(listed))):
            directory = self.directory(listed[0] >> REF_BITS)
            if directory is not None:
                row = listed[0] & _ROW_MASK
                return FrameLocations(keys, numbers, refs, directory.rows[row : row + len(listed)], directory.kinds)
        return self._find_apart(keys, numbers, refs)

    def _find_refs(self, keys: Sequence[bytes], numbers: IntArray) -> IntArray:
        if keys and keys.count(keys[0]) == len(keys):
            return self._find_refs_of_stream(keys[0], numbers)
        refs = np.empty(len(keys), np.int64)
        start = 0
        for key, same in groupby(keys):
            stop = start + sum(1 for _ in same)
            refs[start:stop] = self._find_refs_of_stream(key, numbers[start:stop])
            start = stop
        return refs

    def _find_refs_of_stream(self, key: bytes, numbers: IntArray) -> IntArray:
        opened = self.open
        known = None if opened is None else opened.refs.get(key)
        if len(numbers) == 1 and known is None:
            return np.array([self._streams.find_one(key, int(numbers[0]))])
        refs = self._streams.find(key, numbers)
        if known is not None:
            own = np.array([known.get(number, MISS) for number in numbers.tolist()], np.int64)
            refs = np.where(own != MISS, own, refs)
        return refs

    def _find_apart(self, keys: Sequence[bytes], numbers: IntArray, refs: IntArray) -> FrameLocations:
        """Find frames that do not lie side by side in one segment."""
        rows: Rows = np.zeros(len(refs), ROW)
        kinds: tuple[Kind, ...] = ()
        segments = refs >> REF_BITS
        for segment in set(segments.tolist()) - {MISS}:
            directory = self.directory(segment)
            if directory is None and not self._segments[segment].is_there:
                # Its rows are removed, and older ones of these frames may be found.
                return self._find_apart(keys, numbers, self._find_refs(keys, numbers))
            which = np.flatnonzero(segments == segment)
            if directory is None:
                refs[which] = MISS
                continue
            rows[which] = directory.rows.take(refs[which] & _ROW_MASK)
            rows["kind"][which] += len(kinds)
            kinds += directory.kinds
        return FrameLocations(keys, numbers, refs, rows, kinds)

    def directory(self, segment: int) -> Directory | None:
        """Return the directory of a segment, or None if it cannot be read."""
        opened = self.open
        if opened is not None and opened.number == segment:
            return opened.writer.directory()
        directory = self._directories.get(segment)
        if directory is not None or not self._segments[segment].is_there:
            return directory
        try:
            directory = self._read_directory(self._segments[segment].name)
            if directory.checksum != self._segments[segment].checksum:
                raise Refused("the file was replaced by another one while it was in use")
        except FileNotFoundError:
            self._lose(segment)
            return None
        except OSError as error:
            if find_shortage(error) is not None:
                raise
            return None
        except Refused as refused:
            with self._lock:
                self._refuse(self._segments[segment].file, str(refused))
                self._lose(segment)
            return None
        self._directories.put(segment, directory)
        return directory

    def _read_directory(self, name: str) -> Directory:
        file, size = self._folder.open_file(f"{name}.rows")
        try:
            data_nbytes = self._folder.measure(f"{name}.data")
        except FileNotFoundError as error:
            raise Refused("the file is missing, and only its directory is there") from error
        return read_directory(file.number, size, data_nbytes)

    def descriptor(self, segment: int) -> DataFile | None:
        """Return the open data file of a segment, or None if it cannot be opened."""
        opened = self.open
        if opened is not None and opened.number == segment:
            return opened.writer.data
        descriptor = self._descriptors.get(segment)
        if descriptor is None and segment >= 0 and self._segments[segment].is_there:
            try:
                descriptor, _ = self._folder.open_file(self._segments[segment].file)
            except (Refused, FileNotFoundError):
                self._lose(segment)
                return None
            except OSError as error:
                if find_shortage(error) is not None:
                    raise
                return None
            self._descriptors.put(segment, descriptor)
        return descriptor

    # --- the folder -----------------------------------------------------------------------------------

    def refresh(self, thorough: bool) -> bool:
        """List the folder again if it has changed.

        Args:
            thorough: List it even if it changed so recently that its time may not show a later change.

        Returns:
            Whether segments were added or removed. After an error nothing has changed, and the next call lists the
            folder again.
        """
        if self._is_current(thorough):
            return False
        with self._lock:
            if self._is_current(thorough):
                return False
            stamp, begin = self._folder.stamp(), monotonic()
            has_changed = self._list(is_there=stamp is not None)
            if stamp != self._stamp:
                self._stamp, self._is_settled, self._settles_at = stamp, False, begin + _SETTLED_SECONDS
            else:
                self._is_settled = begin >= self._settles_at
            return has_changed

    def _is_current(self, thorough: bool) -> bool:
        is_calm = self._is_settled or (not thorough and monotonic() < self._settles_at)
        return is_calm and self._folder.stamp() == self._stamp

    def _list(self, is_there: bool) -> bool:
        try:
            listing = self._folder.list_segments() if is_there else FolderFiles()
        except OSError as error:
            if find_shortage(error) is not None:
                raise
            return False
        own = None if self.open is None else self._segments[self.open.number].name
        gone = {self._numbers[name] for name in self._numbers.keys() - listing.sealed - {own}}
        self._remove_segments(gone)
        for file in self.refused.keys() - {f"{name}.data" for name in listing.sealed}:
            del self.refused[file]
        loaded = []
        for name in listing.sealed - self._numbers.keys():
            directory = self._examine(name)
            if directory is not None:
                # Without the directory, which is larger: there may be thousands of segments.
                loaded.append((directory.created, name, directory.checksum, _list_frames(directory, 0)))
        loaded.sort(key=lambda each: each[:2])
        added = []
        for created, name, checksum, frames in loaded:
            frames[3] += self._register(Segment(name, checksum)) << REF_BITS
            added.append(frames)
            self.newest = max(self.newest, created)
        self._streams.add(added[::-1])
        return bool(added or gone)

    def _examine(self, name: str) -> Directory | None:
        """Read the directory of a segment that is not known yet; note why it cannot be used."""
        file = f"{name}.data"
        # A refused one is read again when it has changed: it may still be being copied.
        stamp = self._read_stamp(name) if file in self.refused else None
        if stamp is not None and self._refused_stamps.get(file) == stamp:
            return None
        try:
            directory = self._read_directory(name)
        except FileNotFoundError:
            return None  # It was removed after the folder was listed.
        except OSError as error:
            if find_shortage(error) is not None:
                raise
            self._refuse(file, error.strerror or str(error))
            return None
        except Refused as refused:
            if stamp is not None:
                self._refused_stamps[file] = stamp
            self._refuse(file, str(refused))
            return None
        self.refused.pop(file, None)
        return directory

    def _read_stamp(self, name: str) -> tuple[int, ...] | None:
        """Return inode number, size and time of both files; None if one is missing."""
        try:
            facts = [os.lstat(self._folder.file(f"{name}{ending}")) for ending in (".rows", ".data")]
        except OSError:
            return None
        return tuple(number for each in facts for number in (each.st_ino, each.st_size, each.st_mtime_ns))

    def _refuse(self, file: str, why: str) -> None:
        self._counts.segments_refused += file not in self.refused
        self.refused[file] = why

    def _register(self, segment: Segment) -> int:
        number = len(self._segments)
        self._segments.append(segment)
        self._numbers[segment.name] = number
        return number

    def _lose(self, segment: int) -> None:
        """Remove a segment whose file is gone or was replaced."""
        with self._lock:
            if self._segments[segment].is_there:
                self._remove_segments({segment})
                # The time of the folder may be the same as before.
                self._is_settled = False

    def _remove_segments(self, numbers: set[int]) -> None:
        # Their rows first: a search that meets a segment that is not there searches again.
        self._streams.remove(numbers)
        for number in numbers:
            segment = self._segments[number]
            segment.is_there = False
            self._numbers.pop(segment.name, None)
            self._directories.drop(number)
            self._descriptors.drop(number)

    # --- the open segment -----------------------------------------------------------------------------

    def begin(self, part: Part, writer: SegmentWriter) -> OpenSegment:
        """Register a segment that this process begins to write."""
        with self._lock:
            self.open = OpenSegment(self._register(Segment(part.name, b"")), part, writer)
            return self.open

    def append(self, key: bytes, rows: Rows) -> None:
        """Add the last rows of the segment that this process writes; they are of one stream."""
        opened = self.open
        if opened is not None:
            end = (opened.number << REF_BITS) + opened.writer.num_rows
            refs = range(end - len(rows), end)
            opened.refs.setdefault(key, {}).update(zip(rows["number"].tolist(), refs, strict=True))

    def settle(self, directory: Directory) -> None:
        """Make the frames of the segment that this process sealed permanent."""
        with self._lock:
            if self.open is not None:
                number = self.open.number
                self._segments[number].checksum = directory.checksum
                self._streams.add([_list_frames(directory, number)])
                self._directories.put(number, directory)
                self.open = None

    def give_up(self) -> None:
        """Remove the segment that this process wrote; also in a forked process, where it belongs to the parent."""
        with self._lock:
            opened, self.open = self.open, None
            if opened is not None:
                self._remove_segments({opened.number})

    def forget(self, key: bytes, number: int, ref: int) -> None:
        """Remove a damaged frame of a stream, given by its packet number and row reference."""
        with self._lock:
            opened = self.open
            if opened is not None and opened.number == ref >> REF_BITS:
                opened.refs.get(key, {}).pop(number, None)
            else:
                self._streams.forget(key, ref)

    def sealed(self) -> list[tuple[int, Segment]]:
        """Return the sealed segments with their numbers."""
        own = None if self.open is None else self.open.number
        return [(n, each) for n, each in enumerate(list(self._segments)) if each.is_there and n != own]

    def release_idle(self) -> None:
        """Close all data files that are not in use; without a lock, because any thread may call it at any time."""
        self._descriptors.release_idle()

    def begin_in_child(self, counts: StoreCounts) -> None:
        """Continue in a forked process: replace locks, and leave the segment that the parent writes to the parent."""
        self._counts = counts
        if self._lock.acquire(blocking=False):
            self._lock = RLock()
            self._directories.renew_lock()
            self._descriptors.renew_lock()
            self.give_up()
        else:
            # Another thread of the parent was changing it.
            self._forget_all()


def _list_frames(directory: Directory, segment: int) -> IntArray:
    rows, first = directory.rows[::-1], segment << REF_BITS
    return list_frames(directory.keys, rows["stream"], rows["number"], np.arange(first, first + len(rows))[::-1])
