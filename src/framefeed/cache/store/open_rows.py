"""The rows of a segment that is being written: found by their names at once, kept until it is sealed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from framefeed.cache.store.segment_format import NO_FRAME, ROW, Rows
from framefeed.cache.store.segment_reader import Directory
from framefeed.cache.stored import Kind


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
