"""View Arrow columns as NumPy arrays without a copy, map their files, and gather rows of many record batches.

Reading one list of numbers through Arrow's scalars costs 39-253 us, through these views 1 us.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from weakref import finalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from framefeed._arrays import AnyArray, IntArray
from framefeed.parallel import raise_shortage


class MappedFile:
    """A file mapped for reading: all processes that map it share its pages.

    Args:
        path: Of a file that is not empty.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        finalize(self, os.close, self._descriptor).atexit = False
        self._mapping = mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ)
        self.buffer = pa.py_buffer(self._mapping)

    def read(self, view: AnyArray) -> AnyArray:
        """Copy a small part of the mapping without touching it: Linux maps up to 2 MB around each touched page.

        Raises:
            ValueError: The file cannot be read, or has become shorter.
            ResourceExhausted: A resource ran out.
        """
        offset = view.ctypes.data - self.buffer.address
        if not 0 <= offset < self.buffer.size:  # Nothing, or a buffer of its own: that of a compressed column.
            return view
        try:
            data = os.pread(self._descriptor, view.nbytes, offset)
        except OSError as error:
            raise_shortage(error, self._path, "index")
            raise ValueError(f"it cannot be read: {error.strerror}") from error
        if len(data) < view.nbytes:
            raise ValueError(f"the file ends after {offset + len(data)} bytes")
        return np.frombuffer(data, view.dtype)

    def release(self) -> None:
        """Unmap the pages from this process; they stay in the system's cache until the next use."""
        if hasattr(self._mapping, "madvise"):
            self._mapping.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True, slots=True)
class Ragged:
    """Rows of different lengths: row r is ``values[offsets[r]:offsets[r + 1]]``.

    Attributes:
        offsets: int64 [R + 1].
        values: All rows one after the other, [V].
        file: Mapped file of both, from which single rows are read; None for arrays in memory.
    """

    offsets: IntArray
    values: AnyArray
    file: MappedFile | None = None

    def row(self, number: int) -> AnyArray:
        """View one row, or read it from the file.

        Raises:
            ValueError: The offsets are outside of the values, as in a damaged file.
        """
        start, stop = self._read(self.offsets[number : number + 2]).tolist()
        if not 0 <= start <= stop <= len(self.values):
            raise ValueError(f"row {number} claims items {start} to {stop} of {len(self.values)}")
        return self._read(self.values[start:stop])

    def _read(self, view: AnyArray) -> AnyArray:
        return view if self.file is None else self.file.read(view)

    def text(self, number: int) -> str:
        """Decode one row of UTF-8 bytes."""
        return self.row(number).tobytes().decode()


def view_numbers(array: pa.Array, dtype: npt.DTypeLike) -> AnyArray:
    """View a column of numbers, [R]; values at nulls are undefined.

    Raises:
        ValueError: The buffer is shorter than the rows that the file claims.
    """
    return _view_buffer(array.buffers()[1], dtype, array.offset, len(array))


def view_ragged(array: pa.Array, dtype: npt.DTypeLike, file: MappedFile | None = None) -> Ragged:
    """View a column of large lists, strings or binaries.

    Args:
        array: The column.
        dtype: Of its items.
        file: As the attribute of `Ragged`.

    Raises:
        ValueError: The buffers are shorter than the rows that the file claims.
    """
    offsets = _view_buffer(array.buffers()[1], np.int64, array.offset, len(array) + 1 if len(array) else 0)
    if pa.types.is_large_list(array.type):
        return Ragged(offsets, view_numbers(array.values, dtype), file)
    data = array.buffers()[2]
    return Ragged(offsets, _view_buffer(data, dtype, 0, (data.size if data else 0) // np.dtype(dtype).itemsize), file)


def _view_buffer(buffer: pa.Buffer | None, dtype: npt.DTypeLike, offset: int, count: int) -> AnyArray:
    if not count or buffer is None:
        if count:
            raise ValueError(f"a column without data claims {count} items")
        return np.empty(0, dtype)
    return np.frombuffer(buffer, dtype, count, offset * np.dtype(dtype).itemsize)


def gather_rows(batches: Sequence[pa.RecordBatch], rows: IntArray, rows_per_batch: int) -> Iterator[pa.RecordBatch]:
    """Copy rows of batches, in the order given.

    ``pa.Table.take`` would join all batches first, and so need as many bytes again as all frame tables.

    Args:
        batches: Of one schema.
        rows: Row numbers over all batches, int64 [N].
        rows_per_batch: Maximum number of rows of a new batch.
    """
    starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
    if len(rows) == starts[-1] and np.array_equal(rows, np.arange(len(rows))):
        yield from batches
        return
    for start in range(0, len(rows), rows_per_batch):
        selected = rows[start : start + rows_per_batch]
        batch_numbers = np.searchsorted(starts, selected, side="right") - 1
        touched = np.unique(batch_numbers)
        # First row of each used batch in the table of used batches.
        offsets = np.zeros(len(starts), dtype=np.int64)
        offsets[touched] = np.cumsum([0, *(batches[number].num_rows for number in touched[:-1])])
        table = pa.Table.from_batches([batches[number] for number in touched])
        local = selected - starts[batch_numbers] + offsets[batch_numbers]
        yield from table.take(pa.array(local)).combine_chunks().to_batches()
