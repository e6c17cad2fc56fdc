"""Read BMP headers: OS/2 1 and Windows 3 to 5 (wingdi.h: BITMAPCOREHEADER, BITMAPINFOHEADER and its successors)."""

from __future__ import annotations

import struct

from framefeed.pictures._reads import FileWindow, More, OddHeader, StillHeader

_MAX_READS = 4
_START = struct.Struct("<2s12xI").unpack_from
_CORE = struct.Struct("<HHHH").unpack_from
_INFO = struct.Struct("<iiHHI12xI").unpack_from
_CORE_BYTES = 12
_INFO_BYTES = frozenset([40, 52, 56, 64, 108, 124])
_UNPACKED, _RLE8, _RLE4, _BITFIELDS = 0, 1, 2, 3
_MAX_COLORS = 256
_OS2_BYTES = 64  # compression 3 means something else there
_ALPHA_BYTES = 56  # the first header with a mask of alpha
_MASKS = struct.Struct("<IIII").unpack_from
# Bits a pixel and masks of red, green, blue, alpha: whether the picture has alpha. All that Pillow reads.
_ALPHA_OF_MASKS = {
    (32, 0xFF0000, 0xFF00, 0xFF, 0): False,
    (32, 0xFF000000, 0xFF0000, 0xFF00, 0): False,
    (32, 0xFF000000, 0xFF00, 0xFF, 0): False,
    (32, 0xFF000000, 0xFF0000, 0xFF00, 0xFF): True,
    (32, 0xFF, 0xFF00, 0xFF0000, 0xFF000000): True,
    (32, 0xFF0000, 0xFF00, 0xFF, 0xFF000000): True,
    (32, 0xFF000000, 0xFF00, 0xFF, 0xFF0000): True,
    (32, 0, 0, 0, 0): True,
    (24, 0xFF0000, 0xFF00, 0xFF, 0): False,
    (16, 0xF800, 0x7E0, 0x1F, 0): False,
    (16, 0x7C00, 0x3E0, 0x1F, 0): False,
}
_GREYS = bytes(range(256))
_new = tuple.__new__


def read_bmp_header(head: bytes, more: More, size: int) -> StillHeader:
    """Read the header, and the palette to see whether it is grey; ``size`` is not used."""
    kind, header_bytes = _START(head, 0)
    if header_bytes == _CORE_BYTES:
        width, height, _, bits = _CORE(head, 18)
        compression = colors = 0
    elif header_bytes in _INFO_BYTES:
        width, height, _, bits, compression, colors = _INFO(head, 18)
        if -(2**24) <= height < 0:
            height = -height  # stored from the top
    else:
        raise OddHeader(f"a header of {header_bytes} bytes")
    if kind != b"BM" or width <= 0 or height <= 0:
        raise OddHeader("no pixels, or too many")
    if bits in (1, 4, 8):
        mode = _read_palette_mode(FileWindow(head, more, _MAX_READS), header_bytes, bits, colors)
        if compression not in (_UNPACKED, _RLE8, _RLE4):
            raise OddHeader(f"compression {compression}")
    elif compression == _BITFIELDS and header_bytes != _OS2_BYTES:
        masks = _MASKS(head, 54)
        has_alpha = _ALPHA_OF_MASKS.get((bits, *masks[:3], masks[3] if header_bytes >= _ALPHA_BYTES else 0))
        if has_alpha is None:
            raise OddHeader("unusual bit fields")
        mode = "RGBA" if has_alpha else "RGB"
    elif bits in (16, 24, 32) and compression == _UNPACKED:
        mode = "RGB"
    else:
        raise OddHeader(f"{bits} bits a pixel, compression {compression}")
    bit_depth = 5 if bits == 16 else 1 if mode == "1" else 8
    return _new(StillHeader, ("bmp", "bmp", width, height, mode, bit_depth, 1, 1, False))


def _read_palette_mode(file: FileWindow, header_bytes: int, bits: int, colors: int) -> str:
    """Return "P", or "1" or "L" if the palette holds nothing but the shades of grey in order."""
    colors = colors or 1 << bits
    if colors > _MAX_COLORS:
        raise OddHeader(f"{colors} colours in its palette")
    entry_bytes = 3 if header_bytes == _CORE_BYTES else 4
    palette = file.read_up_to(14 + header_bytes, entry_bytes * colors)
    greys = b"\0\xff" if colors == 2 else _GREYS[:colors]
    if any(palette[channel::entry_bytes] != greys for channel in range(3)):
        return "P"
    return "1" if colors <= 2 else "L"
