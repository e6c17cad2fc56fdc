"""Read the headers of pictures that framefeed does not decode, so that a catalog has their sizes.

JPEG of other than 8 bits or of a rare process (ITU-T T.81 B.2), HEIC (ISO/IEC 23008-12, boxes of 14496-12), JPEG XL
(ISO/IEC 18181-1 D.2 and E.2, boxes of 18181-2), PAM and colour PFM (netpbm).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from framefeed.mp4 import Box, OddMovie, list_boxes
from framefeed.pictures._exif import EXIF, check_orientation, find_part_orientation, make_exif_orientation
from framefeed.pictures._jpeg import DECODED_FRAMES
from framefeed.pictures._reads import MAX_PART_BYTES, FileWindow, More, OddHeader, StillHeader

_MAX_STEPS = 256
_LIBAV_MOV = "mov,mp4,m4a,3gp,3g2,mj2"
"""Libav's name of the container of HEIC pictures in one tile."""
# T.81 table B.1 without DHT, JPG and DAC.
_FRAMES = frozenset(range(0xFFC0, 0xFFD0)) - {0xFFC4, 0xFFC8, 0xFFCC}
_LOSSLESS = frozenset({0xFFC3, 0xFFC7, 0xFFCB, 0xFFCF})
_SEGMENT = struct.Struct(">HH")
_FRAME = struct.Struct(">BHHB")
_START_OF_SCAN, _APP1, _FILL = 0xFFDA, 0xFFE1, 0xFFFF
_XL_RATIOS = {1: (1, 1), 2: (12, 10), 3: (4, 3), 4: (3, 2), 5: (16, 9), 6: (5, 4), 7: (2, 1)}
_XL_BITS = (9, 13, 18, 30)
_XL_HEAD_BYTES = 16
_SIZE_OF_PNM = re.compile(rb"PF\s+([0-9]{1,9})\s+([0-9]{1,9})\s")
_SIZE_OF_PAM = re.compile(rb"^(WIDTH|HEIGHT)\s+([0-9]{1,9})\s*$", re.MULTILINE)

# Sources: the formats' own specifications; ISO/IEC 23008-12 for the brands.
JPEG_XL_MAGIC = (b"\xff\x0a", b"\0\0\0\x0cJXL \r\n\x87\n")
OTHER_PICTURES = {
    b"\0\0\0\x0cjP  \r\n\x87\n": "JPEG 2000",
    b"\xff\x4f\xff\x51": "JPEG 2000",
    b"8BPS": "Photoshop",
    b"qoif": "QOI",
    b"v/1\x01": "OpenEXR",
    b"DDS ": "DDS",
}
"""First bytes of pictures that framefeed names and does not decode."""
IMAGE_BRANDS = {b"avif", b"avis", b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1"}
_AVIF_BRANDS = {b"avif", b"avis"}

Undecoded = tuple[str, StillHeader]
"""Kind of the picture, for messages, and its header."""


def read_undecoded_header(head: bytes, more: More) -> Undecoded | None:
    """Read the header of a picture that Pillow does not decode; None for other and damaged ones.

    Args:
        head: The first ``HEAD_BYTES`` bytes, or the whole of a shorter file.
        more: Reads further.
    """
    file = FileWindow(head, more, _MAX_STEPS)
    try:
        if head.startswith(b"\xff\xd8"):
            return _read_jpeg(file)
        if head.startswith((b"\xff\x0a", b"\0\0\0\x0cJXL ")):
            return "JPEG XL picture", _read_jpeg_xl(file)
        if name_undecoded_format(head) == "HEIC":
            return "HEIC picture", _read_heic(file)
        if (match := _SIZE_OF_PNM.match(head)) is not None:
            return "PFM picture", _make_header("pfm", "pfm", int(match[1]), int(match[2]), bit_depth=32)
        if head.startswith(b"P7\n"):
            sides = dict(_SIZE_OF_PAM.findall(head.partition(b"\nENDHDR\n")[0]))
            width, height = int(sides.get(b"WIDTH", 0)), int(sides.get(b"HEIGHT", 0))
            return "PAM picture", _make_header("pam", "pam", width, height)
    except (OddHeader, OddMovie, struct.error, IndexError):
        pass  # damaged
    return None


def _make_header(
    container: str, codec: str, width: int, height: int, orientation: int = 1, bit_depth: int = 8
) -> StillHeader:
    if not width or not height:
        raise OddHeader("no picture has a side of 0")
    return StillHeader(container, codec, width, height, "", bit_depth, orientation, 1, is_animated=False)


def _read_jpeg(file: FileWindow) -> Undecoded | None:
    at, orientation = 2, 1
    for _ in range(_MAX_STEPS):
        marker, length = _SEGMENT.unpack(file.read(at, 4))
        if marker == _FILL:
            at += 1
            continue
        if marker == _APP1 and file.read_up_to(at + 4, len(EXIF)) == EXIF:
            orientation = check_orientation(find_part_orientation(file.read(at + 4, length - 2)))
        elif marker in _FRAMES:
            bits, height, width, _ = _FRAME.unpack(file.read(at + 4, _FRAME.size))
            if bits == 8 and marker in DECODED_FRAMES:
                return None
            kind = f"{bits}-bit {'lossless ' if marker in _LOSSLESS else ''}JPEG picture"
            if bits == 8 and marker not in _LOSSLESS:
                kind = "JPEG picture of a rare process"
            return kind, _make_header("jpeg", "mjpeg", width, height, orientation, bits)
        elif marker == _START_OF_SCAN or marker <= 0xFF01:
            return None
        at += length + 2
    return None


def _read_jpeg_xl(file: FileWindow) -> StillHeader:
    data = file.read_up_to(0, _XL_HEAD_BYTES)
    if not data.startswith(b"\xff\x0a"):
        start = next(
            begin + 4 * (kind == b"jxlp") for kind, begin, _ in _walk_boxes(file) if kind in (b"jxlc", b"jxlp")
        )
        data = file.read_up_to(start, _XL_HEAD_BYTES)
    if not data.startswith(b"\xff\x0a"):
        raise OddHeader("no codestream of JPEG XL")
    bits = _LowBitsFirst(data[2:])
    by_eight = bits.read(1)
    height = _read_xl_side(bits, by_eight)
    ratio = bits.read(3)
    if ratio:
        above, below = _XL_RATIOS[ratio]
        width = height * above // below
    else:
        width = _read_xl_side(bits, by_eight)
    # ImageMetadata: all_default, extra_fields, orientation - 1.
    has_orientation = not bits.read(1) and bits.read(1)
    return _make_header("jxl", "jpegxl", width, height, bits.read(3) + 1 if has_orientation else 1)


def _read_xl_side(bits: _LowBitsFirst, by_eight: int) -> int:
    return 8 * (bits.read(5) + 1) if by_eight else bits.read(_XL_BITS[bits.read(2)]) + 1


class _LowBitsFirst:
    """Numbers of a fixed count of bits, least significant first."""

    def __init__(self, data: bytes) -> None:
        self._value, self._left = int.from_bytes(data, "little"), 8 * len(data)

    def read(self, count: int) -> int:
        self._left -= count
        if self._left < 0:
            raise OddHeader("ends early")
        number, self._value = self._value & (1 << count) - 1, self._value >> count
        return number


def _walk_boxes(file: FileWindow) -> Iterator[tuple[bytes, int, int]]:
    """Yield kind, start and end of the payloads of a file's boxes; the end of the last may be open: -1."""
    at = 0
    for _ in range(_MAX_STEPS):
        size, kind = struct.unpack(">I4s", file.read(at, 8))
        head = 8
        if size == 1:
            (size,), head = struct.unpack(">Q", file.read(at + 8, 8)), 16
        if size and size < head:
            raise OddHeader("a box shorter than its header")
        yield kind, at + head, at + size if size else -1
        if not size:
            break
        at += size
    raise OddHeader("no more boxes")


def _read_heic(file: FileWindow) -> StillHeader:
    start, end = next((start, end) for kind, start, end in _walk_boxes(file) if kind == b"meta")
    if not 0 <= end - start <= MAX_PART_BYTES:
        raise OddHeader("large tables")
    data = file.read(start, end - start)
    top = {box.kind: box for box in list_boxes(data, 4, len(data))}
    parts = list_boxes(data, top[b"iprp"].start, top[b"iprp"].end) if {b"iprp", b"pitm"} <= top.keys() else []
    properties = [box for part in parts if part.kind == b"ipco" for box in list_boxes(data, part.start, part.end)]
    numbers = [
        number for part in parts if part.kind == b"ipma" for number in _read_property_numbers(data, part, top[b"pitm"])
    ]
    width = height = rotation = 0
    mirrored = False
    for box in (properties[number - 1] for number in numbers if number):
        payload = data[box.start : box.end]
        if box.kind == b"ispe":
            width, height = struct.unpack_from(">II", payload, 4)
        elif box.kind == b"irot":
            rotation += (-90 if mirrored else 90) * (payload[0] & 3)
        elif box.kind == b"imir":
            # Top to bottom equals left to right after half a turn.
            rotation += 0 if payload[0] & 1 else 180
            mirrored = not mirrored
    return _make_header(_LIBAV_MOV, "hevc", width, height, make_exif_orientation(rotation % 360, mirrored=mirrored))


def _read_property_numbers(data: bytes, table: Box, primary: Box) -> list[int]:
    """Read the numbers, from 1, of the properties of the primary item, in their order."""
    primary_item = _read_item(data, primary.start + 4, is_long=bool(data[primary.start]))
    is_long, wide = bool(data[table.start]), data[table.start + 3] & 1
    (count,) = struct.unpack_from(">I", data, table.start + 4)
    at = table.start + 8
    for _ in range(count):
        item = _read_item(data, at, is_long=is_long)
        at += 4 if is_long else 2
        number, at = data[at], at + 1
        if item == primary_item:
            values = struct.unpack_from(f">{number}{'H' if wide else 'B'}", data, at)
            return [value & (0x7FFF if wide else 0x7F) for value in values]
        at += number << wide
        if at >= table.end:
            break
    return []


def _read_item(data: bytes, at: int, *, is_long: bool) -> int:
    return int.from_bytes(data[at : at + (4 if is_long else 2)], "big")


def name_undecoded_format(head: bytes) -> str | None:
    """Name the format of a picture that Pillow does not decode here, such as "HEIC"; None for others."""
    for magic, name in OTHER_PICTURES.items():
        if head.startswith(magic):
            return name
    if head.startswith(JPEG_XL_MAGIC):
        return "JPEG XL"
    if head[4:8] != b"ftyp" or head[8:12] not in IMAGE_BRANDS or is_avif(head):
        return None
    return "HEIC"


def is_avif(head: bytes) -> bool:
    """Whether a file names a brand of AVIF: its major one, or one that it is compatible with."""
    end = min(int.from_bytes(head[:4], "big"), len(head))
    brands = {head[8:12], *(head[at : at + 4] for at in range(16, end, 4))}
    return head[4:8] == b"ftyp" and bool(brands & _AVIF_BRANDS)
