"""Look up the rows of millions of frames in a few sorted arrays of numbers.

A frame's *hash* is a number of 64 bits made of its stream's key and its packet number: consecutive frames of one
stream have consecutive hashes. A *row reference* is a number made of a segment's number and a row in it. Hashes may
collide: a look-up compares the row, and tries the other references of the hash if the row is of another frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from framefeed._arrays import IntArray, WordArray
from framefeed.cache.store._format import MISS, NO_FRAME, ROW, FrameLocations, Kind, Rows, halves
from framefeed.cache.store._segment import Directory

T = TypeVar("T", int, IntArray)

NO_REF = -1
"""Row reference of no row."""
_LAST_HASH = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_ROW_BITS = 32
_GROWTH = 8
"""A level is merged with the next one if that has less than so many times its references."""


def hash_frames(head: int | WordArray, numbers: IntArray) -> WordArray:
    """Hash frames, uint64 [N].

    Args:
        head: First half of their keys, which are hashes already: one for all, or [N].
        numbers: Packet numbers, int64 [N].
    """
    hashes: WordArray = numbers.view(np.uint64) + np.asarray(head, np.uint64)
    return hashes


@dataclass(frozen=True, slots=True, eq=False)
class HashedRows:
    """The frames of a directory.

    Attributes:
        hashes: uint64 [N].
        rows: Numbers of their rows, int64 [N].
    """

    hashes: WordArray
    rows: IntArray

    @classmethod
    def of(cls, rows: Rows) -> HashedRows:
        """Hash the rows that are frames."""
        frames = np.flatnonzero(rows["kind"] != NO_FRAME)
        return cls(hash_frames(rows["head"][frames], rows["number"][frames]), frames)


def make_refs(segment: int, rows: IntArray) -> IntArray:
    """Make references to rows of one segment, [N]."""
    return rows | (segment << _ROW_BITS)


def get_segments(refs: T) -> T:
    """Return the segment numbers of one or several row references; -1 for ``NO_REF``."""
    return refs >> _ROW_BITS


def get_rows(refs: IntArray) -> IntArray:
    """Return the row numbers of row references, [N]."""
    return refs & ((1 << _ROW_BITS) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """Row references sorted by the hash of their frame; of equal hashes, the newest comes first.

    Attributes:
        hashes: [P].
        padded_hashes: The same and one more [P + 1], so that a search past the last hash has an entry.
        refs: [P + 1]; the last one is ``NO_REF``.
    """

    hashes: WordArray
    padded_hashes: WordArray
    refs: IntArray

    @classmethod
    def of(cls, hashes: WordArray, refs: IntArray) -> _Level:
        """Make a level of sorted hashes."""
        padded = np.append(hashes, _LAST_HASH)
        return cls(padded[:-1], padded, np.append(refs, NO_REF))

    @classmethod
    def sorted(cls, hashes: WordArray, refs: IntArray) -> _Level:
        """Make a level of unsorted hashes, the newest first."""
        order = hashes.argsort(kind="stable")
        return cls.of(hashes[order], refs[order])

    @classmethod
    def merged(cls, newer: _Level, older: _Level) -> _Level:
        """Merge two levels."""
        return cls.sorted(
            np.concatenate([newer.hashes, older.hashes]), np.concatenate([newer.refs[:-1], older.refs[:-1]])
        )

    def __len__(self) -> int:
        return len(self.hashes)

    def find_newest(self, hashes: WordArray) -> IntArray:
        at = self.hashes.searchsorted(hashes)
        refs: IntArray = self.refs.take(at)
        padded = self.padded_hashes.take(at)
        # Bytes are compared in a third of the time.
        return refs if padded.tobytes() == hashes.tobytes() else np.where(padded == hashes, refs, NO_REF)

    def find_equal(self, frame_hash: WordArray) -> IntArray:
        return self.refs[self.hashes.searchsorted(frame_hash[0]) : self.hashes.searchsorted(frame_hash[0], "right")]

    def select(self, keep: npt.NDArray[np.bool_]) -> _Level:
        return _Level.of(self.hashes[keep], self.refs[:-1][keep])


class Lookup:
    """Row references by hash.

    One thread at a time may change it. Searching needs no lock, because levels are replaced and never changed, except
    for references that become ``NO_REF``.
    """

    def __init__(self) -> None:
        self._levels: tuple[_Level, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self._levels))

    def add(self, segments: Sequence[tuple[int, HashedRows]]) -> None:
        """Add the frames of segments, the oldest first; they are newer than all before.

        Args:
            segments: (segment number, its frames).
        """
        if segments:
            hashes = np.concatenate([frames.hashes[::-1] for _, frames in reversed(segments)])
            refs = np.concatenate([make_refs(number, frames.rows[::-1]) for number, frames in reversed(segments)])
            levels = [_Level.sorted(hashes, refs), *self._levels]
            while len(levels) > 1 and len(levels[0]) * _GROWTH >= len(levels[1]):
                levels[:2] = [_Level.merged(levels[0], levels[1])]
            self._levels = tuple(levels)

    def find_newest(self, head: int, numbers: IntArray) -> IntArray:
        """Find the newest row of each frame's hash [N], or ``NO_REF``; the row may be of another frame."""
        levels = self._levels
        if not levels:
            return np.full(len(numbers), NO_REF)
        hashes = hash_frames(head, numbers)
        refs = levels[0].find_newest(hashes)
        for level in levels[1:]:
            if min(refs.tolist(), default=0) >= 0:
                break
            refs = np.where(refs < 0, level.find_newest(hashes), refs)
        return refs

    def find_all(self, head: int, number: int) -> Iterator[int]:
        """Yield all row references of a frame's hash, the newest first."""
        frame_hash = hash_frames(head, np.array([number], np.int64))
        for level in self._levels:
            yield from (ref for ref in level.find_equal(frame_hash).tolist() if ref != NO_REF)

    def forget(self, head: int, number: int, ref: int) -> None:
        """Remove one row reference of a frame."""
        frame_hash = hash_frames(head, np.array([number], np.int64))
        for level in self._levels:
            refs = level.find_equal(frame_hash)
            left = refs[refs != ref]
            # A search takes the first, so the others move up.
            refs[: len(left)], refs[len(left) :] = left, NO_REF

    def keep(self, segments: npt.NDArray[np.bool_]) -> None:
        """Remove the references of all segments but those to keep, bool [segments]."""
        kept = []
        for level in self._levels:
            refs = level.refs[:-1]
            kept.append(level.select((refs != NO_REF) & segments[get_segments(refs)]))
        self._levels = tuple(level for level in kept if len(level))


def locate_in_segment(
    key: bytes, numbers: IntArray, segment: int, directory: Directory, row: IntArray
) -> FrameLocations | None:
    """Locate frames that are all in one segment; None if a row is of another frame.

    Args:
        key: Of the stream, 16 bytes.
        numbers: Packet numbers, int64 [N].
        segment: Number of the segment.
        directory: Directory of the segment.
        row: Rows of the frames, int64 [N], at least one.
    """
    first, count = int(row[0]), len(row)
    side_by_side = row.tolist() == list(range(first, first + count))
    rows = directory.rows[first : first + count] if side_by_side else directory.rows.take(row)
    # Bytes are compared and repeated in a fraction of the time of arrays.
    if rows["number"].tobytes() != numbers.tobytes():
        return None
    if rows["head"].tobytes() != key[:8] * count or rows["tail"].tobytes() != key[8:] * count:
        return None
    return FrameLocations(
        segment=np.full(count, segment),
        row=row,
        offset=rows["offset"],
        nbytes=rows["nbytes"],
        raw_nbytes=rows["raw_nbytes"],
        checksum=rows["checksum"],
        stamp=rows["stamp"],
        content=rows["content"],
        kind=rows["kind"].astype(np.int64),
        kinds=directory.kinds,
        key=key,
        numbers=numbers,
    )


class LocationsBuilder:
    """Collects the locations of frames of one stream from several segments.

    Args:
        key: Of the stream, 16 bytes.
        numbers: Packet numbers, int64 [N].
    """

    def __init__(self, key: bytes, numbers: IntArray) -> None:
        self._key = key
        self._numbers = numbers
        count = len(numbers)
        self._segment = np.full(count, MISS)
        self._row = np.zeros(count, np.int64)
        self._rows: Rows = np.zeros(count, ROW)
        self._kind = np.zeros(count, np.int64)
        self._kinds: tuple[Kind, ...] = ()
        self._first_kind: dict[int, int] = {}

    @property
    def is_missing(self) -> npt.NDArray[np.bool_]:
        """Frames without a location so far, bool [N]."""
        missing: npt.NDArray[np.bool_] = self._segment == MISS
        return missing

    def add(self, segment: int, directory: Directory, indices: IntArray, row: IntArray) -> None:
        """Add the locations of those frames whose rows match.

        Args:
            segment: Number of the segment.
            directory: Directory of the segment.
            indices: Indices of the frames, int64 [M].
            row: Rows that may be theirs, int64 [M].
        """
        rows = directory.rows.take(row)
        head, tail = halves(self._key)
        right = (rows["number"] == self._numbers[indices]) & (rows["head"] == head) & (rows["tail"] == tail)
        indices, rows = indices[right], rows[right]
        if segment not in self._first_kind:
            self._first_kind[segment] = len(self._kinds)
            self._kinds += directory.kinds
        self._segment[indices] = segment
        self._row[indices] = row[right]
        self._rows[indices] = rows
        self._kind[indices] = rows["kind"] + self._first_kind[segment]

    def build(self) -> FrameLocations:
        """Return all locations."""
        names = ("offset", "nbytes", "raw_nbytes", "checksum", "stamp", "content")
        return FrameLocations(
            segment=self._segment,
            row=self._row,
            kind=self._kind,
            kinds=self._kinds,
            key=self._key,
            numbers=self._numbers,
            **{name: self._rows[name] for name in names},
        )
