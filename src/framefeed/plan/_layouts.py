"""Lay out the clips of a catalog: the row of each number, in memory that grows with the rows, not with the clips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from framefeed._arrays import IntArray


class Located(NamedTuple):
    """Where some clips are, a list of N integers each."""

    rows: Sequence[int]  # of the catalog
    numbers: Sequence[int]  # of the clip or frame in its video, or of the request
    lines: Sequence[int]  # of the columns


class Layout(Protocol):
    """The clips of a catalog by number."""

    def __len__(self) -> int: ...

    def locate(self, clips: IntArray) -> Located:
        """Find the clips of some numbers in [0, len)."""

    def locate_one(self, clip: int) -> tuple[int, int, int]:
        """Find row, number and line of one clip, as `locate` does: for one, NumPy takes longer than Python."""

    def find_rows(self, clips: IntArray) -> IntArray:
        """Find the rows of the catalog of some clips, int64 [N]."""


@dataclass(frozen=True, slots=True, eq=False)
class VideoClips:
    """The same number of clips of each row, int64 [V]: clip c is clip c % n of video c // n."""

    rows: IntArray
    clips_per_video: int

    def __len__(self) -> int:
        return len(self.rows) * self.clips_per_video

    def locate(self, clips: IntArray) -> Located:
        videos, numbers = np.divmod(clips, self.clips_per_video)
        rows = self.rows[videos].tolist()
        return Located(rows, numbers.tolist(), rows)

    def locate_one(self, clip: int) -> tuple[int, int, int]:
        video, number = divmod(clip, self.clips_per_video)
        row = int(self.rows[video])
        return row, number, row

    def find_rows(self, clips: IntArray) -> IntArray:
        return self.rows[clips // self.clips_per_video]


@dataclass(frozen=True, slots=True, eq=False)
class VideoFrames:
    """Every frame of each row; ``starts`` has the number of each row's first frame, and last their sum, [V + 1]."""

    rows: IntArray
    starts: IntArray

    @classmethod
    def of(cls, rows: IntArray, counts: IntArray) -> VideoFrames:
        """Lay out ``counts`` frames of each row, int64 [V]."""
        return cls(rows, np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)]))

    def __len__(self) -> int:
        return int(self.starts[-1])

    def locate(self, clips: IntArray) -> Located:
        videos = self.starts.searchsorted(clips, side="right") - 1
        rows = self.rows[videos].tolist()
        return Located(rows, (clips - self.starts[videos]).tolist(), rows)

    def locate_one(self, clip: int) -> tuple[int, int, int]:
        video = int(self.starts.searchsorted(clip, side="right")) - 1
        row = int(self.rows[video])
        return row, clip - int(self.starts[video]), row

    def find_rows(self, clips: IntArray) -> IntArray:
        return self.rows[self.starts.searchsorted(clips, side="right") - 1]


@dataclass(frozen=True, slots=True, eq=False)
class RequestRows:
    """The user's own requests, by their rows of the catalog, int64 [R]."""

    rows: IntArray

    def __len__(self) -> int:
        return len(self.rows)

    def locate(self, clips: IntArray) -> Located:
        numbers = clips.tolist()
        return Located(self.rows[clips].tolist(), numbers, numbers)

    def locate_one(self, clip: int) -> tuple[int, int, int]:
        return int(self.rows[clip]), clip, clip

    def find_rows(self, clips: IntArray) -> IntArray:
        return self.rows[clips]


@dataclass(frozen=True, slots=True, eq=False)
class FollowingRows:
    """The clips of a layout, each in the row of another catalog that follows its own, int64 [R]; -1 where none does."""

    leader: Layout
    followers: IntArray

    def __len__(self) -> int:
        return len(self.leader)

    def locate(self, clips: IntArray) -> Located:
        _, numbers, lines = self.leader.locate(clips)
        return Located(self.find_rows(clips).tolist(), numbers, lines)

    def locate_one(self, clip: int) -> tuple[int, int, int]:
        row, number, line = self.leader.locate_one(clip)
        return int(self.followers[row]), number, line

    def find_rows(self, clips: IntArray) -> IntArray:
        return self.followers[self.leader.find_rows(clips)]
