"""Sequence parameter sets of H.264: ITU-T H.264 (08/2021) 7.3.2.1.1 and E.1.1."""

from __future__ import annotations

from fractions import Fraction

from framefeed.media.details import StreamColors
from framefeed.media.mp4.bit_reader import BitReader
from framefeed.media.mp4.boxes import OddMovie
from framefeed.media.mp4.codec_facts import PictureFormat, pixel_format, signalled_colors
from framefeed.media.mp4.picture_order import OrderSyntax

_HIGH_PROFILES = frozenset({100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135})
_EXTENDED_ASPECT = 255
_MAX_REFERENCES = 16
_MOST_ORDER_BITS = 16


def h264_format(unit: bytes, given: StreamColors) -> PictureFormat:
    """Read a sequence parameter set.

    Args:
        unit: The NAL unit with its header.
        given: The container's colours.

    Raises:
        OddMovie: It breaks off, or holds what libav treats in its own way.
    """
    bits = BitReader(unit[1:])
    profile = bits.number(8)
    bits.skip(16)
    bits.golomb()
    chroma, luma_depth, depth = _sample_format(bits) if profile in _HIGH_PROFILES else (1, 8, 8)
    number_bits = min(bits.golomb() + 4, _MOST_ORDER_BITS)
    order_bits = _picture_order(bits)
    if bits.golomb() > _MAX_REFERENCES:
        raise OddMovie("too many reference frames")
    has_gaps = bits.flag()
    columns, rows = (bits.golomb() + 1) * 16, (bits.golomb() + 1) * 16
    is_progressive = bits.flag()
    if not is_progressive:
        rows *= 2
        bits.skip(1)
    bits.skip(1)
    left, right, top, bottom = _cropping(bits, chroma, is_progressive)
    if left + right >= columns or top + bottom >= rows:
        raise OddMovie("everything is cropped")
    colors, reorder, frame_rate = _usability(bits, given) if bits.flag() else (given, None, None)
    return PictureFormat(
        coded_width=columns,
        coded_height=rows,
        width=columns - left - right,
        height=rows - top - bottom,
        pixel_format=pixel_format(chroma, depth, colors, luma_depth),
        colors=colors,
        # libav makes up pictures where frame numbers have gaps: how many come out is not known.
        reorder=None if has_gaps else reorder,
        is_progressive=is_progressive,
        order=OrderSyntax("h264", order_bits, number_bits) if order_bits and not has_gaps else None,
        frame_rate=frame_rate,
    )


def _sample_format(bits: BitReader) -> tuple[int, int, int]:
    chroma = bits.golomb()
    if chroma == 3 and bits.flag():
        raise OddMovie("separate colour planes")
    luma_depth, depth = bits.golomb() + 8, bits.golomb() + 8
    bits.skip(1)
    if bits.flag():
        for number in range(12 if chroma == 3 else 8):
            if bits.flag():
                _skip_scaling_list(bits, 16 if number < 6 else 64)
    return chroma, luma_depth, depth


def _skip_scaling_list(bits: BitReader, count: int) -> None:
    last = following = 8
    for _ in range(count):
        if following:
            following = (last + bits.signed_golomb()) & 255
        last = following or last


def _picture_order(bits: BitReader) -> int | None:
    """Read how a picture's order is coded: in this many bits, or in none."""
    kind = bits.golomb()
    if kind == 0:
        return min(bits.golomb() + 4, _MOST_ORDER_BITS)
    if kind == 1:
        bits.skip(1)
        bits.signed_golomb()
        bits.signed_golomb()
        for _ in range(min(bits.golomb(), 256)):
            bits.signed_golomb()
    return None


def _cropping(bits: BitReader, chroma: int, is_progressive: bool) -> tuple[int, int, int, int]:
    if not bits.flag():
        return 0, 0, 0, 0
    across = 2 if chroma in (1, 2) else 1
    down = (2 if chroma == 1 else 1) * (1 if is_progressive else 2)
    left, right, top, bottom = (bits.golomb() for _ in range(4))
    return left * across, right * across, top * down, bottom * down


def _usability(bits: BitReader, colors: StreamColors) -> tuple[StreamColors, int | None, Fraction | None]:
    """Read the video usability information: colours, how far pictures are reordered, and a constant frame rate."""
    if bits.flag() and bits.number(8) == _EXTENDED_ASPECT:
        bits.skip(32)
    if bits.flag():
        bits.skip(1)
    if bits.flag():
        colors = signalled_colors(bits, colors)
    if bits.flag():
        bits.golomb()
        bits.golomb()
    frame_rate = _timing(bits) if bits.flag() else None
    has_buffer = False
    for _ in range(2):
        if bits.flag():
            has_buffer = True
            _skip_buffer(bits)
    if has_buffer:
        bits.skip(1)
    bits.skip(1)
    if not bits.flag():
        return colors, None, frame_rate
    bits.skip(1)
    for _ in range(4):
        bits.golomb()
    return colors, bits.golomb(), frame_rate


def _timing(bits: BitReader) -> Fraction | None:
    """Read the rate of frames, of two ticks each, where it is declared constant (E.2.1, fixed_frame_rate_flag)."""
    units, scale, is_fixed = bits.number(32), bits.number(32), bits.flag()
    return Fraction(scale, 2 * units) if is_fixed and units and scale else None


def _skip_buffer(bits: BitReader) -> None:
    count = bits.golomb() + 1
    bits.skip(8)
    for _ in range(min(count, 32)):
        bits.golomb()
        bits.golomb()
        bits.skip(1)
    bits.skip(20)
