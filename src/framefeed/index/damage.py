"""Which frames damage reaches: the rule by which an index marks them (D01)."""

from __future__ import annotations

import numpy as np

from framefeed.index.frame_index import DISPOSABLE, MISSING_PTS, FrameIndex, IntArray


def packet_start(index: FrameIndex, packet: int) -> int:
    """Find the packet from which decoding must start for the picture of a packet, whether or not it gives a frame.

    One that gives none belongs to the last start before it; but a leading picture of that start, by its time, to the
    one before (M04). -1 where there is no such start.
    """
    frames = np.flatnonzero(index.frame_packet == packet)
    if len(frames):
        return int(index.frame_start[frames].min())
    starts = np.unique(index.frame_start)
    number = int(np.searchsorted(starts, packet, side="right")) - 1
    pts = index.packets.pts
    if number >= 0 and MISSING_PTS != pts[packet] < pts[starts[number]]:
        number -= 1
    return int(starts[number]) if number >= 0 else -1


def find_damaged_frames(index: FrameIndex, flagged: IntArray, raised: IntArray) -> IntArray:
    """List the frames that never come undamaged, int64 [D], ascending.

    A frame is reached by its own damage, and by that of a picture that is sent before it and from the frame's start
    on, even one that never comes. What decodes from an earlier start is a leading picture, to which no frame after its
    key frame refers (M04), and to a disposable picture no frame refers at all. So the answer does not depend on what
    else is decoded with it.

    Args:
        index: Made of a decode of the whole stream, so that each of its frames came out.
        flagged: Frames whose picture the decoder flagged, int64 [F].
        raised: Packets that the decoder refused, int64 [E].
    """
    damaged = np.union1d(index.frame_packet[flagged], raised)
    if not len(damaged):
        return np.empty(0, dtype=np.int64)
    is_damaged = np.isin(index.frame_packet, damaged[damaged >= 0])
    is_damaged[flagged] = True
    if index.stream.skips_exactly:
        damaged = damaged[(damaged < 0) | ((index.packets.flags[damaged] & DISPOSABLE) == 0)]
    # The first damaged packet of each start.
    first: dict[int, int] = {}
    for packet in damaged[damaged >= 0].tolist():
        first.setdefault(packet_start(index, packet), packet)
    for start, packet in first.items():
        is_damaged |= (index.frame_start <= start) & (index.frame_packet >= packet)
    return np.flatnonzero(is_damaged).astype(np.int64)
