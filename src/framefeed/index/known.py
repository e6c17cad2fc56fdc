"""What is known from before: the old catalog and the journal's pieces, and which of it still holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from framefeed.index.journal import JOURNALED, Piece

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KnownPart:
    """What one run found.

    Attributes:
        facts: Of ``JOURNALED``.
        frames: Batches of frame tables: first a row for each fact with an index, in order.
    """

    facts: pa.Table
    frames: Sequence[pa.RecordBatch]

    @classmethod
    def of(cls, piece: Piece) -> KnownPart:
        """Take a piece of a journal."""
        return cls(pa.Table.from_batches(piece.facts, JOURNALED), piece.frames)


@dataclass(frozen=True)
class Known:
    """Facts of sources with their frame tables.

    Attributes:
        facts: Of ``JOURNALED``; where a source is there twice, the first row counts.
        frames: Batches of frame tables.
        frame_rows: Row in them of each row, int64 [K]; -1 for none.
    """

    facts: pa.Table
    frames: tuple[pa.RecordBatch, ...]
    frame_rows: IntArray

    @classmethod
    def of(cls, parts: Iterable[KnownPart]) -> Known:
        """Put parts together, the most trusted first."""
        tables, frames, rows = [JOURNALED.empty_table()], list[pa.RecordBatch](), list[IntArray]()
        count = 0
        for part in parts:
            tables.append(part.facts)
            frames += part.frames
            frame_rows = numbered(part.facts)
            rows.append(np.where(frame_rows >= 0, frame_rows + count, -1))
            count += sum(batch.num_rows for batch in part.frames)
        return cls(pa.concat_tables(tables), tuple(frames), np.concatenate([np.empty(0, np.int64), *rows]))

    def __len__(self) -> int:
        return int(self.facts.num_rows)

    def match(self, texts: pa.Array, size: IntArray, mtime_ns: IntArray) -> IntArray:
        """Find the rows that still hold.

        Args:
            texts: Sources.
            size: Their bytes now; -1 where they cannot be had.
            mtime_ns: Their modification times now.

        Returns:
            For each source the row that is known of it, if size and time are what they were; else -1. int64 [N].
        """
        sources = self.facts.column("source")
        if len(texts) == len(self) and sources.equals(pa.chunked_array([texts])):
            rows = np.arange(len(self), dtype=np.int64)
        else:
            found = pc.index_in(texts, value_set=sources.combine_chunks())
            rows = found.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        if not len(self):
            return rows
        same = (self._numbers("bytes")[rows] == size) & (self._numbers("mtime_ns")[rows] == mtime_ns)
        return np.where((rows >= 0) & (size >= 0) & same, rows, -1)

    def _numbers(self, name: str) -> IntArray:
        numbers: IntArray = self.facts.column(name).fill_null(np.iinfo(np.int64).min).to_numpy()
        return numbers


def numbered(facts: pa.Table) -> IntArray:
    """Rows in the frame tables that go with facts: one for each row with an index, in order; -1 for the others."""
    there = facts.column("num_key_frames").is_valid().to_numpy()
    return np.where(there, np.cumsum(there) - 1, -1).astype(np.int64)
