"""Zip archives from zipfile, whole and without a seekable target, and what it finds in them."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from framefeed._values import BytesReader, Limits
from framefeed.archives import MemberKind, MemberTable, read_zip

Row = tuple[str, MemberKind, bytes | None]


class _Stream(io.RawIOBase):
    """Takes what is written, and cannot be sought: zipfile writes sizes behind the data."""

    def __init__(self) -> None:
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.data += memoryview(data)  # type: ignore[arg-type]
        return len(memoryview(data))  # type: ignore[arg-type]


def make_zip(
    members: Iterable[tuple[str, bytes]],
    method: int = zipfile.ZIP_STORED,
    *,
    comment: bytes = b"",
    is_stream: bool = False,
    is_large: bool = False,
) -> bytes:
    """Write an archive.

    Args:
        members: Names and data.
        method: How they are packed.
        comment: Of the archive.
        is_stream: Write to a target that cannot be sought.
        is_large: Write fields of 64 bits in each member's header.
    """
    target = _Stream() if is_stream else io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        archive.comment = comment
        for name, data in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            with archive.open(info, "w", force_zip64=is_large) as file:
                file.write(data)
    return bytes(target.data) if isinstance(target, _Stream) else target.getvalue()


def widen(data: bytes) -> bytes:
    """Move what the last record says, of an archive without a comment, to one of 64 bits before it."""
    count, size, offset = struct.unpack_from("<H2L", data, len(data) - 12)
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, offset)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, len(data) - 22, 1)
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, *[2**16 - 1] * 2, *[2**32 - 1] * 2, 0)
    return data[:-22] + record + locator + last


def read(data: bytes, limits: Limits | None = None, members: set[str] | None = None) -> MemberTable:
    """Read an archive's members, and check that all data lie within it and not over each other."""
    table = read_zip(BytesReader(data), "x.zip", limits or Limits(), members)
    is_file = (table.kind == MemberKind.FILE).tolist()
    usable = {row for row in range(len(table)) if is_file[row] and row not in table.reasons}
    spans = sorted((int(table.offset[row]), int(table.offset[row] + table.size[row])) for row in usable)
    assert all(0 < start <= stop <= len(data) for start, stop in spans)
    assert all(stop < following for (_, stop), (following, _) in pairwise(spans))
    assert all(not table.size[row] for row in range(len(table)) if row not in usable)
    assert table.offset.dtype == table.size.dtype == np.int64
    assert table.kind.dtype == np.uint8
    return table


def rows(table: MemberTable, data: bytes) -> list[Row]:
    """List members as `rows_of_zipfile` does."""
    return [
        (name, kind, data[offset : offset + size] if kind == MemberKind.FILE and row not in table.reasons else None)
        for row, (name, offset, size, kind) in enumerate(table)
    ]


def rows_of_zipfile(data: bytes) -> list[Row]:
    """List what zipfile finds: data of those that are stored."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [
            (info.filename, MemberKind.FOLDER, None)
            if info.is_dir()
            else (info.filename, MemberKind.FILE, archive.read(info) if info.compress_type == 0 else None)
            for info in archive.infolist()
        ]
