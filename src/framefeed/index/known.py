"""What is known from before: the old catalog and the journal's pieces, and which of it still holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from framefeed.index.facts import numbered
from framefeed.index.journal import JOURNALED, Piece
from framefeed.index.still_rows import SURVEYED

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KnownPart:
    """What one run found.

    Attributes:
        column: Gives a column of ``JOURNALED``, read when it is asked for.
        num_rows: Number of rows.
        frames: Batches of frame tables: first a row for each source with an index, in order.
    """

    column: Callable[[str], pa.ChunkedArray]
    num_rows: int
    frames: Sequence[pa.RecordBatch]

    @classmethod
    def of(cls, piece: Piece) -> KnownPart:
        """Take a piece of a journal."""
        facts = pa.Table.from_batches(piece.facts, JOURNALED)
        return cls(facts.column, facts.num_rows, piece.frames)


class Known:
    """Facts of sources with their frame tables, the most trusted first: where a source is there twice, that row counts.

    Args:
        parts: What earlier runs found.
    """

    def __init__(self, parts: Sequence[KnownPart]) -> None:
        self._parts = [part for part in parts if part.num_rows]
        self._num_rows = sum(part.num_rows for part in self._parts)

    def __len__(self) -> int:
        return self._num_rows

    def column(self, name: str) -> pa.ChunkedArray:
        """Read a column of ``JOURNALED``."""
        chunks = [chunk for part in self._parts for chunk in part.column(name).chunks]
        return pa.chunked_array(chunks, JOURNALED.field(name).type)

    @property
    def facts(self) -> pa.Table:
        """All columns but the source."""
        return pa.table({name: self.column(name) for name in SURVEYED.names}, SURVEYED)

    @property
    def frames(self) -> list[pa.RecordBatch]:
        """Batches of frame tables."""
        return [batch for part in self._parts for batch in part.frames]

    @property
    def frame_rows(self) -> IntArray:
        """Row in the frame tables of each row, int64 [K]; -1 for none."""
        rows, count = [np.empty(0, np.int64)], 0
        for part in self._parts:
            of_part = frame_rows_of(part.column("num_key_frames"))
            rows.append(np.where(of_part >= 0, of_part + count, -1))
            count += sum(batch.num_rows for batch in part.frames)
        return np.concatenate(rows)

    def match(self, texts: pa.Array, size: IntArray, mtime_ns: IntArray) -> IntArray:
        """Find the rows that still hold.

        Args:
            texts: Sources.
            size: Their bytes now; -1 where they cannot be had.
            mtime_ns: Their modification times now.

        Returns:
            For each source the row that is known of it, if size and time are what they were; else -1. int64 [N].
        """
        sources = self.column("source")
        if len(texts) == len(self) and sources.equals(pa.chunked_array([texts])):
            rows = np.arange(len(self), dtype=np.int64)
        else:
            found = pc.index_in(texts, value_set=sources.combine_chunks())
            rows = found.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        if not len(self):
            return rows
        same = (self._numbers("bytes")[rows] == size) & (self._numbers("mtime_ns")[rows] == mtime_ns)
        return np.where((rows >= 0) & (size >= 0) & same, rows, -1)

    def others(self, texts: pa.Array) -> int:
        """How many known rows are of sources that are not among ``texts``."""
        if not len(self):
            return 0
        return len(self) - int(pc.sum(pc.is_in(self.column("source"), value_set=texts)).as_py())

    def _numbers(self, name: str) -> IntArray:
        numbers: IntArray = self.column(name).fill_null(np.iinfo(np.int64).min).to_numpy()
        return numbers


def frame_rows_of(num_key_frames: pa.ChunkedArray) -> IntArray:
    """Rows in the frame tables that go with facts: one for each row with an index, in order; -1 for the others."""
    return numbered(num_key_frames.is_valid().to_numpy())
