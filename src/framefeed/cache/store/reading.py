"""Reading stored frames: neighbours at once, each checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from framefeed.cache.store.descriptors import Descriptor
from framefeed.cache.store.segment_format import frame_checksum
from framefeed.cache.stored import Found

_MOST_BUFFERS = 1024
"""Of one call of the system: IOV_MAX."""


def read_frames(
    found: Found, where: Sequence[int], buffers: Sequence[memoryview], file_of: Callable[[int], Descriptor | None]
) -> list[bool]:
    """Read the bytes of frames.

    Args:
        found: Where frames are.
        where: Which of them.
        buffers: What their bytes are written to.
        file_of: Gives an open file by the number of its segment.

    Returns:
        Whether each is what was stored.
    """
    segments, offsets, checksums = (column[where].tolist() for column in (found.segment, found.offset, found.checksum))
    numbers = found.numbers[where].tolist()
    sound = [False] * len(where)
    for run in _runs(segments, offsets, [buffer.nbytes for buffer in buffers]):
        file = file_of(segments[run[0]])
        if file is None or not _read(file.number, [buffers[at] for at in run], offsets[run[0]]):
            continue
        for at in run:
            sound[at] = frame_checksum(found.key, numbers[at], buffers[at]) == checksums[at]
    return sound


def _runs(segments: Sequence[int], offsets: Sequence[int], sizes: Sequence[int]) -> Iterator[list[int]]:
    """Give the frames in the order of the files, neighbours together."""
    run: list[int] = []
    for at in sorted(range(len(segments)), key=lambda at: (segments[at], offsets[at])):
        if run and (
            len(run) == _MOST_BUFFERS
            or segments[at] != segments[run[-1]]
            or offsets[at] != offsets[run[-1]] + sizes[run[-1]]
        ):
            yield run
            run = []
        run.append(at)
    if run:
        yield run


def _read(descriptor: int, buffers: list[memoryview], offset: int) -> bool:
    """Fill buffers; False where the file ends before or cannot be read."""
    wanted = sum(buffer.nbytes for buffer in buffers)
    try:
        done = os.preadv(descriptor, buffers, offset)
        if done == wanted:
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
