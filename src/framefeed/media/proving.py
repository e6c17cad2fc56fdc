"""What packets prove of the frames that a decoder gives of them, so that none has to be decoded to be counted.

A proof holds only for a whole stream. It says which packets give a frame, in which order, and where decoding can start,
exactly as decoding everything would; damage to picture data is all that it cannot see.
"""

from __future__ import annotations

from dataclasses import dataclass

from framefeed.media.packets import MISSING_PTS, BoolArray, IntArray, PacketWalk


class Unproved(Exception):
    """The packets do not prove which frames come of them; the message says why. It never leaves the index."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Which frames come of a stream's packets.

    Attributes:
        order: Number of the packet of each output frame, in output order, int64 [N].
        is_key: Decoding can start at the packet, as full verification finds, bool [P].
    """

    order: IntArray
    is_key: BoolArray


def shown_order(walk: PacketWalk, is_shown: BoolArray) -> IntArray:
    """Number the shown packets by presentation time, int64 [N].

    Args:
        walk: The stream's packets.
        is_shown: Whether a packet gives a frame, if the container does not discard it, bool [P].

    Raises:
        Unproved: Times are missing or shared, the first shown packet is no key, or a packet is damaged.
    """
    if walk.is_damaged:
        raise Unproved("the container says that a packet is damaged")
    kept = (is_shown & ~walk.is_discarded).nonzero()[0]
    if not len(kept):
        raise Unproved("no packet gives a frame")
    order: IntArray = kept[walk.pts[kept].argsort(kind="stable")]
    times = walk.pts[order]
    if times[0] == MISSING_PTS or bool((times[1:] == times[:-1]).any()):
        raise Unproved("two frames share a time, or have none")
    return order
