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
    """Where the values of a column are."""

    offset: IntArray  # first byte in the file, int64 [R]; -1 where a value is null, or is read through Arrow
    size: IntArray  # bytes, int64 [R]; ``NULL`` of a null
    # Reason why values cannot be read, by the first of their rows and the row behind the last.
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

    def find_group(self, row: int) -> tuple[int, int]:
        """Find the group of a row, and its first row."""
        group = int(np.searchsorted(self.ends, row, side="right"))
        return group, self.get_rows(group)[0]


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
        kept = _KEPT.value
        known = None if stamp is None else kept.get(stamp)
        # Without a time and a version, another file of the same size would have the same stamp.
        has_version = reader.stat().mtime_ns is not None or bool(getattr(getattr(reader, "version", None), "text", ""))
        if known is None or not has_version:
            footer = self._read_footer()
            if known is None or known.footer != footer:
                known = _KnownFile(footer)
                if stamp is not None:
                    kept.put(stamp, known)
        if len(known.footer) > limits.max_header_bytes:
            self._refuse_footer(len(known.footer))
        self._known = known
        if known.metadata is None:
            end = len(known.footer).to_bytes(4, "little") + _MAGIC
            known.metadata = self._call_arrow(lambda: pq.read_metadata(pa.BufferReader(known.footer + end)))
        self._file: Any = self._call_arrow(
            lambda: pq.ParquetFile(pa.PythonFile(_ReaderFile(reader), mode="r"), metadata=known.metadata)
        )
        self.schema: pa.Schema = self._call_arrow(
            lambda: pa.schema([(field.name, _get_storage(field.type)) for field in self._file.schema_arrow])
        )
        """Columns and their types, without extensions."""
        self.num_rows: int = known.metadata.num_rows
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
            values = self._known.find(column, group)
            if values is None:  # Not by `read`, so that files are listed at once.
                values = _KEPT.value.keep(self._known, column, group, self.read_group(column, group))
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
        return self._read_chunks(column).find_group(row)

    def _make_null_error(self, column: str, row: int) -> MediaError:
        return self._make_error(MissingMedia, f"has a null as value {row} of column {column!r}")

    def _read_chunks(self, column: str) -> _Chunks:
        """Read where a column is in each row group."""
        if (known := self._known.chunks.get(column)) is not None:
            return known
        leaf, level = self._find_leaf(column)
        try:
            chunks = read_column_chunks(self._known.footer, leaf)
        except OddPages as odd:
            raise self._make_error(CorruptMedia, f"{odd}: copy it again") from odd
        if sum(chunk.num_values for chunk in chunks) != self.num_rows:
            raise self._make_error(CorruptMedia, "its row groups have other rows than the file: copy it again")
        ends = np.cumsum([chunk.num_values for chunk in chunks], dtype=np.int64)
        self._known.chunks[column] = _Chunks(chunks, level, ends)
        return self._known.chunks[column]

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
        values = _KEPT.value.read(self._known, column, group, lambda: self.read_group(column, group))
        value = values[row - first]
        if not value.is_valid:
            raise self._make_null_error(column, row)
        return value.as_buffer()

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
            facts = schema.column(leaf)
            if facts.path == path and facts.physical_type == "BYTE_ARRAY" and not facts.max_repetition_level:
                return leaf, facts.max_definition_level
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


class _KnownFile:
    """What was read of one version of a file: metadata, where columns are, and row groups as long as they are used."""

    def __init__(self, footer: bytes) -> None:
        self.footer = footer
        self.metadata: Any = None
        self.chunks: dict[str, _Chunks] = {}
        self.groups: WeakValueDictionary[tuple[str, int], pa.ChunkedArray] = WeakValueDictionary()

    def find(self, column: str, group: int) -> pa.ChunkedArray | None:
        """Find the values of a row group; None if it is not in memory."""
        values = self.groups.get((column, group))
        if values is not None and _held.groups is not None:
            _held.groups[self, column] = values
        return values


class _Kept:
    """The files that were opened last, and the row group that was read last."""

    def __init__(self) -> None:
        self._lock, self._reading = threading.Lock(), threading.Lock()
        self._files = Lru[Hashable, _KnownFile](_MOST_FOOTER_BYTES, lambda known: len(known.footer), min_count=1)
        self._last: pa.ChunkedArray | None = None
        register_releasable(self)

    def release_idle(self) -> None:
        """Forget the row group that was read last, as in a shortage of memory."""
        self._last = None

    def get(self, stamp: Hashable) -> _KnownFile | None:
        with self._lock:
            return self._files.get(stamp)

    def put(self, stamp: Hashable, known: _KnownFile) -> None:
        with self._lock:
            self._files.put(stamp, known)

    def read(self, known: _KnownFile, column: str, group: int, read: Callable[[], pa.ChunkedArray]) -> pa.ChunkedArray:
        """Find the values of a row group, or read them: others wait, so that memory holds few."""
        with self._reading:
            values = known.find(column, group)
            if values is None:
                self._last = None
                values = read()
            return self.keep(known, column, group, values)

    def keep(self, known: _KnownFile, column: str, group: int, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Keep a row group as the one that was read last."""
        known.groups[column, group] = self._last = values
        if _held.groups is not None:
            _held.groups[known, column] = values
        return values


_KEPT = PerProcess(_Kept)


class _Held(threading.local):
    groups: dict[tuple[_KnownFile, str], pa.ChunkedArray] | None = None


_held = _Held()


@contextmanager
def holding_row_groups() -> Iterator[None]:
    """Keep what the calling thread reads through Arrow in the block: of each column the last row group."""
    before, _held.groups = _held.groups, {}
    try:
        yield
    finally:
        _held.groups = before


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
    known = _KEPT.value.get(stamp)
    if known is None or column not in known.chunks or row >= known.metadata.num_rows:
        return None
    chunks = known.chunks[column]
    group, first = chunks.find_group(row)
    values = known.find(column, group)
    if values is None or chunks.chunks[group].unpacked > limits.max_row_group_bytes:
        return None
    value = values[row - first]
    return value.as_buffer() if value.is_valid else None


def is_media_struct(kind: pa.DataType) -> bool:
    """Whether a type is that of Hugging Face's videos and pictures: bytes and a path."""
    if not pa.types.is_struct(kind) or {field.name for field in kind} != {_BYTES, _PATH}:
        return False
    return is_binary(kind.field(_BYTES).type)


def is_binary(kind: pa.DataType) -> bool:
    """Whether values of a type are bytes of any length."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))
