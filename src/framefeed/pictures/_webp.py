"""Read WebP headers (the container specification, RFC 6386 for VP8, the lossless bitstream specification)."""

from __future__ import annotations

import struct

from framefeed.pictures._exif import check_orientation, find_part_orientation, find_xmp_orientation
from framefeed.pictures._reads import FileWindow, More, OddHeader, StillHeader

_MAX_READS = 2**14
_MAX_CHUNKS = 2**16
_MAX_PIXELS = 2**32
_RIFF = struct.Struct("<4sI4s4sI").unpack_from
_LOSSY = struct.Struct("<BBB3sHH").unpack_from
_NUMBER = struct.Struct("<I").unpack_from
_CHUNK = struct.Struct("<4sI").unpack
_CHUNK_FRAME_BYTES = 8
_FIRST_PAYLOAD = 20
_ANIMATED, _XMP, _EXIF, _ALPHA = 0x02, 0x04, 0x08, 0x10
_NOTES = {b"EXIF": _EXIF, b"XMP ": _XMP}

_new = tuple.__new__


def read_webp_header(head: bytes, more: More, size: int) -> StillHeader:
    """Read the first chunk, and all chunks of extended files. With ``size``, a cut file is odd."""
    riff, bytes_claimed, form, kind, length = _RIFF(head, 0)
    end = bytes_claimed + _CHUNK_FRAME_BYTES
    if riff != b"RIFF" or form != b"WEBP" or _FIRST_PAYLOAD + length > end or 0 < size < end:
        raise OddHeader("no whole RIFF file of form WEBP")
    if kind == b"VP8 ":
        width, height = _read_lossy_size(head[20:30], length)
        return _new(StillHeader, ("webp", "webp", width, height, "RGB", 1, 1))
    if kind == b"VP8L":
        width, height, has_alpha = _read_lossless_size(head[20:25])
        return _new(StillHeader, ("webp", "webp", width, height, "RGBA" if has_alpha else "RGB", 1, 1))
    if kind != b"VP8X" or length != 10 or len(head) < 30:
        raise OddHeader("an unknown first chunk")
    return _read_extended(FileWindow(head, more, _MAX_READS), end)


def _read_lossy_size(part: bytes, length: int) -> tuple[int, int]:
    """Read a VP8 frame header: RFC 6386 9.1."""
    low, middle, high, sync, width, height = _LOSSY(part)
    is_shown_key = low & 0x11 == 0x10 and low >> 1 & 7 <= 3
    if not is_shown_key or sync != b"\x9d\x01\x2a" or (low >> 5 | middle << 3 | high << 11) >= length:
        raise OddHeader("no key frame of VP8")
    width, height = width & 0x3FFF, height & 0x3FFF
    if not width or not height:
        raise OddHeader("no pixels")
    return width, height


def _read_lossless_size(part: bytes) -> tuple[int, int, bool]:
    bits = _NUMBER(part, 1)[0]
    if part[0] != 0x2F or bits >> 29:
        raise OddHeader("no lossless picture of a known version")
    return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, bool(bits >> 28 & 1)


def _read_extended(file: FileWindow, end: int) -> StillHeader:
    """Walk the chunks: pictures come first, EXIF and XMP behind them."""
    flags = file.read(_FIRST_PAYLOAD, 1)[0]
    width, height = (int.from_bytes(file.read(offset, 3), "little") + 1 for offset in (24, 27))
    has_alpha = bool(flags & _ALPHA)
    num_chunks, num_frames, num_pictures, parts, at = 0, 0, 0, {}, 30
    while at + _CHUNK_FRAME_BYTES <= end:
        num_chunks += 1
        if num_chunks > _MAX_CHUNKS:
            raise OddHeader("too many chunks")
        kind, length = _CHUNK(file.read(at, _CHUNK_FRAME_BYTES))
        payload = at + _CHUNK_FRAME_BYTES
        if kind == b"ANMF":
            num_frames += 1
        elif kind == b"ALPH":
            has_alpha = True
        elif kind in (b"VP8 ", b"VP8L"):
            if kind == b"VP8 ":
                columns, rows = _read_lossy_size(file.read(payload, 10), length)
            else:
                columns, rows, has_alpha = _read_lossless_size(file.read(payload, 5))
            num_pictures += 1
            if (columns, rows) != (width, height):
                raise OddHeader("a picture of another size than the canvas")
        elif flags & _NOTES.get(kind, 0) and kind not in parts:
            parts[kind] = file.read(payload, length)
        at = payload + length + (length & 1)
        if num_pictures and not flags & (_ANIMATED | _EXIF | _XMP):
            break
    is_whole = num_frames and not num_pictures if flags & _ANIMATED else num_pictures == 1 and not num_frames
    if not is_whole or width * height >= _MAX_PIXELS:
        raise OddHeader("no picture, or too many")
    orientation = find_part_orientation(parts.get(b"EXIF", b""))
    if orientation is None:
        orientation = find_xmp_orientation(parts.get(b"XMP ", b""))
    mode, orientation = "RGBA" if has_alpha else "RGB", check_orientation(orientation)
    return _new(StillHeader, ("webp", "webp", width, height, mode, orientation, num_frames or 1))
