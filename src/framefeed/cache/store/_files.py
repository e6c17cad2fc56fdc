"""Reading stored frames: neighbours at once, each checked.

Several buffers in one call of the system, which may take part of them only.

Open files of segments: a bounded number, closed when no read uses them any more.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from operator import add
from threading import Lock

from framefeed._arrays import IntArray, WordArray
from framefeed.cache.store._format import Found, frame_checksum
from framefeed.parallel import register_releasable, shortage_in

MOST_OPEN = 128


class Descriptor:
    """A file descriptor that is closed when the last reference to it is gone.

    So another thread can never close it, and have its number given to another file, while one reads.

    Attributes:
        number: What the system calls it.
    """

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.number)  # as a default, because a module may be gone before the last of its objects


class Descriptors:
    """Those used last, by the number of their segment."""

    def __init__(self) -> None:
        self._open: OrderedDict[int, Descriptor] = OrderedDict()
        self._lock = Lock()
        register_releasable(self)

    def __len__(self) -> int:
        return len(self._open)

    def get(self, segment: int) -> Descriptor | None:
        """Give that of a segment, if it is open."""
        with self._lock:
            opened = self._open  # once: `release_idle` may replace it meanwhile
            found = opened.get(segment)
            if found is not None:
                opened.move_to_end(segment)
            return found

    def put(self, segment: int, descriptor: Descriptor) -> None:
        """Keep one open."""
        with self._lock:
            opened = self._open
            opened[segment] = descriptor
            opened.move_to_end(segment)
            if len(opened) > MOST_OPEN:
                opened.popitem(last=False)

    def drop(self, segment: int) -> None:
        """Release one."""
        with self._lock:
            self._open.pop(segment, None)

    def clear(self) -> None:
        """Release all."""
        with self._lock:
            self._open.clear()

    def release_idle(self) -> None:
        """Close those that are not being read from; without the lock, for any thread may call it at any time."""
        self._open = OrderedDict()

    def renew_lock(self) -> None:
        """After a fork: another thread of the parent may have held it."""
        self._lock = Lock()


MOST_BUFFERS = 1024
"""Of one call: IOV_MAX."""


def after(buffers: Sequence[memoryview], nbytes: int) -> list[memoryview]:
    """What is left of buffers behind so many bytes; without empty ones at the front."""
    for number, buffer in enumerate(buffers):
        if nbytes < buffer.nbytes:
            return [buffer[nbytes:], *buffers[number + 1 :]]
        nbytes -= buffer.nbytes
    return []


_PIECE_BYTES = 640 << 10
"""Well within a second-level cache; reads and hashes of 2.4 MB take 8 % less so than at once."""

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

    Raises:
        OSError: Something ran out, which says nothing about the frames.
    """
    sound = [False] * len(buffers)
    numbers, checksums = _at(found.numbers, where), _at(found.checksum, where)
    segments, offsets = _at(found.segment, where), _at(found.offset, where)
    sizes = [buffer.nbytes for buffer in buffers]
    for run in _runs(segments, offsets, sizes):
        file = file_of(segments[run[0]])
        if file is None:
            continue
        for piece in _pieces(run, sizes):
            is_whole = _fill(file.number, [buffers[at] for at in piece], offsets[piece[0]])
            for at in piece:
                if is_whole or _fill(file.number, [buffers[at]], offsets[at]):
                    sound[at] = frame_checksum(found.key, numbers[at], buffers[at]) == checksums[at]
    return sound


def _pieces(run: Sequence[int], sizes: Sequence[int]) -> Iterator[Sequence[int]]:
    """Split neighbours into what stays in the processor's cache until it is hashed; most clips are one piece."""
    start, nbytes = 0, 0
    for end, at in enumerate(run):
        if nbytes and nbytes + sizes[at] > _PIECE_BYTES:
            yield run[start:end]
            start, nbytes = end, 0
        nbytes += sizes[at]
    yield run[start:]


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
    except OSError as error:
        if shortage_in(error) is not None:
            raise
        return False
    return not left
