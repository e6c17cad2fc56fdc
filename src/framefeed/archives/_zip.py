"""Read the directory of a zip archive (APPNOTE 6.3), and find where the data of stored members begin.

The directory stands at the archive's end. Names and lengths stand a second time in a header before each member's data,
and only that header says how long it is.
"""

from __future__ import annotations

import stat
import struct
from array import array
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from sys import intern
from typing import NamedTuple

import numpy as np

from framefeed._arrays import IntArray
from framefeed._stopping import check_stop
from framefeed._values import ByteReader, Limits, announce_reads, make_limit_error, read_bytes
from framefeed.archives._tables import ArchiveDamage, MemberKind, MemberTable, join_tables
from framefeed.errors import CorruptMedia, UnreadableMedia

_END = struct.Struct("<4s4H2LH")
_END_MAGIC = b"PK\5\6"
_LOCATOR = struct.Struct("<4sLQL")
_LOCATOR_MAGIC = b"PK\6\7"
_END_64 = struct.Struct("<4sQ2H2L4Q")
_END_64_MAGIC = b"PK\6\6"
_ENTRY = struct.Struct("<4s6H3L5H2L")
_ENTRY_MAGIC = b"PK\1\2"
_LOCAL = struct.Struct("<4s5H3L2H")
_LOCAL_MAGIC = b"PK\3\4"
_EXTRA = struct.Struct("<2H")
_ZIP_64 = 1
# The longest comment, and the three records before it.
_TAIL_BYTES = 2**16 - 1 + _END.size + _LOCATOR.size + _END_64.size
_IN_ZIP_64 = 2**32 - 1
_LARGEST = 2**62
_ENTRIES_AT_ONCE = 4096

_STORED = 0
# Bits of an entry: encrypted, sizes follow the data, encrypted more strongly, UTF-8, its facts are hidden.
_ENCRYPTED = 1 << 0 | 1 << 6 | 1 << 13
_HAS_SIZES_BEHIND = 1 << 3
_IS_UTF_8 = 1 << 11
_AES = 99
_UNIX = 3
_METHODS = {8: "deflate", 9: "deflate64", 12: "bzip2", 14: "LZMA", 93: "Zstandard", 95: "xz", 98: "PPMd"}

_REPACK = "unpack the archive, and pack it again without compression: zip -0 -r NEW.zip FOLDER"
_COPY = "copy the archive again, or pack it anew: zip -0 -r NEW.zip FOLDER"
REPLACED = "is written again further on under the same name: that member is read in its place"
_OVER = f"lies over the member behind it, or over the directory: {_COPY}"


class _Directory(NamedTuple):
    """Where the directory is, and how many members the archive claims."""

    start: int  # its first byte
    size: int  # its bytes
    claimed: int  # members that the archive claims
    shift: int  # bytes before the archive's own first one, such as a program that unpacks it


@dataclass(slots=True)
class _Entries:
    """What the directory says of the members: columns of one length."""

    names: list[bytes] = field(default_factory=list)
    flags: array[int] = field(default_factory=lambda: array("H"))
    method: array[int] = field(default_factory=lambda: array("H"))
    mode: array[int] = field(default_factory=lambda: array("H"))
    header: array[int] = field(default_factory=lambda: array("q"))
    packed: array[int] = field(default_factory=lambda: array("q"))
    size: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.names)

    def decode_name(self, row: int) -> str:
        """Decode a name as Python's ``zipfile`` does; UTF-8 that is none keeps its bytes as surrogates."""
        name = self.names[row].partition(b"\0")[0]
        return name.decode("utf-8", "surrogateescape") if self.flags[row] & _IS_UTF_8 else name.decode("cp437")

    def get_kind(self, row: int) -> MemberKind:
        if self.names[row].endswith(b"/"):
            return MemberKind.FOLDER
        return MemberKind.SYMLINK if stat.S_ISLNK(self.mode[row]) else MemberKind.FILE

    def count_least(self, row: int) -> int:
        """Count the bytes of the header before the data, without its extra field."""
        return _LOCAL.size + len(self.names[row])

    def explain(self, row: int, last_of: dict[bytes, int], limit_of: IntArray) -> str:
        """Explain why a member cannot be read in place, as far as the directory says; empty if it can."""
        if self.get_kind(row) != MemberKind.FILE:
            return "is a link: read the member that it links to" if self.get_kind(row) == MemberKind.SYMLINK else ""
        method = self.method[row]
        if self.flags[row] & _ENCRYPTED or method == _AES:
            return f"is encrypted, so it cannot be read in place: {_REPACK}"
        if method != _STORED:
            how = _METHODS.get(method, f"method {method}")
            return f"is compressed with {how}, so it cannot be read in place: {_REPACK}"
        if self.packed[row] != self.size[row]:
            return f"is stored, but the directory gives it two sizes, {self.packed[row]} and {self.size[row]}: {_COPY}"
        if last_of[self.names[row]] != row:
            return REPLACED
        return _OVER if self.header[row] + self.count_least(row) + self.size[row] > limit_of[row] else ""


def read_zip(reader: ByteReader, name: str, limits: Limits, members: Container[str] | None = None) -> MemberTable:
    """Read the table of all members, or of those that have some names; see `walk_zip`."""
    return join_tables(list(walk_zip(reader, name, limits, members)))


def walk_zip(
    reader: ByteReader, name: str, limits: Limits, members: Container[str] | None = None
) -> Iterator[MemberTable]:
    """Read the directory, then the headers of stored members, and yield the members by a few thousand.

    The headers of one table are announced, so remote ones are asked for at once. Of limits, ``max_members`` bounds the
    members, ``max_header_bytes`` the directory.

    Raises:
        UnreadableMedia: The file is no zip archive, is cut, or is one of several parts.
        LimitExceeded: Its directory is larger than the limits allow.
    """
    end = reader.stat().bytes
    directory = _find_directory(reader, end, name, limits)
    entries, odd = _read_entries(reader, directory, name, limits)
    if odd is None and directory.shift and read_bytes(reader, 0, len(_LOCAL_MAGIC)) == _LOCAL_MAGIC:
        odd = _make_damage(
            name, 0, f"its first {directory.shift} bytes are another archive, whose members are not read"
        )
    limit_of = _find_limits(entries, directory)
    last_of = {each: row for row, each in enumerate(entries.names)}
    wanted = [row for row in range(len(entries)) if members is None or entries.decode_name(row) in members]
    for start in range(0, len(wanted) or 1, _ENTRIES_AT_ONCE):
        rows = wanted[start : start + _ENTRIES_AT_ONCE]
        is_last = start + _ENTRIES_AT_ONCE >= len(wanted)
        yield _make_table(reader, entries, rows, limit_of, last_of, odd if is_last else None)


def _find_directory(reader: ByteReader, end: int, name: str, limits: Limits) -> _Directory:
    """Find the directory by the records at the archive's end, and check what it claims."""
    base = max(end - _TAIL_BYTES, 0)
    tail = read_bytes(reader, base, end - base)
    at, has_more = _find_end(tail)
    no_directory = f"has no directory at its end: it is cut, or no zip archive. If it is one, {_COPY}"
    if at < 0:
        raise _make_error(name, no_directory if end else "is empty (0 bytes), not a zip archive")
    _, disk, first_disk, _, count, size, offset, _ = _END.unpack_from(tail, at)
    found = _find_end_64(reader, tail, base, at)
    if found is not None:
        record, position = found
        disk, first_disk, _, count, size, offset = record[4:]
        at = position - base
    if disk or first_disk:
        raise _make_error(name, "is one part of several: join them first, zip -s 0 IN.zip --out NEW.zip")
    start = base + at - size
    if start < 0 or offset > start:
        raise _make_error(name, f"claims a directory of {size} bytes at byte {offset}, where none fits: {_COPY}")
    if has_more and start != offset:  # It may be that of an archive within one that is cut.
        raise _make_error(name, no_directory)
    if count > limits.max_members:
        raise make_limit_error(limits, "max_members", f"{count} members", name, "open")
    if size > limits.max_header_bytes:
        raise make_limit_error(limits, "max_header_bytes", f"a directory of {size} bytes", name, "open")
    return _Directory(start, size, count, start - offset)


def _find_end(tail: bytes) -> tuple[int, bool]:
    """Find the last record, and whether anything is behind it and its comment; -1 if there is none.

    A comment may hold what looks like the record: that one counts whose comment ends with the file, if there is one.
    """
    last, at = -1, tail.rfind(_END_MAGIC, 0, max(len(tail) - _END.size + len(_END_MAGIC), 0))
    while at >= 0:
        stop = at + _END.size + _END.unpack_from(tail, at)[7]
        if stop == len(tail):
            return at, False
        if last < 0 and stop < len(tail):
            last = at
        at = tail.rfind(_END_MAGIC, 0, at + len(_END_MAGIC) - 1)
    return last, True


def _find_end_64(reader: ByteReader, tail: bytes, base: int, at: int) -> tuple[tuple[int, ...], int] | None:
    """Find the record that large archives have before the last one, and its position; None if there is none."""
    locator = at - _LOCATOR.size
    if locator < 0 or not tail.startswith(_LOCATOR_MAGIC, locator):
        return None
    # Where the locator says, or, if something stands before the archive, right before the locator.
    for position in (_LOCATOR.unpack_from(tail, locator)[2], base + locator - _END_64.size):
        if 0 <= position <= base + locator - _END_64.size:
            record = read_bytes(reader, position, _END_64.size)
            if len(record) == _END_64.size and record.startswith(_END_64_MAGIC):
                return _END_64.unpack(record), position
    return None


def _make_error(name: str, what: str) -> UnreadableMedia:
    return UnreadableMedia(f"{name}: {what}", source=name, stage="open")


def _read_entries(
    reader: ByteReader, directory: _Directory, name: str, limits: Limits
) -> tuple[_Entries, ArchiveDamage | None]:
    """Read the directory as far as it is sound."""
    announce_reads(reader, lambda: [(directory.start, directory.start + directory.size)])
    data = read_bytes(reader, directory.start, directory.size)
    entries, at, odd = _Entries(), 0, ""
    while at < len(data) and not odd:
        if len(entries) % _ENTRIES_AT_ONCE == 0:
            check_stop()
        if len(entries) == limits.max_members:
            raise make_limit_error(limits, "max_members", f"over {limits.max_members} members", name, "open")
        if not data.startswith(_ENTRY_MAGIC, at) or len(data) < at + _ENTRY.size:
            odd = "its directory has something else than an entry"
            break
        _, made, _, flags, method, _, _, _, packed, size, *lengths, _, _, attributes, header = _ENTRY.unpack_from(
            data, at
        )
        stop = at + _ENTRY.size + sum(lengths)
        if stop > len(data):
            odd = "its directory ends within an entry"
            break
        first = at + _ENTRY.size
        extra = first + lengths[0]
        if _IN_ZIP_64 in (packed, size, header):
            size, packed, header = _read_zip_64(data[extra : extra + lengths[1]], (size, packed, header))
        entries.names.append(data[first:extra])
        entries.flags.append(flags)
        entries.method.append(method)
        entries.mode.append(attributes >> 16 if made >> 8 == _UNIX else 0)
        entries.header.append(min(header + directory.shift, _LARGEST))
        entries.packed.append(min(packed, _LARGEST))
        entries.size.append(min(size, _LARGEST))
        at = stop
    # Old programs count 65,536 as 0.
    if not odd and (len(entries) - directory.claimed) % 2**16:
        odd = f"its directory has {len(entries)} entries, and its last record claims {directory.claimed}"
    return entries, _make_damage(name, directory.start + at, odd) if odd else None


def _read_zip_64(extra: bytes, values: tuple[int, int, int]) -> Iterator[int]:
    """Replace those of size, packed size and offset that need 64 bits; they stay as they are if they are missing."""
    wide = b""
    at = 0
    while at + _EXTRA.size <= len(extra):
        key, length = _EXTRA.unpack_from(extra, at)
        at += _EXTRA.size
        if key == _ZIP_64:
            wide = extra[at : at + length]
            break
        at += length
    for value in values:
        if value == _IN_ZIP_64 and len(wide) >= 8:
            value, wide = int.from_bytes(wide[:8], "little"), wide[8:]
        yield value


def _make_damage(name: str, offset: int, reason: str) -> ArchiveDamage:
    error = CorruptMedia(
        f"{name}: is damaged at byte {offset}: {reason}. The members that are listed can be read; for others {_COPY}",
        source=name,
        stage="open",
    )
    return ArchiveDamage(offset, None, error)


def _find_limits(entries: _Entries, directory: _Directory) -> IntArray:
    """Find for each member the byte where the next one, or the directory, begins, int64 [M]."""
    header = np.array(entries.header, np.int64)
    order = np.argsort(header, kind="stable")
    limit_of = np.empty(len(header), np.int64)
    limit_of[order] = np.append(header[order][1:], directory.start)
    return np.minimum(limit_of, directory.start)


def _make_table(
    reader: ByteReader,
    entries: _Entries,
    rows: list[int],
    limit_of: IntArray,
    last_of: dict[bytes, int],
    damage: ArchiveDamage | None,
) -> MemberTable:
    """Make the table of some rows; the headers of those that can be read are read in the order of their bytes."""
    kinds = [entries.get_kind(row) for row in rows]
    reasons = {
        number: reason for number, row in enumerate(rows) if (reason := intern(entries.explain(row, last_of, limit_of)))
    }
    offset, size = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    stored = [
        (entries.header[row], number, row)
        for number, row in enumerate(rows)
        if kinds[number] == MemberKind.FILE and number not in reasons
    ]
    stored.sort()
    announce_reads(reader, lambda: [(header, header + entries.count_least(row)) for header, _, row in stored])
    for header, number, row in stored:
        data, reason = _check_header(read_bytes(reader, header, entries.count_least(row)), entries, row)
        if not reason and data + entries.size[row] > limit_of[row]:
            reason = _OVER
        if reason:
            reasons[number] = reason
        else:
            offset[number], size[number] = data, entries.size[row]
    names = [entries.decode_name(row) for row in rows]
    return MemberTable(names, offset, size, np.array(kinds, np.uint8), {}, reasons, damage)


def _check_header(block: bytes, entries: _Entries, row: int) -> tuple[int, str]:
    """Find where the data begin by the header before them, or a reason why it does not fit the directory."""
    name = entries.names[row]
    where = f"byte {entries.header[row]}, where the directory says that it begins"
    if len(block) < _LOCAL.size or not block.startswith(_LOCAL_MAGIC):
        return 0, f"has no header at {where}: {_COPY}"
    _, _, flags, method, _, _, _, packed, size, name_length, extra_length = _LOCAL.unpack_from(block)
    if name_length != len(name) or block[_LOCAL.size :] != name:
        return 0, f"has another name at {where}: {_COPY}"
    # Where they follow the data they may be 0 here; those of 64 bits are in the extra field.
    unknown = (_IN_ZIP_64, 0) if flags & _HAS_SIZES_BEHIND else (_IN_ZIP_64,)
    if method != _STORED or any(each != entries.size[row] and each not in unknown for each in (packed, size)):
        return 0, f"has another size or method at {where}: {_COPY}"
    return entries.header[row] + _LOCAL.size + name_length + extra_length, ""
