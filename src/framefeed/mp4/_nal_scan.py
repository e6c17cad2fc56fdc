"""Read the NAL unit headers of all packets of a movie, in blocks.

Files are never mapped: a file that gets shorter meanwhile must not end the process.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from framefeed._arrays import IntArray
from framefeed._stopping import check_stop
from framefeed._values import ByteReader, UnitFacts
from framefeed.bitstreams import BLOCK_PADDING, UnitWalk
from framefeed.mp4._boxes import OddMovie

BLOCK_BYTES = 2**21
"""Bytes read at once; NumPy's cost of a block is that of a hundred kilobytes."""
MAX_PACKET_BYTES = 2**25
"""Files with larger packets are read by libav."""
_NEAR_BYTES = 2**17
"""Packets within so many bytes are read at once, whatever is between them."""
_MAX_GAP = 32 * 1024
"""Most bytes of other tracks between packets that are read instead of skipped."""


def scan_packets(reader: ByteReader, codec: str, length_size: int, offset: IntArray, size: IntArray) -> UnitFacts:
    """Read the NAL unit headers of packets.

    ``codec``: "h264" or "hevc".
    ``length_size``: bytes of the length before each unit: 1, 2 or 4.
    ``offset``: byte offset of each packet, in decode order, int64 [P].
    """
    if length_size not in (1, 2, 4) or int(size.max()) > MAX_PACKET_BYTES:
        raise OddMovie(f"NAL units with lengths of {length_size} bytes, or huge packets")
    begin, end = offset, offset + size
    order: IntArray | None = None
    if np.count_nonzero(begin[1:] < begin[:-1]):
        order = np.argsort(begin, kind="stable").astype(np.int64)
        begin, end = begin[order], end[order]
    walk = UnitWalk(codec, length_size)
    buffer = np.empty(0, np.uint8)
    for first, stop in _split_blocks(begin, end):
        check_stop()
        start, count = int(begin[first]), int(end[first:stop].max()) - int(begin[first])
        if len(buffer) < count + BLOCK_PADDING:
            buffer = np.empty(max(count, min(BLOCK_BYTES, int(end[-1]) - start)) + BLOCK_PADDING, np.uint8)
        if reader.read_into(buffer.data[:count], start) != count:
            raise OddMovie("a file that got shorter")
        buffer[count : count + BLOCK_PADDING] = 0
        walk.block(buffer, begin[first:stop] - start, end[first:stop] - start)
    facts = walk.facts(order)
    if facts.fault:
        raise OddMovie(facts.fault)
    if not facts.kinds:
        raise OddMovie("packets without NAL units")
    return facts


def _split_blocks(begin: IntArray, end: IntArray) -> Iterator[tuple[int, int]]:
    """Split packets, sorted by offset, into runs that are read at once."""
    if int(end.max()) - int(begin[0]) <= _NEAR_BYTES:
        yield 0, len(begin)
        return
    gaps = (begin[1:] - end[:-1] > _MAX_GAP).nonzero()[0] + 1
    first = 0
    for stop in [*gaps.tolist(), len(begin)]:
        while first < stop:
            last = int(end[first:stop].searchsorted(begin[first] + BLOCK_BYTES, side="right")) + first
            last = max(last, first + 1)
            yield first, last
            first = last
