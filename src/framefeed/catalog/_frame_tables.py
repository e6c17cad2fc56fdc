"""Store frame indexes as Arrow tables, one row per source, and read them from a mapped file that may be damaged.

Rows are decoded on use, and the last ones are cached. Single rows of a mapped file are read without touching its pages,
so that the memory of a worker that reads a large catalog stays small.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from threading import RLock
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from framefeed._arrays import AnyArray, IntArray
from framefeed._lru import Lru
from framefeed._per_process import PerProcess
from framefeed._units import format_bytes
from framefeed.catalog._arrow import MappedFile, Ragged, gather_rows, view_numbers, view_ragged
from framefeed.catalog._frame_rows import (
    NUMBER_FIELDS,
    NUMBERS,
    HeaderClaims,
    pack_row,
    read_built_from_codes,
    read_claims,
    read_index,
)
from framefeed.catalog._plan_columns import hash_plan_columns
from framefeed.errors import UnreadableMedia, UsageError
from framefeed.index import FrameIndex
from framefeed.parallel import raise_shortage

T = TypeVar("T")

CACHED_INDEXES = 64
"""FrameIndex objects cached per open file."""
CACHED_BYTES = 128 * 2**20
"""Size of these: an index takes about 65 bytes a frame, 14 MB for two hours at 30 frames a second."""


def _count_bytes(index: FrameIndex) -> int:
    packets = index.packets
    arrays: tuple[npt.NDArray[Any], ...] = (
        index.pts, index.duration, index.frame_packet, index.frame_start, index.damaged_frame_indices,
    )  # fmt: skip
    return sum(array.nbytes for array in (*arrays, packets.offset, packets.size, packets.pts, packets.flags))


ROWS_PER_BATCH = 65_536
BYTES_PER_BATCH = 32 * 2**20
"""A batch is closed when it reaches either limit: this bounds the memory of writing a catalog, and the number of
batches that are checked when a file is opened."""

SCHEMA = pa.schema(
    [
        pa.field("numbers", pa.binary(NUMBERS.itemsize), metadata={"fields": ",".join(NUMBERS.names or ())}),
        pa.field("row", pa.large_binary()),
    ]
)
"""Numbers of each stream in fixed columns, to be read of all rows at once, and the rest of a row as bytes."""
_PLAN_COLUMNS = "plan_columns"


class FrameTableBuilder:
    """Converts frame indexes, one by one, to record batches; ``emit`` takes each full one."""

    def __init__(self, emit: Callable[[pa.RecordBatch], None]) -> None:
        self._emit = emit
        self._numbers: list[bytes] = []
        self._rows: list[bytes] = []
        self._bytes = 0

    def append(self, index: FrameIndex, claims: HeaderClaims | None = None) -> None:
        numbers, row = pack_row(index, claims or HeaderClaims())
        self._numbers.append(numbers)
        self._rows.append(row)
        self._bytes += len(row)
        if len(self._rows) >= ROWS_PER_BATCH or self._bytes >= BYTES_PER_BATCH:
            self.finish()

    def finish(self) -> None:
        """Emit the last batch, which is not full."""
        if not self._rows:
            return
        rows = pa.array(self._rows, pa.large_binary())
        self._emit(pa.RecordBatch.from_arrays([pa.array(self._numbers, SCHEMA.types[0]), rows], schema=SCHEMA))
        self._numbers, self._rows, self._bytes = [], [], 0


class _RecentIndexes:
    """The indexes that were read last."""

    def __init__(self) -> None:
        self.indexes = Lru[int, FrameIndex](CACHED_BYTES, _count_bytes, min_count=1, max_count=CACHED_INDEXES)
        self.lock = RLock()


class FrameTables:
    """Frame indexes of many sources in record batches of ``SCHEMA``, in memory or in a mapped file.

    Threads may share it. The indexes that were read last are cached.
    """

    def __init__(
        self, batches: Sequence[pa.RecordBatch], name: str = "frame tables in memory", file: MappedFile | None = None
    ) -> None:
        self._batches = tuple(batches)
        self.name = name
        self.file = file
        self._starts: list[int] = list(accumulate((batch.num_rows for batch in batches), initial=0))
        self._columns: dict[int, tuple[AnyArray, Ragged]] = {}
        self._recent = PerProcess(_RecentIndexes)

    def __len__(self) -> int:
        return self._starts[-1]

    def __repr__(self) -> str:
        return f"FrameTables({len(self)} sources, {format_bytes(self.nbytes)})"

    @property
    def batches(self) -> tuple[pa.RecordBatch, ...]:
        """The batches, checked, so that Arrow may copy rows of them."""
        for number, batch in enumerate(self._batches):
            with self._naming_damage(f"batch {number}"):
                batch.validate(full=True)
        return self._batches

    @property
    def nbytes(self) -> int:
        return sum(batch.nbytes for batch in self._batches)

    def index(self, row: int) -> FrameIndex:
        recent = self._recent.value
        with recent.lock:
            cached = recent.indexes.get(row)
        if cached is not None:
            return cached
        index = self._read(row, read_index)
        with recent.lock:
            # Another thread may have read the same row: all threads share one object.
            cached = recent.indexes.get(row)
            if cached is None:
                recent.indexes.put(row, index)
            return cached or index

    def claims(self, row: int) -> HeaderClaims:
        return self._read(row, read_claims)

    def stream_column(self, name: str) -> IntArray:
        """Read a number of all streams, without reading their frames, int64 [rows].

        It is an int or bool field of StreamFacts, such as "rotation" or "color_space".
        """
        if name not in NUMBER_FIELDS:
            raise UsageError(f"no column {name!r} of numbers in frame tables; they have {', '.join(NUMBER_FIELDS)}")
        return self._join(self._view(number)[0][name] for number in range(len(self._batches)))

    def built_from(self) -> IntArray:
        """Read ``built_from`` of each source as numbers of ``BuiltFrom``, int64 [rows]."""

        def read(number: int) -> IntArray:
            with self._naming_damage(f"batch {number}"):
                return read_built_from_codes(self._view(number)[1])

        return self._join(map(read, range(len(self._batches))))

    def select(self, rows: Iterable[int]) -> FrameTables:
        return FrameTables(list(gather_rows(self.batches, np.fromiter(rows, np.int64), ROWS_PER_BATCH)))

    def _join(self, parts: Iterable[IntArray]) -> IntArray:
        joined = np.concatenate([np.empty(0, np.int64), *parts])
        if self.file is not None:  # The pages that a read of all rows has touched.
            self.file.release()
        return joined

    def _view(self, number: int) -> tuple[AnyArray, Ragged]:
        """View the columns of a batch."""
        if number not in self._columns:
            with self._naming_damage(f"batch {number}"):
                batch = self._batches[number]
                numbers = view_numbers(batch.column("numbers"), NUMBERS)
                self._columns[number] = numbers, view_ragged(batch.column("row"), np.uint8, self.file)
        return self._columns[number]

    def _read(self, row: int, read: Callable[[bytes, memoryview], T]) -> T:
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        batch = bisect_right(self._starts, row) - 1
        (numbers, rows), at = self._view(batch), row - self._starts[batch]
        with self._naming_damage(f"row {row}"):
            selected = numbers[at : at + 1]
            if self.file is not None:
                selected = self.file.read(selected)
            return read(selected.tobytes(), rows.row(at).data)

    @contextmanager
    def _naming_damage(self, what: str) -> Iterator[None]:
        try:
            yield
        except (ValueError, pa.ArrowException) as error:
            # UsageError of FrameIndex and UnicodeDecodeError are ValueErrors too.
            raise_shortage(error, self.name, "index")
            raise UnreadableMedia(
                f"{self.name}: damaged frame table, {what}: {error}; delete it and index again",
                source=self.name,
                stage="index",
            ) from error


def cut_evenly(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut the rows of valid batches into new batches of ``ROWS_PER_BATCH`` or ``BYTES_PER_BATCH``."""
    waiting: list[pa.RecordBatch] = []
    rows = nbytes = 0
    for batch in batches:
        ends = np.cumsum(np.diff(view_ragged(batch.column("row"), np.uint8).offsets))
        start = 0
        while start < batch.num_rows:
            before = int(ends[start - 1]) if start else 0
            # The row with which the batch is full is its last.
            full = int(ends.searchsorted(BYTES_PER_BATCH - nbytes + before)) + 1
            stop = min(batch.num_rows, start + ROWS_PER_BATCH - rows, full)
            waiting.append(batch.slice(start, stop - start))
            rows, nbytes, start = rows + stop - start, nbytes + int(ends[stop - 1]) - before, stop
            if rows >= ROWS_PER_BATCH or nbytes >= BYTES_PER_BATCH:
                yield _join_batches(waiting)
                waiting, rows, nbytes = [], 0, 0
    if waiting:
        yield _join_batches(waiting)


def _join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Copy batches into one with new buffers, so that the bytes of a file do not depend on the old batches."""
    numbers = np.concatenate([view_numbers(batch.column("numbers"), NUMBERS) for batch in batches])
    rows = [view_ragged(batch.column("row"), np.uint8) for batch in batches]
    lengths = np.concatenate([np.diff(each.offsets) for each in rows])
    values = np.concatenate([each.values[each.offsets[0] : each.offsets[-1]] for each in rows])
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    joined = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(lengths), buffers)
    first = pa.FixedSizeBinaryArray.from_buffers(SCHEMA.types[0], len(numbers), [None, pa.py_buffer(numbers)])
    return pa.RecordBatch.from_arrays([first, joined], schema=SCHEMA)


def hash_frame_tables(tables: FrameTables) -> bytes:
    """Hash all rows, independently of the batches."""
    digests = {name: xxhash.xxh3_128(name.encode()) for name in (*SCHEMA.names, "lengths")}
    for batch in tables.batches:
        digests["numbers"].update(view_numbers(batch.column("numbers"), NUMBERS).view(np.uint8).data)
        rows = view_ragged(batch.column("row"), np.uint8)
        digests["lengths"].update(np.diff(rows.offsets).data)
        if batch.num_rows:
            digests["row"].update(rows.values[rows.offsets[0] : rows.offsets[-1]].data)
    return b"".join(digest.digest() for digest in digests.values())


def write_frame_tables(
    path: str, batches: Iterable[pa.RecordBatch], metadata: Mapping[bytes, bytes], plan_columns: pa.StructArray
) -> None:
    """Write batches as an Arrow IPC file and flush it to the disk.

    The columns that plans read of all rows of a catalog become a last batch of one row.
    """
    schema = SCHEMA.append(pa.field(_PLAN_COLUMNS, pa.list_(plan_columns.type)))
    with open(path, "wb") as file:
        checksums = {_PLAN_COLUMNS.encode(): json.dumps(hash_plan_columns(plan_columns)).encode()}
        with pa.ipc.new_file(file, schema.with_metadata({**metadata, **checksums})) as writer:
            for batch in cut_evenly(batches):
                empty = pa.nulls(batch.num_rows, schema.types[-1])
                writer.write_batch(pa.RecordBatch.from_arrays([*batch.columns, empty], schema=schema))
            nulls = [pa.nulls(1, kind) for kind in SCHEMA.types]
            row = pa.ListArray.from_arrays([0, len(plan_columns)], plan_columns)
            writer.write_batch(pa.RecordBatch.from_arrays([*nulls, row], schema=schema))
        file.flush()
        os.fsync(file.fileno())


Opened = tuple[FrameTables, Mapping[bytes, bytes], pa.StructArray, Mapping[str, str]]


def open_frame_tables(path: str) -> Opened:
    """Map an Arrow IPC file: its pages are shared by all processes that open it.

    Returns the tables, the metadata and the columns for plans that they were written with, and the checksums of these
    columns, which are not checked here.
    """
    try:
        return _open_frame_tables(path)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise UnreadableMedia(
            f"{path}: not readable as frame tables: {error}; delete it and index again", source=path, stage="index"
        ) from error


def _open_frame_tables(path: str) -> Opened:
    file = MappedFile(path)
    reader = pa.ipc.open_file(pa.BufferReader(file.buffer))
    schema = pa.schema(list(reader.schema)[:-1])
    is_same = schema.equals(SCHEMA) and schema.field("numbers").metadata == SCHEMA.field("numbers").metadata
    if not is_same or reader.schema.names[-1] != _PLAN_COLUMNS:
        raise ValueError("its columns are not those of this version of framefeed")
    *batches, last = (reader.get_batch(number) for number in range(reader.num_record_batches))
    plan_columns: Any = last.column(_PLAN_COLUMNS)
    if not pa.types.is_list(plan_columns.type) or not pa.types.is_struct(plan_columns.type.value_type):
        raise ValueError("its last batch has no columns for plans")
    tables = FrameTables([batch.select(SCHEMA.names) for batch in batches], path, file)
    metadata = dict(reader.schema.metadata or {})
    checksums = json.loads(metadata.pop(_PLAN_COLUMNS.encode()))
    if not isinstance(checksums, dict):
        raise ValueError("its columns for plans have no checksums")
    return tables, metadata, plan_columns.values, checksums
