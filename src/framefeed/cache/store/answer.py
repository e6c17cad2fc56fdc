"""Putting together what a search found, row by row out of the directories of several segments."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from framefeed.cache.store.segment_format import ROW, Rows, halves
from framefeed.cache.store.segment_reader import Directory
from framefeed.cache.stored import MISS, Found, IntArray, Kind


class Answer:
    """Where the frames of one stream are, as far as it is known.

    Args:
        key: Of the stream.
        numbers: Of the frames, int64 [N].
    """

    def __init__(self, key: bytes, numbers: IntArray) -> None:
        self._key = key
        self._head, self._tail = halves(key)
        self._numbers = numbers
        self._segment = np.full(len(numbers), MISS, np.int64)
        self._row = np.zeros(len(numbers), np.int64)
        self._rows: Rows = np.zeros(len(numbers), ROW)
        self._kind = np.zeros(len(numbers), np.int64)
        self._kinds: tuple[Kind, ...] = ()
        self._first_kind: dict[int, int] = {}

    @property
    def is_missing(self) -> npt.NDArray[np.bool_]:
        """Which frames were not found so far, bool [N]."""
        missing: npt.NDArray[np.bool_] = self._segment == MISS
        return missing

    def take(self, segment: int, directory: Directory, at: IntArray, rows: IntArray) -> None:
        """Take those rows that are the frames asked for.

        Args:
            segment: Number of the segment.
            directory: Of it.
            at: Which of the frames, int64 [M].
            rows: The rows that may be theirs, int64 [M].
        """
        found = directory.rows.take(rows)
        right = (found["number"] == self._numbers[at]) & (found["head"] == self._head) & (found["tail"] == self._tail)
        if not right.all():
            at, rows, found = at[right], rows[right], found[right]
        if segment not in self._first_kind:
            self._first_kind[segment] = len(self._kinds)
            self._kinds += directory.kinds
        self._segment[at] = segment
        self._row[at] = rows
        self._rows[at] = found
        self._kind[at] = found["kind"] + self._first_kind[segment]

    def found(self) -> Found:
        """Give what was found."""
        names = ("offset", "nbytes", "raw_nbytes", "checksum", "stamp", "content")
        return Found(
            segment=self._segment,
            row=self._row,
            kind=self._kind,
            kinds=self._kinds,
            key=self._key,
            numbers=self._numbers,
            **{name: self._rows[name] for name in names},
        )
