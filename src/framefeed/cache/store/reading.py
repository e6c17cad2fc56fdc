"""Reading stored frames: neighbours at once, each checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from operator import add

from framefeed.cache.store.descriptors import Descriptor
from framefeed.cache.store.segment_format import frame_checksum
from framefeed.cache.store.vectors import MOST_BUFFERS, after
from framefeed.cache.stored import Found, IntArray, WordArray

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
    sizes = [buffer.nbytes for buffer in buffers]
    for run in _runs(segments, offsets, sizes):
        file = file_of(segments[run[0]])
        if file is None:
            continue
        # One read, however long: pieces that stay in the processor's cache until they are hashed are no faster.
        is_whole = _fill(file.number, [buffers[at] for at in run], offsets[run[0]])
        for at in run:
            if is_whole or _fill(file.number, [buffers[at]], offsets[at]):
                sound[at] = frame_checksum(found.key, numbers[at], buffers[at]) == checksums[at]
    return sound


def _at(column: IntArray | WordArray, where: Sequence[int]) -> list[int]:
    values: list[int] = column.tolist()
    return [values[at] for at in where]


def _runs(segments: Sequence[int], offsets: Sequence[int], sizes: Sequence[int]) -> Sequence[Sequence[int]]:
    """Give the frames in the order of the files, neighbours together."""
    order: Sequence[int] = range(len(sizes))
    ends = list(map(add, offsets, sizes))
    if ends[:-1] == offsets[1:] and len(set(segments)) == 1 and len(ends) <= MOST_BUFFERS:
        return [order]
    runs: list[list[int]] = []
    next_place = (-1, -1)
    for at in sorted(order, key=lambda at: (segments[at], offsets[at], at)):
        if (segments[at], offsets[at]) != next_place or len(runs[-1]) == MOST_BUFFERS:
            runs.append([])
        runs[-1].append(at)
        next_place = (segments[at], ends[at])
    return runs


def _fill(descriptor: int, buffers: Sequence[memoryview], offset: int) -> bool:
    """Read one file into buffers; False where it ends before, or cannot be read."""
    left = sum(buffer.nbytes for buffer in buffers)
    try:
        while done := os.preadv(descriptor, buffers, offset):
            left, offset = left - done, offset + done
            if not left:
                return True
            buffers = after(buffers, done)
    except OSError:
        return False
    return not left
