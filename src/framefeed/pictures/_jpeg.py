"""Read JPEG (ITU-T T.81) and MPO (CIPA DC-007) headers: the segments up to the start of scan."""

from __future__ import annotations

import struct

from framefeed.pictures._exif import (
    EXIF,
    BeyondWindow,
    check_orientation,
    find_exif_orientation,
    find_part_orientation,
    find_xmp_orientation,
    read_directory,
)
from framefeed.pictures._reads import PICTURE_HEAD_BYTES, More, OddHeader, StillHeader

_MAX_WINDOWS = 64
"""Reads beyond the head: enough to skip 64 full segments of 2**16 bytes."""
_MAX_NOTES = 32

_SEGMENT = struct.Struct(">HH").unpack_from
_FRAME = struct.Struct(">BHHB").unpack_from
_IDENTIFIED_BYTES = 40
_LAST_BYTES = 14  # a start of scan, two bytes of data, end of image
_START_OF_SCAN = 0xFFDA
_APP1 = 0xFFE1
_APP2 = 0xFFE2
# T.81 table B.1: DHT, DAC, DQT, DNL, DRI, EXP, APP0, APP3 to APP15, COM. They have a length, and are skipped.
_PASSED_OVER = frozenset([0xFFC4, 0xFFCC, 0xFFDB, 0xFFDC, 0xFFDD, 0xFFDF, 0xFFE0, *range(0xFFE3, 0xFFF0), 0xFFFE])
DECODED_FRAMES = frozenset([0xFFC0, 0xFFC1, 0xFFC2, 0xFFC3, 0xFFC9, 0xFFCA])
"""SOF0 to SOF3, SOF9 and SOF10: the processes that libjpeg-turbo decodes."""
_LOSSLESS_FRAME = 0xFFC3
"""Left to Pillow: TurboJPEG writes such a picture at full size, also where a reduced one is asked for."""
_MODES = {1: "L", 3: "RGB", 4: "CMYK"}
_XMP = b"http://ns.adobe.com/xap/1.0/\0"
_MULTI_PICTURE = b"MPF\0"
_GAIN_MAP = b' hdrgm:Version="'
_NUM_PICTURES = 0xB001
_PICTURES = 0xB002
_PICTURE_BYTES = 16
_NO_NOTE = (0, 0)

_new = tuple.__new__
Note = tuple[int, int]
"""Offset of a segment's payload in the file, and its bytes."""


def read_jpeg_header(head: bytes, more: More, size: int) -> StillHeader:
    """Walk the segments to the start of scan; of repeated ones the last counts, as for decoders."""
    window, base, at, windows, edge = head, 0, 2, _MAX_WINDOWS, _find_edge(head)
    width = height = layers = 0
    orientation: int | None = None
    exif, xmp, pictures = _NO_NOTE, _NO_NOTE, _NO_NOTE
    texts: tuple[Note, ...] = ()
    while True:
        while at <= edge:
            marker, length = _SEGMENT(window, at)
            if marker in _PASSED_OVER:
                at += length + 2
                continue
            if marker in DECODED_FRAMES:
                if marker == _LOSSLESS_FRAME:
                    raise OddHeader("a lossless picture")
                bits, height, width, layers = _FRAME(window, at + 4)
                if bits != 8 or length != 8 + 3 * layers:
                    raise OddHeader(f"{bits} bits a sample, {layers} components")
            elif marker == _START_OF_SCAN:
                break
            elif marker == _APP1:
                note = (base + at + 4, length - 2)
                texts += (note,)
                if len(texts) > _MAX_NOTES:
                    raise OddHeader("too many notes")
                if window.startswith(EXIF, at + 4):
                    if exif is not _NO_NOTE:
                        raise OddHeader("EXIF in several parts")
                    exif = note
                    try:
                        orientation = find_exif_orientation(window, at + 10, at + 2 + length)
                    except BeyondWindow:
                        orientation = find_part_orientation(_read_payload(head, more, note))
                elif window.startswith(_XMP, at + 4):
                    xmp = note
            elif marker != _APP2:
                raise OddHeader(f"marker {marker:04x} among the header's")
            elif window.startswith(_MULTI_PICTURE, at + 4):
                pictures = (base + at + 4, length - 2)
            at += length + 2
        else:
            if len(window) < PICTURE_HEAD_BYTES or not windows:
                raise OddHeader("no start of scan, or far away")
            base, at, windows = base + at, 0, windows - 1
            window = more(PICTURE_HEAD_BYTES, base)
            edge = _find_edge(window)
            continue
        break
    if not width or not height or layers not in _MODES:
        raise OddHeader("no frame header")
    if not texts:
        orientation = 1
    elif orientation is None:
        orientation = 1 if xmp is _NO_NOTE else check_orientation(find_xmp_orientation(_read_payload(head, more, xmp)))
    elif not 1 <= orientation <= 8:
        orientation = 1
    count = 1 if pictures is _NO_NOTE else _count_pictures(head, more, pictures, texts)
    name = "jpeg" if count == 1 else "mpo"
    return _new(StillHeader, (name, "mjpeg", width, height, _MODES[layers], orientation, count))


def _find_edge(window: bytes) -> int:
    """Compute the last offset at which a segment's identifier is within the window."""
    return len(window) - (_LAST_BYTES if len(window) < PICTURE_HEAD_BYTES else _IDENTIFIED_BYTES)


def _read_payload(head: bytes, more: More, note: Note) -> bytes:
    offset, count = note
    part = head[offset : offset + count]
    if len(part) < count and len(head) == PICTURE_HEAD_BYTES:
        part = more(count, offset)
    if len(part) < count:
        raise OddHeader("a segment ends early")
    return part


def _count_pictures(head: bytes, more: More, pictures: Note, texts: tuple[Note, ...]) -> int:
    """Count the pictures of an MPO; 1 if the others only add range to the first (a gain map), as Pillow does."""
    index = _read_payload(head, more, pictures)[len(_MULTI_PICTURE) :]
    directory = read_directory(index)
    count, entries = directory.get(_NUM_PICTURES), directory.get(_PICTURES)
    if not isinstance(count, int) or not isinstance(entries, bytes) or not 1 <= count <= len(entries) // _PICTURE_BYTES:
        raise OddHeader("a damaged index of pictures")
    # The highest byte of an entry's attributes holds the format of its data: 0 is JPEG, the only one defined.
    kinds = entries[3 if index.startswith(b"II") else 0 : count * _PICTURE_BYTES : _PICTURE_BYTES]
    if any(kind & 7 for kind in kinds):
        raise OddHeader("pictures that are no JPEG")
    if count == 1 or any(_GAIN_MAP in _read_payload(head, more, note) for note in texts):
        return 1
    return count
