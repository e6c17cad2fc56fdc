"""Keep track of the segments in a folder, and find frames in them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock, RLock
from time import monotonic

import numpy as np

from framefeed._arrays import IntArray
from framefeed._lru import Lru
from framefeed.cache.store._files import Descriptor, Descriptors
from framefeed.cache.store._folder import Folder
from framefeed.cache.store._format import NO_FRAME, ROW, FrameLocations, Kind, Refused, Rows, halves
from framefeed.cache.store._lookup import (
    NO_REF,
    HashedRows,
    LocationsBuilder,
    Lookup,
    get_rows,
    get_segments,
    locate_in_segment,
    make_refs,
)
from framefeed.cache.store._segment import Directory, read_directory
from framefeed.parallel import find_shortage

MOST_BYTES = 64 << 20


class Directories:
    """Directories of the last used segments, by segment number, up to ``MOST_BYTES``."""

    def __init__(self) -> None:
        self._directories = Lru[int, Directory](MOST_BYTES, lambda directory: directory.nbytes, min_count=1)
        self._lock = Lock()

    def get(self, segment: int) -> Directory | None:
        """Return the directory of a segment, or None."""
        with self._lock:
            return self._directories.get(segment)

    def put(self, segment: int, directory: Directory) -> None:
        """Keep a directory."""
        with self._lock:
            self._directories.put(segment, directory)

    def drop(self, segment: int) -> None:
        """Release a directory."""
        with self._lock:
            self._directories.pop(segment)

    def clear(self) -> None:
        """Release all directories."""
        with self._lock:
            self._directories.clear()

    def renew_lock(self) -> None:
        """Replace the lock in a forked process: a thread of the parent may have held it."""
        self._lock = Lock()


class OpenRows:
    """Rows of a segment that is being written; one thread appends, others search.

    Args:
        segment: Number of the segment.
    """

    def __init__(self, segment: int) -> None:
        self.segment = segment
        self._rows: Rows = np.empty(64, ROW)
        self._num_rows = 0
        self._kinds: tuple[Kind, ...] = ()
        self._streams: dict[bytes, dict[int, int]] = {}

    def append(self, key: bytes, rows: Rows, kinds: Sequence[Kind]) -> None:
        """Append the rows of a clip.

        Args:
            key: Of the stream.
            rows: ``ROW`` [N].
            kinds: Of the segment so far.
        """
        first, last = self._num_rows, self._num_rows + len(rows)
        if last > len(self._rows):
            # A search in another thread keeps the old array.
            grown = np.empty(max(last, 2 * len(self._rows)), ROW)
            grown[:first] = self._rows[:first]
            self._rows = grown
        self._rows[first:last] = rows
        self._kinds = tuple(kinds)
        self._num_rows = last
        stream = self._streams.setdefault(key, {})
        for row, (number, kind) in enumerate(zip(rows["number"].tolist(), rows["kind"].tolist(), strict=True), first):
            if kind != NO_FRAME:
                stream[number] = row

    def has(self, key: bytes) -> bool:
        """Whether there are frames of a stream."""
        return key in self._streams

    def find(self, key: bytes, numbers: Sequence[int]) -> list[int]:
        """Find the row of each frame [N], or -1."""
        stream = self._streams.get(key, {})
        return [stream.get(number, -1) for number in numbers]

    def forget(self, key: bytes, number: int) -> None:
        """Remove a frame."""
        self._streams.get(key, {}).pop(number, None)

    def directory(self) -> Directory:
        """View the rows so far as a directory."""
        return Directory(self._rows[: self._num_rows], self._kinds, 0, "")

    def make_directory(self, checksum: str) -> Directory:
        """Copy the rows to the directory of the sealed segment.

        Args:
            checksum: Of the directory as it was written.
        """
        return Directory(self._rows[: self._num_rows].copy(), self._kinds, 0, checksum)


_SETTLED_SECONDS = 0.05
"""A folder's time is no finer than the kernel's clock, 10 ms at most: a file that is added right after the folder was
listed may not change it. So the folder is listed once more after this time."""


@dataclass(slots=True, eq=False)
class Segment:
    """A segment that this process knows; its number is its index in the list of all.

    Attributes:
        name: Of its file once sealed.
        checksum: Of its directory; a file of the same name with another checksum is another segment.
        is_there: Whether its frames can be used.
    """

    name: str
    checksum: str
    is_there: bool = True


class SegmentIndex:
    """Sealed segments, and the one that this process writes.

    Several threads may search and read while one thread changes it.

    Args:
        folder: Where they are.

    Attributes:
        open: Rows of the segment that this process writes.
        refused: Maps file names to the reason why the file cannot be used.
        num_refused: Number of files refused so far.
        newest: Latest time of creation of a segment so far.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._forget_all()

    def _forget_all(self) -> None:
        self._lock = RLock()
        self.open: OpenRows | None = None
        self.refused: dict[str, str] = {}
        self.num_refused = 0
        self.newest = 0
        self._segments: list[Segment] = []
        self._numbers: dict[str, int] = {}
        self._held: Descriptor | None = None
        self._lookup = Lookup()
        self._directories = Directories()
        self._descriptors = Descriptors()
        self._stamp: tuple[int, int, int] | None = None
        self._settles_at = 0.0
        self._is_settled = True
        self._refused_stamps: dict[str, tuple[int, int, int]] = {}

    def find(self, key: bytes, numbers: IntArray) -> FrameLocations:
        """Find frames of one stream in the known segments.

        Args:
            key: Of the stream, 16 bytes.
            numbers: Of the frames, int64 [N].
        """
        refs = self._lookup.find_newest(halves(key)[0], numbers)
        opened = self.open
        if opened is not None and opened.has(key):
            rows = np.array(opened.find(key, numbers.tolist()), np.int64)
            refs = np.where(rows >= 0, make_refs(opened.segment, rows), refs)
        listed = refs.tolist()
        segment = get_segments(min(listed, default=NO_REF))
        if segment >= 0 and segment == get_segments(max(listed)):
            directory = self.directory(segment)
            locations = (
                None if directory is None else locate_in_segment(key, numbers, segment, directory, get_rows(refs))
            )
            if locations is not None:
                return locations
        return self._find_in_many(key, numbers, refs)

    def _find_in_many(self, key: bytes, numbers: IntArray, refs: IntArray) -> FrameLocations:
        builder = LocationsBuilder(key, numbers)
        head, _ = halves(key)
        if max(refs.tolist(), default=NO_REF) != NO_REF:
            self._add_locations(builder, refs, np.arange(len(refs)))
            for i in np.flatnonzero(builder.is_missing & (refs != NO_REF)).tolist():
                for ref in self._lookup.find_all(head, int(numbers[i])):
                    self._add_locations(builder, np.array([ref]), np.array([i]))
                    if not builder.is_missing[i]:
                        break
        return builder.build()

    def _add_locations(self, builder: LocationsBuilder, refs: IntArray, indices: IntArray) -> None:
        segments = get_segments(refs)
        for segment in set(segments.tolist()) - {NO_REF}:
            directory = self.directory(segment)
            if directory is not None:
                matching = np.flatnonzero(segments == segment)
                builder.add(segment, directory, indices[matching], get_rows(refs[matching]))

    def directory(self, segment: int) -> Directory | None:
        """Return the directory of a segment, or None if it cannot be read.

        Raises:
            OSError: A resource ran out.
        """
        opened = self.open
        if opened is not None and opened.segment == segment:
            return opened.directory()
        if not self._segments[segment].is_there:
            return None
        directory = self._directories.get(segment)
        if directory is None:
            directory = self._load(segment)
        return directory

    def _load(self, segment: int) -> Directory | None:
        descriptor = self.descriptor(segment)
        if descriptor is None:
            return None
        try:
            directory = read_directory(descriptor.number)
            if directory.checksum != self._segments[segment].checksum:
                raise Refused("the file was replaced by another one while it was in use")
        except OSError as error:
            if find_shortage(error) is not None:
                raise
            return None
        except Refused as refused:
            with self._lock:
                self._refuse(self._segments[segment].name, str(refused))
                self._lose(segment)
            return None
        self._directories.put(segment, directory)
        return directory

    def descriptor(self, segment: int) -> Descriptor | None:
        """Return the open file of a segment, or None if it cannot be opened.

        Raises:
            OSError: A resource ran out.
        """
        opened = self.open
        if opened is not None and opened.segment == segment:
            return self._held
        descriptor = self._descriptors.get(segment)
        if descriptor is None and segment >= 0 and self._segments[segment].is_there:
            try:
                descriptor = Descriptor(self._folder.open_segment(self._segments[segment].name))
            except (Refused, FileNotFoundError):
                self._lose(segment)
                return None
            except OSError as error:
                if find_shortage(error) is not None:
                    raise
                return None
            self._descriptors.put(segment, descriptor)
        return descriptor

    def refresh(self, thorough: bool) -> bool:
        """List the folder again if it has changed.

        Args:
            thorough: List it even if it changed so recently that its time may not show a later change.

        Returns:
            Whether segments were added or removed.

        Raises:
            OSError: A resource ran out; nothing changes, and the next call lists the folder again.
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
            names = set(self._folder.names()[0]) if is_there else set()
        except OSError as error:
            if find_shortage(error) is not None:
                raise
            return False
        own = None if self.open is None else self._segments[self.open.segment].name
        gone = {self._numbers[name] for name in self._numbers.keys() - names - {own}}
        self._remove_segments(gone)
        for name in self.refused.keys() - names:
            del self.refused[name]
        loaded = []
        for name in names - self._numbers.keys():
            directory = self._directory_of(name)
            if directory is not None:
                loaded.append((directory.created, name, directory.checksum, HashedRows.of(directory.rows)))
        loaded.sort(key=lambda each: each[:2])
        added = []
        for created, name, checksum, frames in loaded:
            added.append((self._register(Segment(name, checksum)), frames))
            self.newest = max(self.newest, created)
        self._lookup.add(added)
        return bool(added or gone)

    def _directory_of(self, name: str) -> Directory | None:
        # A refused file is read again when it has changed: it may still be being copied.
        stamp = _read_stamp(self._folder.file(name)) if name in self.refused else None
        if stamp is not None and self._refused_stamps.get(name) == stamp:
            return None
        try:
            descriptor = Descriptor(self._folder.open_segment(name))
            directory = read_directory(descriptor.number)
        except OSError as error:
            if find_shortage(error) is not None:
                raise
            self._refuse(name, error.strerror or str(error))
            return None
        except Refused as refused:
            if stamp is not None:
                self._refused_stamps[name] = stamp
            self._refuse(name, str(refused))
            return None
        self.refused.pop(name, None)
        return directory

    def _refuse(self, name: str, why: str) -> None:
        self.num_refused += name not in self.refused
        self.refused[name] = why

    def _register(self, segment: Segment) -> int:
        number = len(self._segments)
        self._segments.append(segment)
        self._numbers[segment.name] = number
        return number

    def begin(self, name: str, descriptor: Descriptor) -> OpenRows:
        """Register a segment that this process begins to write.

        Args:
            name: That it will have.
            descriptor: Of its file.
        """
        with self._lock:
            self._held = descriptor
            self.open = OpenRows(self._register(Segment(name, "")))
            return self.open

    def settle(self, checksum: str) -> None:
        """Make the frames of the segment that this process sealed permanent."""
        with self._lock:
            opened = self.open
            if opened is None:
                return
            directory = opened.make_directory(checksum)
            self._segments[opened.segment].checksum = checksum
            self._lookup.add([(opened.segment, HashedRows.of(directory.rows))])
            self._directories.put(opened.segment, directory)
            self.open = self._held = None

    def give_up(self) -> None:
        """Remove the segment that this process wrote; also in a forked process, where it belongs to the parent."""
        with self._lock:
            opened = self.open
            self.open = self._held = None
            if opened is not None:
                self._remove_segment(opened.segment)

    def _lose(self, segment: int) -> None:
        """Remove a segment whose file is gone or was replaced."""
        with self._lock:
            if self._segments[segment].is_there:
                self._remove_segments({segment})
                # The time of the folder may be the same as before.
                self._is_settled = False

    def _remove_segments(self, segments: set[int]) -> None:
        for number in segments:
            self._remove_segment(number)
        if segments:
            self._lookup.keep(np.array([segment.is_there for segment in self._segments], bool))

    def _remove_segment(self, number: int) -> None:
        segment = self._segments[number]
        segment.is_there = False
        self._numbers.pop(segment.name, None)
        self._directories.drop(number)
        self._descriptors.drop(number)

    def forget(self, key: bytes, number: int, segment: int, row: int) -> None:
        """Remove a damaged frame."""
        with self._lock:
            opened = self.open
            if opened is not None and opened.segment == segment:
                opened.forget(key, number)
            ref = int(make_refs(segment, np.array([row]))[0])
            self._lookup.forget(halves(key)[0], number, ref)

    def sealed(self) -> list[tuple[int, Segment]]:
        """Return the sealed segments with their numbers."""
        own = None if self.open is None else self.open.segment
        return [(n, each) for n, each in enumerate(list(self._segments)) if each.is_there and n != own]

    def close_files(self) -> None:
        """Close all files but that of the segment that this process writes."""
        self._descriptors.clear()

    def renew_after_fork(self) -> None:
        """Continue in a forked process: replace locks, and leave the segment that the parent writes to the parent."""
        if self._lock.acquire(blocking=False):
            self._lock = RLock()
            self._directories.renew_lock()
            self._descriptors.renew_lock()
            self.give_up()
            self.num_refused = 0
        else:
            # Another thread of the parent was changing it.
            self._forget_all()


def _read_stamp(path: str) -> tuple[int, int, int] | None:
    """Return inode number, size and time of a file; None if there is none."""
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return facts.st_ino, facts.st_size, facts.st_mtime_ns
