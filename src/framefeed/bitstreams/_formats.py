"""Name pixel formats and colours of H.264 and HEVC as libav does."""

from __future__ import annotations

from framefeed._values import StreamColors
from framefeed.bitstreams._bits import HeaderBits, OddUnits

_PRIMARIES = frozenset({0, *range(1, 13), 22})
_TRANSFERS = frozenset(range(19))
_SPACES = frozenset(range(15))
_UNSPECIFIED = 2
FULL_RANGE = 2
LIMITED_RANGE = 1
_GBR = 0


def make_known_colors(primaries: int, transfer: int, space: int, color_range: int) -> StreamColors:
    """Make colour tags from codes; codes without a name in libav become unspecified."""
    return StreamColors(
        primaries if primaries in _PRIMARIES else _UNSPECIFIED,
        transfer if transfer in _TRANSFERS else _UNSPECIFIED,
        space if space in _SPACES else _UNSPECIFIED,
        color_range,
    )


def name_pixel_format(chroma: int, depth: int, colors: StreamColors, luma_depth: int) -> str:
    """Name the pixel format of YCbCr pictures as libav does.

    Args:
        chroma: chroma_format_idc: 1 is 4:2:0, 2 is 4:2:2, 3 is 4:4:4.
        depth: Bits of a chroma sample.
        colors: Full range has names of its own at 8 bits.
        luma_depth: Bits of a luma sample.
    """
    if chroma not in (1, 2, 3) or depth != luma_depth or depth not in (8, 10) or colors.space == _GBR:
        raise OddUnits(f"pictures of chroma format {chroma} and {luma_depth} and {depth} bits")
    name = {1: "420p", 2: "422p", 3: "444p"}[chroma]
    if depth == 8:
        return f"yuvj{name}" if colors.range == FULL_RANGE else f"yuv{name}"
    return f"yuv{name}{depth}le"


def read_signalled_colors(bits: HeaderBits, given: StreamColors) -> StreamColors:
    """Read video_signal_type of H.264 and HEVC (H.264 E.1.1), behind its flag.

    Args:
        bits: At video_format.
        given: Colour tags that remain if the parameter set does not describe colours.
    """
    bits.skip(3)
    color_range = FULL_RANGE if bits.read_flag() else LIMITED_RANGE
    if not bits.read_flag():
        return StreamColors(given.primaries, given.transfer, given.space, color_range)
    return make_known_colors(bits.read(8), bits.read(8), bits.read(8), color_range)
