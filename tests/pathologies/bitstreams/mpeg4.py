"""MPEG-4 part 2 in AVI by DivX 5: the packet of a P-frame also has the B-frame before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from framefeed.testing import Coded
from tests.pathologies.bitstreams.bits import BitWriter

# Decoders recognise packed streams by the letter p at the end.
_USER_DATA = b"\x00\x00\x01\xb2DivX503b1393p"
_VOP = b"\x00\x00\x01\xb6"
_B_CODED = 2


def pack_b_frames(packets: list[Coded], ticks_per_second: int) -> Iterator[Coded]:
    """Pack a stream that has at most one B-frame in a row.

    Args:
        packets: Packets in decode order; as many come out.
        ticks_per_second: Time resolution of the stream, which gives the number of bits of a VOP's time.

    Yields:
        I and lone P packets as they are, each P with its B in one packet, and an empty picture where the B was.
    """
    number = 0
    while number < len(packets):
        packet = packets[number]
        data = packet.data.replace(_VOP, _USER_DATA + _VOP, 1) if number == 0 else packet.data
        follower = packets[number + 1] if number + 1 < len(packets) else None
        # The coding type is the first two bits after the start code.
        if follower is not None and follower.data[follower.data.index(_VOP) + len(_VOP)] >> 6 == _B_CODED:
            yield replace(packet, data=data + follower.data)
            yield replace(follower, data=_make_empty_vop(ticks_per_second))
            number += 2
        else:
            yield replace(packet, data=data)
            number += 1


def _make_empty_vop(ticks_per_second: int) -> bytes:
    """A P picture that says "not coded": coding type, no second passed, marker, time 0, marker, not coded."""
    width = max(1, (ticks_per_second - 1).bit_length())
    writer = BitWriter().fixed(1, 2).fixed(0, 1).fixed(1, 1).fixed(0, width).fixed(1, 1).fixed(0, 1)
    # MPEG-4 stuffing is a 0 and then ones, H.264's stop bit the other way round.
    writer.fixed(0, 1)
    while writer.size % 8:
        writer.fixed(1, 1)
    return _VOP + writer.whole()
