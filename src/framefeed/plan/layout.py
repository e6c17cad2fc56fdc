"""Layouts: which clip of which row stands at a place of the unshuffled epoch, in memory that grows with rows only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from framefeed.index.frame_index import IntArray


class Slot(NamedTuple):
    """What stands at one place of the unshuffled epoch.

    Attributes:
        row: Of the catalog.
        number: Which clip, frame or request.
        line: Of the columns that travel beside the clips.
    """

    row: int
    number: int
    line: int


class Layout(Protocol):
    """The unshuffled epoch."""

    def __len__(self) -> int: ...

    def slot(self, place: int) -> Slot:
        """Say what stands at a place in [0, len)."""


@dataclass(frozen=True, slots=True, eq=False)
class VideoClips:
    """The same number of clips of each row, those of a row one after the other.

    Attributes:
        rows: Of the catalog, int64 [V].
        clips_per_video: c; place p is clip p % c of row p // c.
    """

    rows: IntArray
    clips_per_video: int

    def __len__(self) -> int:
        return len(self.rows) * self.clips_per_video

    def slot(self, place: int) -> Slot:
        """Say what stands at a place in [0, len)."""
        video, number = divmod(place, self.clips_per_video)
        row = int(self.rows[video])
        return Slot(row, number, row)


@dataclass(frozen=True, slots=True, eq=False)
class VideoFrames:
    """Every frame of each row.

    Attributes:
        rows: Of the catalog, int64 [V].
        starts: Place of each row's first frame, and after the last row the number of places, int64 [V + 1].
    """

    rows: IntArray
    starts: IntArray

    @classmethod
    def of(cls, rows: IntArray, counts: IntArray) -> VideoFrames:
        """Lay out ``counts`` frames of each row, int64 [V]."""
        return cls(rows, np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)]))

    def __len__(self) -> int:
        return int(self.starts[-1])

    def slot(self, place: int) -> Slot:
        """Say what stands at a place in [0, len)."""
        video = int(self.starts.searchsorted(place, side="right")) - 1
        row = int(self.rows[video])
        return Slot(row, place - int(self.starts[video]), row)


@dataclass(frozen=True, slots=True, eq=False)
class RequestRows:
    """The user's own requests, one a place.

    Attributes:
        rows: Row of the catalog of each request, int64 [R].
    """

    rows: IntArray

    def __len__(self) -> int:
        return len(self.rows)

    def slot(self, place: int) -> Slot:
        """Say what stands at a place in [0, len)."""
        return Slot(int(self.rows[place]), place, place)
