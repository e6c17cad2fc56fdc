"""Where a seek landed: told by the packets themselves, never believed (M09)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

from framefeed.media.container import Packet, VideoContainer
from framefeed.media.packets import MISSING_PTS, IntArray, PacketWalk


class MisplacedPacket(Exception):
    """Behind a seek comes another packet than the one that follows in the file: the seek cannot be used."""


def packets_from(container: VideoContainer, walk: PacketWalk, start: int) -> Iterator[tuple[int, Packet]]:
    """Demux from packet ``start`` on, seeking where that is verified to land at or before it.

    Raises:
        MisplacedPacket: Later, where a packet is not the one that the walk has under its number.
    """
    if start and walk.pts[start] != MISSING_PTS:
        landed = container.try_seek(int(walk.pts[start]))
        numbered = numbered_after_seek(container.packets(), walk.offset, walk.size) if landed else None
        if numbered is not None and numbered[0] <= start:
            first, packets = numbered
            for number, packet in enumerate(packets, first):
                if number >= start:
                    yield number, packet
            return
    container.reopen()
    for number, packet in enumerate(container.packets()):
        if number >= start:
            yield number, packet


def numbered_after_seek(
    packets: Iterator[Packet], offsets: IntArray, sizes: IntArray
) -> tuple[int, Iterable[Packet]] | None:
    """Find the number of the packet that a seek landed on, by its position and size.

    Returns:
        The number and all packets from it on, or None where it cannot be told. Of each packet the size is compared:
        where it differs, the iterator raises MisplacedPacket.
    """
    seen: deque[Packet] = deque()
    candidates: IntArray | None = None
    for packet in packets:
        seen.append(packet)
        matches = np.flatnonzero((offsets == (-1 if packet.pos is None else packet.pos)) & (sizes == packet.size))
        matches = matches - (len(seen) - 1)
        candidates = matches if candidates is None else np.intersect1d(candidates, matches)
        if len(candidates) == 0:
            return None
        if len(candidates) == 1 and packet.pos is not None:
            return int(candidates[0]), _checked(chain(seen, packets), int(candidates[0]), sizes)
    return None


def _checked(packets: Iterable[Packet], first: int, sizes: IntArray) -> Iterator[Packet]:
    """Pass packets on as long as each has the size that is known of its number; damaged files may skip some."""
    for number, packet in enumerate(packets, first):
        if number >= len(sizes) or packet.size != sizes[number]:
            raise MisplacedPacket(f"packet {number} has {packet.size} bytes")
        yield packet
