"""What VP8 packets say of their frames: RFC 6386 9.1."""

from __future__ import annotations

import numpy as np

from framefeed.media.packets import PacketWalk
from framefeed.media.proving import Proof, Unproved, shown_order

_IS_INTER, _IS_SHOWN = 1, 16


class Vp8Prover:
    """Reads the frame tag of each packet."""

    def __init__(self) -> None:
        self._tags: list[int] = []

    def add(self, packet: memoryview) -> None:
        """Take the next packet."""
        self._tags.append(packet[0])

    def prove(self, walk: PacketWalk) -> Proof:
        """Prove which packets are shown; see ``Prover.prove``."""
        tags = np.array(self._tags, dtype=np.uint8)
        is_key = (tags & _IS_INTER) == 0
        if not is_key[0]:
            raise Unproved("it does not begin with a key frame")
        return Proof(shown_order(walk, (tags & _IS_SHOWN) != 0), is_key & walk.is_key)
