"""Rows of tables by position, and the rows and pad masks of clips: arithmetic over episodes, for many rows at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from framefeed._arrays import AnyArray, BoolArray, IntArray
from framefeed.catalog import ListColumn
from framefeed.plan import Located


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Rows of episodes: ``starts`` has the first row of each, and last the number of rows, int64 [E + 1]."""

    starts: IntArray

    def find_episodes(self, rows: IntArray) -> IntArray:
        """Find the episode of each row, int64 [N]."""
        return self.starts.searchsorted(rows, side="right") - 1

    def clamp(self, rows: IntArray, deltas: IntArray) -> tuple[IntArray, BoolArray]:
        """Add deltas [T] to rows [N], and clamp them to the episode: rows, int64 [N, T]; and which were clamped."""
        episodes = self.find_episodes(rows)
        first, last = self.starts[episodes][:, np.newaxis], self.starts[episodes + 1][:, np.newaxis] - 1
        moved = rows[:, np.newaxis] + deltas
        clamped = np.clip(moved, first, last)
        return clamped, clamped != moved


@dataclass(frozen=True, slots=True, eq=False)
class ChosenRows:
    """The rows of some episodes, by position; also the layout of a camera that is videos."""

    firsts: IntArray  # first row of each chosen episode, int64 [C], ascending
    positions: IntArray  # position of it, and last the number of positions, int64 [C + 1]
    files: IntArray  # row of the camera's catalog of each chosen episode, int64 [C]

    @classmethod
    def of(cls, starts: IntArray, chosen: IntArray, files: IntArray | None = None) -> ChosenRows:
        """Number the rows of chosen episodes, int64 [C], ascending; ``starts`` is that of `Spans`."""
        firsts, lengths = starts[chosen], starts[chosen + 1] - starts[chosen]
        is_long = lengths > 0
        firsts, lengths = firsts[is_long], lengths[is_long]
        positions = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
        return cls(firsts, positions, np.zeros_like(firsts) if files is None else files[is_long])

    def __len__(self) -> int:
        return int(self.positions[-1])

    def find_table_rows(self, positions: IntArray) -> IntArray:
        """Find the row of the tables at each position, int64 [N]."""
        numbers = self.positions.searchsorted(positions, side="right") - 1
        return self.firsts[numbers] + positions - self.positions[numbers]

    def find_rows(self, clips: IntArray) -> IntArray:
        return self.files[self.positions.searchsorted(clips, side="right") - 1]

    def locate_one(self, clip: int) -> tuple[int, int, int]:
        number = int(self.positions.searchsorted(clip, side="right")) - 1
        row = int(self.firsts[number]) + clip - int(self.positions[number])
        return int(self.files[number]), row, row

    def locate(self, clips: IntArray) -> Located:
        rows = self.find_table_rows(clips).tolist()
        return Located(self.find_rows(clips).tolist(), rows, rows)


@dataclass(frozen=True, slots=True, eq=False)
class PictureRows:
    """The layout of a camera that is pictures in the tables: the catalog has a row for each clip.

    ``delta`` is the rows from that of the clip to that of the picture.
    """

    rows: ChosenRows
    delta: int

    def __len__(self) -> int:
        return len(self.rows)

    def find_rows(self, clips: IntArray) -> IntArray:
        # Positions of an episode follow one another as its rows do.
        return Spans(self.rows.positions).clamp(clips, np.array([self.delta], np.int64))[0][:, 0]

    def locate_one(self, clip: int) -> tuple[int, int, int]:
        (row,), (number,), (line,) = self.locate(np.array([clip], np.int64))
        return row, number, line

    def locate(self, clips: IntArray) -> Located:
        rows = self.rows.find_table_rows(clips).tolist()
        return Located(self.find_rows(clips).tolist(), rows, rows)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DeltaColumn(ListColumn):
    """A column of the values at some rows beside each row, clamped to the episode: [R, T, ...]."""

    spans: Spans
    deltas: IntArray

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.values), len(self.deltas), *self.values.shape[1:])

    def __getitem__(self, lines: int | IntArray) -> AnyArray:
        """Gather the values beside a row, [T, ...], or beside some rows, [N, T, ...]."""
        rows, _ = self.spans.clamp(np.atleast_1d(np.asarray(lines, np.int64)), self.deltas)
        gathered: AnyArray = np.array(self.values[rows])
        return gathered if isinstance(lines, np.ndarray) else gathered[0]


@dataclass(frozen=True, slots=True, eq=False)
class PadColumn:
    """The column that says which values of a `DeltaColumn` are of a clamped row: bool [R, T]."""

    spans: Spans
    deltas: IntArray

    @property
    def dtype(self) -> np.dtype[np.bool_]:
        return np.dtype(np.bool_)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), len(self.deltas))

    def __len__(self) -> int:
        return int(self.spans.starts[-1])

    def __getitem__(self, lines: int | IntArray) -> BoolArray:
        """Tell which rows beside a row are clamped, [T], or beside some rows, [N, T]."""
        _, is_pad = self.spans.clamp(np.atleast_1d(np.asarray(lines, np.int64)), self.deltas)
        return is_pad if isinstance(lines, np.ndarray) else is_pad[0]
