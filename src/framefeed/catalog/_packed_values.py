"""Media that lie as values in a Parquet file: where each begins, or, if it is compressed or encoded, its bytes.

A column holds them as binary, or, as Hugging Face's ``Video`` and ``Image`` do, as struct<bytes, path>.
"""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeVar
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from framefeed._arrays import IntArray
from framefeed._fetched import counting_fetches, get_fetch_counter
from framefeed._lru import Lru
from framefeed._per_process import PerProcess
from framefeed._values import ByteReader, Limits, make_limit_error, read_bytes
from framefeed.archives import NULL, ColumnChunk, OddPages, ReadSizes, find_plain_values, read_column_chunks
from framefeed.errors import CorruptMedia, MediaError, MissingMedia, UnreadableMedia
from framefeed.parallel import register_releasable

_MAGIC = b"PAR1"
_END_BYTES = 8
# What most files have behind their values; by URL it takes one request.
_TAIL_BYTES = 2**16
# Arrow's own form of it takes several times as much.
_MOST_FOOTER_BYTES = 2**24
_BYTES, _PATH = "bytes", "path"
T = TypeVar("T")


class PackedValues(NamedTuple):
    """Where the values of a column are.

    Attributes:
        offset: First byte in the file, int64 [R]; -1 where a value is null, or is read through Arrow.
        size: Bytes, int64 [R]; ``NULL`` of a null.
        errors: Reason why values cannot be read, by the first of their rows and the row behind the last.
    """

    offset: IntArray
    size: IntArray
    errors: dict[tuple[int, int], MediaError]


class _Chunks(NamedTuple):
    """A column in all row groups: the level of its values, and the row behind the last of each group, int64 [G]."""

    chunks: list[ColumnChunk]
    level: int
    ends: IntArray

    def get_rows(self, group: int) -> tuple[int, int]:
        """Get the first row of a group, and the row behind its last."""
        stop = int(self.ends[group])
        return stop - self.chunks[group].num_values, stop


class _ReaderFile(io.RawIOBase):
    """A reader as the file object that Arrow reads."""

    def __init__(self, reader: ByteReader) -> None:
        self._reader, self._at = reader, 0
        self._counter = get_fetch_counter()  # Arrow may read in threads of its own.
        self._size = reader.stat().bytes

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, count: int | None = -1) -> bytes:
        rest = max(self._size - self._at, 0)
        with counting_fetches(self._counter):
            data = read_bytes(self._reader, self._at, rest if count is None or count < 0 else min(count, rest))
        self._at += len(data)
        return data


class PackedFile:
    """A Parquet file whose values may be media.

    Args:
        reader: Its bytes.
        name: For messages.
        limits: ``max_header_bytes`` bounds the metadata, ``max_members`` the rows, ``max_row_group_bytes`` what is
            read through Arrow at once.
        stamp: Which version of which file it is, so that its metadata are read once a process; None reads them anew.

    Raises:
        UnreadableMedia: It is no Parquet file, or a damaged one.
        LimitExceeded: It claims more than the limits allow.
    """

    def __init__(self, reader: ByteReader, name: str, limits: Limits, stamp: Hashable = None) -> None:
        self._reader, self._name, self._limits = reader, name, limits
        self._stamp = object() if stamp is None else stamp
        # Without a time and a version, another file of the same size would have the same stamp.
        is_known = reader.stat().mtime_ns is not None or bool(getattr(getattr(reader, "version", None), "text", ""))
        footer = _FOOTERS.value.get(stamp) if is_known and stamp is not None else None
        if footer is None:
            footer = _Footer(self._read_footer())
            if is_known and stamp is not None:
                _FOOTERS.value.put(stamp, footer)
        if len(footer.raw) > limits.max_header_bytes:
            self._refuse_footer(len(footer.raw))
        self._footer = footer
        if footer.metadata is None:
            end = len(footer.raw).to_bytes(4, "little") + _MAGIC
            footer.metadata = self._call_arrow(lambda: pq.read_metadata(pa.BufferReader(footer.raw + end)))
        self._file: Any = self._call_arrow(
            lambda: pq.ParquetFile(pa.PythonFile(_ReaderFile(reader), mode="r"), metadata=footer.metadata)
        )
        self.schema: pa.Schema = self._call_arrow(self._read_schema)
        """Columns and their types, without extensions."""
        self.num_rows: int = footer.metadata.num_rows
        if self.num_rows > limits.max_members:
            raise make_limit_error(limits, "max_members", f"{self.num_rows} rows", name, "open")
        self._found: dict[tuple[str, int], tuple[IntArray, IntArray] | MediaError] = {}

    def _read_footer(self) -> bytes:
        """Read the metadata at the file's end, mostly by one read."""
        size = self._reader.stat().bytes
        start = max(size - _TAIL_BYTES, 0)
        tail = read_bytes(self._reader, start, size - start)
        if tail[-4:] != _MAGIC or len(tail) < _END_BYTES:
            raise self._make_error(UnreadableMedia, "is no Parquet file, or is cut: copy it again")
        count = int.from_bytes(tail[-_END_BYTES:-4], "little")
        if count > self._limits.max_header_bytes:
            self._refuse_footer(count)
        if count + _END_BYTES <= len(tail):
            return tail[len(tail) - _END_BYTES - count : -_END_BYTES]
        return read_bytes(self._reader, max(size - _END_BYTES - count, 0), count)

    def _refuse_footer(self, count: int) -> NoReturn:
        raise make_limit_error(self._limits, "max_header_bytes", f"metadata of {count} bytes", self._name, "open")

    def _read_schema(self) -> pa.Schema:
        return pa.schema([(field.name, _get_storage(field.type)) for field in self._file.schema_arrow])

    def find_values(self, column: str, reads: ReadSizes, most_groups: int | None = None) -> PackedValues:
        """Find where the values of a column are; those of a row group that cannot be read are errors.

        Args:
            column: Its name.
            reads: Bytes of one read.
            most_groups: Number of the first row groups that are looked at; all others count as null. None for all.
        """
        chunks = self._read_chunks(column)
        offset, size = np.full(self.num_rows, -1, np.int64), np.full(self.num_rows, NULL, np.int64)
        errors: dict[tuple[int, int], MediaError] = {}
        for group in range(len(chunks.chunks))[:most_groups]:
            rows = slice(*chunks.get_rows(group))
            try:
                offset[rows], size[rows] = self._find_in_group(column, group, reads)
            except MediaError as error:
                errors[rows.start, rows.stop] = error
        return PackedValues(offset, size, errors)

    def _find_in_group(self, column: str, group: int, reads: ReadSizes) -> tuple[IntArray, IntArray]:
        chunks = self._read_chunks(column)
        try:
            offset, size = find_plain_values(self._reader, chunks.chunks[group], chunks.level, reads)
            return np.where(size == NULL, -1, offset), size
        except OddPages:
            self._check_size(chunks.chunks[group])
            key, first = (self._stamp, column), chunks.get_rows(group)[0]
            kept = _KEPT.value.find(key, first)
            if kept is None:  # Not by `get`, so that files are listed at once.
                kept = _KEPT.value.add(key, self._read_group(column, group))
            values = kept.values
            return np.full(len(values), -1, np.int64), _measure(values)

    def find_value(self, column: str, row: int, reads: ReadSizes) -> tuple[int, int]:
        """Find one value: its first byte, or -1 if Arrow must read it, and its bytes; a row group is read once.

        Raises:
            MissingMedia: There is no such column or row, or its value is null.
            MediaError: The row group is damaged, or larger than the limits allow.
        """
        group, first = self._find_group(column, row)
        found = self._found.get((column, group))
        if found is None:
            try:
                found = self._find_in_group(column, group, reads)
            except MediaError as error:
                found = error
            self._found[column, group] = found
        if isinstance(found, MediaError):
            raise found
        offset, size = found
        if size[row - first] == NULL:
            raise self._make_null_error(column, row)
        return int(offset[row - first]), int(size[row - first])

    def _find_group(self, column: str, row: int) -> tuple[int, int]:
        """Find the row group of a row, and its first row."""
        if column not in self.schema.names or not 0 <= row < self.num_rows:
            raise self._make_error(MissingMedia, f"has no value {row} in a column {column!r}")
        chunks = self._read_chunks(column)
        group = int(np.searchsorted(chunks.ends, row, side="right"))
        return group, chunks.get_rows(group)[0]

    def _make_null_error(self, column: str, row: int) -> MediaError:
        return self._make_error(MissingMedia, f"has a null as value {row} of column {column!r}")

    def _read_chunks(self, column: str) -> _Chunks:
        """Read where a column is in each row group."""
        if (known := self._footer.chunks.get(column)) is not None:
            return known
        leaf, level = self._find_leaf(column)
        try:
            chunks = read_column_chunks(self._footer.raw, leaf)
        except OddPages as odd:
            raise self._make_error(CorruptMedia, f"{odd}: copy it again") from odd
        if sum(chunk.num_values for chunk in chunks) != self.num_rows:
            raise self._make_error(CorruptMedia, "its row groups have other rows than the file: copy it again")
        ends = np.cumsum([chunk.num_values for chunk in chunks], dtype=np.int64)
        self._footer.chunks[column] = _Chunks(chunks, level, ends)
        return self._footer.chunks[column]

    def read_paths(self, column: str) -> list[str | None]:
        """Read the paths beside the bytes; None of all rows for a column of binary."""
        if not self._is_struct(column):
            return [None] * self.num_rows
        table = self._call_arrow(lambda: self._file.read(columns=[f"{column}.{_PATH}"], use_threads=False))
        paths = pc.struct_field(take_storage(table.column(0)), _PATH)
        try:
            known = paths.to_pylist()
        except UnicodeDecodeError:  # Names of files may have any bytes.
            known = [path.as_buffer().to_pybytes() if path.is_valid else None for path in paths]
        return [os.fsdecode(path) if isinstance(path, (str, bytes)) else None for path in known]

    def read_columns(self, without: str) -> pa.Table:
        """Read all columns but one."""
        names = [field.name for field in self.schema if field.name != without]
        table = self._call_arrow(lambda: self._file.read(columns=names, use_threads=False))
        return table.select(names)

    def read_class_names(self, column: str) -> tuple[str, ...]:
        """Read the names of the classes whose numbers a column holds, as ``datasets`` writes them; () without."""
        try:
            features = json.loads((self._file.schema_arrow.metadata or {})[b"huggingface"])["info"]["features"]
            names = features[column]["names"] if features[column]["_type"] == "ClassLabel" else []
        except (ValueError, LookupError, TypeError, RecursionError):
            return ()
        is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
        return tuple(names) if is_list and len(set(names)) == len(names) else ()

    def read_value(self, column: str, row: int) -> pa.Buffer:
        """Read one value through Arrow; the row group is kept for the next one.

        Raises:
            MissingMedia: There is no such column or row, or its value is null.
            MediaError: The row group is damaged, or larger than the limits allow.
        """
        group, first = self._find_group(column, row)
        # Also of one in memory: it may have been read under other limits.
        self._check_size(self._read_chunks(column).chunks[group])
        read = partial(self._read_group, column, group)
        value = _KEPT.value.get((self._stamp, column), first, read).values[row - first]
        if not value.is_valid:
            raise self._make_null_error(column, row)
        return value.as_buffer()

    def _read_group(self, column: str, group: int) -> _RowGroup:
        chunks = self._read_chunks(column)
        return _RowGroup(chunks.get_rows(group)[0], self.read_group(column, group), chunks.chunks[group].unpacked)

    def read_group(self, column: str, group: int) -> pa.ChunkedArray:
        """Read the values of one row group."""
        chunk = self._read_chunks(column).chunks[group]
        path = f"{column}.{_BYTES}" if self._is_struct(column) else column
        table = self._call_arrow(lambda: self._file.read_row_group(group, columns=[path], use_threads=False))
        values = take_storage(table.column(column))
        if len(values) != chunk.num_values:
            raise self._make_error(CorruptMedia, "a row group has other rows than its metadata: copy it again")
        return pc.struct_field(values, _BYTES) if pa.types.is_struct(values.type) else values

    def _check_size(self, chunk: ColumnChunk) -> None:
        if chunk.unpacked > self._limits.max_row_group_bytes:
            claim = f"a row group of {chunk.unpacked} bytes that cannot be read in place"
            raise make_limit_error(self._limits, "max_row_group_bytes", claim, self._name, "open")

    def _is_struct(self, column: str) -> bool:
        return bool(pa.types.is_struct(self.schema.field(column).type))

    def _find_leaf(self, column: str) -> tuple[int, int]:
        """Find the number of the Parquet column with the bytes, and the level of its values."""
        schema = self._file.metadata.schema
        path = f"{column}.{_BYTES}" if self._is_struct(column) else column
        for leaf in range(len(schema)):
            found = schema.column(leaf)
            if found.path == path and found.physical_type == "BYTE_ARRAY" and not found.max_repetition_level:
                return leaf, found.max_definition_level
        raise self._make_error(MissingMedia, f"has no bytes in column {column!r}")

    def _call_arrow(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except (pa.ArrowException, OSError, ValueError) as error:
            if isinstance(error, MediaError):  # Of our reader, such as a source that changed.
                raise
            reason = " ".join(str(error).split())
            raise self._make_error(CorruptMedia, f"cannot be read as Parquet ({reason}): copy it again") from error

    def _make_error(self, kind: type[MediaError], what: str) -> MediaError:
        return kind(f"{self._name}: {what}", source=self._name, stage="open")


class _RowGroup:
    """The values of a column in one row group, from the row ``first`` on, and the bytes that it claims to have."""

    def __init__(self, first: int, values: pa.ChunkedArray, claimed: int) -> None:
        self.first, self.values, self.claimed = first, values, claimed


class _KeptGroups:
    """The row group that was read last, and those that threads hold."""

    def __init__(self) -> None:
        self._lock, self._reading = threading.Lock(), threading.Lock()
        self._last: _RowGroup | None = None
        self._groups: WeakValueDictionary[tuple[Hashable, int], _RowGroup] = WeakValueDictionary()
        register_releasable(self)

    def release_idle(self) -> None:
        """Forget the row group that was read last, as in a shortage of memory."""
        self._last = None

    def find(self, column: Hashable, row: int) -> _RowGroup | None:
        """Find the group of a row; None if it is not in memory.

        Args:
            column: The stamp of a file, and the name of a column.
            row: Number in the file.
        """
        with self._lock:
            # The references, not the items: a group that another thread frees meanwhile would be an error.
            for reference in self._groups.valuerefs():
                group, (of, _) = reference(), reference.key
                if group is not None and of == column and 0 <= row - group.first < len(group.values):
                    _hold(column, group)
                    return group
        return None

    def get(self, column: Hashable, first: int, read: Callable[[], _RowGroup]) -> _RowGroup:
        """Get the group that begins at a row, or read it: others wait, so that memory holds few."""
        with self._reading:
            group = self.find(column, first)
            if group is None:
                self._last = None
                group = read()
            return self.add(column, group)

    def add(self, column: Hashable, group: _RowGroup) -> _RowGroup:
        """Keep a group as the one that was read last."""
        with self._lock:
            self._groups[column, group.first] = self._last = group
        _hold(column, group)
        return group


_KEPT = PerProcess(_KeptGroups)


class _Held(threading.local):
    def __init__(self) -> None:
        self.groups: dict[Hashable, _RowGroup] | None = None


_held = _Held()


def _hold(column: Hashable, group: _RowGroup) -> None:
    if _held.groups is not None:
        _held.groups[column] = group


@contextmanager
def holding_row_groups() -> Iterator[None]:
    """Keep what the calling thread reads through Arrow in the block: of each column the last row group."""
    before, _held.groups = _held.groups, {}
    try:
        yield
    finally:
        _held.groups = before


class _Footer:
    """The metadata of a file, and where its columns are, as far as they were asked for."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.metadata: Any = None
        self.chunks: dict[str, _Chunks] = {}


class _Footers:
    """The footers of the files that were opened last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._footers = Lru[Hashable, _Footer](_MOST_FOOTER_BYTES, lambda footer: len(footer.raw))

    def get(self, stamp: Hashable) -> _Footer | None:
        with self._lock:
            return self._footers.get(stamp)

    def put(self, stamp: Hashable, footer: _Footer) -> None:
        with self._lock:
            self._footers.put(stamp, footer)


_FOOTERS = PerProcess(_Footers)


def _get_storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def take_storage(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Take the values of a column without its extension type."""
    if not isinstance(values.type, pa.BaseExtensionType):
        return values
    return pa.chunked_array([chunk.storage for chunk in values.chunks], values.type.storage_type)


def _measure(values: pa.ChunkedArray) -> IntArray:
    """Measure the bytes of values; ``NULL`` of a null."""
    if pa.types.is_binary_view(values.type):  # Arrow does not measure these.
        return np.array([value.as_buffer().size if value.is_valid else NULL for value in values], np.int64)
    lengths: IntArray = pc.fill_null(pc.binary_length(values).cast(pa.int64()), NULL).to_numpy()
    return lengths


def find_kept_value(stamp: Hashable, column: str, row: int, limits: Limits) -> pa.Buffer | None:
    """Find a value in the row groups that are in memory; None if it is not there, or claims too much."""
    group = _KEPT.value.find((stamp, column), row)
    if group is None or group.claimed > limits.max_row_group_bytes:
        return None
    value = group.values[row - group.first]
    return value.as_buffer() if value.is_valid else None


def read_packed_value(
    reader: ByteReader, name: str, column: str, row: int, stamp: Hashable, limits: Limits
) -> pa.Buffer:
    """Read one value of a Parquet file through Arrow; see `PackedFile`."""
    return PackedFile(reader, name, limits, stamp).read_value(column, row)


def is_media_struct(kind: pa.DataType) -> bool:
    """Whether a type is that of Hugging Face's videos and pictures: bytes and a path."""
    if not pa.types.is_struct(kind) or {field.name for field in kind} != {_BYTES, _PATH}:
        return False
    return is_binary(kind.field(_BYTES).type)


def is_binary(kind: pa.DataType) -> bool:
    """Whether values of a type are bytes of any length."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))
