"""Name pictures that framefeed does not decode; read the size of JPEGs of other than 8 bits or of a rare process."""

from __future__ import annotations

import struct

from framefeed.pictures._exif import EXIF, check_orientation, find_part_orientation
from framefeed.pictures._jpeg import DECODED_FRAMES
from framefeed.pictures._reads import FileWindow, More, OddHeader, StillHeader

_MAX_STEPS = 256
# ITU-T T.81 table B.1 without DHT, JPG and DAC.
_FRAMES = frozenset(range(0xFFC0, 0xFFD0)) - {0xFFC4, 0xFFC8, 0xFFCC}
_LOSSLESS = frozenset({0xFFC3, 0xFFC7, 0xFFCB, 0xFFCF})
_SEGMENT = struct.Struct(">HH")
_FRAME = struct.Struct(">BHHB")
_START_OF_SCAN, _APP1, _FILL = 0xFFDA, 0xFFE1, 0xFFFF

# Sources: the formats' own specifications; ISO/IEC 23008-12 for the brands.
JPEG_XL_MAGIC = (b"\xff\x0a", b"\0\0\0\x0cJXL \r\n\x87\n")
OTHER_PICTURES = {
    b"\0\0\0\x0cjP  \r\n\x87\n": "JPEG 2000",
    b"\xff\x4f\xff\x51": "JPEG 2000",
    b"8BPS": "Photoshop",
    b"qoif": "QOI",
    b"v/1\x01": "OpenEXR",
    b"DDS ": "DDS",
    b"P7\n": "PAM",
    b"PF\n": "PFM",
} | dict.fromkeys(JPEG_XL_MAGIC, "JPEG XL")
"""First bytes of pictures that framefeed names and does not decode."""
IMAGE_BRANDS = {b"avif", b"avis", b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1"}
_AVIF_BRANDS = {b"avif", b"avis"}

Undecoded = tuple[str, StillHeader]
"""Kind of the picture, for messages, and its header."""


def read_undecoded_jpeg(head: bytes, more: More) -> Undecoded | None:
    """Read the header of a JPEG that Pillow does not decode; None for other files, and damaged ones.

    ``head``: the first ``HEAD_BYTES`` bytes, or the whole of a shorter file.
    """
    try:
        return _read_jpeg(FileWindow(head, more, _MAX_STEPS)) if head.startswith(b"\xff\xd8") else None
    except (OddHeader, struct.error, IndexError):
        return None  # damaged


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
            if not width or not height:
                raise OddHeader("no picture has a side of 0")
            return kind, StillHeader("jpeg", "mjpeg", width, height, "", orientation, 1)
        elif marker == _START_OF_SCAN or marker <= 0xFF01:
            return None
        at += length + 2
    return None


def name_undecoded_format(head: bytes) -> str | None:
    """Name the format of a picture that Pillow does not decode here, such as "HEIC"; None for others."""
    for magic, name in OTHER_PICTURES.items():
        if head.startswith(magic):
            return name
    if head[4:8] != b"ftyp" or head[8:12] not in IMAGE_BRANDS or is_avif(head):
        return None
    return "HEIC"


def is_avif(head: bytes) -> bool:
    """Whether a file names a brand of AVIF: its major one, or one that it is compatible with."""
    end = min(int.from_bytes(head[:4], "big"), len(head))
    brands = {head[8:12], *(head[at : at + 4] for at in range(16, end, 4))}
    return head[4:8] == b"ftyp" and bool(brands & _AVIF_BRANDS)
