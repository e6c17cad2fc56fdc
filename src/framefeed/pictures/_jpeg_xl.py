"""Read JPEG XL headers (ISO/IEC 18181-1 annex D, and 18181-2 for the container) for the size and the orientation."""

from __future__ import annotations

import struct

from framefeed.pictures._reads import FileWindow, More, OddHeader, StillHeader

CODESTREAM, CONTAINER = b"\xff\x0a", b"\0\0\0\x0cJXL \r\n\x87\n"
_BOX = struct.Struct(">I4s")
_MAX_BOXES = 64
_HEADER_BYTES = 128
"""Enough for everything up to the number of extra channels."""
_PART_NUMBER_BYTES = 4
_RATIOS = {1: (1, 1), 2: (12, 10), 3: (4, 3), 4: (3, 2), 5: (16, 9), 6: (5, 4), 7: (2, 1)}
"""Width over height by its code; with 0 the width is written out."""

Choice = tuple[int, int]
"""Bits that are read, and the number that is added to them."""
_SIZES: tuple[Choice, ...] = ((9, 1), (13, 1), (18, 1), (30, 1))
_PREVIEW_SIZES: tuple[Choice, ...] = ((6, 1), (8, 65), (10, 321), (12, 1345))
_PREVIEW_EIGHTHS: tuple[Choice, ...] = ((0, 16), (0, 32), (5, 1), (9, 33))
_TICKS: tuple[Choice, ...] = ((0, 100), (0, 1000), (10, 1), (30, 1))
_TICK_DIVISORS: tuple[Choice, ...] = ((0, 1), (0, 1001), (8, 1), (10, 1))
_LOOPS: tuple[Choice, ...] = ((0, 0), (3, 0), (16, 0), (32, 0))
_BITS: tuple[Choice, ...] = ((0, 8), (0, 10), (0, 12), (6, 1))
_FLOAT_BITS: tuple[Choice, ...] = ((0, 32), (0, 16), (0, 24), (6, 1))
_EXTRA_CHANNELS: tuple[Choice, ...] = ((0, 0), (0, 1), (4, 2), (12, 1))
_MOST_EXTRA_CHANNELS = 4
"""Each is decoded at the size of the picture; alpha is one."""


class _Bits:
    """Reads numbers from bytes, the lowest bit first."""

    def __init__(self, data: bytes) -> None:
        self._left = int.from_bytes(data, "little")
        self._count = 8 * len(data)

    def number(self, count: int) -> int:
        self._count -= count
        if self._count < 0:
            raise OddHeader("ends early")
        value = self._left & ((1 << count) - 1)
        self._left >>= count
        return value

    def choose(self, choices: tuple[Choice, ...]) -> int:
        count, offset = choices[self.number(2)]
        return self.number(count) + offset


def read_jpeg_xl_header(head: bytes, more: More) -> StillHeader:
    """Read what the header of a JPEG XL claims: the picture's size before its orientation is applied.

    ``head``: the first ``HEAD_BYTES`` bytes, or the whole of a shorter file.
    """
    file = FileWindow(head, more, _MAX_BOXES)
    begin = _find_codestream(file)
    bits = _Bits(file.read_up_to(begin, _HEADER_BYTES))
    if bits.number(16) != int.from_bytes(CODESTREAM, "little"):
        raise OddHeader("no codestream of JPEG XL")
    width, height = _read_size(bits, (5, 1), _SIZES)
    mode, orientation, num_extra = _read_metadata(bits)
    if num_extra > _MOST_EXTRA_CHANNELS:
        raise OddHeader(f"has {num_extra} extra channels, and more than {_MOST_EXTRA_CHANNELS} are not read")
    return StillHeader("jxl", "jxl", width, height, mode, orientation, 1)


def _find_codestream(file: FileWindow) -> int:
    """Find the start of the codestream, or of its first part."""
    if file.read(0, len(CODESTREAM)) == CODESTREAM:
        return 0
    at = 0
    for _ in range(_MAX_BOXES):
        length, kind = _BOX.unpack(file.read(at, _BOX.size))
        start = at + _BOX.size
        if length == 1:
            length, start = int.from_bytes(file.read(start, 8), "big"), start + 8
        if kind == b"jxlc":
            return start
        if kind == b"jxlp":
            return start + _PART_NUMBER_BYTES
        if length < start - at:  # 0: up to the end of the file
            break
        at += length
    raise OddHeader("a container without a codestream")


def _read_size(bits: _Bits, eighths: Choice, sizes: tuple[Choice, ...]) -> tuple[int, int]:
    def read() -> int:
        return 8 * (bits.number(eighths[0]) + eighths[1]) if is_small else bits.choose(sizes)

    is_small = bits.number(1)
    height = read()
    ratio = bits.number(3)
    if not ratio:
        return read(), height
    numerator, divisor = _RATIOS[ratio]
    return height * numerator // divisor, height


def _read_metadata(bits: _Bits) -> tuple[str, int, int]:
    """Read Pillow's mode, "" if it can be converted; the orientation; and the number of extra channels."""
    if bits.number(1):
        return "", 1, 0
    orientation = 1
    if bits.number(1):
        orientation = bits.number(3) + 1
        if bits.number(1):  # a size for display
            _read_size(bits, (5, 1), _SIZES)
        if bits.number(1):
            _skip_preview(bits)
        if bits.number(1):
            for choices in (_TICKS, _TICK_DIVISORS, _LOOPS):
                bits.choose(choices)
            bits.number(1)
    is_float = bits.number(1)
    bits.choose(_FLOAT_BITS if is_float else _BITS)
    if is_float:
        bits.number(4)
    bits.number(1)
    return "F" if is_float else "", orientation, bits.choose(_EXTRA_CHANNELS)


def _skip_preview(bits: _Bits) -> None:
    is_small = bits.number(1)
    choices = _PREVIEW_EIGHTHS if is_small else _PREVIEW_SIZES
    bits.choose(choices)
    if not bits.number(3):
        bits.choose(choices)
