"""Read the sequence and frame headers of AV1 packets.

Source: AV1 bitstream specification 1.0.0 with errata 1, clauses 5.3, 5.5, 5.9 and 7.20 to 7.21.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from framefeed._values import PictureFormat, StreamColors
from framefeed.bitstreams._bits import KEY_FRAME, SHOWN, HeaderBits, OddUnits

_HEADER_BYTES = 256
"""More than a sequence header takes, and than a frame header up to its size and its refreshed slots."""
_SELECT = 2
"""Each frame header says it."""
_KEY, _INTRA_ONLY, _SWITCH = 0, 2, 3
_ALL_SLOTS, _NUM_SLOTS = 0xFF, 8
# As libav numbers them (ITU-T H.273).
_BT709, _SRGB, _IDENTITY = 1, 13, 0
_LIMITED, _FULL = 1, 2
_CHROMA = {(True, True): "yuv420p", (True, False): "yuv422p", (False, False): "yuv444p"}
"""By whether columns and rows of chroma are halved."""


class Sequence(NamedTuple):
    """Facts of a sequence header."""

    is_still: bool  # each frame is a shown key frame, without flags for it in its header
    layers: int  # of operating point 0: temporal ones in the low 8 bits, spatial ones above; 0 if there are none
    has_model: bool  # frame headers may have removal times of buffers, which are not read
    time_bits: int  # bits of the presentation time of a shown frame
    screen_tools: int  # whether frames may use tools for screen content; ``_SELECT``
    integer_motion: int  # whether motion vectors are whole; ``_SELECT``
    id_bits: int  # bits of the number of a frame
    order_bits: int  # bits of the display order of a frame
    format: PictureFormat  # of a frame without its own size
    colors: StreamColors


class FrameHeader(NamedTuple):
    """Facts of the header of a coded frame."""

    is_key: bool
    is_shown: bool
    has_own_size: bool = False  # its size may differ from the sequence header's
    # Reference slots that keep it, the first in the lowest bit. If they are not read: all for a key frame, none for
    # another.
    refreshed: int = _ALL_SLOTS
    order: int = 0  # its number in display order, of ``Sequence.order_bits``


def read_sequence(unit: memoryview) -> Sequence:
    """Read a sequence header, with the first operating point."""
    bits = HeaderBits(unit, _HEADER_BYTES)
    profile, _, is_still = bits.read(3), bits.read_flag(), bits.read_flag()
    layers, has_model, time_bits = 0, False, 0
    if is_still:
        bits.read(5)
    else:
        layers, has_model, time_bits = _read_operating_points(bits)
        if layers and (layers >> 8 != 1 or not layers & 0xFF):
            raise OddUnits("several spatial layers, or none")
    width_bits, height_bits = bits.read(4) + 1, bits.read(4) + 1
    width, height = bits.read(width_bits) + 1, bits.read(height_bits) + 1
    id_bits = order_bits = 0
    if not is_still and bits.read_flag():
        id_bits = bits.read(4) + 2 + bits.read(3) + 1
    bits.read(3)
    screen_tools = integer_motion = _SELECT
    if not is_still:
        bits.read(4)
        has_order = bits.read_flag()
        bits.read(2 if has_order else 0)
        screen_tools = _SELECT if bits.read_flag() else bits.read(1)
        if screen_tools:
            integer_motion = _SELECT if bits.read_flag() else bits.read(1)
        order_bits = bits.read(3) + 1 if has_order else 0
    bits.read(3)
    pixel_format, colors = _read_colors(bits, profile)
    return Sequence(
        is_still=is_still,
        layers=layers,
        has_model=has_model,
        time_bits=time_bits,
        screen_tools=screen_tools,
        integer_motion=integer_motion,
        id_bits=id_bits,
        order_bits=order_bits,
        format=PictureFormat(width, height, pixel_format, width, height),
        colors=colors,
    )


def _read_operating_points(bits: HeaderBits) -> tuple[int, bool, int]:
    """Read the first operating point's layers, whether there is a decoder model, and the bits of its times."""
    delay_bits = time_bits = 0
    is_even = has_model = False
    if bits.read_flag():
        bits.read(64)
        is_even = bits.read_flag()
        if is_even:
            zeros = 0  # a number of variable length (uvlc)
            while not bits.read_flag():
                zeros += 1
            bits.read(zeros if zeros < 32 else 0)
        has_model = bits.read_flag()
        if has_model:
            delay_bits = bits.read(5) + 1
            bits.read(32 + 5)
            time_bits = bits.read(5) + 1
    has_delays = bits.read_flag()
    layers = []
    for _ in range(bits.read(5) + 1):
        layers.append(bits.read(12))
        if bits.read(5) > 7:
            bits.read(1)
        if has_model and bits.read_flag():
            bits.read(2 * delay_bits + 1)
        if has_delays and bits.read_flag():
            bits.read(4)
    return layers[0], has_model, 0 if is_even else time_bits


def _read_colors(bits: HeaderBits, profile: int) -> tuple[str, StreamColors]:
    """Read the pixel format, as libav names it, and the colours of a sequence (color_config)."""
    depth = ("", "10le")[bits.read(1)]
    if profile == 2 and depth:
        depth = ("10le", "12le")[bits.read(1)]
    is_gray = profile != 1 and bits.read_flag()
    described = StreamColors()
    if bits.read_flag():
        described = StreamColors(bits.read(8), bits.read(8), bits.read(8))
    if not is_gray and described == StreamColors(_BT709, _SRGB, _IDENTITY):
        return "gbrp" + depth, replace(described, range=_FULL)
    colors = replace(described, range=_FULL if bits.read_flag() else _LIMITED)
    if is_gray:
        return "gray" + depth, colors
    is_halved = (profile == 0, profile == 0)
    if profile == 2:
        is_halved = (True, False)
        if depth == "12le":
            is_wide = bits.read_flag()
            is_halved = is_wide, is_wide and bits.read_flag()
    return _CHROMA[is_halved] + depth, colors


def read_frame(unit: memoryview, sequence: Sequence) -> FrameHeader:
    """Read the beginning of the header of a coded frame, not of one that is shown again."""
    if sequence.is_still:
        return FrameHeader(is_key=True, is_shown=True)
    bits = HeaderBits(unit, _HEADER_BYTES)
    kind = bits.read(3)
    is_shown = bits.read_flag()
    bits.read(sequence.time_bits if is_shown else 1)
    is_start = kind == _KEY and is_shown
    is_resilient = is_start or kind == _SWITCH or bits.read_flag()
    bits.read(1)
    has_tools = bits.read_flag() if sequence.screen_tools == _SELECT else sequence.screen_tools
    if has_tools and sequence.integer_motion == _SELECT:
        bits.read(1)
    bits.read(sequence.id_bits)
    has_own_size = kind == _SWITCH or bits.read_flag()
    order = bits.read(sequence.order_bits)
    if is_start or kind == _SWITCH:
        return FrameHeader(kind == _KEY, is_shown, has_own_size, order=order)
    bits.read(0 if is_resilient or kind in (_KEY, _INTRA_ONLY) else 3)
    if sequence.has_model:
        return FrameHeader(kind == _KEY, is_shown, has_own_size, _ALL_SLOTS if kind == _KEY else 0, order)
    return FrameHeader(kind == _KEY, is_shown, has_own_size, bits.read(8), order)


_SEQUENCE, _FRAME_HEADER, _TILE_GROUP, _FRAME, _REDUNDANT_HEADER, _TILE_LIST = 1, 3, 4, 6, 7, 8
_PARTS_OF_FRAMES = frozenset({_FRAME_HEADER, _TILE_GROUP, _FRAME, _REDUNDANT_HEADER, _TILE_LIST})
_FORBIDDEN, _HAS_EXTENSION, _HAS_SIZE = 0x80, 0x04, 0x02
_SPATIAL_LAYER = 0x18
_MAX_SIZE_BYTES = 8
_SHOWS_EXISTING = 0x80


class Av1Reader:
    """Reads one packet after the other: sequence headers, and the beginning of each frame header."""

    changes_size = False

    def __init__(self) -> None:
        self._raw_sequence = b""
        self._sequence: Sequence | None = None
        self._has_frame = False
        self._key_slots = 0
        self._orders = [0] * _NUM_SLOTS
        self._order = 0
        self._shown: list[bool] = []
        self.format: PictureFormat | None = None
        self.colors: StreamColors | None = None

    def read(self, packet: memoryview) -> int:
        """Read the next packet; return the flags of the one frame that it shows."""
        self._shown.clear()
        before, needs_tiles, takes_tiles = self._order, False, False
        for kind, unit in self._units(packet):
            if kind == _TILE_GROUP and takes_tiles:
                needs_tiles = False
            elif kind in (_FRAME, _FRAME_HEADER) and not needs_tiles:
                is_coded = self._take_frame(unit, kind == _FRAME)
                needs_tiles = takes_tiles = is_coded and kind == _FRAME_HEADER
            elif kind == _SEQUENCE:
                if self._sequence is None:
                    self._raw_sequence, self._sequence = bytes(unit), read_sequence(unit)
                elif unit != self._raw_sequence:
                    raise OddUnits("the sequence header changes")
            elif kind in _PARTS_OF_FRAMES:
                raise OddUnits("a part of a frame that belongs to no other")
        if needs_tiles or len(self._shown) != 1:
            raise OddUnits("not exactly one frame comes of a packet")
        assert self._sequence is not None
        # A decoder may give no frame of those that refer to the missing one. The slots are not known with a model.
        is_next = self._order == (before + 1) & ((1 << self._sequence.order_bits) - 1)
        if not (is_next or self._shown[0] or self._sequence.has_model):
            raise OddUnits("a frame is missing before another")
        return SHOWN | KEY_FRAME * self._shown[0]

    def _units(self, packet: memoryview) -> Iterator[tuple[int, memoryview]]:
        """Yield kind and payload of each unit that a decoder of operating point 0 reads."""
        at, end = 0, len(packet)
        while at < end:
            header = packet[at]
            at += 1
            if header & _HAS_EXTENSION:
                extension = packet[at] if at < end else _SPATIAL_LAYER
                layers = self._sequence.layers if self._sequence is not None else 0
                if extension & _SPATIAL_LAYER or (layers and not layers >> (extension >> 5) & 1):
                    raise OddUnits("a layer that is not decoded, or is not all of a frame")
                at += 1
            size = end - at
            if header & _HAS_SIZE:
                size, at = _read_size(packet, at)
            if header & _FORBIDDEN or not 0 <= size <= end - at:
                raise OddUnits("units that do not fill the packet")
            yield header >> 3 & 15, packet[at : at + size]
            at += size

    def _take_frame(self, unit: memoryview, has_tiles: bool) -> bool:
        """Read the beginning of a frame header; return whether a coded frame follows, not an earlier one."""
        if self._sequence is None or not len(unit):
            raise OddUnits("a frame without a sequence header, or without its own")
        if unit[0] & _SHOWS_EXISTING and not self._sequence.is_still:
            if has_tiles or not self._has_frame:
                raise OddUnits("a frame decoded earlier, with tiles, or before any was decoded")
            # It would fill all slots, so that later frames that refer to other ones are lost.
            if self._key_slots >> (unit[0] >> 4 & 7) & 1:
                raise OddUnits("a key frame is shown again")
            self._show(self._orders[unit[0] >> 4 & 7], is_key=False)
            return False
        frame = read_frame(unit, self._sequence)
        if not self._has_frame:
            if not (frame.is_key and frame.is_shown):
                raise OddUnits("it does not begin with a shown key frame")
            self._has_frame = True
            if not frame.has_own_size:
                self.format, self.colors = self._sequence.format, self._sequence.colors
        if frame.is_key:
            self._key_slots |= frame.refreshed
        else:
            self._key_slots &= ~frame.refreshed
        left = frame.refreshed
        while left:
            slot = left.bit_length() - 1
            self._orders[slot] = frame.order
            left ^= 1 << slot
        if frame.is_shown:
            self._show(frame.order, is_key=frame.is_key)
        return True

    def _show(self, order: int, *, is_key: bool) -> None:
        self._order = order
        self._shown.append(is_key)


def _read_size(packet: memoryview, at: int) -> tuple[int, int]:
    """Read a size of seven bits a byte, low ones first (leb128), and the offset behind it."""
    size = 0
    for number, byte in enumerate(packet[at : at + _MAX_SIZE_BYTES]):
        size |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return size, at + number + 1
    raise OddUnits("a unit without an end to its size")
