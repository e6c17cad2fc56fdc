"""Reading a segment's directory, without trust in a byte of it; see ``segment_format``."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from framefeed.cache.store.flat import MAGIC, TAIL_BYTES, Header, last_block, read_header
from framefeed.cache.store.segment_format import (
    CHECKSUM,
    COLUMNS,
    MAX_DIRECTORY_BYTES,
    MAX_FRAME_BYTES,
    MAX_ROWS,
    METADATA,
    NO_FRAME,
    ROW,
    Refused,
    Rows,
    directory_checksum,
    read_directory_text,
)
from framefeed.cache.stored import Kind

_CUT = "the file is cut off, or is not an Arrow file"
_END_BYTES = 1 << 16
"""Read at once: footer and directory of most segments."""


@dataclass(frozen=True, slots=True, eq=False)
class Directory:
    """What a segment says of itself.

    Attributes:
        rows: ``ROW`` [N].
        kinds: How its frames are to be read.
        created: See ``segment_format``.
        checksum: Of all this.
    """

    rows: Rows
    kinds: tuple[Kind, ...]
    created: int
    checksum: str

    @property
    def nbytes(self) -> int:
        """Memory that it takes, roughly."""
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
    """The end of a file, read once; before it, and for what is longer, the file itself."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        self._begin = max(0, self.size - _END_BYTES)
        self._bytes = os.pread(descriptor, _END_BYTES, self._begin)

    def read(self, position: int, nbytes: int) -> bytes:
        """Give exactly so many bytes.

        Raises:
            Refused: They are not there, or too many.
        """
        if position < 0 or not 0 <= nbytes <= MAX_DIRECTORY_BYTES:
            # A file shorter than its own footer, or a size that no directory has.
            raise Refused(_CUT)
        if position >= self._begin:
            found = self._bytes[position - self._begin : position - self._begin + nbytes]
        else:
            found = os.pread(self._descriptor, nbytes, position)
        if len(found) != nbytes:
            raise Refused(_CUT)
        return found


def _directory(header: Header, body: bytes, end: int) -> Directory:
    """Check everything that a directory says.

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


def _column(header: Header, body: bytes, number: int) -> memoryview:
    """View the values of a column: the second of its two buffers, the first of which says what is null."""
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
