"""Reading rows of frame tables: found by number, decoded when asked for, the last ones kept.

The pages of a mapped file are given back, so that a worker that walks a large catalog stays small.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import accumulate
from threading import RLock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from framefeed.errors import UnreadableMedia
from framefeed.index.arrow_views import AnyArray, Ragged, primitive_view, ragged_view
from framefeed.index.frame_index import FrameIndex, IntArray
from framefeed.index.frame_rows import NUMBER_FIELDS, HeaderClaims, built_from_codes, read_claims, read_index
from framefeed.parallel.forking import renew_after_fork

CACHED_INDEXES = 64
"""FrameIndex objects kept per open file."""
CACHED_BYTES = 128 * 2**20
"""Bytes that these may hold: an index takes about 65 bytes a frame, 14 MB for two hours at 30 frames a second."""

READS_BETWEEN_RELEASES = 16
"""Rows read before the pages of a mapped file are given back: Linux maps 64 KiB around each that is touched."""


NUMBERS = np.dtype([("present", "<i4"), *((name, "<i4") for name in NUMBER_FIELDS)])
"""The numbers of a row that may be asked for of all rows at once; side by side, so that a row is one place to read."""


class MappedFile:
    """A file mapped for reading: all processes that map it share its pages.

    Args:
        path: Of a file that is not empty.
    """

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            self._mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.buffer = pa.py_buffer(self._mapping)

    def release(self) -> None:
        """Take the pages out of this process; they stay in the system's cache, and come back when they are touched."""
        if hasattr(self._mapping, "madvise"):
            self._mapping.madvise(mmap.MADV_DONTNEED)


class RowReader:
    """Finds and reads rows of record batches.

    Args:
        batches: Of the tables' columns.
        name: For messages.
        release: Called now and then, when what was read before is not needed any more.
    """

    def __init__(self, batches: Sequence[pa.RecordBatch], name: str, release: Callable[[], None] | None = None) -> None:
        self._batches = batches
        self._name = name
        self._release = release
        self._starts: list[int] = list(accumulate((batch.num_rows for batch in batches), initial=0))
        self._columns: dict[int, dict[str, Any]] = {}
        self._reads = 0

    def __len__(self) -> int:
        return self._starts[-1]

    def columns(self, batch: int) -> dict[str, Any]:
        """View the columns of a batch.

        Raises:
            UnreadableMedia: The batch is damaged.
        """
        if batch not in self._columns:
            try:
                self._columns[batch] = _views(self._batches[batch])
            except ValueError as error:
                raise self._damaged(f"batch {batch}: {error}") from error
        return self._columns[batch]

    def index(self, row: int) -> FrameIndex | None:
        """Decode the index of a row, if it has one.

        Raises:
            UnreadableMedia: The row is damaged.
        """
        columns, at = self._locate(row)
        present, *values = columns["numbers"][at].item()
        if not present:
            return None
        try:
            numbers = {name: kind(value) for (name, kind), value in zip(NUMBER_FIELDS.items(), values, strict=True)}
            index = read_index(columns["row"].row(at).data, numbers)
        except ValueError as error:  # UsageError of FrameIndex and UnicodeDecodeError are ValueErrors too.
            raise self._damaged(f"row {row}: {error}") from error
        self._reads += 1
        if self._release is not None and self._reads % READS_BETWEEN_RELEASES == 0:
            self._release()
        return index

    def claims(self, row: int) -> HeaderClaims:
        """Read the header's claims of a row.

        Raises:
            UnreadableMedia: The row is damaged.
        """
        columns, at = self._locate(row)
        try:
            return read_claims(columns["row"].row(at).data)
        except ValueError as error:
            raise self._damaged(f"row {row}: {error}") from error

    def built_from(self, batch: int) -> IntArray:
        """Read how the ordinals of each row were found, as ``built_from_codes`` gives it.

        Raises:
            UnreadableMedia: The batch is damaged.
        """
        try:
            return built_from_codes(self.columns(batch)["row"])
        except ValueError as error:
            raise self._damaged(f"batch {batch}: {error}") from error

    def check(self, batch: int) -> None:
        """Check every offset of a batch, so that Arrow may copy rows of it.

        Raises:
            UnreadableMedia: The batch is damaged.
        """
        try:
            self._batches[batch].validate(full=True)
        except pa.ArrowException as error:
            raise self._damaged(f"batch {batch}: {error}") from error

    def _locate(self, row: int) -> tuple[dict[str, Any], int]:
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        batch = bisect_right(self._starts, row) - 1
        return self.columns(batch), row - self._starts[batch]

    def _damaged(self, what: str) -> UnreadableMedia:
        return UnreadableMedia(
            f"{self._name}: damaged frame table, {what}; delete it and index again", source=self._name, stage="index"
        )


def _views(batch: pa.RecordBatch) -> dict[str, AnyArray | Ragged]:
    return {
        "numbers": primitive_view(batch.column("numbers"), NUMBERS),
        "row": ragged_view(batch.column("row"), np.uint8),
    }


class RecentIndexes:
    """The indexes read last, bounded in number and in bytes; for several threads.

    Args:
        read: Reads one.
    """

    def __init__(self, read: Callable[[int], FrameIndex | None]) -> None:
        self._read = read
        self._kept: OrderedDict[int, FrameIndex | None] = OrderedDict()
        self._nbytes = 0
        self._lock = RLock()
        renew_after_fork(self)

    def begin_anew(self) -> None:
        """Replace the lock and forget the indexes: a thread of the parent may have been changing them."""
        self._kept = OrderedDict()
        self._nbytes = 0
        self._lock = RLock()

    def __call__(self, row: int) -> FrameIndex | None:
        """Give the index of a row."""
        with self._lock:
            if row in self._kept:
                self._kept.move_to_end(row)
                return self._kept[row]
        index = self._read(row)
        with self._lock:
            # Another thread may have read the same row: all hold the one that is kept.
            if row in self._kept:
                return self._kept[row]
            self._kept[row] = index
            self._nbytes += _nbytes(index)
            while len(self._kept) > CACHED_INDEXES or (self._nbytes > CACHED_BYTES and len(self._kept) > 1):
                self._nbytes -= _nbytes(self._kept.popitem(last=False)[1])
            return index


def _nbytes(index: FrameIndex | None) -> int:
    if index is None:
        return 0
    packets = index.packets
    arrays: tuple[npt.NDArray[Any], ...] = (
        index.pts, index.duration, index.frame_packet, index.frame_start, index.damaged_frame_indices,
    )  # fmt: skip
    return sum(array.nbytes for array in (*arrays, packets.offset, packets.size, packets.pts, packets.flags))
