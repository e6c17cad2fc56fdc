"""Read the directory of a segment, which may be damaged or hostile; see ``_format``.

Arrow's headers are FlatBuffers. They are read here, because Arrow allocates the size that a compressed buffer claims,
and this cannot be switched off. Only two levels of tables are read, every number is checked against the size of the
data, and only views are allocated.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed.cache.store._format import (
    CHECKSUM,
    COLUMNS,
    MAX_DIRECTORY_BYTES,
    MAX_FRAME_BYTES,
    MAX_ROWS,
    METADATA,
    NO_FRAME,
    ROW,
    Kind,
    Refused,
    Rows,
    directory_checksum,
    read_directory_text,
)

MAGIC = b"ARROW1"
TAIL_BYTES = 10
"""Size of the footer and magic, at the end of a file."""

_BLOCK = np.dtype([("offset", "<i8"), ("header", "<i4"), ("", "<i4"), ("body", "<i8")])
_BUFFER = np.dtype([("offset", "<i8"), ("nbytes", "<i8")])
_RECORD_BATCHES = 3
"""Field of the footer."""
_RECORD_BATCH = 3
"""Type of a message."""
_CONTINUES = 0xFFFF_FFFF
_MAX_ENTRIES = 16


@dataclass(frozen=True, slots=True)
class Block:
    """Location of a record batch in a file.

    Attributes:
        offset: Of its header.
        header: Bytes of its header.
        body: Bytes of its columns, which come next.
    """

    offset: int
    header: int
    body: int


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """The header of a record batch.

    Attributes:
        num_rows: In the batch.
        buffers: (offset in the body, bytes) of the buffers.
        metadata: The custom metadata.
    """

    num_rows: int
    buffers: list[tuple[int, int]]
    metadata: Mapping[bytes, bytes]


def last_block(footer: bytes) -> Block:
    """Find the last record batch of a file.

    Raises:
        Refused: There is none, or this is no footer.
    """
    try:
        blocks = _Table.root(footer).structs(_RECORD_BATCHES, _BLOCK)
    except (struct.error, ValueError) as error:
        raise Refused(f"the file is damaged: its footer cannot be read: {error}") from error
    if not len(blocks):
        raise Refused("the file is damaged: its footer lists no record batch")
    return Block(*(int(blocks[-1][name]) for name in ("offset", "header", "body")))


def read_header(data: bytes) -> SegmentHeader:
    """Read the header of a record batch.

    Raises:
        Refused: This is none, or its buffers are compressed.
    """
    try:
        mark, _ = struct.unpack_from("<II", data)
        message = _Table.root(data[8:])
        batch = message.table(2)
        if mark != _CONTINUES or message.number(1, "<B") != _RECORD_BATCH or batch is None:
            raise Refused("the file is damaged: its last block is not a record batch")
        if batch.has(3):
            raise Refused("the directory of the file is compressed, and framefeed writes none like it")
        buffers = batch.structs(2, _BUFFER).tolist()
        return SegmentHeader(batch.number(0, "<q"), buffers, dict(message.entries(4)))
    except (struct.error, ValueError) as error:
        raise Refused(f"the file is damaged: the header of its directory cannot be read: {error}") from error


class _Table:
    """A table of a FlatBuffer; its fields are known by number.

    All methods raise struct.error or ValueError if a reference points outside the data.
    """

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position
        self._fields = position - self._get("<i", position)
        self._num_bytes = self._get("<H", self._fields)

    @classmethod
    def root(cls, data: bytes) -> _Table:
        """Return the root table of a buffer."""
        return cls(data, struct.unpack_from("<I", data)[0])

    def has(self, field: int) -> bool:
        """Whether the table has a field."""
        return bool(self._at(field))

    def number(self, field: int, form: str) -> int:
        """Read a number; 0 if it is missing."""
        at = self._at(field)
        return self._get(form, at) if at else 0

    def table(self, field: int) -> _Table | None:
        """Return a table, or None if it is missing."""
        at = self._at(field)
        return _Table(self._data, at + self._get("<I", at)) if at else None

    def structs(self, field: int, kind: np.dtype[Any]) -> npt.NDArray[Any]:
        """View a vector of structs; empty if it is missing."""
        start, count = self._vector(field)
        return np.frombuffer(self._data, kind, count, start) if count else np.empty(0, kind)

    def entries(self, field: int) -> list[tuple[bytes, bytes]]:
        """Read a vector of tables of two texts each."""
        start, count = self._vector(field)
        if count > _MAX_ENTRIES:
            raise ValueError(f"{count} entries of metadata")
        offsets = range(start, start + 4 * count, 4)
        tables = [_Table(self._data, at + self._get("<I", at)) for at in offsets]
        return [(table.text(0), table.text(1)) for table in tables]

    def text(self, field: int) -> bytes:
        """Read the bytes of a text."""
        start, count = self._vector(field)
        if start + count > len(self._data):
            raise ValueError("a text beyond the end")
        return self._data[start : start + count]

    def _vector(self, field: int) -> tuple[int, int]:
        """Return (offset of the first item, number of items) of a vector."""
        at = self._at(field)
        if not at:
            return 0, 0
        start = at + self._get("<I", at)
        return start + 4, self._get("<I", start)

    def _at(self, field: int) -> int:
        """Return the offset of a field; 0 if it is missing."""
        entry = 4 + 2 * field
        offset = self._get("<H", self._fields + entry) if entry + 2 <= self._num_bytes else 0
        return self._position + offset if offset else 0

    def _get(self, form: str, position: int) -> int:
        if position < 0:
            raise ValueError("a table before the beginning")
        number: int = struct.unpack_from(form, self._data, position)[0]
        return number


_CUT = "the file is cut off, or is not an Arrow file"
_END_BYTES = 1 << 16
"""Read at once: footer and directory of most segments."""


@dataclass(frozen=True, slots=True, eq=False)
class Directory:
    """The directory of a segment.

    Attributes:
        rows: ``ROW`` [N].
        kinds: Codecs and layouts of its frames.
        created: See ``_format``.
        checksum: Of the directory.
    """

    rows: Rows
    kinds: tuple[Kind, ...]
    created: int
    checksum: str

    @property
    def nbytes(self) -> int:
        """Its memory, roughly."""
        return int(self.rows.nbytes) + 256 * len(self.kinds)


def read_directory(descriptor: int) -> Directory:
    """Read the directory of a sealed segment.

    Raises:
        Refused: It is no sound segment of this version.
        OSError: It cannot be read.
    """
    end = _End(descriptor)
    footer_size = int.from_bytes(end.read(end.size - TAIL_BYTES, 4), "little")
    if end.read(end.size - len(MAGIC), len(MAGIC)) != MAGIC:
        raise Refused(_CUT)
    footer_at = end.size - TAIL_BYTES - footer_size
    block = last_block(end.read(footer_at, footer_size))
    if min(block.offset, block.header, block.body) < 0 or block.offset + block.header + block.body > footer_at:
        raise Refused("the file is damaged: its directory lies outside the file")
    header = read_header(end.read(block.offset, block.header))
    return _directory(header, end.read(block.offset + block.header, block.body), block.offset)


class _End:
    """Reads a file from its end, which is read only once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        self._begin = max(0, self.size - _END_BYTES)
        self._bytes = os.pread(descriptor, _END_BYTES, self._begin)

    def read(self, position: int, nbytes: int) -> bytes:
        """Read exactly so many bytes.

        Raises:
            Refused: They are not there, or too many.
        """
        if position < 0 or not 0 <= nbytes <= MAX_DIRECTORY_BYTES:
            # A file shorter than its own footer, or a size that no directory has.
            raise Refused(_CUT)
        if position >= self._begin:
            data = self._bytes[position - self._begin : position - self._begin + nbytes]
        else:
            data = os.pread(self._descriptor, nbytes, position)
        if len(data) != nbytes:
            raise Refused(_CUT)
        return data


def _directory(header: SegmentHeader, body: bytes, end: int) -> Directory:
    """Check and read a directory.

    Args:
        header: Of its record batch.
        body: Its columns.
        end: Where it begins in the file: all frames lie before.
    """
    text = header.metadata.get(METADATA, b"")
    created, kinds = read_directory_text(text)
    if not 0 < header.num_rows <= MAX_ROWS or len(header.buffers) != 2 * len(COLUMNS) + 3:
        raise Refused("the file is damaged: its directory has other columns, or too many rows")
    columns = [_column(header, body, number) for number in range(len(COLUMNS))]
    checksum = directory_checksum(text, columns)
    if header.metadata.get(CHECKSUM) != checksum.encode():
        raise Refused("the file is damaged: the checksum of its directory is wrong")
    rows = np.empty(header.num_rows, ROW)
    key = np.frombuffer(columns[0], "<u8").reshape(-1, 2)
    rows["head"], rows["tail"] = key[:, 0], key[:, 1]
    for (name, kind), column in zip(COLUMNS[1:], columns[1:], strict=True):
        rows[name] = np.frombuffer(column, kind)
    _check(rows, len(kinds), end)
    return Directory(rows, kinds, created, checksum)


def _column(header: SegmentHeader, body: bytes, number: int) -> memoryview:
    """View the values of a column: the second of its two buffers, the first of which marks nulls."""
    offset, nbytes = header.buffers[2 * number + 1]
    needed = header.num_rows * np.dtype(COLUMNS[number][1]).itemsize
    if offset < 0 or nbytes < needed or offset + needed > len(body):
        raise Refused("the file is damaged: a column of its directory is too short")
    return memoryview(body)[offset : offset + needed]


def _check(rows: Rows, num_kinds: int, end: int) -> None:
    offset, nbytes, raw_nbytes = rows["offset"], rows["nbytes"], rows["raw_nbytes"]
    if min(nbytes.min(), raw_nbytes.min()) < 0 or max(nbytes.max(), raw_nbytes.max()) > MAX_FRAME_BYTES:
        raise Refused("the file is damaged: a frame has an impossible size")
    ends = np.minimum(offset, end) + nbytes
    if offset[0] < 0 or ends[-1] > end or (ends[:-1] > offset[1:]).any():
        raise Refused("the file is damaged: its frames overlap, or lie outside the file")
    if rows["kind"].min() < NO_FRAME or rows["kind"].max() >= num_kinds:
        raise Refused("the file is damaged: a frame has an unknown kind")
