"""Which frames damage reaches: the rule by which an index marks them (D01)."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from framefeed.index.frame_index import DISPOSABLE, FrameIndex, IntArray


class DamageLog:
    """Damaged pictures met while frames are decoded in packet order, and the frames that may refer to them.

    A frame is reached by its own damage, and by that of a picture that is sent before it and from the frame's start
    on. What decodes from an earlier start is a leading picture, to which no frame after its key frame refers (M04), and
    to a disposable picture no frame refers at all. So the answer does not depend on what else is decoded with it.

    Args:
        index: The source's frames.
    """

    def __init__(self, index: FrameIndex) -> None:
        self._index = index
        self._packets: set[int] = set()
        self._starts: list[int] = []
        self._first_from: dict[int, int] = {}

    def note(self, ordinal: int) -> None:
        """Note that the packet of a frame could not be decoded, or that its picture is flagged as damaged."""
        index = self._index
        packet, start = int(index.frame_packet[ordinal]), int(index.frame_start[ordinal])
        self._packets.add(packet)
        if packet < 0 or (index.stream.skips_exactly and index.packets.flags[packet] & DISPOSABLE):
            return
        if start not in self._first_from:
            self._starts.insert(bisect_left(self._starts, start), start)
        self._first_from[start] = min(packet, self._first_from.get(start, packet))

    def reaches(self, ordinal: int) -> bool:
        """Whether a frame may show damage that was noted before."""
        if not self._packets:
            return False
        packet, start = int(self._index.frame_packet[ordinal]), int(self._index.frame_start[ordinal])
        if packet in self._packets:
            return True
        # The last starts first: in a long video those that lie before the frame's own are not looked at.
        for damaged_start in reversed(self._starts):
            if damaged_start < start:
                return False
            if self._first_from[damaged_start] <= packet:
                return True
        return False


def find_damaged_frames(index: FrameIndex, flagged: IntArray, raised: IntArray) -> IntArray:
    """List the frames that never come undamaged, int64 [D], ascending.

    Args:
        index: Made of a decode of the whole stream, so that each of its frames came out.
        flagged: Frames whose picture the decoder flagged, int64 [F].
        raised: Packets that the decoder refused, int64 [E]; those that give no frame of the index do not count.
    """
    is_refused = np.isin(index.frame_packet, raised) & (index.frame_packet >= 0)
    if not len(flagged) and not is_refused.any():
        return np.empty(0, dtype=np.int64)
    log, is_flagged = DamageLog(index), np.zeros(len(index), dtype=np.bool_)
    is_flagged[flagged] = True
    # All before the first frame is asked for: a picture is output, and flagged, after those that refer to it and are
    # shown before it.
    for ordinal in np.flatnonzero(is_refused | is_flagged).tolist():
        log.note(ordinal)
    damaged = [ordinal for ordinal in range(len(index)) if log.reaches(ordinal)]
    return np.array(damaged, dtype=np.int64)
