"""Find the frames that are always damaged (D01), and those that packets promise and the decoder does not give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from framefeed._arrays import IntArray
from framefeed._values import DISPOSABLE, MISSING_PTS
from framefeed.index._frame_index import FrameIndex
from framefeed.index._joining import find_frame_starts


def find_packet_start(index: FrameIndex, packet: int) -> int:
    """Find the packet from which decoding must start for a packet's picture; -1 if there is none.

    A packet without a frame belongs to the last start before it. A leading picture of that start, recognized by its
    time, belongs to the start before that one (M04).
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
    """List the frames that are always damaged, int64 [D], ascending.

    A frame is damaged if its own picture is damaged, or a picture between the frame's start and its packet, also one
    that gives no frame. A picture that decodes from an earlier start is a leading picture: no frame after its key frame
    refers to it (M04). No frame refers to a disposable picture. So the answer is the same whatever else is decoded.

    Args:
        index: Built by decoding the whole stream, so that each of its frames came out.
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
        first.setdefault(find_packet_start(index, packet), packet)
    for start, packet in first.items():
        is_damaged |= (index.frame_start <= start) & (index.frame_packet >= packet)
    return np.flatnonzero(is_damaged).astype(np.int64)


def keep_promised_frames(decoded: FrameIndex, promised: FrameIndex) -> FrameIndex:
    """Keep the numbers of frames that the packets promise and the decoder does not give: these are damaged frames.

    So frames have the same numbers however an index was verified.

    Args:
        decoded: Index by decoding everything.
        promised: Index of the same source by its packets.

    Returns:
        ``decoded`` if the packets promise no more, or other frames than came.
    """
    order = promised.frame_packet
    is_given = np.isin(order, decoded.frame_packet)
    if is_given.all() or not np.array_equal(order[is_given], decoded.frame_packet):
        return decoded
    is_damaged = ~is_given
    is_damaged[is_given] = decoded.is_damaged(np.arange(len(decoded)))
    is_key = decoded.packets.is_key
    is_key[order[~is_given]] = False
    return replace(
        decoded,
        pts=promised.pts,
        duration=promised.duration,
        time_base=promised.time_base,
        key_frame_indices=is_key[order].nonzero()[0],
        built_from=promised.built_from,
        frame_packet=order,
        frame_start=find_frame_starts(order, is_key, decoded.packets),
        packets=decoded.packets.replace_flags(is_key),
        damaged_frame_indices=is_damaged.nonzero()[0],
        times_from=promised.times_from,
        time_shift=promised.time_shift,
    )
