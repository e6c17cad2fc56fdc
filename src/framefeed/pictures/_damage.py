"""Find damage in pictures that a library decodes without a word: JPEG by libjpeg's warnings, PNG by its checksums."""

from __future__ import annotations

import re
import struct
import zlib

import simplejpeg  # type: ignore[import-untyped]

_PNG = b"\x89PNG\r\n\x1a\n"
_CHUNK = struct.Struct(">I4s").unpack_from
_CHECKSUM = struct.Struct(">I").unpack_from

_MARKER = re.compile(rb"\xff+([^\x00\xff])")
_SEGMENT_BYTES = struct.Struct(">H").unpack_from
_START_OF_SCAN = 0xDA
_SEQUENTIAL = b"\x00\x3f\x00"
"""Of a start of scan: first and last coefficient, and bits. Some encoders write others, and libjpeg warns of them."""
_FRAMES = frozenset([0xC0, 0xC1, 0xC2, 0xC9, 0xCA])
"""All that are decoded but lossless pictures, which TurboJPEG does not make smaller."""
# T.81 table B.1: DHT, DAC, DQT and DRI.
_DECODED = _FRAMES | {0xC4, 0xCC, 0xDB, 0xDD}

# Messages of libjpeg (jerror.h); of a header without junk, these are all about the pixels.
_DAMAGE = ("Corrupt JPEG data", "Premature end", "Inconsistent progression")
_LEFT_OVER = re.compile(r"Corrupt JPEG data: (\d+) extraneous bytes before marker 0xd9")
_MOST_PADDING_BYTES = 15
"""Zeros up to a multiple of 16 bytes; where data were lost, they go on. A few that were read already do not count."""


def find_damage(data: bytes) -> str | None:
    """Say what is damaged in the data of a picture that can be decoded; None if nothing shows."""
    if data.startswith(b"\xff\xd8"):
        return _find_jpeg_damage(data)
    return _find_png_damage(data) if data.startswith(_PNG) else None


def _find_png_damage(data: bytes) -> str | None:
    """Compare the checksums of the chunks that make the picture: of those of its pixels, Pillow compares none."""
    at, view = len(_PNG), memoryview(data)
    while at + 12 <= len(data):
        size, kind = _CHUNK(data, at)
        stop = at + 8 + size
        # A capital letter marks what is needed to show the picture.
        if kind[:1].isupper() and stop + 4 <= len(data) and _CHECKSUM(data, stop)[0] != zlib.crc32(view[at + 4 : stop]):
            return f"the checksum of its chunk {kind.decode('latin-1')} at byte {at} is another"
        if kind == b"IEND":
            break
        at = stop + 4
    return None


def _find_jpeg_damage(data: bytes) -> str | None:
    """Decode a JPEG as small and grey as can be, and return libjpeg's first warning.

    Of lossless pictures, and of subsampling that TurboJPEG does not know, such as 4:1:0, nothing is found.
    """
    try:
        simplejpeg.decode_jpeg(_strip_header(data), "GRAY", min_height=1, min_width=1)
    except ValueError as error:
        message = str(error)
        return message if message.startswith(_DAMAGE) and not _is_padding(message, data) else None
    return None


def _is_padding(message: str, data: bytes) -> bool:
    """Whether the bytes that libjpeg warns of are zeros between the pixels and the end of the picture."""
    left = _LEFT_OVER.match(message)
    count = int(left[1]) if left else 0
    return 0 < count <= _MOST_PADDING_BYTES and bytes(count) + b"\xff\xd9" in data


def _strip_header(data: bytes) -> bytes:
    """Leave out what is not needed to decode a JPEG up to its pixels: only libjpeg's first warning can be read."""
    kept, at, is_sequential = [b"\xff\xd8"], 2, False
    while (match := _MARKER.search(data, at)) is not None and match.end() + 2 <= len(data):
        marker, start = match[1][0], match.end()
        stop = start + _SEGMENT_BYTES(data, start)[0]
        if marker == _START_OF_SCAN:
            end = _SEQUENTIAL if is_sequential else data[stop - 3 : stop]
            kept.append(b"\xff\xda" + data[start : stop - 3] + end + data[stop:])
            break
        if marker in _DECODED:
            kept.append(b"\xff" + match[1] + data[start:stop])
        if marker in _FRAMES:
            is_sequential = marker in (0xC0, 0xC1)
        at = stop
    return b"".join(kept)
