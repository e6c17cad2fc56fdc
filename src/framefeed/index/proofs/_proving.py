"""Proofs of the frames that a decoder outputs for the packets of a stream, so that no packet has to be decoded.

A proof holds for a whole stream. It has the packets that give a frame, their order, and the packets where decoding can
start, exactly as decoding everything finds them; only damage of picture data stays unnoticed.
"""

from __future__ import annotations

from dataclasses import dataclass

from framefeed._arrays import BoolArray, IntArray
from framefeed._values import MISSING_PTS, PacketWalk, PictureFormat, StreamColors

PROOF_RULES = 1
"""Version of the rules by which packets are believed; it rises when they give other frames of some stream. 0: before
they were numbered."""


class Unproved(Exception):
    """The packets do not prove which frames come of them; the message has the reason. The index handles it."""


class Refuted(Unproved):
    """The packets deny, or leave open, that frames come in the order of their times: decoding is needed."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Which frames come of a stream's packets.

    Attributes:
        order: Number of the packet of each output frame, in output order, int64 [N].
        is_key: Decoding can start at the packet, as full verification finds, bool [P].
        first: Format of the first frame, by the headers of its packet; None if only decoding gives it.
        colors: Colour tags of the stream, by the same headers; None if they have none.
        may_turn: Messages in the first packet may rotate the first frame.
        begin: The first packet of the proof; later ones do not depend on those before it. The frames before it, which
            come first, must be decoded.
    """

    order: IntArray
    is_key: BoolArray
    first: PictureFormat | None = None
    colors: StreamColors | None = None
    may_turn: bool = False
    begin: int = 0


def prove_in_packet_order(
    walk: PacketWalk,
    is_shown: BoolArray,
    is_key: BoolArray,
    first: PictureFormat | None = None,
    colors: StreamColors | None = None,
) -> Proof:
    """Prove the frames of a codec whose decoder outputs the frame of a packet before it takes the next packet.

    Their order is that of the packets, so frames may share a time. If times go backward, the stream is decoded.

    Args:
        walk: The stream's packets.
        is_shown: Whether a packet gives a frame, if the container does not discard it, bool [P].
        is_key: Whether that frame is a key frame, bool [P].
        first: See `Proof`.
        colors: See `Proof`.

    Raises:
        Unproved: Times are missing or go backward, the first frame is no key frame, or a packet is damaged.
    """
    if walk.is_damaged:
        raise Unproved("the container says that a packet is damaged")
    is_frame = is_shown & ~walk.packets.is_discarded
    order: IntArray = is_frame.nonzero()[0]
    if not len(order) or not is_key[order[0]]:
        raise Unproved("it does not begin with a key frame")
    times = walk.packets.pts[order]
    if times[0] == MISSING_PTS or bool((times[1:] < times[:-1]).any()):
        raise Unproved("times are missing or go backward")
    return Proof(order, is_key & is_frame & walk.packets.is_key, first, colors)
