"""From the name of a frame to the place of its row, for millions of frames, in a few sorted arrays of plain numbers.

A frame's *spot* is a number of 64 bits made of its stream's key and its number: frames of one stream that follow each
other have spots that do. A *place* says which row of which segment. Spots may collide: a look-up compares the row, and
asks for the other places where it is not the right one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from framefeed.cache.store.segment_format import NO_FRAME, Rows
from framefeed.cache.stored import IntArray, WordArray

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
