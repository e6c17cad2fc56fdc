"""Parameter sets of H.264: ITU-T H.264 (08/2021) 7.3.2.1.1, 7.3.2.2 and E.1.1."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from framefeed.media.details import StreamColors
from framefeed.media.h26x.bits import BitReader, OddUnits
from framefeed.media.h26x.formats import PictureFormat, pixel_format, signalled_colors

_HIGH_PROFILES = frozenset({100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135})
_EXTENDED_ASPECT = 255
_MAX_REFERENCES = 16
_MOST_REORDERED = 16
_MOST_ORDER_BITS = 16
_MOST_SETS = 32
_MOST_PICTURE_SETS = 256


@dataclass(frozen=True, slots=True)
class H264Sequence:
    """What a sequence parameter set says of slice headers.

    Attributes:
        number: Its own number, by which picture parameter sets refer to it.
        number_bits: Bits of a frame's number.
        order_kind: How the order of pictures is coded: 0, 1 or 2.
        order_bits: Bits of the order, of kind 0.
        has_fields: Pictures may be coded as two fields.
        has_chroma: There is more than luma.
        has_structures: Messages may say for how many ticks a picture is shown.
    """

    number: int
    number_bits: int
    order_kind: int
    order_bits: int
    has_fields: bool
    has_chroma: bool
    has_structures: bool = False


@dataclass(frozen=True, slots=True)
class H264Picture:
    """What a picture parameter set says of slice headers.

    Attributes:
        number: Its own number, by which slices refer to it.
        sequence: Number of its sequence parameter set.
        has_bottom_order: Slices say how far the order of the bottom field differs.
        references: Pictures in the two lists, where a slice does not say.
        has_weights: P slices have a table of weights.
        has_weights_of_two: B slices have one.
    """

    number: int
    sequence: int
    has_bottom_order: bool
    references: tuple[int, int]
    has_weights: bool
    has_weights_of_two: bool


def h264_sequence(unit: bytes, given: StreamColors) -> tuple[H264Sequence, PictureFormat]:
    """Read a sequence parameter set.

    Args:
        unit: The NAL unit with its header.
        given: The container's colours.

    Raises:
        OddUnits: It breaks off, or holds what libav treats in its own way.
    """
    bits = BitReader(unit[1:])
    profile = bits.number(8)
    bits.skip(16)
    number = bits.golomb()
    chroma, luma_depth, depth = _sample_format(bits) if profile in _HIGH_PROFILES else (1, 8, 8)
    number_bits = bits.golomb() + 4
    order_kind, order_bits = _picture_order(bits)
    if bits.golomb() > _MAX_REFERENCES or max(number_bits, order_bits) > _MOST_ORDER_BITS or number >= _MOST_SETS:
        raise OddUnits("a sequence parameter set of numbers beyond their ranges")
    bits.skip(1)
    columns, rows = (bits.golomb() + 1) * 16, (bits.golomb() + 1) * 16
    is_progressive = bits.flag()
    if not is_progressive:
        rows *= 2
        bits.skip(1)
    bits.skip(1)
    left, right, top, bottom = _cropping(bits, chroma, is_progressive)
    if left + right >= columns or top + bottom >= rows:
        raise OddUnits("everything is cropped")
    usability = _usability(bits, given) if bits.flag() else _Usability(given)
    colors = usability.colors
    found = PictureFormat(
        coded_width=columns,
        coded_height=rows,
        width=columns - left - right,
        height=rows - top - bottom,
        pixel_format=pixel_format(chroma, depth, colors, luma_depth),
        colors=colors,
        reorder=usability.reorder,
        frame_rate=usability.clock_rate if usability.is_constant else None,
        clock_rate=usability.clock_rate,
    )
    sequence = H264Sequence(
        number, number_bits, order_kind, order_bits, not is_progressive, chroma != 0, usability.has_structures
    )
    return sequence, found


def h264_picture(unit: bytes) -> H264Picture:
    """Read a picture parameter set.

    Raises:
        OddUnits: It breaks off, or pictures may have slices in an order of their own, or twice.
    """
    bits = BitReader(unit[1:])
    number, sequence = bits.golomb(), bits.golomb()
    bits.skip(1)
    has_bottom_order = bits.flag()
    if number >= _MOST_PICTURE_SETS or bits.golomb():
        raise OddUnits("slices in groups")
    references = bits.golomb() + 1, bits.golomb() + 1
    has_weights, weights_of_two = bits.flag(), bits.number(2)
    for _ in range(3):
        bits.golomb()
    bits.skip(2)
    if bits.flag() or max(references) > 2 * _MAX_REFERENCES:
        raise OddUnits("redundant slices, or too many references")
    return H264Picture(number, sequence, has_bottom_order, references, has_weights, weights_of_two == 1)


def _sample_format(bits: BitReader) -> tuple[int, int, int]:
    chroma = bits.golomb()
    if chroma == 3 and bits.flag():
        raise OddUnits("separate colour planes")
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


def _picture_order(bits: BitReader) -> tuple[int, int]:
    """Read how a picture's order is coded, and in how many bits."""
    kind = bits.golomb()
    if kind == 0:
        return 0, bits.golomb() + 4
    if kind == 1:
        bits.skip(1)
        bits.signed_golomb()
        bits.signed_golomb()
        for _ in range(min(bits.golomb(), 256)):
            bits.signed_golomb()
    elif kind != 2:
        raise OddUnits("an order of pictures of no known kind")
    return kind, 0


def _cropping(bits: BitReader, chroma: int, is_progressive: bool) -> tuple[int, int, int, int]:
    if not bits.flag():
        return 0, 0, 0, 0
    across = 2 if chroma in (1, 2) else 1
    down = (2 if chroma == 1 else 1) * (1 if is_progressive else 2)
    left, right, top, bottom = (bits.golomb() for _ in range(4))
    return left * across, right * across, top * down, bottom * down


class _Usability(NamedTuple):
    colors: StreamColors
    reorder: int | None = None
    clock_rate: Fraction | None = None
    is_constant: bool = False
    has_structures: bool = False


def _usability(bits: BitReader, colors: StreamColors) -> _Usability:
    """Read the video usability information: colours, how far pictures are reordered, and the rate of frames."""
    if bits.flag() and bits.number(8) == _EXTENDED_ASPECT:
        bits.skip(32)
    if bits.flag():
        bits.skip(1)
    if bits.flag():
        colors = signalled_colors(bits, colors)
    if bits.flag():
        bits.golomb()
        bits.golomb()
    clock_rate, is_constant = _timing(bits) if bits.flag() else (None, False)
    has_buffer = False
    for _ in range(2):
        if bits.flag():
            has_buffer = True
            _skip_buffer(bits)
    if has_buffer:
        bits.skip(1)
    has_structures = bits.flag()
    if not bits.flag():
        return _Usability(colors, None, clock_rate, is_constant, has_structures)
    bits.skip(1)
    for _ in range(4):
        bits.golomb()
    reorder = bits.golomb()
    bits.golomb()
    if reorder > _MOST_REORDERED:
        raise OddUnits(f"{reorder} pictures out of order")
    return _Usability(colors, reorder, clock_rate, is_constant, has_structures)


def _timing(bits: BitReader) -> tuple[Fraction | None, bool]:
    """Read the rate of frames, of two ticks each, and whether it is constant (E.2.1, fixed_frame_rate_flag)."""
    units, scale, is_fixed = bits.number(32), bits.number(32), bits.flag()
    return Fraction(scale, 2 * units) if units and scale else None, is_fixed


def _skip_buffer(bits: BitReader) -> None:
    count = bits.golomb() + 1
    bits.skip(8)
    for _ in range(min(count, 32)):
        bits.golomb()
        bits.golomb()
        bits.skip(1)
    bits.skip(20)
