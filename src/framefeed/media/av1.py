"""What AV1 packets say of their frames: AV1 bitstream specification 1.0.0 with errata 1, clauses 5.3 to 5.9."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from framefeed.media.bits import Bits
from framefeed.media.limits import Limits
from framefeed.media.packets import PacketWalk
from framefeed.media.proving import FirstPicture, Proof, Unproved, prove_in_packet_order

_SEQUENCE, _FRAME_HEADER, _TILE_GROUP, _FRAME, _REDUNDANT_HEADER, _TILE_LIST = 1, 3, 4, 6, 7, 8
_PARTS_OF_FRAMES = frozenset({_FRAME_HEADER, _TILE_GROUP, _FRAME, _REDUNDANT_HEADER, _TILE_LIST})
_FORBIDDEN, _HAS_EXTENSION, _HAS_SIZE = 0x80, 0x04, 0x02
_SPATIAL_LAYER = 0x18
_HEADER_BYTES = 256
"""Of a unit that are read: more than a sequence header takes."""
_MAX_SIZE_BYTES = 8
_SELECT = 2
"""Each frame says itself."""
# As libav numbers them (ITU-T H.273).
_UNSPECIFIED, _BT709, _SRGB, _IDENTITY = 2, 1, 13, 0
_LIMITED, _FULL = 1, 2
_CHROMA = {(True, True): "yuv420p", (True, False): "yuv422p", (False, False): "yuv444p"}
"""By whether columns and rows of chroma are halved."""


@dataclass(frozen=True, slots=True)
class _Sequence:
    """What a sequence header says.

    Attributes:
        is_still: Each frame is a shown key frame, whose header does not say so.
        layers: Of operating point 0: temporal ones in the low 8 bits, spatial ones above; 0 where there are none.
        time_bits: Of the presentation time of a shown frame.
        screen_tools: Whether frames may use tools for screen content; ``_SELECT``.
        integer_motion: Whether motion vectors are whole; ``_SELECT``.
        id_bits: Of the number of a frame.
        first: A frame that does not say its size itself.
    """

    is_still: bool
    layers: int
    time_bits: int
    screen_tools: int
    integer_motion: int
    id_bits: int
    first: FirstPicture


class Av1Prover:
    """Walks the units of each packet, and reads sequence headers and the first bits of each frame."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._raw_sequence = b""
        self._sequence: _Sequence | None = None
        self._has_frame = False
        self._is_key: list[bool] = []
        self._is_existing: list[bool] = []
        self._first: FirstPicture | None = None

    def add(self, packet: memoryview) -> None:
        """Take the next packet."""
        num_before, needs_tiles, takes_tiles = len(self._is_key), False, False
        for kind, unit in self._units(packet):
            if kind == _TILE_GROUP and takes_tiles:
                needs_tiles = False
            elif kind in (_FRAME, _FRAME_HEADER) and not needs_tiles:
                is_coded = self._take_frame(unit, kind == _FRAME)
                needs_tiles = takes_tiles = is_coded and kind == _FRAME_HEADER
            elif kind == _SEQUENCE:
                self._take_sequence(unit)
            elif kind in _PARTS_OF_FRAMES:
                raise Unproved("a part of a frame that belongs to no other")
        if needs_tiles or len(self._is_key) != num_before + 1:
            raise Unproved("not exactly one frame comes of a packet")

    def _units(self, packet: memoryview) -> Iterator[tuple[int, memoryview]]:
        """Yield the kind and the payload of each unit that a decoder of operating point 0 looks at."""
        at, end = 0, len(packet)
        while at < end:
            header = packet[at]
            at += 1
            if header & _HAS_EXTENSION:
                self._check_layer(packet[at] if at < end else 0xFF)
                at += 1
            size = end - at
            if header & _HAS_SIZE:
                size, at = _read_size(packet, at)
            if header & _FORBIDDEN or not 0 <= size <= end - at:
                raise Unproved("units that do not fill the packet")
            yield header >> 3 & 15, packet[at : at + size]
            at += size

    def _check_layer(self, extension: int) -> None:
        layers = self._sequence.layers if self._sequence is not None else 0
        if extension & _SPATIAL_LAYER or (layers and not layers >> (extension >> 5) & 1):
            raise Unproved("a layer that is not decoded, or is not all of a frame")

    def _take_sequence(self, unit: memoryview) -> None:
        if self._sequence is None:
            self._raw_sequence = bytes(unit)
            self._sequence = _read_sequence(unit)
            picture = self._sequence.first
            if picture.width * picture.height > self._limits.max_pixels:
                raise Unproved("pictures larger than allowed")
        elif unit != self._raw_sequence:
            raise Unproved("the sequence header changes")

    def _take_frame(self, unit: memoryview, has_tiles: bool) -> bool:
        """Read the beginning of a frame header; whether a coded frame follows, not one that was decoded earlier."""
        sequence = self._sequence
        if sequence is None or not len(unit):
            raise Unproved("a frame without a sequence header, or without its own")
        first = 0b0001_0000 if sequence.is_still else unit[0]
        is_existing, is_key, is_shown = first & 0x80 != 0, first & 0x60 == 0, first & 0x10 != 0
        if not self._has_frame:
            if is_existing or not is_key or not is_shown:
                raise Unproved("it does not begin with a shown key frame")
            self._has_frame = True
            self._first = sequence.first if _has_usual_size(unit, sequence) else None
        if is_existing and has_tiles:
            raise Unproved("a frame decoded earlier, with tiles")
        if is_existing or is_shown:
            self._is_key.append(is_key and not is_existing)
            self._is_existing.append(is_existing)
        return not is_existing

    def prove(self, walk: PacketWalk) -> Proof:
        """Prove that each packet gives a frame; see ``Prover.prove``."""
        is_key, is_existing = np.array(self._is_key, dtype=bool), np.array(self._is_existing, dtype=bool)
        if (walk.is_key & is_existing).any():
            raise Unproved("a packet that shows an earlier picture, which the container calls a key frame")
        return prove_in_packet_order(walk, np.ones(len(walk), dtype=bool), is_key, self._first)


def _read_size(packet: memoryview, at: int) -> tuple[int, int]:
    """Read a size of seven bits a byte, low ones first, and where it ends (leb128)."""
    size = 0
    for number, byte in enumerate(packet[at : at + _MAX_SIZE_BYTES]):
        size |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return size, at + number + 1
    raise Unproved("a unit without an end to its size")


def _read_sequence(unit: memoryview) -> _Sequence:
    """Read a sequence header; of the operating points the first one counts."""
    bits = Bits(unit, _HEADER_BYTES)
    profile, _, is_still = bits.number(3), bits.flag(), bits.flag()
    layers, time_bits = 0, 0
    if is_still:
        bits.number(5)
    else:
        layers, time_bits = _read_operating_points(bits)
        if layers and (layers >> 8 != 1 or not layers & 0xFF):
            raise Unproved("several spatial layers, or none")
    width_bits, height_bits = bits.number(4) + 1, bits.number(4) + 1
    width, height = bits.number(width_bits) + 1, bits.number(height_bits) + 1
    id_bits = 0
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
        bits.number(3 if has_order else 0)
    bits.number(3)
    pixel_format, colors = _read_colors(bits, profile)
    first = FirstPicture(width, height, pixel_format, colors)
    return _Sequence(is_still, layers, time_bits, screen_tools, integer_motion, id_bits, first)


def _read_operating_points(bits: Bits) -> tuple[int, int]:
    """Read layers of the first operating point, and the bits of a frame's presentation time."""
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
    return layers[0], 0 if is_even else time_bits


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


def _has_usual_size(unit: memoryview, sequence: _Sequence) -> bool:
    """Whether a shown key frame, the header of which begins a unit, is as large as the sequence header says."""
    if sequence.is_still:
        return True
    bits = Bits(unit, _HEADER_BYTES)
    bits.number(4 + sequence.time_bits)
    bits.number(1)
    has_tools = bits.flag() if sequence.screen_tools == _SELECT else sequence.screen_tools
    if has_tools and sequence.integer_motion == _SELECT:
        bits.number(1)
    bits.number(sequence.id_bits)
    return not bits.flag()
