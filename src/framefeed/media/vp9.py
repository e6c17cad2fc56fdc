"""What VP9 packets say of their frames: VP9 bitstream specification 0.6, annex B."""

from __future__ import annotations

import numpy as np

from framefeed.media.limits import Limits
from framefeed.media.packets import PacketWalk
from framefeed.media.proving import FirstPicture, Proof, Unproved, prove_in_packet_order
from framefeed.media.vp9_header import EXISTING, KEY, SHOWN, FrameReader

_SUPERFRAME_BITS, _SUPERFRAME = 0xE0, 0xC0
_INDEX_MARKERS = 2
"""Bytes of a superframe index besides the sizes of its frames."""


class Vp9Prover:
    """Reads the superframe index of each packet, and the header of each of its frames."""

    def __init__(self, limits: Limits) -> None:
        self._reader = FrameReader(limits)
        self._kinds: list[int] = []
        self._first: FirstPicture | None = None

    def add(self, packet: memoryview) -> None:
        """Take the next packet."""
        is_superframe = packet[-1] & _SUPERFRAME_BITS == _SUPERFRAME
        kind = self._read_all(_split(packet)) if is_superframe else self._reader.read(packet)
        if not self._kinds:
            self._first = self._reader.picture
        # A frame that is not shown is no frame of the packet, whatever it is.
        self._kinds.append(kind if kind & SHOWN else 0)

    def _read_all(self, frames: list[memoryview]) -> int:
        kinds = [self._reader.read(frame) for frame in frames]
        shown = [kind for kind in kinds if kind & SHOWN]
        if len(shown) > 1:
            raise Unproved("two frames come of one packet")
        # A key frame in two parts: what shows it hands on its flag.
        is_split_key = kinds == [KEY, SHOWN | EXISTING]
        return SHOWN | KEY if is_split_key else sum(shown)

    def prove(self, walk: PacketWalk) -> Proof:
        """Prove which packets give a frame; see ``Prover.prove``."""
        kinds = np.array(self._kinds, dtype=np.uint8)
        if (walk.is_key & (kinds & EXISTING != 0)).any():
            raise Unproved("a packet that shows an earlier picture, which the container calls a key frame")
        return prove_in_packet_order(walk, kinds & SHOWN != 0, kinds & KEY != 0, self._first)


def _split(packet: memoryview) -> list[memoryview]:
    """Split a superframe, whose index is at its end.

    Where the index does not begin as it ends it is none by the specification, and damage to libav.
    """
    marker = packet[-1]
    count, length = (marker & 7) + 1, (marker >> 3 & 3) + 1
    end = len(packet) - count * length - _INDEX_MARKERS
    if end < 0 or packet[end] != marker:
        raise Unproved("a packet that ends like a superframe, and is none")
    frames, at = [], 0
    for number in range(count):
        place = end + 1 + number * length
        size = int.from_bytes(packet[place : place + length], "little")
        if not 0 < size <= end - at:
            raise Unproved("a superframe whose sizes do not fit")
        frames.append(packet[at : at + size])
        at += size
    return frames
