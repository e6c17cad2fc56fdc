"""Read PNG and APNG headers (W3C PNG, third edition): chunks before and behind the image data."""

from __future__ import annotations

import struct
import zlib

from framefeed.pictures._exif import check_orientation, find_part_orientation, find_xmp_orientation
from framefeed.pictures._reads import MAX_PART_BYTES, FileWindow, More, OddHeader, StillHeader

_MAX_READS = 256
_MAX_NOTES = 256
_START = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
_HEADER = struct.Struct(">IIHBBBIII").unpack_from
_CHUNK = struct.Struct(">II").unpack_from
_NUMBER = struct.Struct(">I").unpack_from
_FIRST_CHUNK = 33
_CHUNK_FRAME_BYTES = 12
"""Length, type and checksum of a chunk; all of the last one (IEND)."""
# Pillow's mode by bit depth and colour type.
_MODES = {
    **dict.fromkeys((0x0200, 0x0400, 0x0800), "L"),
    **dict.fromkeys((0x0103, 0x0203, 0x0403, 0x0803), "P"),
    **dict.fromkeys((0x0802, 0x1002), "RGB"),
    **dict.fromkeys((0x1004, 0x0806, 0x1006), "RGBA"),
    0x0100: "1",
    0x1000: "I;16",
    0x0804: "LA",
}
_DATA, _END, _EXIF, _CONTROL, _FRAME_CONTROL, _TEXT, _PACKED_TEXT, _INTERNATIONAL_TEXT = (
    int.from_bytes(kind, "big") for kind in (b"IDAT", b"IEND", b"eXIf", b"acTL", b"fcTL", b"tEXt", b"zTXt", b"iTXt")
)
_LEAST_TYPE = int.from_bytes(b"AAAA", "big")
_NOTE_TYPES = frozenset([_TEXT, _PACKED_TEXT, _INTERNATIONAL_TEXT, _EXIF])
_FACT_TYPES = _NOTE_TYPES | {_CONTROL, _FRAME_CONTROL}
_PROFILE = b"Raw profile type exif"
_XMP = b"XML:com.adobe.xmp"
_KEYWORDS = (_PROFILE + b"\0", _XMP + b"\0", b"exif\0", b"xmp\0")
_KEYWORD_BYTES = 24
_MAX_FRAMES = 2**31

_crc32 = zlib.crc32
_new = tuple.__new__
Chunk = tuple[int, int, int]
"""Type, offset of the payload in the file, and its bytes."""


def read_png_header(head: bytes, more: More, size: int) -> StillHeader:
    """Read the first chunk, and the chunks with facts before the image data.

    With ``size``, also read those behind the image data, where some writers put EXIF: one short read, or none.
    """
    width, height, pixels, _, filtering, _, checksum, length, kind = _HEADER(head, 16)
    if not head.startswith(_START) or _crc32(head[12:29]) != checksum:
        raise OddHeader("no plain IHDR at its beginning")
    mode = _MODES[pixels]
    if filtering or not width or not height:
        raise OddHeader("no pixels, or filtered in another way")
    if kind == _DATA and length + _FIRST_CHUNK + 2 * _CHUNK_FRAME_BYTES == size:
        return _new(StillHeader, ("png", "png", width, height, mode, 1, 1))
    at, edge, file = _FIRST_CHUNK, len(head) - 8, None
    notes: tuple[Chunk, ...] = ()
    while kind != _DATA:
        if kind in _FACT_TYPES:
            notes += ((kind, at + 8, length),)
            if len(notes) > _MAX_NOTES:
                raise OddHeader("too many notes")
        at += length + _CHUNK_FRAME_BYTES
        if at <= edge:
            length, kind = _CHUNK(head, at)
        else:
            file = file or FileWindow(head, more, _MAX_READS)
            length, kind = _read_chunk(file, at)
    if size and at + length + 2 * _CHUNK_FRAME_BYTES != size:
        file = file or FileWindow(head, more, _MAX_READS)
        notes += _find_notes_behind(file, at, length, size, {kind for kind, _, _ in notes})
    if not notes:
        return _new(StillHeader, ("png", "png", width, height, mode, 1, 1))
    orientation, num_frames = _read_notes(file or FileWindow(head, more, _MAX_READS), notes)
    return _new(StillHeader, ("png", "png", width, height, mode, orientation, num_frames))


def _find_notes_behind(file: FileWindow, at: int, length: int, size: int, types_before: set[int]) -> tuple[Chunk, ...]:
    """Find the notes behind the image data.

    Writers cut image data into chunks of one size, and a rest, so that the last chunk's offset can be computed.

    ``at``: offset of the first chunk of image data.
    ``length``: bytes of its payload.
    ``types_before``: types of the notes before the image data: EXIF there counts before any behind.
    """
    if _EXIF in types_before:
        return ()
    if _CONTROL in types_before:
        return _collect_notes(file, at)
    step = length + _CHUNK_FRAME_BYTES
    low, high = 0, (size - _CHUNK_FRAME_BYTES - at - 1) // step
    if high < 0:
        raise OddHeader("ends early")
    last = at + high * step
    rest, kind = _CHUNK(file.read(last, 8))
    if kind == _DATA:
        return () if last + rest + 2 * _CHUNK_FRAME_BYTES == size else _collect_notes(file, last)
    high -= 1
    while low < high:
        middle = (low + high + 1) // 2
        if _CHUNK(file.read(at + middle * step, 8)) == (length, _DATA):
            low = middle
        else:
            high = middle - 1
    return _collect_notes(file, at + low * step)


def _read_chunk(file: FileWindow, at: int) -> tuple[int, int]:
    length, kind = _CHUNK(file.read(at, 8))
    if kind < _LEAST_TYPE:
        raise OddHeader("something that is no chunk")
    return length, kind


def _collect_notes(file: FileWindow, at: int) -> tuple[Chunk, ...]:
    """Collect notes up to the end, or to the next frame of an animation."""
    notes: tuple[Chunk, ...] = ()
    while True:
        length, kind = _read_chunk(file, at)
        if kind in (_END, _FRAME_CONTROL):
            return notes
        if kind in _NOTE_TYPES:
            notes += ((kind, at + 8, length),)
            if len(notes) > _MAX_NOTES:
                raise OddHeader("too many notes")
        at += length + _CHUNK_FRAME_BYTES


def _read_notes(file: FileWindow, notes: tuple[Chunk, ...]) -> tuple[int, int]:
    """Read orientation and number of frames; of several chunks of one kind, the last counts."""
    exif = profile = xmp = control = b""
    has_frame = False
    for kind, at, length in notes:
        if kind == _EXIF:
            exif = file.read(at, length)
        elif kind == _FRAME_CONTROL:
            has_frame = True
        elif kind == _CONTROL:
            if control:
                raise OddHeader("two animations")
            control = file.read(at, 8)
        elif file.read_up_to(at, min(length, _KEYWORD_BYTES)).startswith(_KEYWORDS):
            keyword, text = _read_text(kind, file.read(at, length))
            if keyword == _PROFILE:
                try:  # as ImageMagick writes it: an empty line, a name, a length, and lines of digits
                    profile = bytes.fromhex(b"".join(text.split(b"\n")[3:]).decode("ascii"))
                except ValueError:
                    raise OddHeader("a damaged profile") from None
            elif keyword == _XMP:
                xmp = text
            else:
                raise OddHeader(f"text named {keyword!r}")
    orientation = find_part_orientation(exif or profile)
    if orientation is None:
        orientation = find_xmp_orientation(xmp)
    frames = _NUMBER(control)[0] if control else 0
    if not 0 < frames <= _MAX_FRAMES:
        return check_orientation(orientation), 1
    # Image data without a frame control is no frame of the animation, but one more picture.
    return check_orientation(orientation), frames + (not has_frame)


def _read_text(kind: int, part: bytes) -> tuple[bytes, bytes]:
    """Read keyword and text of a text chunk."""
    keyword, text = part.split(b"\0", 1)
    is_packed = kind == _PACKED_TEXT
    if kind == _INTERNATIONAL_TEXT:
        is_packed, text = text.startswith(b"\1"), text[1:]
    if is_packed or kind == _INTERNATIONAL_TEXT:
        if not text.startswith(b"\0"):
            raise OddHeader("text packed in another way")
        text = text[1:]
    if kind == _INTERNATIONAL_TEXT:
        text = text.split(b"\0", 2)[2]
    if not is_packed:
        return keyword, text
    unpacking = zlib.decompressobj()
    try:
        plain = unpacking.decompress(text, MAX_PART_BYTES)
    except zlib.error:
        raise OddHeader("damaged text") from None
    if not unpacking.eof:
        raise OddHeader("long or damaged text")
    return keyword, plain
