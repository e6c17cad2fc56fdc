"""Frame indexes as Arrow tables: one row a source, exact both ways, read out of a mapped file and without trust."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from framefeed.errors import UnreadableMedia, UsageError
from framefeed.index.arrow_views import primitive_view, ragged_view
from framefeed.index.frame_index import FrameIndex, IntArray
from framefeed.index.frame_reading import NUMBERS, MappedFile, RecentIndexes, RowReader
from framefeed.index.frame_rows import NUMBER_FIELDS, HeaderClaims, row_bytes
from framefeed.index.gathering import gathered
from framefeed.parallel.shortage import try_again_in_shortage

__all__ = [
    "SCHEMA",
    "FrameTableBuilder",
    "FrameTables",
    "HeaderClaims",
    "open_frame_tables",
    "write_frame_tables",
]

ROWS_PER_BATCH = 65_536
BYTES_PER_BATCH = 32 * 2**20
"""A batch is closed when it reaches either: what is held in memory while a catalog is written stays bounded, and so do
the batches of a file, each of which is looked at when it is opened."""

SCHEMA = pa.schema(
    [
        pa.field("numbers", pa.binary(NUMBERS.itemsize), metadata={"fields": ",".join(NUMBERS.names or ())}),
        pa.field("row", pa.large_binary()),
    ]
)
"""Numbers of each stream at fixed places, to be read of all rows at once, and everything else of a row as bytes."""


class FrameTableBuilder:
    """Turns frame indexes, one after the other, into record batches.

    Args:
        emit: Called with each batch that is full.
    """

    def __init__(self, emit: Callable[[pa.RecordBatch], None]) -> None:
        self._emit = emit
        self._numbers: list[tuple[int, ...]] = []
        self._rows: list[bytes] = []
        self._bytes = 0

    def append(self, index: FrameIndex | None, claims: HeaderClaims | None = None) -> None:
        """Add the row of one source; None where it has no index.

        Raises:
            LimitExceeded: It has more frames or packets than a table holds.
        """
        row = row_bytes(index, claims or HeaderClaims())
        self._rows.append(row)
        self._numbers.append(_numbers_of(index))
        self._bytes += len(row)
        if len(self._rows) >= ROWS_PER_BATCH or self._bytes >= BYTES_PER_BATCH:
            self.finish()

    def finish(self) -> None:
        """Emit what is left."""
        if not self._rows:
            return
        rows = pa.array(self._rows, pa.large_binary())
        self._emit(pa.RecordBatch.from_arrays([_numbers_column(np.array(self._numbers, NUMBERS)), rows], schema=SCHEMA))
        self._numbers, self._rows, self._bytes = [], [], 0


class FrameTables:
    """Frame indexes of many sources in record batches, in memory or in a mapped file.

    Args:
        batches: Of ``SCHEMA``.
        name: For messages; the path, where there is one.
        file: The mapped file that holds the batches, if one does.
    """

    def __init__(
        self, batches: Sequence[pa.RecordBatch], name: str = "frame tables in memory", file: MappedFile | None = None
    ) -> None:
        self._batches = tuple(batches)
        self.name = name
        self._reader = RowReader(self._batches, name, None if file is None else file.release)
        self._recent = RecentIndexes(self._reader.index)

    def __len__(self) -> int:
        return len(self._reader)

    def __repr__(self) -> str:
        return f"FrameTables({len(self)} sources, {self.nbytes} bytes)"

    @property
    def batches(self) -> tuple[pa.RecordBatch, ...]:
        """The batches, each of which was checked, so that Arrow may copy rows of it.

        Raises:
            UnreadableMedia: One is damaged.
        """
        for number in range(len(self._batches)):
            self._reader.check(number)
        return self._batches

    @property
    def nbytes(self) -> int:
        """Bytes of all batches."""
        return sum(batch.nbytes for batch in self._batches)

    def index(self, row: int) -> FrameIndex | None:
        """Read the index of one source; the last ones read are kept.

        Raises:
            UnreadableMedia: The row is damaged.
        """
        return self._recent(row)

    def claims(self, row: int) -> HeaderClaims:
        """Read what the header of one source claims.

        Raises:
            UnreadableMedia: The row is damaged.
        """
        return self._reader.claims(row)

    def stream_column(self, name: str) -> IntArray:
        """Read a number of all streams, without reading their frames.

        Args:
            name: An int or bool field of StreamFacts, such as "rotation" or "color_space".

        Returns:
            int64 [rows]; -1 where a source has no index.

        Raises:
            UsageError: There is no such field; the message lists the known.
        """
        if name not in NUMBER_FIELDS:
            raise UsageError(f"no column {name!r} of numbers in frame tables; they have {', '.join(NUMBER_FIELDS)}")
        values = np.full(len(self), -1, np.int64)
        start = 0
        for number, batch in enumerate(self._batches):
            numbers = self._reader.columns(number)["numbers"]
            part = slice(start, start := start + batch.num_rows)
            np.copyto(values[part], numbers[name], where=numbers["present"] != 0)
        return values

    def built_from(self) -> IntArray:
        """Read how the ordinals of each source were found: places in ``BuiltFrom``, int64 [rows]; -1 without an index.

        Raises:
            UnreadableMedia: A batch is damaged.
        """
        parts = [self._reader.built_from(number) for number in range(len(self._batches))]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def select(self, rows: Iterable[int]) -> FrameTables:
        """Copy some rows into tables of their own."""
        return FrameTables(list(gathered(self.batches, np.fromiter(rows, np.int64), ROWS_PER_BATCH)))


def _numbers_of(index: FrameIndex | None) -> tuple[int, ...]:
    if index is None:
        return (0, *(0 for _ in NUMBER_FIELDS))
    numbers = tuple(int(getattr(index.stream, name)) for name in NUMBER_FIELDS)
    limits = np.iinfo(np.int32)
    if not limits.min <= min(numbers) <= max(numbers) <= limits.max:
        raise UsageError(f"{index.stream} cannot be stored: its numbers must fit into 32 bits")
    return (1, *numbers)


def evenly_cut(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut the rows of sound batches into batches of ``ROWS_PER_BATCH`` or ``BYTES_PER_BATCH``, however they came."""
    waiting: list[pa.RecordBatch] = []
    rows = nbytes = 0
    for batch in batches:
        ends = np.cumsum(np.diff(ragged_view(batch.column("row"), np.uint8).offsets))
        start = 0
        while start < batch.num_rows:
            before = int(ends[start - 1]) if start else 0
            # The row with which the batch is full is its last.
            full = int(ends.searchsorted(BYTES_PER_BATCH - nbytes + before)) + 1
            stop = min(batch.num_rows, start + ROWS_PER_BATCH - rows, full)
            waiting.append(batch.slice(start, stop - start))
            rows, nbytes, start = rows + stop - start, nbytes + int(ends[stop - 1]) - before, stop
            if rows >= ROWS_PER_BATCH or nbytes >= BYTES_PER_BATCH:
                yield _joined(waiting)
                waiting, rows, nbytes = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of new buffers, so that a file holds the same bytes whatever the rows were parts of before."""
    numbers = np.concatenate([primitive_view(batch.column("numbers"), NUMBERS) for batch in batches])
    rows = [ragged_view(batch.column("row"), np.uint8) for batch in batches]
    lengths = np.concatenate([np.diff(each.offsets) for each in rows])
    values = np.concatenate([each.values[each.offsets[0] : each.offsets[-1]] for each in rows])
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    joined = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(lengths), buffers)
    return pa.RecordBatch.from_arrays([_numbers_column(numbers), joined], schema=SCHEMA)


def _numbers_column(numbers: npt.NDArray[Any]) -> pa.FixedSizeBinaryArray:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(numbers).view(np.uint8))]
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(NUMBERS.itemsize), len(numbers), buffers)


def content_of(tables: FrameTables) -> bytes:
    """Hash all rows, however they are cut into batches."""
    digests = {name: xxhash.xxh3_128(name.encode()) for name in (*SCHEMA.names, "lengths")}
    for batch in tables.batches:
        digests["numbers"].update(primitive_view(batch.column("numbers"), NUMBERS).view(np.uint8).data)
        rows = ragged_view(batch.column("row"), np.uint8)
        digests["lengths"].update(np.diff(rows.offsets).data)
        if batch.num_rows:
            digests["row"].update(rows.values[rows.offsets[0] : rows.offsets[-1]].data)
    return b"".join(digest.digest() for digest in digests.values())


def write_frame_tables(
    path: str, batches: Iterable[pa.RecordBatch], metadata: Mapping[bytes, bytes], roll: pa.StructArray | None = None
) -> None:
    """Write batches as an Arrow IPC file and flush it to the disk.

    Args:
        path: Of the file.
        batches: Of ``SCHEMA``.
        metadata: Of the file.
        roll: What planning asks about all rows of a catalog, see ``framefeed.index.catalog_roll``.
    """
    schema = SCHEMA if roll is None else SCHEMA.append(pa.field("roll", pa.list_(roll.type)))
    with open(path, "wb") as file:
        with pa.ipc.new_file(file, schema.with_metadata(dict(metadata))) as writer:
            for batch in evenly_cut(batches):
                empty = [] if roll is None else [pa.nulls(batch.num_rows, schema.field("roll").type)]
                writer.write_batch(pa.RecordBatch.from_arrays([*batch.columns, *empty], schema=schema))
            if roll is not None:
                writer.write_batch(_roll_batch(roll, schema))
        file.flush()
        os.fsync(file.fileno())


def _roll_batch(roll: pa.StructArray, schema: pa.Schema) -> pa.RecordBatch:
    """A last batch of one row, whose list is the roll: its columns lie in one piece each."""
    nothing = [pa.nulls(1, kind) for kind in SCHEMA.types]
    return pa.RecordBatch.from_arrays([*nothing, pa.ListArray.from_arrays([0, len(roll)], roll)], schema=schema)


def open_frame_tables(path: str) -> tuple[FrameTables, Mapping[bytes, bytes]]:
    """Map an Arrow IPC file: its pages are shared by all processes that open it.

    Returns:
        The tables and the metadata that they were written with.

    Raises:
        UnreadableMedia: Not such a file, damaged, or of another version.
    """
    return open_with_roll(path)[:2]


def open_with_roll(path: str) -> tuple[FrameTables, Mapping[bytes, bytes], pa.StructArray | None]:
    """Map an Arrow IPC file as `open_frame_tables` does, and give its roll too, if it has one."""
    try:
        return try_again_in_shortage(partial(_open_with_roll, path), path, "open")
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise UnreadableMedia(
            f"{path}: not readable as frame tables: {error}; delete it and index again", source=path, stage="index"
        ) from error


def _open_with_roll(path: str) -> tuple[FrameTables, Mapping[bytes, bytes], pa.StructArray | None]:
    file = MappedFile(path)
    reader = pa.ipc.open_file(pa.BufferReader(file.buffer))
    has_roll = reader.schema.names[-1:] == ["roll"]
    schema = pa.schema(list(reader.schema)[: -1 if has_roll else None])
    if not schema.equals(SCHEMA) or schema.field("numbers").metadata != SCHEMA.field("numbers").metadata:
        raise ValueError("its columns are not those of this version of framefeed")
    batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
    roll = _roll_of(batches.pop()) if has_roll and batches else None
    tables = FrameTables([batch.select(SCHEMA.names) for batch in batches], path, file)
    return tables, dict(reader.schema.metadata or {}), roll


def _roll_of(batch: pa.RecordBatch) -> pa.StructArray:
    roll: Any = batch.column("roll")
    if not pa.types.is_list(roll.type) or not pa.types.is_struct(roll.type.value_type):
        raise ValueError("its roll is none")
    return roll.values
