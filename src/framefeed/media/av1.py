"""What AV1 packets say of their frames: bitstream specification 1.0.0 with errata 1, clauses 5.3 and 7.20 to 7.21."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from framefeed.media.av1_headers import Sequence, read_frame, read_sequence
from framefeed.media.packets import PacketWalk
from framefeed.media.proving import FirstPicture, Proof, Unproved, prove_in_packet_order

_SEQUENCE, _FRAME_HEADER, _TILE_GROUP, _FRAME, _REDUNDANT_HEADER, _TILE_LIST = 1, 3, 4, 6, 7, 8
_PARTS_OF_FRAMES = frozenset({_FRAME_HEADER, _TILE_GROUP, _FRAME, _REDUNDANT_HEADER, _TILE_LIST})
_FORBIDDEN, _HAS_EXTENSION, _HAS_SIZE = 0x80, 0x04, 0x02
_SPATIAL_LAYER = 0x18
_MAX_SIZE_BYTES = 8
_SHOWS_EXISTING = 0x80


class Av1Prover:
    """Walks the units of each packet, and reads sequence headers and the beginning of each frame header."""

    def __init__(self) -> None:
        self._raw_sequence = b""
        self._sequence: Sequence | None = None
        self._has_frame = False
        self._key_slots = 0
        self._is_key: list[bool] = []
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
                self._check_layer(packet[at] if at < end else _SPATIAL_LAYER)
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
            self._sequence = read_sequence(unit)
        elif unit != self._raw_sequence:
            raise Unproved("the sequence header changes")

    def _take_frame(self, unit: memoryview, has_tiles: bool) -> bool:
        """Read the beginning of a frame header; whether a coded frame follows, not one that was decoded earlier."""
        if self._sequence is None or not len(unit):
            raise Unproved("a frame without a sequence header, or without its own")
        if unit[0] & _SHOWS_EXISTING and not self._sequence.is_still:
            self._show_existing(unit[0] >> 4 & 7, has_tiles)
            return False
        frame = read_frame(unit, self._sequence)
        if not self._has_frame:
            if not (frame.is_key and frame.is_shown):
                raise Unproved("it does not begin with a shown key frame")
            self._has_frame = True
            self._first = None if frame.has_own_size else self._sequence.first
        if frame.is_key:
            self._key_slots |= frame.refreshed
        else:
            self._key_slots &= ~frame.refreshed
        if frame.is_shown:
            self._is_key.append(frame.is_key)
        return True

    def _show_existing(self, slot: int, has_tiles: bool) -> None:
        if has_tiles or not self._has_frame:
            raise Unproved("a frame decoded earlier, with tiles, or before any was decoded")
        # It would fill all slots, so that frames behind it that refer to others are lost.
        if self._key_slots >> slot & 1:
            raise Unproved("a key frame is shown again")
        self._is_key.append(False)

    def prove(self, walk: PacketWalk) -> Proof:
        """Prove that each packet gives a frame; see ``Prover.prove``."""
        is_key = np.array(self._is_key, dtype=bool)
        return prove_in_packet_order(walk, np.ones(len(walk), dtype=bool), is_key, self._first)


def _read_size(packet: memoryview, at: int) -> tuple[int, int]:
    """Read a size of seven bits a byte, low ones first, and where it ends (leb128)."""
    size = 0
    for number, byte in enumerate(packet[at : at + _MAX_SIZE_BYTES]):
        size |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return size, at + number + 1
    raise Unproved("a unit without an end to its size")
