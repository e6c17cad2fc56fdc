"""Prove the frames of codecs whose decoders output the frame of a packet before they take the next packet."""

from __future__ import annotations

import numpy as np

from framefeed._arrays import BoolArray
from framefeed._values import MISSING_PTS, PacketWalk, PictureFormat, StreamColors
from framefeed.bitstreams import EXISTING, KEY_FRAME, OTHERWISE_PARSED, SHOWN, PacketReader
from framefeed.index.proofs._proving import Proof, Unproved


class PacketOrderProver:
    """Reads each packet."""

    def __init__(self, reader: PacketReader) -> None:
        self._reader = reader
        self._flags: list[int] = []
        self._first: PictureFormat | None = None
        self._colors: StreamColors | None = None

    def add(self, packet: memoryview) -> None:
        """Take the next packet; see ``Prover.add``."""
        self._flags.append(self._reader.read(packet))
        if self._first is None:
            self._first, self._colors = self._reader.format, self._reader.colors

    @property
    def is_parsed_key(self) -> BoolArray:
        """Whether libav's parser calls each packet of a frame a key frame, bool [P]."""
        flags = np.array(self._flags, dtype=np.uint8)
        is_key: BoolArray = (flags & KEY_FRAME != 0) ^ (flags & OTHERWISE_PARSED != 0)
        return is_key

    def prove(self, walk: PacketWalk) -> Proof:
        """Prove which packets give a frame; see ``Prover.prove``.

        Their order is that of the packets, so frames may share a time. If times go backward, the stream is decoded.
        """
        flags, packets = np.array(self._flags, dtype=np.uint8), walk.packets
        if (packets.is_key & (flags & EXISTING != 0)).any():
            raise Unproved("a packet that shows an earlier picture, which the container calls a key frame")
        if walk.is_damaged:
            raise Unproved("the container says that a packet is damaged")
        is_frame, is_key = (flags & SHOWN != 0) & ~packets.is_discarded, flags & KEY_FRAME != 0
        order = is_frame.nonzero()[0]
        if not len(order) or not is_key[order[0]]:
            raise Unproved("it does not begin with a key frame")
        times = packets.pts[order]
        if times[0] == MISSING_PTS or bool((times[1:] < times[:-1]).any()):
            raise Unproved("times are missing or go backward")
        starts, changes_size = is_key & is_frame & packets.is_key, self._reader.changes_size
        return Proof(order, starts, self._first, self._colors, changes_size=changes_size)
