"""View Arrow columns as NumPy arrays without a copy, map their files, and gather rows of many record batches.

Reading one list of numbers through Arrow's scalars costs 39-253 us, through these views 1 us.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from weakref import finalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from framefeed._arrays import AnyArray, IntArray
from framefeed.parallel import raise_shortage


class MappedFile:
    """A file that is not empty, mapped for reading: all processes that map it share its pages."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        finalize(self, os.close, self._descriptor).atexit = False
        self._mapping = mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ)
        self.buffer = pa.py_buffer(self._mapping)

    def read(self, view: AnyArray) -> AnyArray:
        """Copy a small part of the mapping without touching it: Linux maps up to 2 MB around each touched page.

        If the file cannot be read, or has become shorter, that is a ValueError.
        """
        offset = self.find(view)
        return view if offset is None else np.frombuffer(self.read_bytes(offset, view.nbytes), view.dtype)

    def find(self, view: AnyArray) -> int | None:
        """Find where a part of the mapping lies in the file; None for nothing, or a buffer of its own."""
        offset: int = view.ctypes.data - self.buffer.address
        return offset if 0 <= offset < self.buffer.size else None  # A compressed column has a buffer of its own.

    def read_bytes(self, offset: int, count: int) -> bytes:
        """Read bytes of the file as ``read`` does."""
        try:
            data = os.pread(self._descriptor, count, offset)
        except OSError as error:
            raise_shortage(error, self._path, "index")
            raise ValueError(f"it cannot be read: {error.strerror}") from error
        if len(data) < count:
            raise ValueError(f"the file ends after {offset + len(data)} bytes")
        return data

    def release(self) -> None:
        """Unmap the pages from this process; they stay in the system's cache until the next use."""
        if hasattr(self._mapping, "madvise"):
            self._mapping.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True, slots=True)
class Ragged:
    """Rows of different lengths: row r is ``values[offsets[r]:offsets[r + 1]]``."""

    offsets: IntArray  # [R + 1]
    values: AnyArray  # all rows one after the other, [V]
    file: MappedFile | None = None  # of both, from which single rows are read
    file_offsets: tuple[int, int] | None = None  # where offsets and values begin in it; None if not both are in it

    def row(self, number: int) -> AnyArray:
        """View one row, or read it from the file; offsets outside of the values, as of a damaged file: ValueError."""
        if self.file is None or self.file_offsets is None:
            start, stop = self._check(number, *self.offsets[number : number + 2].tolist())
            return self.values[start:stop]
        return np.frombuffer(self._read(number), self.values.dtype)

    def text(self, number: int) -> str:
        """Decode one row of UTF-8 bytes."""
        return (self.row(number).tobytes() if self.file_offsets is None else self._read(number)).decode()

    def _read(self, number: int) -> bytes:
        """Read the bytes of a row from the file."""
        assert self.file is not None and self.file_offsets is not None
        if not 0 <= number < len(self.offsets) - 1:
            raise ValueError(f"there is no row {number} of {len(self.offsets) - 1}")
        # By offsets, as a slice of an array and its address take longer than the read.
        offsets_at, values_at = self.file_offsets
        start, stop = self._check(number, *_PAIR.unpack(self.file.read_bytes(offsets_at + 8 * number, _PAIR.size)))
        size = self.values.itemsize
        return self.file.read_bytes(values_at + size * start, size * (stop - start))

    def _check(self, number: int, start: int, stop: int) -> tuple[int, int]:
        if not 0 <= start <= stop <= len(self.values):
            raise ValueError(f"row {number} claims items {start} to {stop} of {len(self.values)}")
        return start, stop


_PAIR = struct.Struct("<qq")
"""Two offsets."""


def find_odd_text(column: pa.ChunkedArray) -> tuple[int, str] | None:
    """Find the first row with text that is not UTF-8, which Arrow does not check as it reads; None if there is none.

    The text is returned too, with surrogates for its bytes. A column that is damaged in another way is ArrowInvalid.
    """
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF8" not in str(error):
            raise
        for row, value in enumerate(column):
            try:
                value.as_py()
            except UnicodeDecodeError as odd:
                return row, os.fsdecode(odd.object)
            except ValueError:  # Of a time in nanoseconds beside it, which is none in Python.
                continue
    return None


def view_numbers(array: pa.Array, dtype: npt.DTypeLike) -> AnyArray:
    """View a column of numbers, [R]; values at nulls are undefined.

    Raises:
        ValueError: The buffer is shorter than the rows that the file claims.
    """
    return _view_buffer(array.buffers()[1], dtype, array.offset, len(array))


def view_ragged(array: pa.Array, dtype: npt.DTypeLike, file: MappedFile | None = None) -> Ragged:
    """View a column of large lists, strings or binaries, maybe in a mapped file.

    Raises:
        ValueError: The buffers are shorter than the rows that the file claims.
    """
    offsets = _view_buffer(array.buffers()[1], np.int64, array.offset, len(array) + 1 if len(array) else 0)
    if pa.types.is_large_list(array.type):
        values = view_numbers(array.values, dtype)
    else:
        data = array.buffers()[2]
        values = _view_buffer(data, dtype, 0, (data.size if data else 0) // np.dtype(dtype).itemsize)
    at = (None, None) if file is None else (file.find(offsets), file.find(values))
    file_offsets = None if at[0] is None or at[1] is None else (at[0], at[1])
    return Ragged(offsets, values, file, file_offsets)


def _view_buffer(buffer: pa.Buffer | None, dtype: npt.DTypeLike, offset: int, count: int) -> AnyArray:
    if not count or buffer is None:
        if count:
            raise ValueError(f"a column without data claims {count} items")
        return np.empty(0, dtype)
    return np.frombuffer(buffer, dtype, count, offset * np.dtype(dtype).itemsize)


def gather_rows(batches: Sequence[pa.RecordBatch], rows: IntArray, rows_per_batch: int) -> Iterator[pa.RecordBatch]:
    """Copy rows of batches of one schema by their numbers over all batches, in the order given.

    ``pa.Table.take`` would join all batches first, and so need as many bytes again as all frame tables.
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
