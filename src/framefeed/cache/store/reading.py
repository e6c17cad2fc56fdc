"""Reading stored frames: neighbours at once, each checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from operator import add

from framefeed.cache.store.descriptors import Descriptor
from framefeed.cache.store.segment_format import frame_checksum
from framefeed.cache.stored import Found, IntArray, WordArray

_MOST_BUFFERS = 1024
"""Of one call of the system: IOV_MAX."""

FileOf = Callable[[int], Descriptor | None]


def read_frames(found: Found, where: Sequence[int], buffers: Sequence[memoryview], file_of: FileOf) -> list[bool]:
    """Read the bytes of frames.

    Args:
        found: Where frames are.
        where: Which of them.
        buffers: What their bytes are written to.
        file_of: Gives an open file by the number of its segment.

    Returns:
        Whether each is what was stored.
    """
    sound = [False] * len(buffers)
    numbers, checksums = _at(found.numbers, where), _at(found.checksum, where)
    segments, offsets = _at(found.segment, where), _at(found.offset, where)
    for run in _runs(segments, offsets, [buffer.nbytes for buffer in buffers]):
        file = file_of(segments[run[0]])
        # One read, however long: pieces that stay in the processor's cache until they are hashed are no faster.
        if file is not None and _read(file.number, [buffers[at] for at in run], offsets[run[0]]):
            for at in run:
                sound[at] = frame_checksum(found.key, numbers[at], buffers[at]) == checksums[at]
    return sound


def _at(column: IntArray | WordArray, where: Sequence[int]) -> list[int]:
    values: list[int] = column.tolist()
    return [values[at] for at in where]


def _runs(segments: Sequence[int], offsets: Sequence[int], sizes: Sequence[int]) -> Sequence[Sequence[int]]:
    """Give the frames in the order of the files, neighbours together."""
    order: Sequence[int] = range(len(sizes))
    ends = list(map(add, offsets, sizes))
    if ends[:-1] == offsets[1:] and len(set(segments)) == 1 and len(ends) <= _MOST_BUFFERS:
        return [order]
    runs: list[list[int]] = []
    after = (-1, -1)
    for at in sorted(order, key=lambda at: (segments[at], offsets[at], at)):
        if (segments[at], offsets[at]) != after or len(runs[-1]) == _MOST_BUFFERS:
            runs.append([])
        runs[-1].append(at)
        after = (segments[at], ends[at])
    return runs


def _read(descriptor: int, buffers: list[memoryview], offset: int) -> bool:
    """Fill buffers; False where the file ends before or cannot be read."""
    try:
        done = os.preadv(descriptor, buffers, offset)
        if done == sum(buffer.nbytes for buffer in buffers):
            return True
        for buffer in buffers:
            if not _read_one(descriptor, buffer, offset):
                return False
            offset += buffer.nbytes
    except OSError:
        return False
    return True


def _read_one(descriptor: int, buffer: memoryview, offset: int) -> bool:
    left = buffer.cast("B")
    while left:
        done = os.preadv(descriptor, [left], offset)
        if not done:
            return False
        left, offset = left[done:], offset + done
    return True
