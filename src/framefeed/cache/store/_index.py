"""What a process knows of the segments in a folder: which there are, and what is in them.

Directories of segments in memory: those used last, within a number of bytes.

The rows of a segment that is being written: found by their names at once, kept until it is sealed.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock, RLock
from time import monotonic

import numpy as np

from framefeed._arrays import IntArray
from framefeed.cache.store._files import Descriptor, Descriptors
from framefeed.cache.store._folder import Folder
from framefeed.cache.store._format import NO_FRAME, ROW, Found, Kind, Refused, Rows, halves
from framefeed.cache.store._lookup import (
    NOWHERE,
    Answer,
    Lookup,
    Spotted,
    Wanted,
    answer_of_one,
    places_of,
    rows_of,
    segment_of,
    segments_of,
)
from framefeed.cache.store._segment import Directory, read_directory
from framefeed.parallel import shortage_in

MOST_BYTES = 64 << 20


class Directories:
    """Those used last, by the number of their segment."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, Directory] = OrderedDict()
        self._nbytes = 0
        self._lock = Lock()

    def get(self, segment: int) -> Directory | None:
        """Give that of a segment, if it is there."""
        with self._lock:
            found = self._kept.get(segment)
            if found is not None:
                self._kept.move_to_end(segment)
            return found

    def put(self, segment: int, directory: Directory) -> None:
        """Keep one."""
        with self._lock:
            self._take_out(segment)
            self._kept[segment] = directory
            self._nbytes += directory.nbytes
            while self._nbytes > MOST_BYTES and len(self._kept) > 1:
                self._take_out(next(iter(self._kept)))

    def drop(self, segment: int) -> None:
        """Release one."""
        with self._lock:
            self._take_out(segment)

    def clear(self) -> None:
        """Release all."""
        with self._lock:
            self._kept.clear()
            self._nbytes = 0

    def renew_lock(self) -> None:
        """After a fork: another thread of the parent may have held it."""
        self._lock = Lock()

    def _take_out(self, segment: int) -> None:
        directory = self._kept.pop(segment, None)
        if directory is not None:
            self._nbytes -= directory.nbytes


class OpenRows:
    """Rows that grow; one thread appends, others search.

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
        """Put in the rows of a clip.

        Args:
            key: Of the stream.
            rows: ``ROW`` [N].
            kinds: Of the segment so far.
        """
        first, last = self._num_rows, self._num_rows + len(rows)
        if last > len(self._rows):
            # A search that goes on meanwhile keeps the array it has.
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
        """Whether there is a frame of a stream."""
        return key in self._streams

    def find(self, key: bytes, numbers: Sequence[int]) -> list[int]:
        """Give the row of each frame [N], or -1."""
        stream = self._streams.get(key, {})
        return [stream.get(number, -1) for number in numbers]

    def forget(self, key: bytes, number: int) -> None:
        """Let a frame be found no more."""
        self._streams.get(key, {}).pop(number, None)

    def directory(self) -> Directory:
        """View what the segment would say of itself if it were sealed now."""
        return Directory(self._rows[: self._num_rows], self._kinds, 0, "")

    def sealed(self, checksum: str) -> Directory:
        """Give what it says, now that it is sealed.

        Args:
            checksum: Of the directory as it was written.
        """
        return Directory(self._rows[: self._num_rows].copy(), self._kinds, 0, checksum)


_SETTLED_SECONDS = 0.05
"""A folder's time is no finer than the kernel's clock, 10 ms at most: a file that comes right after the folder was
listed may leave no mark. So it is listed once more after this long."""


@dataclass(slots=True, eq=False)
class Segment:
    """One that this process knows; its number is its place in the list of all.

    Attributes:
        name: Of its file once sealed.
        checksum: Of its directory; a file that comes under the same name with another is not the one.
        is_there: Whether its frames may be found.
    """

    name: str
    checksum: str
    is_there: bool = True


class KnownSegments:
    """Sealed segments, and the one that this process writes.

    Searching and reading may go on in several threads while one changes what is known.

    Args:
        folder: Where they are.

    Attributes:
        open: Rows of the segment that this process writes.
        refused: File name -> why it cannot be used.
        num_refused: How many files were refused so far.
        newest: Greatest time of creation of a segment so far.
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
        self._looks: dict[str, tuple[int, int, int]] = {}

    def find(self, key: bytes, numbers: IntArray) -> Found:
        """Find frames of one stream among what is known.

        Args:
            key: Of the stream, 16 bytes.
            numbers: Of the frames, int64 [N].
        """
        wanted = Wanted(key, numbers)
        places = self._lookup.newest(halves(key)[0], numbers)
        opened = self.open
        if opened is not None and opened.has(key):
            rows = np.array(opened.find(key, numbers.tolist()), np.int64)
            places = np.where(rows >= 0, places_of(opened.segment, rows), places)
        return self._find_in_one(wanted, places) or self._find_in_many(wanted, places)

    def _find_in_one(self, wanted: Wanted, places: IntArray) -> Found | None:
        listed = places.tolist()
        segment = segment_of(min(listed, default=NOWHERE))
        if segment < 0 or segment != segment_of(max(listed)):
            return None
        directory = self.directory(segment)
        return None if directory is None else answer_of_one(wanted, segment, directory, rows_of(places))

    def _find_in_many(self, wanted: Wanted, places: IntArray) -> Found:
        answer = Answer(wanted)
        head, _ = halves(wanted.key)
        if max(places.tolist(), default=NOWHERE) != NOWHERE:
            self._take(answer, places, np.arange(len(places)))
            for at in np.flatnonzero(answer.is_missing & (places != NOWHERE)).tolist():
                for place in self._lookup.all_at(head, int(wanted.numbers[at])):
                    self._take(answer, np.array([place]), np.array([at]))
                    if not answer.is_missing[at]:
                        break
        return answer.found()

    def _take(self, answer: Answer, places: IntArray, at: IntArray) -> None:
        segments = segments_of(places)
        for segment in set(segments.tolist()) - {NOWHERE}:
            directory = self.directory(segment)
            if directory is not None:
                mine = np.flatnonzero(segments == segment)
                answer.take(segment, directory, at[mine], rows_of(places[mine]))

    def directory(self, segment: int) -> Directory | None:
        """Give the directory of a segment; None where it is not to be had.

        Raises:
            OSError: Something ran out, which says nothing about the segment.
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
            if shortage_in(error) is not None:
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
        """Give an open file of a segment; None where it is not to be had.

        Raises:
            OSError: Something ran out, which says nothing about the segment.
        """
        opened = self.open
        if opened is not None and opened.segment == segment:
            return self._held
        found = self._descriptors.get(segment)
        if found is None and segment >= 0 and self._segments[segment].is_there:
            try:
                found = Descriptor(self._folder.open_segment(self._segments[segment].name))
            except (Refused, FileNotFoundError):
                self._lose(segment)
                return None
            except OSError as error:
                if shortage_in(error) is not None:
                    raise
                return None
            self._descriptors.put(segment, found)
        return found

    def refresh(self, thorough: bool) -> bool:
        """See what came and went, if the folder changed.

        Args:
            thorough: Look again even where it changed so recently that its time would not tell.

        Returns:
            Whether anything came or went.

        Raises:
            OSError: Something ran out; what was known stays known, and the next call looks again.
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
            if shortage_in(error) is not None:
                raise
            return False
        own = None if self.open is None else self._segments[self.open.segment].name
        gone = {self._numbers[name] for name in self._numbers.keys() - names - {own}}
        self._abandon(gone)
        for name in self.refused.keys() - names:
            del self.refused[name]
        loaded = []
        for name in names - self._numbers.keys():
            directory = self._directory_of(name)
            if directory is not None:
                loaded.append((directory.created, name, directory.checksum, Spotted.of(directory.rows)))
        loaded.sort(key=lambda each: each[:2])
        added = []
        for created, name, checksum, frames in loaded:
            added.append((self._register(Segment(name, checksum)), frames))
            self.newest = max(self.newest, created)
        self._lookup.add(added)
        return bool(added or gone)

    def _directory_of(self, name: str) -> Directory | None:
        # One that was refused is looked at again when it has changed: it may be on its way.
        look = _look(self._folder.file(name)) if name in self.refused else None
        if look is not None and self._looks.get(name) == look:
            return None
        try:
            descriptor = Descriptor(self._folder.open_segment(name))
            directory = read_directory(descriptor.number)
        except OSError as error:
            if shortage_in(error) is not None:
                raise
            self._refuse(name, error.strerror or str(error))
            return None
        except Refused as refused:
            if look is not None:
                self._looks[name] = look
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
        """Take note of a segment that this process begins to write.

        Args:
            name: That it will have.
            descriptor: Of its file.
        """
        with self._lock:
            self._held = descriptor
            self.open = OpenRows(self._register(Segment(name, "")))
            return self.open

    def settle(self, checksum: str) -> None:
        """The segment that this process wrote is sealed."""
        with self._lock:
            opened = self.open
            if opened is None:
                return
            directory = opened.sealed(checksum)
            self._segments[opened.segment].checksum = checksum
            self._lookup.add([(opened.segment, Spotted.of(directory.rows))])
            self._directories.put(opened.segment, directory)
            self.open = self._held = None

    def give_up(self) -> None:
        """The segment that this process wrote will not be; also in a child, where it is the parent's."""
        with self._lock:
            opened = self.open
            self.open = self._held = None
            if opened is not None:
                self._cross_out(opened.segment)

    def _lose(self, segment: int) -> None:
        """A segment is gone, or not what it was."""
        with self._lock:
            if self._segments[segment].is_there:
                self._abandon({segment})
                # The folder may look as before.
                self._is_settled = False

    def _abandon(self, segments: set[int]) -> None:
        for number in segments:
            self._cross_out(number)
        if segments:
            self._lookup.keep(np.array([segment.is_there for segment in self._segments], bool))

    def _cross_out(self, number: int) -> None:
        segment = self._segments[number]
        segment.is_there = False
        self._numbers.pop(segment.name, None)
        self._directories.drop(number)
        self._descriptors.drop(number)

    def forget(self, key: bytes, number: int, segment: int, row: int) -> None:
        """A frame is not what it was: do not find it there any more."""
        with self._lock:
            opened = self.open
            if opened is not None and opened.segment == segment:
                opened.forget(key, number)
            place = int(places_of(segment, np.array([row]))[0])
            self._lookup.forget(halves(key)[0], number, place)

    def sealed(self) -> list[tuple[int, Segment]]:
        """Give the sealed segments with their numbers."""
        own = None if self.open is None else self.open.segment
        return [(n, each) for n, each in enumerate(list(self._segments)) if each.is_there and n != own]

    def close_files(self) -> None:
        """Close all files but that of the segment that this process writes."""
        self._descriptors.clear()

    def renew_after_fork(self) -> None:
        """In a child: no thread but this one is left, and what the parent writes is none of its business."""
        if self._lock.acquire(blocking=False):
            self._lock = RLock()
            self._directories.renew_lock()
            self._descriptors.renew_lock()
            self.give_up()
            self.num_refused = 0
        else:
            # Another thread was in the middle of a change.
            self._forget_all()


def _look(path: str) -> tuple[int, int, int] | None:
    """What changes when a file does; None where there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
