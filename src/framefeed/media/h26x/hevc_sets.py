"""Parameter sets of HEVC: ITU-T H.265 (08/2021) 7.3.2.2, 7.3.2.3, 7.3.3 and E.2.1."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from framefeed.media.details import StreamColors
from framefeed.media.h26x.bits import BitReader, OddUnits
from framefeed.media.h26x.formats import LIMITED_RANGE, PictureFormat, pixel_format, signalled_colors

_EXTENDED_ASPECT = 255
_MAX_SETS = 64
_MAX_PICTURES = 16
_MAX_SCHEDULES = 32


_MOST_SEQUENCES, _MOST_PICTURE_SETS = 16, 64
_MOST_ORDER_BITS = 16


@dataclass(frozen=True, slots=True)
class HevcSequence:
    """What a sequence parameter set says of slice headers.

    Attributes:
        number: Its own number, by which picture parameter sets refer to it.
        order_bits: Bits of a picture's order.
    """

    number: int
    order_bits: int


@dataclass(frozen=True, slots=True)
class HevcPicture:
    """What a picture parameter set says of slice headers.

    Attributes:
        number: Its own number, by which slices refer to it.
        sequence: Number of its sequence parameter set.
        has_output_flag: Slices say whether their picture is shown.
        extra_bits: Bits before the slice type.
    """

    number: int
    sequence: int
    has_output_flag: bool
    extra_bits: int


def hevc_sequence(unit: bytes) -> tuple[HevcSequence, PictureFormat]:
    """Read a sequence parameter set; the container's colours never count beside it.

    Args:
        unit: The NAL unit with its header.

    Raises:
        OddUnits: It breaks off, or holds what libav treats in its own way.
    """
    bits = BitReader(unit[2:])
    bits.skip(4)
    sub_layers = bits.number(3)
    bits.skip(1)
    _skip_profile(bits, sub_layers)
    number = bits.golomb()
    chroma = bits.golomb()
    if chroma == 3 and bits.flag():
        raise OddUnits("separate colour planes")
    columns, rows = bits.golomb(), bits.golomb()
    across, down = (2 if chroma in (1, 2) else 1), (2 if chroma == 1 else 1)
    left, right, top, bottom = (bits.golomb() for _ in range(4)) if bits.flag() else (0, 0, 0, 0)
    if (left + right) * across >= columns or (top + bottom) * down >= rows:
        raise OddUnits("everything is cropped")
    luma_depth, depth = bits.golomb() + 8, bits.golomb() + 8
    reorder, order_bits = _ordering(bits, sub_layers)
    if order_bits > _MOST_ORDER_BITS or number >= _MOST_SEQUENCES:
        raise OddUnits("a sequence parameter set of numbers beyond their ranges")
    has_usability = _skip_to_usability(bits, order_bits)
    colors = _colors(bits) if has_usability else StreamColors(range=LIMITED_RANGE)
    found = PictureFormat(
        coded_width=columns,
        coded_height=rows,
        width=columns - (left + right) * across,
        height=rows - (top + bottom) * down,
        pixel_format=pixel_format(chroma, depth, colors, luma_depth),
        colors=colors,
        reorder=reorder,
        frame_rate=_frame_rate(bits, sub_layers) if has_usability else None,
    )
    return HevcSequence(number, order_bits), found


def hevc_picture(unit: bytes) -> HevcPicture:
    """Read the beginning of a picture parameter set.

    Raises:
        OddUnits: It breaks off.
    """
    bits = BitReader(unit[2:])
    number, sequence = bits.golomb(), bits.golomb()
    bits.skip(1)
    has_output_flag, extra_bits = bits.flag(), bits.number(3)
    if number >= _MOST_PICTURE_SETS:
        raise OddUnits(f"picture parameter set {number}")
    return HevcPicture(number, sequence, has_output_flag, extra_bits)


def _skip_profile(bits: BitReader, sub_layers: int) -> None:
    bits.skip(96)
    flags = [(bits.flag(), bits.flag()) for _ in range(sub_layers)]
    if sub_layers:
        bits.skip(2 * (8 - sub_layers))
    for has_profile, has_level in flags:
        bits.skip(88 * has_profile + 8 * has_level)


def _ordering(bits: BitReader, sub_layers: int) -> tuple[int, int]:
    """Read how far pictures of the highest sub-layer are reordered, and the bits of a picture's order."""
    order_bits = bits.golomb() + 4
    reorder = 0
    for _ in range(sub_layers + 1 if bits.flag() else 1):
        bits.golomb()
        reorder = bits.golomb()
        bits.golomb()
    return reorder, order_bits


def _skip_to_usability(bits: BitReader, order_bits: int) -> bool:
    """Pass over the coding tools; whether video usability information follows."""
    for _ in range(6):
        bits.golomb()
    if bits.flag() and bits.flag():
        _skip_scaling_lists(bits)
    bits.skip(2)
    if bits.flag():
        bits.skip(8)
        bits.golomb()
        bits.golomb()
        bits.skip(1)
    _skip_reference_sets(bits)
    if bits.flag():
        for _ in range(_bounded(bits.golomb(), 33)):
            bits.skip(order_bits + 1)
    bits.skip(2)
    return bits.flag()


def _colors(bits: BitReader) -> StreamColors:
    if bits.flag() and bits.number(8) == _EXTENDED_ASPECT:
        bits.skip(32)
    if bits.flag():
        bits.skip(1)
    colors = StreamColors(range=LIMITED_RANGE)
    return signalled_colors(bits, colors) if bits.flag() else colors


def _frame_rate(bits: BitReader, sub_layers: int) -> Fraction | None:
    """Read the rate of pictures where it is declared constant (E.3.1, E.3.2, fixed_pic_rate_within_cvs_flag)."""
    try:
        if bits.flag():
            bits.golomb()
            bits.golomb()
        bits.skip(3)
        if bits.flag():
            for _ in range(4):
                bits.golomb()
        if not bits.flag():
            return None
        units, scale = bits.number(32), bits.number(32)
        if bits.flag():
            bits.golomb()
        ticks = _ticks_of_a_picture(bits, sub_layers) if bits.flag() else None
    except OddUnits:  # It is needed for no picture.
        return None
    return Fraction(scale, units * ticks) if ticks and units and scale else None


def _ticks_of_a_picture(bits: BitReader, sub_layers: int) -> int | None:
    """Read from the parameters of the reference decoder (E.2.2) how long each picture lasts."""
    schedules = [bits.flag(), bits.flag()]
    has_sub_pictures = any(schedules) and bits.flag()
    if any(schedules):
        bits.skip(19 if has_sub_pictures else 0)
        bits.skip(8 + (4 if has_sub_pictures else 0) + 15)
    ticks = None
    for _ in range(sub_layers + 1):
        is_constant = bits.flag() or bits.flag()
        ticks = bits.golomb() + 1 if is_constant else None
        has_low_delay = not is_constant and bits.flag()
        count = 1 if has_low_delay else _bounded(bits.golomb() + 1, _MAX_SCHEDULES)
        for _ in range(count * sum(schedules)):
            for _ in range(4 if has_sub_pictures else 2):
                bits.golomb()
            bits.skip(1)
    return ticks


def _bounded(count: int, limit: int) -> int:
    if count > limit:
        raise OddUnits(f"a list of {count}")
    return count


def _skip_scaling_lists(bits: BitReader) -> None:
    for size in range(4):
        for _ in range(0, 6, 3 if size == 3 else 1):
            if not bits.flag():
                bits.golomb()
                continue
            if size > 1:
                bits.signed_golomb()
            for _ in range(min(64, 1 << (4 + (size << 1)))):
                bits.signed_golomb()


def _skip_reference_sets(bits: BitReader) -> None:
    pictures = 0
    for number in range(_bounded(bits.golomb(), _MAX_SETS)):
        if number and bits.flag():
            bits.skip(1)
            bits.golomb()
            pictures = _predicted_pictures(bits, pictures)
        else:
            pictures = _bounded(bits.golomb() + bits.golomb(), _MAX_PICTURES)
            for _ in range(pictures):
                bits.golomb()
                bits.skip(1)


def _predicted_pictures(bits: BitReader, pictures: int) -> int:
    """Count the pictures of a set that is described by its difference from the one before."""
    kept = 0
    for _ in range(pictures + 1):
        is_used = bits.flag()
        kept += 1 if is_used or bits.flag() else 0
    return _bounded(kept, _MAX_PICTURES)
