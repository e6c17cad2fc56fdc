"""Rows of many record batches in a new order, a batch at a time: what is not touched is not copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

IntArray = npt.NDArray[np.int64]


def gathered(batches: Sequence[pa.RecordBatch], rows: IntArray, rows_per_batch: int) -> Iterator[pa.RecordBatch]:
    """Give rows of batches in the order asked for.

    A table's own ``take`` would join all batches first: as many bytes again as there are frame tables.

    Args:
        batches: Of one schema.
        rows: Row numbers over all batches, int64 [N].
        rows_per_batch: Most rows of a batch that is made.
    """
    starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
    if len(rows) == starts[-1] and np.array_equal(rows, np.arange(len(rows))):
        yield from batches
        return
    for start in range(0, len(rows), rows_per_batch):
        wanted = rows[start : start + rows_per_batch]
        places = np.searchsorted(starts, wanted, side="right") - 1
        touched = np.unique(places)
        # Where each touched batch begins in the table of the touched ones alone.
        offsets = np.zeros(len(starts), dtype=np.int64)
        offsets[touched] = np.cumsum([0, *(batches[place].num_rows for place in touched[:-1])])
        table = pa.Table.from_batches([batches[place] for place in touched])
        local = wanted - starts[places] + offsets[places]
        yield from table.take(pa.array(local)).combine_chunks().to_batches()
