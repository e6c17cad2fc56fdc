"""What VP8 packets say of their frames: RFC 6386 9.1."""

from __future__ import annotations

import numpy as np

from framefeed.media.limits import Limits
from framefeed.media.packets import PacketWalk
from framefeed.media.proving import FirstPicture, Proof, Unproved, prove_in_packet_order

_IS_INTER, _IS_SHOWN = 1, 16
_TAG_BYTES, _KEY_BYTES = 3, 10
_START_CODE = b"\x9d\x01\x2a"
_SIDE = 0x3FFF


class Vp8Prover:
    """Reads the frame tag of each packet, and the start of each key frame."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._tags: list[int] = []
        self._first: FirstPicture | None = None

    def add(self, packet: memoryview) -> None:
        """Take the next packet."""
        if len(packet) < _TAG_BYTES:
            raise Unproved("a packet ends in its header")
        tag = packet[0] | packet[1] << 8 | packet[2] << 16
        self._tags.append(tag)
        if not tag & _IS_INTER:
            self._add_key(packet)

    def _add_key(self, packet: memoryview) -> None:
        if len(packet) < _KEY_BYTES or bytes(packet[_TAG_BYTES:6]) != _START_CODE:
            raise Unproved("a key frame without a start code")
        width = int.from_bytes(packet[6:8], "little") & _SIDE
        height = int.from_bytes(packet[8:10], "little") & _SIDE
        if not 0 < width * height <= self._limits.max_pixels:
            raise Unproved("pictures larger than allowed, or of no size")
        # What colours it may name is not known of a stream before decoding: libav reads the size alone.
        self._first = self._first or FirstPicture(width, height, "yuv420p")

    def prove(self, walk: PacketWalk) -> Proof:
        """Prove which packets are shown; see ``Prover.prove``."""
        tags = np.array(self._tags, dtype=np.int64)
        is_key = (tags & _IS_INTER) == 0
        header = np.where(is_key, _KEY_BYTES, _TAG_BYTES)
        first_partition = tags >> 5
        if ((first_partition == 0) | (first_partition >= walk.size - header)).any():
            raise Unproved("a packet ends with its first partition, or in it")
        return prove_in_packet_order(walk, (tags & _IS_SHOWN) != 0, is_key, self._first)
