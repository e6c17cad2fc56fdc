"""From the name of a frame to the place of its row, for millions of frames, in a few sorted arrays of plain numbers.

A frame's *spot* is a number of 64 bits made of its stream's key and its number: frames of one stream that follow each
other have spots that do. A *place* says which row of which segment. Spots may collide: a look-up compares the row, and
asks for the other places where it is not the right one.

Putting together what a search found, out of the directories of one or of several segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from framefeed._arrays import IntArray, WordArray
from framefeed.cache.store._format import MISS, NO_FRAME, ROW, Found, Kind, Rows, halves
from framefeed.cache.store._segment import Directory

NOWHERE = -1
_END = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_ROW_BITS = 32
_GROWTH = 8
"""A level is merged with the next where that one has less than so many times its places."""


def spots_of(head: int | WordArray, numbers: IntArray) -> WordArray:
    """Where frames stand in the order of all.

    Args:
        head: First half of their keys, which are hashes already: one of all, or [N].
        numbers: Of the frames, int64 [N].
    """
    spots: WordArray = numbers.view(np.uint64) + np.asarray(head, np.uint64)
    return spots


@dataclass(frozen=True, slots=True, eq=False)
class Spotted:
    """The frames of a directory.

    Attributes:
        spots: uint64 [N].
        rows: Their numbers, int64 [N].
    """

    spots: WordArray
    rows: IntArray

    @classmethod
    def of(cls, rows: Rows) -> Spotted:
        """Leave out what is no frame."""
        frames = np.flatnonzero(rows["kind"] != NO_FRAME)
        return cls(spots_of(rows["head"][frames], rows["number"][frames]), frames)


def places_of(segment: int, rows: IntArray) -> IntArray:
    """Places of rows of one segment, [N]."""
    return rows | (segment << _ROW_BITS)


def segment_of(place: int) -> int:
    """Number of the segment of a place; -1 of ``NOWHERE``."""
    return place >> _ROW_BITS


def segments_of(places: IntArray) -> IntArray:
    """Numbers of the segments of places, [N]; -1 of ``NOWHERE``."""
    return places >> _ROW_BITS


def rows_of(places: IntArray) -> IntArray:
    """Numbers of the rows of places in their segments, [N]."""
    return places & ((1 << _ROW_BITS) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """Places in the order of their spots, of equal spots the newest first.

    Attributes:
        spots: [P].
        ended: The same and one more [P + 1], so that a search that ends behind all spots ends at something,
        places: which is nowhere [P + 1].
    """

    spots: WordArray
    ended: WordArray
    places: IntArray

    @classmethod
    def of(cls, spots: WordArray, places: IntArray) -> _Level:
        """Make a level of what is in order."""
        ended = np.append(spots, _END)
        return cls(ended[:-1], ended, np.append(places, NOWHERE))

    @classmethod
    def sorted(cls, spots: WordArray, places: IntArray) -> _Level:
        """Sort places that come the newest first."""
        order = spots.argsort(kind="stable")
        return cls.of(spots[order], places[order])

    @classmethod
    def merged(cls, newer: _Level, older: _Level) -> _Level:
        """Make one of two."""
        return cls.sorted(
            np.concatenate([newer.spots, older.spots]), np.concatenate([newer.places[:-1], older.places[:-1]])
        )

    def __len__(self) -> int:
        return len(self.spots)

    def newest(self, spots: WordArray) -> IntArray:
        at = self.spots.searchsorted(spots)
        places: IntArray = self.places.take(at)
        there = self.ended.take(at)
        # Bytes are compared in a third of the time.
        return places if there.tobytes() == spots.tobytes() else np.where(there == spots, places, NOWHERE)

    def equal(self, spot: WordArray) -> IntArray:
        return self.places[self.spots.searchsorted(spot[0]) : self.spots.searchsorted(spot[0], "right")]

    def only(self, keep: npt.NDArray[np.bool_]) -> _Level:
        return _Level.of(self.spots[keep], self.places[:-1][keep])


class Lookup:
    """Places by spot.

    One thread at a time may change what there is; searching needs no lock, because levels are replaced, and never
    changed but for places that become ``NOWHERE``.
    """

    def __init__(self) -> None:
        self._levels: tuple[_Level, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self._levels))

    def add(self, segments: Sequence[tuple[int, Spotted]]) -> None:
        """Put in the frames of segments, the oldest first; they are newer than all before.

        Args:
            segments: (number, its frames).
        """
        if segments:
            spots = np.concatenate([frames.spots[::-1] for _, frames in reversed(segments)])
            places = np.concatenate([places_of(number, frames.rows[::-1]) for number, frames in reversed(segments)])
            self._push(_Level.sorted(spots, places))

    def newest(self, head: int, numbers: IntArray) -> IntArray:
        """Give the newest place of each frame's spot [N], or ``NOWHERE``: the frame may be there, or another."""
        levels = self._levels
        if not levels:
            return np.full(len(numbers), NOWHERE)
        spots = spots_of(head, numbers)
        places = levels[0].newest(spots)
        for level in levels[1:]:
            if min(places.tolist(), default=0) >= 0:
                break
            places = np.where(places < 0, level.newest(spots), places)
        return places

    def all_at(self, head: int, number: int) -> Iterator[int]:
        """Give all places of a frame's spot, the newest first."""
        spot = spots_of(head, np.array([number], np.int64))
        for level in self._levels:
            yield from (place for place in level.equal(spot).tolist() if place != NOWHERE)

    def forget(self, head: int, number: int, place: int) -> None:
        """Take out one place of a frame."""
        spot = spots_of(head, np.array([number], np.int64))
        for level in self._levels:
            places = level.equal(spot)
            left = places[places != place]
            # A search looks at the first: the others close up.
            places[: len(left)], places[len(left) :] = left, NOWHERE

    def keep(self, segments: npt.NDArray[np.bool_]) -> None:
        """Take out all places of the segments that are not to be kept, bool [segments]."""
        kept = []
        for level in self._levels:
            places = level.places[:-1]
            kept.append(level.only((places != NOWHERE) & segments[segments_of(places)]))
        self._levels = tuple(level for level in kept if len(level))

    def _push(self, level: _Level) -> None:
        levels = [level, *self._levels]
        while len(levels) > 1 and len(levels[0]) * _GROWTH >= len(levels[1]):
            levels[:2] = [_Level.merged(levels[0], levels[1])]
        self._levels = tuple(levels)


class Wanted(NamedTuple):
    """Frames of one stream.

    Attributes:
        key: Of the stream, 16 bytes.
        numbers: Of the frames, int64 [N].
    """

    key: bytes
    numbers: IntArray


def answer_of_one(wanted: Wanted, segment: int, directory: Directory, row: IntArray) -> Found | None:
    """Give the answer where all frames are in one segment; None where a row is not the frame that was asked for.

    Args:
        wanted: The frames.
        segment: Number of the segment.
        directory: Of it.
        row: Their rows, int64 [N], at least one.
    """
    first, count = int(row[0]), len(row)
    side_by_side = row.tolist() == list(range(first, first + count))
    rows = directory.rows[first : first + count] if side_by_side else directory.rows.take(row)
    # Bytes are compared and repeated in a fraction of the time of arrays.
    key, numbers = wanted.key, wanted.numbers
    if rows["number"].tobytes() != numbers.tobytes():
        return None
    if rows["head"].tobytes() != key[:8] * count or rows["tail"].tobytes() != key[8:] * count:
        return None
    return Found(
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


class Answer:
    """Where the frames of one stream are, as far as it is known.

    Args:
        wanted: The frames.
    """

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        count = len(wanted.numbers)
        self._segment = np.full(count, MISS)
        self._row = np.zeros(count, np.int64)
        self._rows: Rows = np.zeros(count, ROW)
        self._kind = np.zeros(count, np.int64)
        self._kinds: tuple[Kind, ...] = ()
        self._first_kind: dict[int, int] = {}

    @property
    def is_missing(self) -> npt.NDArray[np.bool_]:
        """Which frames were not found so far, bool [N]."""
        missing: npt.NDArray[np.bool_] = self._segment == MISS
        return missing

    def take(self, segment: int, directory: Directory, at: IntArray, row: IntArray) -> None:
        """Take those rows that are the frames asked for.

        Args:
            segment: Number of the segment.
            directory: Of it.
            at: Which of the frames, int64 [M].
            row: The rows that may be theirs, int64 [M].
        """
        rows = directory.rows.take(row)
        head, tail = halves(self._wanted.key)
        right = (rows["number"] == self._wanted.numbers[at]) & (rows["head"] == head) & (rows["tail"] == tail)
        at, rows = at[right], rows[right]
        if segment not in self._first_kind:
            self._first_kind[segment] = len(self._kinds)
            self._kinds += directory.kinds
        self._segment[at] = segment
        self._row[at] = row[right]
        self._rows[at] = rows
        self._kind[at] = rows["kind"] + self._first_kind[segment]

    def found(self) -> Found:
        """Give what was found."""
        names = ("offset", "nbytes", "raw_nbytes", "checksum", "stamp", "content")
        return Found(
            segment=self._segment,
            row=self._row,
            kind=self._kind,
            kinds=self._kinds,
            key=self._wanted.key,
            numbers=self._wanted.numbers,
            **{name: self._rows[name] for name in names},
        )
