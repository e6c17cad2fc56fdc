"""Tar archives by the byte, archives from tarfile, and readers that count or make up their bytes."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from framefeed._values import ByteReader, BytesReader, Limits, SourceStat
from framefeed.archives import LOCAL_READS, MemberKind, MemberTable, ReadSizes, walk_tar
from framefeed.archives._tables import join_tables

BLOCK = 512
FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
END = bytes(2 * BLOCK)
Row = tuple[str, int, int, MemberKind]
KINDS = {
    tarfile.REGTYPE: MemberKind.FILE, tarfile.AREGTYPE: MemberKind.FILE, tarfile.CONTTYPE: MemberKind.FILE,
    tarfile.LNKTYPE: MemberKind.HARD_LINK, tarfile.SYMTYPE: MemberKind.SYMLINK, tarfile.DIRTYPE: MemberKind.FOLDER,
    tarfile.CHRTYPE: MemberKind.DEVICE, tarfile.BLKTYPE: MemberKind.DEVICE, tarfile.FIFOTYPE: MemberKind.DEVICE,
    tarfile.GNUTYPE_SPARSE: MemberKind.SPARSE,
}  # fmt: skip


def make_header(
    name: bytes = b"a.bin", size: bytes | int = 0, kind: bytes = b"0", signed: bool = False, **fields: bytes
) -> bytes:
    """Make one header; fields are magic, prefix and link."""
    block = bytearray(BLOCK)
    block[: len(name)] = name
    block[100:124] = b"0000644\0" * 3
    block[124:136] = b"%011o\0" % size if isinstance(size, int) else size
    block[136:148] = b"%011o\0" % 0
    block[156:157] = kind
    for at, key in ((157, "link"), (257, "magic"), (345, "prefix")):
        part = fields.get(key, b"ustar\x0000" if key == "magic" else b"")
        block[at : at + len(part)] = part
    return sum_header(block, signed)


def sum_header(block: bytes | bytearray, signed: bool = False) -> bytes:
    """Write the checksum into a header."""
    block = bytearray(block)
    block[148:156] = b" " * 8
    total = sum(byte - 256 if signed and byte > 127 else byte for byte in block)
    block[148:156] = b"%06o\0 " % total
    return bytes(block)


def pad(data: bytes) -> bytes:
    """Fill the last block."""
    return data + bytes(-len(data) % BLOCK)


def make_member(name: bytes = b"a.bin", data: bytes = b"", kind: bytes = b"0", **fields: Any) -> bytes:
    """Make a header and its data."""
    return make_header(name, len(data), kind, **fields) + pad(data)


def make_record(key: bytes, value: bytes) -> bytes:
    """Make one pax record, whose length counts itself."""
    rest = b" " + key + b"=" + value + b"\n"
    length = len(rest)
    while len(b"%d" % length + rest) != length:
        length = len(b"%d" % length + rest)
    return b"%d" % length + rest


def make_pax(*records: tuple[bytes, bytes], kind: bytes = b"x") -> bytes:
    """Make a pax header."""
    return make_member(b"PaxHeader", b"".join(make_record(*record) for record in records), kind)


def make_tar(infos: Iterable[tuple[tarfile.TarInfo, bytes]], form: int) -> bytes:
    """Write an archive by tarfile."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form, errors="surrogateescape", encoding="utf-8") as tar:
        for info, data in infos:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return file.getvalue()


def make_info(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", **attributes: Any) -> tarfile.TarInfo:
    """Describe a member for tarfile."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    for key, value in attributes.items():
        setattr(info, key, value)
    return info


def make_mixed(form: int = tarfile.GNU_FORMAT) -> bytes:
    """Write an archive with short and long names, links and folders."""
    return make_tar([
        (make_info("a/0001.jpg"), b"x" * 700),
        (make_info("a", tarfile.DIRTYPE), b""),
        (make_info("long" * 40 + "/" + "n" * 60), b"y" * 512),
        (make_info("a/link", tarfile.SYMTYPE, "0001.jpg"), b""),
        (make_info("a/hard" * 30, tarfile.LNKTYPE, "t" * 120), b""),
        (make_info("a/0001.cls", mtime=1.5), b"7"),
        (make_info("empty"), b""),
        (make_info("é.bin"), b"z" * 1500),
    ], form)  # fmt: skip


def read_tar(reader: ByteReader, limits: Limits | None = None, reads: ReadSizes = LOCAL_READS) -> MemberTable:
    """Read the table of all members of "x.tar"."""
    return join_tables(list(walk_tar(reader, "x.tar", limits or Limits(), reads)))


def read(data: bytes, limits: Limits | None = None, reads: ReadSizes = LOCAL_READS) -> MemberTable:
    """Read an archive's members."""
    table = read_tar(BytesReader(data), limits, reads)
    check_ranges(table, len(data))
    return table


def check_ranges(table: MemberTable, end: int) -> None:
    """Check that all data lie within the archive."""
    assert (table.size >= 0).all()
    assert (table.offset >= BLOCK).all()
    assert (table.offset + table.size <= end).all()
    assert table.offset.dtype == table.size.dtype == np.int64
    assert table.kind.dtype == np.uint8


def rows(table: MemberTable) -> list[Row]:
    """List members as `rows_of_tarfile` does."""
    return [(name.rstrip("/"), offset, size, kind) for name, offset, size, kind in table]


def rows_of_tarfile(data: bytes) -> list[Row]:
    """List what tarfile finds; it cuts slashes behind names."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
        return [
            (info.name.rstrip("/"), info.offset_data, info.size if info.isreg() else 0, KINDS[info.type])
            for info in tar
        ]


class CountingReader(BytesReader):
    """Counts requests and bytes."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.requests: list[tuple[int, int]] = []

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Note the request."""
        self.requests.append((offset, len(buffer)))
        return super().read_into(buffer, offset)


class MadeUpReader:
    """A huge archive, made where it is read: `make` gives the bytes from an offset on."""

    def __init__(self, size: int, make: Callable[[int, int], bytes]) -> None:
        self._size = size
        self._make = make
        self.bytes_read = 0

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Make the bytes."""
        data = self._make(offset, min(len(buffer), self._size - offset))
        buffer[: len(data)] = data
        self.bytes_read += len(data)
        return len(data)

    def stat(self) -> SourceStat:
        """Size as claimed."""
        return SourceStat(self._size)

    def close(self) -> None:
        """Nothing to release."""


def with_holes(parts: dict[int, bytes], size: int) -> MadeUpReader:
    """Make a reader of zeros with some parts in it."""

    def make(offset: int, count: int) -> bytes:
        made = bytearray(count)
        for at, part in parts.items():
            low, high = max(at, offset), min(at + len(part), offset + count)
            if low < high:
                made[low - offset : high - offset] = part[low - at : high - at]
        return bytes(made)

    return MadeUpReader(size, make)
