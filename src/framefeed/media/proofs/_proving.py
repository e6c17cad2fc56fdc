"""What packets prove of the frames that a decoder gives of them, so that none has to be decoded to be counted.

A proof holds only for a whole stream. It says which packets give a frame, in which order, and where decoding can start,
exactly as decoding everything would; damage to picture data is all that it cannot see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from framefeed._arrays import BoolArray, IntArray
from framefeed.media._packets import MISSING_PTS, PacketWalk


class Unproved(Exception):
    """The packets do not prove which frames come of them; the message says why. It never leaves the index."""


class Refuted(Unproved):
    """The packets deny, or leave open, that frames come of them in the order of their times: only decoding tells."""


@dataclass(frozen=True, slots=True)
class FirstPicture:
    """What the headers of the first packet say of the first frame, as libav says it of a decoded one.

    Attributes:
        width: Columns.
        height: Rows.
        pixel_format: libav's name.
        colors: How sample values are meant, by the names of `StreamColors`.
        coded_size: (columns, rows) as stored, where they differ.
        may_turn: Messages in the packet may turn it.
    """

    width: int
    height: int
    pixel_format: str
    colors: Mapping[str, int] = field(default_factory=dict)
    coded_size: tuple[int, int] | None = None
    may_turn: bool = False


@dataclass(frozen=True, slots=True)
class Proof:
    """Which frames come of a stream's packets.

    Attributes:
        order: Number of the packet of each output frame, in output order, int64 [N].
        is_key: Decoding can start at the packet, as full verification finds, bool [P].
        first: None where only the first decoded frame tells.
        begin: The first packet of which it holds: nothing before matters to those from there on. Which frames come of
            those before, and before all others, only decoding tells.
    """

    order: IntArray
    is_key: BoolArray
    first: FirstPicture | None = None
    begin: int = 0


def prove_in_packet_order(
    walk: PacketWalk, is_shown: BoolArray, is_key: BoolArray, first: FirstPicture | None = None
) -> Proof:
    """Prove the frames of a codec whose decoder outputs the frame of a packet before it takes the next packet.

    Their order is that of the packets, so frames may share a time. Times that go backward are believed of no container:
    whose they are is decided by decoding.

    Args:
        walk: The stream's packets.
        is_shown: Whether a packet gives a frame, if the container does not discard it, bool [P].
        is_key: Whether that frame is a key frame, bool [P].
        first: See `Proof`.

    Raises:
        Unproved: Times are missing or go backward, the first frame is no key frame, or a packet is damaged.
    """
    if walk.is_damaged:
        raise Unproved("the container says that a packet is damaged")
    is_frame = is_shown & ~walk.is_discarded
    order: IntArray = is_frame.nonzero()[0]
    if not len(order) or not is_key[order[0]]:
        raise Unproved("it does not begin with a key frame")
    times = walk.pts[order]
    if times[0] == MISSING_PTS or bool((times[1:] < times[:-1]).any()):
        raise Unproved("times are missing or go backward")
    return Proof(order, is_key & is_frame & walk.is_key, first)
