"""Putting together what a search found, out of the directories of one or of several segments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from framefeed.cache.store.segment_format import ROW, Rows, halves
from framefeed.cache.store.segment_reader import Directory
from framefeed.cache.stored import MISS, Found, IntArray, Kind


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
