"""Read TIFF (TIFF 6.0) and BigTIFF headers: the first directory, and the number of directories."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from PIL.TiffImagePlugin import COMPRESSION_INFO, OPEN_INFO

from framefeed.pictures._exif import TYPE_BYTES, check_orientation, find_xmp_orientation
from framefeed.pictures._reads import FileWindow, More, OddHeader, StillHeader

_MAX_READS = 2**17
MAX_PAGES = 2**16
_MAX_ENTRIES = 4096
_MAX_NUMBERS = 8
_SHORT, _LONG = 3, 4
# TIFF 6.0 section 8, and the offsets of pixels: strips or tiles.
_WIDTH, _LENGTH, _BITS, _COMPRESSION, _PHOTOMETRIC, _FILL_ORDER = 256, 257, 258, 259, 262, 266
_ORIENTATION, _SAMPLES, _PLANES, _PALETTE, _EXTRA_SAMPLES, _SAMPLE_FORMAT = 274, 277, 284, 320, 338, 339
_STRIPS, _TILE_WIDTH, _TILE_LENGTH, _TILES = 273, 322, 323, 324
_XMP = 700
_MEDIA_PHOTO = 0xBC01
_YCBCR = 6
_COLORS = {2: 3, 5: 4, 6: 3, 8: 3}
"""Samples of a pixel by photometric interpretation; one for others."""
_new = tuple.__new__


@dataclass(frozen=True, slots=True)
class _Layout:
    """Formats of the numbers in the directories of one kind of TIFF; ``first`` is the offset of the first's offset."""

    count: struct.Struct
    entry: struct.Struct
    offset: struct.Struct
    byte_order: str
    first: int


_LAYOUTS = {
    b"II*\0": _Layout(struct.Struct("<H"), struct.Struct("<HHI4s"), struct.Struct("<I"), "<", 4),
    b"MM\0*": _Layout(struct.Struct(">H"), struct.Struct(">HHI4s"), struct.Struct(">I"), ">", 4),
    b"II+\0": _Layout(struct.Struct("<Q"), struct.Struct("<HHQ8s"), struct.Struct("<Q"), "<", 8),
    b"MM\0+": _Layout(struct.Struct(">Q"), struct.Struct(">HHQ8s"), struct.Struct(">Q"), ">", 8),
}


def read_tiff_header(head: bytes, more: More, size: int) -> StillHeader:
    """Read the first directory. With ``size``, values beyond the end make the header odd."""
    layout = _LAYOUTS.get(head[:4])
    if layout is None:
        raise OddHeader("no TIFF of a known kind")
    file = FileWindow(head, more, _MAX_READS)
    begin = layout.offset.unpack(file.read(layout.first, layout.offset.size))[0]
    page = _Directory(file, layout, begin, size)
    width, height = page.read_number(_WIDTH, 0), page.read_number(_LENGTH, 0)
    if not width or not height:
        raise OddHeader("no pixels")
    mode = _find_mode(page, head[:2])
    orientation = page.read_number(_ORIENTATION, -1)
    if orientation < 0 and _XMP in page.entries:
        orientation = find_xmp_orientation(page.read_part(_XMP)) or 1
    pages = _count_pages(file, layout, begin)
    return _new(StillHeader, ("tiff", "tiff", width, height, mode, check_orientation(orientation), pages))


class _Directory:
    """One directory: tag -> type, count, and bytes of the value or of its offset."""

    def __init__(self, file: FileWindow, layout: _Layout, begin: int, size: int) -> None:
        self._file = file
        self._layout = layout
        self.entries: dict[int, tuple[int, int, bytes]] = {}
        count = layout.count.unpack(file.read(begin, layout.count.size))[0]
        if not 0 < count <= _MAX_ENTRIES:
            raise OddHeader(f"{count} entries in its directory")
        data = file.read(begin + layout.count.size, count * layout.entry.size)
        outside = 0
        for tag, kind, number, value in layout.entry.iter_unpack(data):
            length = TYPE_BYTES.get(kind, 0) * number
            if length > len(value):
                outside += length
                end = layout.offset.unpack(value)[0] + length
                if 0 < size < max(end, outside):
                    raise OddHeader("a value beyond its end")
            if length:
                self.entries.setdefault(tag, (kind, number, value))

    def read_numbers(self, tag: int, default: tuple[int, ...]) -> tuple[int, ...]:
        """Read a few small numbers."""
        if tag not in self.entries:
            return default
        kind, count, value = self.entries[tag]
        if kind not in (_SHORT, _LONG) or count > _MAX_NUMBERS:
            raise OddHeader(f"tag {tag} of another type or length")
        length = TYPE_BYTES[kind] * count
        if length > len(value):
            value = self._file.read(self._layout.offset.unpack(value)[0], length)
        letter = "H" if kind == _SHORT else "I"
        return struct.unpack_from(f"{self._layout.byte_order}{count}{letter}", value)

    def read_number(self, tag: int, default: int) -> int:
        numbers = self.read_numbers(tag, (default,))
        if len(numbers) != 1:
            raise OddHeader(f"tag {tag} more than once")
        return numbers[0]

    def read_part(self, tag: int) -> bytes:
        kind, count, value = self.entries[tag]
        if TYPE_BYTES[kind] != 1:
            raise OddHeader(f"tag {tag} of another type")
        if count <= len(value):
            return value[:count]
        return self._file.read(self._layout.offset.unpack(value)[0], count)


def _find_mode(page: _Directory, order: bytes) -> str:
    """Find Pillow's mode, by the rules of its own reader."""
    compression = COMPRESSION_INFO.get(page.read_number(_COMPRESSION, 1), "tiff_jpeg")
    photometric, fill_order = page.read_number(_PHOTOMETRIC, 0), page.read_number(_FILL_ORDER, 1)
    if compression == "tiff_jpeg" or page.read_number(_PLANES, 1) != 1 or _MEDIA_PHOTO in page.entries:
        raise OddHeader("a rare compression or arrangement")
    formats, extra = page.read_numbers(_SAMPLE_FORMAT, (1,)), page.read_numbers(_EXTRA_SAMPLES, ())
    formats = formats[:1] if len(set(formats)) == 1 else formats
    bits, samples = page.read_numbers(_BITS, (1,)), page.read_number(_SAMPLES, 1)
    bits = bits * samples if len(bits) == 1 and samples <= _MAX_NUMBERS else bits[:samples]
    is_packed = compression != "raw"
    key = (order, photometric, formats, 1 if is_packed and fill_order == 2 else fill_order, bits, extra)
    if len(bits) != samples or key not in OPEN_INFO or (order, *key[1:3], fill_order, *key[4:]) not in OPEN_INFO:
        raise OddHeader("an unknown arrangement of samples")
    mode = OPEN_INFO[key][0]
    if is_packed and photometric == _YCBCR:
        mode = "RGB"
    has_tiles = _TILES in page.entries and page.read_number(_TILE_WIDTH, 0) and page.read_number(_TILE_LENGTH, 0)
    if not (is_packed or has_tiles or _STRIPS in page.entries) or (
        mode in ("P", "PA") and _PALETTE not in page.entries
    ):
        raise OddHeader("no pixels or no palette")
    return mode


def _count_pages(file: FileWindow, layout: _Layout, begin: int) -> int:
    """Count the directories of the chain; of a ring, each once."""
    seen: set[int] = set()
    while begin and begin not in seen:
        seen.add(begin)
        if len(seen) > MAX_PAGES:
            raise OddHeader("too many pages")
        count = layout.count.unpack(file.read(begin, layout.count.size))[0]
        if count > _MAX_ENTRIES:
            raise OddHeader(f"{count} entries in a directory")
        behind = begin + layout.count.size + count * layout.entry.size
        begin = layout.offset.unpack(file.read(behind, layout.offset.size))[0]
    return len(seen)
