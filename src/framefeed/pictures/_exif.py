"""Read the orientation in EXIF (a TIFF directory) and in XMP (XML) as Pillow's ``getexif`` does."""

from __future__ import annotations

import re
import struct

from framefeed.pictures._reads import OddHeader

EXIF = b"Exif\0\0"
# Bytes of one value by type: TIFF 6.0 section 2, BigTIFF's LONG8 (16). Entries of other types are skipped.
_TYPE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8}
_BYTES, _NUMBERS = (1, 7), (3, 4)
_IN_XMP = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')
# TIFF's two byte orders: signature, the start of a file, a count, the entries, and tag 274 with one SHORT as its value.
_LITTLE = (
    b"II*\0",
    struct.Struct("<4sIH").unpack_from,
    struct.Struct("<H").unpack_from,
    struct.Struct("<HHII").iter_unpack,
    b"\x12\x01\3\0\1\0\0\0",
)
_BIG = (
    b"MM\0*",
    struct.Struct(">4sIH").unpack_from,
    struct.Struct(">H").unpack_from,
    struct.Struct(">HHII").iter_unpack,
    b"\x01\x12\0\3\0\0\0\1",
)
_USUAL_OFFSET = 8


class BeyondWindow(Exception):
    """The EXIF directory is not in the bytes that were read."""


def check_orientation(value: int | None) -> int:
    """Return a valid orientation, or 1 for any other value."""
    return value if value is not None and 1 <= value <= 8 else 1


def find_exif_orientation(data: bytes, start: int, end: int) -> int | None:
    """Find tag 274 in the first directory of EXIF data.

    Args:
        data: Bytes that hold at least the directory.
        start: Offset of its TIFF header.
        end: End of the EXIF data, which may be beyond ``data``.

    Returns:
        The value, valid or not; None if there is none.

    Raises:
        BeyondWindow: The directory is beyond ``data``, but not beyond ``end``.
    """
    if start >= end:
        return None
    signature, beginning, number, entries, sought = _LITTLE if data[start : start + 1] == b"I" else _BIG
    try:
        prefix, offset, count = beginning(data, start)
        if prefix != signature:
            raise OddHeader("its EXIF has no TIFF header")
        first = start + offset + 2
        if offset != _USUAL_OFFSET:
            count = number(data, first - 2)[0]
    except struct.error:
        raise BeyondWindow from None
    last = first + 12 * count
    if last > len(data):
        raise BeyondWindow
    at = data.find(sought, first, last)
    if at < 0 or (at - first) % 12:
        # By its tag alone; what lies within an entry is none.
        at = data.find(sought[:2], first, last)
        while at >= 0 and (at - first) % 12:
            at = data.find(sought[:2], at + 1, last)
        if at < 0:
            return None
        if not data.startswith(sought, at):
            raise OddHeader("its orientation is not one short number")
    for _, kind, count, value_offset in entries(data[first:at]):
        # Pillow reads no further than a value that lies beyond the end.
        if (
            count > 1
            and value_offset + count * _TYPE_BYTES.get(kind, 0) > end - start
            and count * _TYPE_BYTES.get(kind, 0) > 4
        ):
            raise OddHeader("a value of its EXIF lies beyond the end")
    value: int = number(data, at + 8)[0]
    return value


def find_part_orientation(part: bytes) -> int | None:
    """Find the orientation in a whole EXIF chunk, which may begin with JPEG's marker."""
    if not part:
        return None
    start = 6 if part.startswith(EXIF) else 0
    try:
        return find_exif_orientation(part, start, len(part))
    except BeyondWindow:
        raise OddHeader("its EXIF directory ends early") from None


def find_xmp_orientation(part: bytes) -> int | None:
    match = _IN_XMP.search(part)
    return int(match[1]) if match else None


def read_directory(part: bytes) -> dict[int, int | bytes]:
    """Read the first directory of a whole chunk: tag -> number, or bytes of the value; skip values of other types."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(part[:4])
    if order is None:
        raise OddHeader("a directory without its TIFF header")
    directory: dict[int, int | bytes] = {}
    try:
        first = struct.unpack_from(order + "I", part, 4)[0] + 2
        for number in range(struct.unpack_from(order + "H", part, first - 2)[0]):
            tag, kind, count, value_offset = struct.unpack_from(order + "HHII", part, first + 12 * number)
            size = _TYPE_BYTES.get(kind, 0) * count
            begin = value_offset if size > 4 else first + 12 * number + 8
            value = part[begin : begin + size]
            if len(value) < size:
                raise OddHeader("a directory whose values are beyond its end")
            if kind in _NUMBERS:
                directory[tag] = int.from_bytes(value, "little" if order == "<" else "big")
            elif kind in _BYTES:
                directory[tag] = value
    except struct.error:
        raise OddHeader("a directory that ends early") from None
    return directory


# EXIF 2.32 table 6: degrees counter-clockwise, then mirrored left to right.
_TURNS = {
    1: (0, False),
    2: (0, True),
    3: (180, False),
    4: (180, True),
    5: (270, True),
    6: (270, False),
    7: (90, True),
    8: (90, False),
}


def convert_exif_orientation(exif_value: int) -> tuple[int, bool]:
    """Convert EXIF's orientation to degrees counter-clockwise, and whether the picture is mirrored after that.

    Anything but 1 to 8 turns nothing.
    """
    return _TURNS.get(exif_value, (0, False))
