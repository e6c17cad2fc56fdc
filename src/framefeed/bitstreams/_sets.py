"""Read the parameter sets of H.264 and HEVC.

Sources: ITU-T H.264 (08/2021) 7.3.2.1.1, 7.3.2.2 and E.1.1; ITU-T H.265 (08/2021) 7.3.2.2, 7.3.2.3, 7.3.3 and E.2.1.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from framefeed._values import PictureFormat, StreamColors
from framefeed.bitstreams._bits import HeaderBits, OddUnits
from framefeed.bitstreams._formats import LIMITED_RANGE, name_pixel_format, read_signalled_colors

_HIGH_PROFILES = frozenset({100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135})
_EXTENDED_ASPECT = 255
_MAX_REFERENCES = 16
_MOST_REORDERED = 16
_MOST_ORDER_BITS = 16
_MOST_SETS = 32
_MOST_H264_PICTURE_SETS = 256


class H264Sequence(NamedTuple):
    """Facts of a sequence parameter set."""

    format: PictureFormat
    colors: StreamColors
    number: int  # its number, which picture parameter sets name
    number_bits: int  # bits of a frame's number
    allows_gaps: bool  # numbers of frames may be left out on purpose
    order_kind: int  # how the order of pictures is coded: 0, 1 or 2
    order_bits: int  # bits of the order, of kind 0
    has_fields: bool  # pictures may be coded as two fields
    has_chroma: bool  # there is more than luma
    has_structures: bool = False  # messages may say for how many ticks a picture is shown
    # Pictures that may come before one in decode order and after it for display; None if unknown.
    reorder: int | None = None
    clock_rate: Fraction | None = None  # the rate of the stream's clock, constant or not, or None
    frame_rate: Fraction | None = None  # the constant rate that it declares, or None


class H264Picture(NamedTuple):
    """Facts of a picture parameter set about slice headers."""

    number: int  # its number, which slices name
    sequence: int  # number of its sequence parameter set
    has_bottom_order: bool  # slices say how far the order of the bottom field differs
    references: tuple[int, int]  # pictures in the two lists, if a slice does not say
    has_weights: bool  # P slices have a table of weights
    has_weights_of_two: bool  # B slices have one


def read_h264_sequence(unit: bytes, given: StreamColors) -> H264Sequence:
    """Read a sequence parameter set."""
    bits = HeaderBits.of_unit(unit[1:])
    profile = bits.read(8)
    bits.skip(16)
    number = bits.read_golomb()
    chroma, luma_depth, depth = _read_sample_format(bits) if profile in _HIGH_PROFILES else (1, 8, 8)
    number_bits = bits.read_golomb() + 4
    order_kind, order_bits = _read_picture_order(bits)
    if bits.read_golomb() > _MAX_REFERENCES or max(number_bits, order_bits) > _MOST_ORDER_BITS or number >= _MOST_SETS:
        raise OddUnits("a sequence parameter set of numbers beyond their ranges")
    allows_gaps = bits.read_flag()
    columns, rows = (bits.read_golomb() + 1) * 16, (bits.read_golomb() + 1) * 16
    is_progressive = bits.read_flag()
    if not is_progressive:
        rows *= 2
        bits.skip(1)
    bits.skip(1)
    left, right, top, bottom = (bits.read_golomb() for _ in range(4)) if bits.read_flag() else (0, 0, 0, 0)
    across, down = (2 if chroma in (1, 2) else 1), (2 if chroma == 1 else 1) * (1 if is_progressive else 2)
    left, right, top, bottom = left * across, right * across, top * down, bottom * down
    if left + right >= columns or top + bottom >= rows:
        raise OddUnits("everything is cropped")
    usability = _read_usability(bits, given) if bits.read_flag() else _Usability(given)
    pixel_format = name_pixel_format(chroma, depth, usability.colors, luma_depth)
    return H264Sequence(
        format=PictureFormat(columns - left - right, rows - top - bottom, pixel_format, columns, rows),
        colors=usability.colors,
        number=number,
        number_bits=number_bits,
        allows_gaps=allows_gaps,
        order_kind=order_kind,
        order_bits=order_bits,
        has_fields=not is_progressive,
        has_chroma=chroma != 0,
        has_structures=usability.has_structures,
        reorder=usability.reorder,
        clock_rate=usability.clock_rate,
        frame_rate=usability.clock_rate if usability.is_constant else None,
    )


def read_h264_picture(unit: bytes) -> H264Picture:
    """Read a picture parameter set."""
    bits = HeaderBits.of_unit(unit[1:])
    number, sequence = bits.read_golomb(), bits.read_golomb()
    bits.skip(1)
    has_bottom_order = bits.read_flag()
    if number >= _MOST_H264_PICTURE_SETS or bits.read_golomb():
        raise OddUnits("slices in groups")
    references = bits.read_golomb() + 1, bits.read_golomb() + 1
    has_weights, weights_of_two = bits.read_flag(), bits.read(2)
    for _ in range(3):
        bits.read_golomb()
    bits.skip(2)
    if bits.read_flag() or max(references) > 2 * _MAX_REFERENCES:
        raise OddUnits("redundant slices, or too many references")
    return H264Picture(number, sequence, has_bottom_order, references, has_weights, weights_of_two == 1)


def _read_sample_format(bits: HeaderBits) -> tuple[int, int, int]:
    chroma = bits.read_golomb()
    if chroma == 3 and bits.read_flag():
        raise OddUnits("separate colour planes")
    luma_depth, depth = bits.read_golomb() + 8, bits.read_golomb() + 8
    bits.skip(1)
    if bits.read_flag():
        for number in range(12 if chroma == 3 else 8):
            if not bits.read_flag():
                continue
            last = following = 8
            for _ in range(16 if number < 6 else 64):
                if following:
                    following = (last + bits.read_signed_golomb()) & 255
                last = following or last
    return chroma, luma_depth, depth


def _read_picture_order(bits: HeaderBits) -> tuple[int, int]:
    """Read the kind of a picture's coded order, and its bits."""
    kind = bits.read_golomb()
    if kind == 0:
        return 0, bits.read_golomb() + 4
    if kind == 1:
        bits.skip(1)
        bits.read_signed_golomb()
        bits.read_signed_golomb()
        for _ in range(min(bits.read_golomb(), 256)):
            bits.read_signed_golomb()
    elif kind != 2:
        raise OddUnits("an order of pictures of no known kind")
    return kind, 0


def _read_colors(bits: HeaderBits, colors: StreamColors) -> StreamColors:
    """Read what the usability information of H.264 and HEVC begins with: aspect, overscan and colours."""
    if bits.read_flag() and bits.read(8) == _EXTENDED_ASPECT:
        bits.skip(32)
    if bits.read_flag():
        bits.skip(1)
    return read_signalled_colors(bits, colors) if bits.read_flag() else colors


class _Usability(NamedTuple):
    colors: StreamColors
    reorder: int | None = None
    clock_rate: Fraction | None = None
    is_constant: bool = False
    has_structures: bool = False


def _read_usability(bits: HeaderBits, colors: StreamColors) -> _Usability:
    """Read the video usability information: colours, depth of reordering, and the rate of frames."""
    colors = _read_colors(bits, colors)
    if bits.read_flag():
        bits.read_golomb()
        bits.read_golomb()
    clock_rate, is_constant = None, False
    if bits.read_flag():
        # Two ticks a frame; E.2.1, fixed_frame_rate_flag.
        units, scale, is_constant = bits.read(32), bits.read(32), bits.read_flag()
        clock_rate = Fraction(scale, 2 * units) if units and scale else None
    has_buffer = False
    for _ in range(2):
        if bits.read_flag():
            has_buffer = True
            # Parameters of the reference decoder, E.1.2.
            count = bits.read_golomb() + 1
            bits.skip(8)
            for _ in range(min(count, 32)):
                bits.read_golomb()
                bits.read_golomb()
                bits.skip(1)
            bits.skip(20)
    if has_buffer:
        bits.skip(1)
    has_structures = bits.read_flag()
    if not bits.read_flag():
        return _Usability(colors, None, clock_rate, is_constant, has_structures)
    bits.skip(1)
    for _ in range(4):
        bits.read_golomb()
    reorder = bits.read_golomb()
    bits.read_golomb()
    if reorder > _MOST_REORDERED:
        raise OddUnits(f"{reorder} pictures out of order")
    return _Usability(colors, reorder, clock_rate, is_constant, has_structures)


_MAX_SETS = 64
MOST_REFERENCES = 16
"""Pictures in a set of references."""
_MAX_SCHEDULES = 32


_MOST_SEQUENCES, _MOST_HEVC_PICTURE_SETS = 16, 64


class HevcSequence(NamedTuple):
    """Facts of a sequence parameter set."""

    format: PictureFormat
    colors: StreamColors
    number: int  # its number, which picture parameter sets name
    order_bits: int  # bits of a picture's order
    reorder: int = 0  # pictures that may come before one in decode order and after it for display
    frame_rate: Fraction | None = None  # the constant rate that it declares, or None
    # Sets of references that slices name: each reference's order, counted from the picture's own.
    references: tuple[tuple[int, ...], ...] = ()
    long_term_numbers: int = 0  # counts of references of long term that a slice has, 0 to 2


class HevcPicture(NamedTuple):
    """Facts of a picture parameter set about slice headers."""

    number: int  # its number, which slices name
    sequence: int  # number of its sequence parameter set
    has_output_flag: bool  # slices say whether their picture is shown
    extra_bits: int  # bits before the slice type


def read_hevc_sequence(unit: bytes) -> HevcSequence:
    """Read a sequence parameter set; the container's colours never count beside it."""
    bits = HeaderBits.of_unit(unit[2:])
    bits.skip(4)
    sub_layers = bits.read(3)
    bits.skip(1)
    # Profiles and levels, 7.3.3.
    bits.skip(96)
    flags = [(bits.read_flag(), bits.read_flag()) for _ in range(sub_layers)]
    if sub_layers:
        bits.skip(2 * (8 - sub_layers))
    for has_profile, has_level in flags:
        bits.skip(88 * has_profile + 8 * has_level)
    number = bits.read_golomb()
    chroma = bits.read_golomb()
    if chroma == 3 and bits.read_flag():
        raise OddUnits("separate colour planes")
    columns, rows = bits.read_golomb(), bits.read_golomb()
    across, down = (2 if chroma in (1, 2) else 1), (2 if chroma == 1 else 1)
    left, right, top, bottom = (bits.read_golomb() for _ in range(4)) if bits.read_flag() else (0, 0, 0, 0)
    if (left + right) * across >= columns or (top + bottom) * down >= rows:
        raise OddUnits("everything is cropped")
    luma_depth, depth = bits.read_golomb() + 8, bits.read_golomb() + 8
    reorder, order_bits = _read_ordering(bits, sub_layers)
    if order_bits > _MOST_ORDER_BITS or number >= _MOST_SEQUENCES:
        raise OddUnits("a sequence parameter set of numbers beyond their ranges")
    references, long_term_numbers = _read_tools(bits, order_bits)
    bits.skip(2)
    has_usability = bits.read_flag()
    colors = StreamColors(range=LIMITED_RANGE)
    if has_usability:
        colors = _read_colors(bits, colors)
    width, height = columns - (left + right) * across, rows - (top + bottom) * down
    picture_format = PictureFormat(width, height, name_pixel_format(chroma, depth, colors, luma_depth), columns, rows)
    frame_rate = _read_frame_rate(bits, sub_layers) if has_usability else None
    return HevcSequence(picture_format, colors, number, order_bits, reorder, frame_rate, references, long_term_numbers)


def read_hevc_picture(unit: bytes) -> HevcPicture:
    """Read the beginning of a picture parameter set."""
    bits = HeaderBits.of_unit(unit[2:])
    number, sequence = bits.read_golomb(), bits.read_golomb()
    bits.skip(1)
    has_output_flag, extra_bits = bits.read_flag(), bits.read(3)
    if number >= _MOST_HEVC_PICTURE_SETS:
        raise OddUnits(f"picture parameter set {number}")
    return HevcPicture(number, sequence, has_output_flag, extra_bits)


def _read_ordering(bits: HeaderBits, sub_layers: int) -> tuple[int, int]:
    """Read the depth of reordering in the highest sub-layer, and the bits of a picture's order."""
    order_bits = bits.read_golomb() + 4
    reorder = 0
    for _ in range(sub_layers + 1 if bits.read_flag() else 1):
        bits.read_golomb()
        reorder = bits.read_golomb()
        bits.read_golomb()
    return reorder, order_bits


def _read_tools(bits: HeaderBits, order_bits: int) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Skip the coding tools; return the sets of references, and how many counts of long-term ones a slice has."""
    for _ in range(6):
        bits.read_golomb()
    if bits.read_flag() and bits.read_flag():
        _skip_scaling_lists(bits)
    bits.skip(2)
    if bits.read_flag():
        bits.skip(8)
        bits.read_golomb()
        bits.read_golomb()
        bits.skip(1)
    references = read_reference_sets(bits)
    long_term_numbers = 0
    if bits.read_flag():
        count = _check_count(bits.read_golomb(), 33)
        bits.skip((order_bits + 1) * count)
        long_term_numbers = 2 if count else 1
    return references, long_term_numbers


def _read_frame_rate(bits: HeaderBits, sub_layers: int) -> Fraction | None:
    """Read the rate of pictures if it is declared constant (E.3.1, E.3.2, fixed_pic_rate_within_cvs_flag)."""
    try:
        if bits.read_flag():
            bits.read_golomb()
            bits.read_golomb()
        bits.skip(3)
        if bits.read_flag():
            for _ in range(4):
                bits.read_golomb()
        if not bits.read_flag():
            return None
        units, scale = bits.read(32), bits.read(32)
        if bits.read_flag():
            bits.read_golomb()
        ticks = _read_picture_ticks(bits, sub_layers) if bits.read_flag() else None
    except OddUnits:  # No picture depends on it.
        return None
    return Fraction(scale, units * ticks) if ticks and units and scale else None


def _read_picture_ticks(bits: HeaderBits, sub_layers: int) -> int | None:
    """Read the ticks of a picture from the parameters of the reference decoder (E.2.2)."""
    schedules = [bits.read_flag(), bits.read_flag()]
    has_sub_pictures = any(schedules) and bits.read_flag()
    if any(schedules):
        bits.skip(19 if has_sub_pictures else 0)
        bits.skip(8 + (4 if has_sub_pictures else 0) + 15)
    ticks = None
    for _ in range(sub_layers + 1):
        is_constant = bits.read_flag() or bits.read_flag()
        ticks = bits.read_golomb() + 1 if is_constant else None
        has_low_delay = not is_constant and bits.read_flag()
        count = 1 if has_low_delay else _check_count(bits.read_golomb() + 1, _MAX_SCHEDULES)
        for _ in range(count * sum(schedules)):
            for _ in range(4 if has_sub_pictures else 2):
                bits.read_golomb()
            bits.skip(1)
    return ticks


def _check_count(count: int, limit: int) -> int:
    if count > limit:
        raise OddUnits(f"a list of {count}")
    return count


def _skip_scaling_lists(bits: HeaderBits) -> None:
    for size in range(4):
        for _ in range(0, 6, 3 if size == 3 else 1):
            if not bits.read_flag():
                bits.read_golomb()
                continue
            if size > 1:
                bits.read_signed_golomb()
            for _ in range(min(64, 1 << (4 + (size << 1)))):
                bits.read_signed_golomb()


def read_reference_sets(bits: HeaderBits) -> tuple[tuple[int, ...], ...]:
    """Read the sets of references, 7.3.7: the order of each, counted from the picture's own."""
    sets: list[tuple[int, ...]] = []
    for number in range(_check_count(bits.read_golomb(), _MAX_SETS)):
        references: list[int] = []
        if number and bits.read_flag():
            # Coded as changes of the set before: each of its pictures, and one more, may be in it.
            sign = -1 if bits.read_flag() else 1
            step = sign * (bits.read_golomb() + 1)
            for order in (*sets[-1], 0):
                if (bits.read_flag() or bits.read_flag()) and order + step:
                    references.append(order + step)
        else:
            counts = bits.read_golomb(), bits.read_golomb()
            _check_count(sum(counts), MOST_REFERENCES)
            for sign, count in zip((-1, 1), counts, strict=True):
                order = 0
                for _ in range(count):
                    order += sign * (bits.read_golomb() + 1)
                    bits.skip(1)
                    references.append(order)
        _check_count(len(references), MOST_REFERENCES)
        sets.append(tuple(references))
    return tuple(sets)
