"""Sequence and frame headers of AV1: bitstream specification 1.0.0 with errata 1, clauses 5.5 and 5.9."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from framefeed.media.bits import Bits
from framefeed.media.proving import FirstPicture, Unproved

_HEADER_BYTES = 256
"""More than a sequence header takes, and than a frame header up to its size and what it refreshes."""
_SELECT = 2
"""Each frame says itself."""
_KEY, _INTRA_ONLY, _SWITCH = 0, 2, 3
_ALL_SLOTS = 0xFF
# As libav numbers them (ITU-T H.273).
_UNSPECIFIED, _BT709, _SRGB, _IDENTITY = 2, 1, 13, 0
_LIMITED, _FULL = 1, 2
_CHROMA = {(True, True): "yuv420p", (True, False): "yuv422p", (False, False): "yuv444p"}
"""By whether columns and rows of chroma are halved."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """What a sequence header says.

    Attributes:
        is_still: Each frame is a shown key frame, whose header does not say so.
        layers: Of operating point 0: temporal ones in the low 8 bits, spatial ones above; 0 where there are none.
        has_model: Frames may say when their buffers are free, in a way that is not read.
        time_bits: Of the presentation time of a shown frame.
        screen_tools: Whether frames may use tools for screen content; ``_SELECT``.
        integer_motion: Whether motion vectors are whole; ``_SELECT``.
        id_bits: Of the number of a frame.
        order_bits: Of the place of a frame in display order.
        first: A frame that does not say its size itself.
    """

    is_still: bool
    layers: int
    has_model: bool
    time_bits: int
    screen_tools: int
    integer_motion: int
    id_bits: int
    order_bits: int
    first: FirstPicture


class FrameHeader(NamedTuple):
    """What a frame header says of a frame that is coded behind it.

    Attributes:
        is_key: It is a key frame.
        is_shown: It comes out.
        has_own_size: Its size is another than the sequence header's.
        refreshed: The slots that it is kept in, the first in the lowest bit. Where that is not read, all of a key
            frame, none of another.
    """

    is_key: bool
    is_shown: bool
    has_own_size: bool = False
    refreshed: int = _ALL_SLOTS


def read_sequence(unit: memoryview) -> Sequence:
    """Read a sequence header; of the operating points the first one counts."""
    bits = Bits(unit, _HEADER_BYTES)
    profile, _, is_still = bits.number(3), bits.flag(), bits.flag()
    layers, has_model, time_bits = 0, False, 0
    if is_still:
        bits.number(5)
    else:
        layers, has_model, time_bits = _read_operating_points(bits)
        if layers and (layers >> 8 != 1 or not layers & 0xFF):
            raise Unproved("several spatial layers, or none")
    width_bits, height_bits = bits.number(4) + 1, bits.number(4) + 1
    width, height = bits.number(width_bits) + 1, bits.number(height_bits) + 1
    id_bits = order_bits = 0
    if not is_still and bits.flag():
        id_bits = bits.number(4) + 2 + bits.number(3) + 1
    bits.number(3)
    screen_tools = integer_motion = _SELECT
    if not is_still:
        bits.number(4)
        has_order = bits.flag()
        bits.number(2 if has_order else 0)
        screen_tools = _SELECT if bits.flag() else bits.number(1)
        if screen_tools:
            integer_motion = _SELECT if bits.flag() else bits.number(1)
        order_bits = bits.number(3) + 1 if has_order else 0
    bits.number(3)
    first = FirstPicture(width, height, *_read_colors(bits, profile))
    return Sequence(is_still, layers, has_model, time_bits, screen_tools, integer_motion, id_bits, order_bits, first)


def _read_operating_points(bits: Bits) -> tuple[int, bool, int]:
    """Read layers of the first operating point, whether there is a model of decoders, and the bits of its times."""
    delay_bits = time_bits = 0
    is_even = has_model = False
    if bits.flag():
        bits.number(64)
        is_even = bits.flag()
        if is_even:
            _skip_long_number(bits)
        has_model = bits.flag()
        if has_model:
            delay_bits = bits.number(5) + 1
            bits.number(32 + 5)
            time_bits = bits.number(5) + 1
    has_delays = bits.flag()
    layers = []
    for _ in range(bits.number(5) + 1):
        layers.append(bits.number(12))
        if bits.number(5) > 7:
            bits.number(1)
        if has_model and bits.flag():
            bits.number(2 * delay_bits + 1)
        if has_delays and bits.flag():
            bits.number(4)
    return layers[0], has_model, 0 if is_even else time_bits


def _skip_long_number(bits: Bits) -> None:
    """Pass over a number of variable length (uvlc)."""
    zeros = 0
    while not bits.flag():
        zeros += 1
    bits.number(zeros if zeros < 32 else 0)


def _read_colors(bits: Bits, profile: int) -> tuple[str, dict[str, int]]:
    """Read the pixel format, as libav names it, and the colours of a sequence (color_config)."""
    depth = ("", "10le")[bits.number(1)]
    if profile == 2 and depth:
        depth = ("10le", "12le")[bits.number(1)]
    is_gray = profile != 1 and bits.flag()
    described = [bits.number(8) for _ in range(3)] if bits.flag() else [_UNSPECIFIED] * 3
    colors = dict(zip(("primaries", "transfer", "space"), described, strict=True))
    if not is_gray and described == [_BT709, _SRGB, _IDENTITY]:
        return "gbrp" + depth, colors | {"range": _FULL}
    colors["range"] = _FULL if bits.flag() else _LIMITED
    if is_gray:
        return "gray" + depth, colors
    is_halved = (profile == 0, profile == 0)
    if profile == 2:
        is_halved = (True, False)
        if depth == "12le":
            is_wide = bits.flag()
            is_halved = is_wide, is_wide and bits.flag()
    return _CHROMA[is_halved] + depth, colors


def read_frame(unit: memoryview, sequence: Sequence) -> FrameHeader:
    """Read the beginning of the header of a frame that is coded, not shown again."""
    if sequence.is_still:
        return FrameHeader(is_key=True, is_shown=True)
    bits = Bits(unit, _HEADER_BYTES)
    kind = bits.number(3)
    is_shown = bits.flag()
    bits.number(sequence.time_bits if is_shown else 1)
    is_start = kind == _KEY and is_shown
    is_resilient = is_start or kind == _SWITCH or bits.flag()
    bits.number(1)
    has_tools = bits.flag() if sequence.screen_tools == _SELECT else sequence.screen_tools
    if has_tools and sequence.integer_motion == _SELECT:
        bits.number(1)
    bits.number(sequence.id_bits)
    has_own_size = kind == _SWITCH or bits.flag()
    if is_start or kind == _SWITCH:
        return FrameHeader(kind == _KEY, is_shown, has_own_size)
    bits.number(sequence.order_bits + (0 if is_resilient or kind in (_KEY, _INTRA_ONLY) else 3))
    if sequence.has_model:
        return FrameHeader(kind == _KEY, is_shown, has_own_size, _ALL_SLOTS if kind == _KEY else 0)
    return FrameHeader(kind == _KEY, is_shown, has_own_size, bits.number(8))
