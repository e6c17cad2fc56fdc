"""Keep data files open, read from them, and write to them."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from operator import add
from threading import Lock
from typing import Generic, TypeVar

import numpy as np

from framefeed._lru import Lru
from framefeed._shortage import SuppressFaults


class Descriptor:
    """A file descriptor that is closed when the last reference to it is gone.

    So no thread can close it, and another file get its number, while another thread reads from it.
    """

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.number)  # a default, because the module may be cleared before its last object

    def read(self, buffer: memoryview, offset: int) -> int:
        """Read into a buffer; return how many bytes came, 0 at the end of the file."""
        return os.preadv(self.number, [buffer], offset)


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SharedLru(Generic[K, V]):
    """Values that were used last, for several threads."""

    def __init__(self, make: Callable[[], Lru[K, V]]) -> None:
        self._make = make
        self._values = make()
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        with self._lock:
            self._values.put(key, value)

    def drop(self, key: K) -> None:
        with self._lock:
            self._values.pop(key)

    def release_idle(self) -> None:
        """Release all values that are not in use; without the lock, because any thread may call it at any time."""
        self._values = self._make()

    def renew_lock(self) -> SharedLru[K, V]:
        """Replace the lock in a forked process: a thread of the parent may have held it."""
        self._lock = Lock()
        return self


MAX_BUFFERS = 1024
"""Buffers of one system call: IOV_MAX."""


def skip_bytes(buffers: Sequence[memoryview], nbytes: int) -> list[memoryview]:
    """Return the buffers without their first bytes, and without empty ones at the front."""
    for number, buffer in enumerate(buffers):
        if nbytes < buffer.nbytes:
            return [buffer[nbytes:], *buffers[number + 1 :]]
        nbytes -= buffer.nbytes
    return []


def write_buffers(descriptor: int, buffers: Sequence[memoryview], offset: int) -> int:
    """Write buffers one after the other; return the offset of their end."""
    left = skip_bytes(buffers, 0)
    while left:
        written = os.pwritev(descriptor, left[:MAX_BUFFERS], offset)
        offset += written
        left = skip_bytes(left, written)
    return offset


BLOCK_BYTES = 2 << 20
"""The system keeps a file in memory in pieces as large as the writes that made it, at most 2 MB, which begin at a
multiple of 2 MB, and copies large ones faster. A loader reads batches of 38 MB in 20 % less time than if they were
written frame by frame, and in 3 % less than if they were written in clips of 2.4 MB."""


class BlockFile:
    """A file that is written in whole blocks. Its last one is in memory until it is full, and is read from there.

    One thread writes, others may read meanwhile: the memory of a block is not used for another one.
    """

    __slots__ = ("_file", "_last")

    def __init__(self, file: Descriptor) -> None:
        self._file = file
        self._last = 0, _allocate_block()
        """Offset of the last block, and its memory; replaced together, once the block before is written."""

    @property
    def number(self) -> int:
        """Number of the file's descriptor."""
        return self._file.number

    def write(self, buffers: Sequence[memoryview], offset: int) -> int:
        """Write buffers one after the other; return the offset of their end. After an error it can be called again.

        The offset is not beyond the end of what was written before.
        """
        for buffer in buffers:
            while buffer.nbytes:
                start, block = self._last
                stop = start + block.nbytes
                if offset < start:  # for the second time
                    done = os.pwritev(self.number, [buffer[: start - offset]], offset)
                else:
                    done = min(buffer.nbytes, stop - offset)
                    block[offset - start : offset - start + done] = buffer[:done]
                offset, buffer = offset + done, buffer[done:]
                if offset == stop:
                    write_buffers(self.number, [block], start)
                    self._last = stop, _allocate_block()
        return offset

    def flush(self, end: int) -> None:
        """Write the last block, up to the offset where the file ends; it stays in memory."""
        start, block = self._last
        write_buffers(self.number, [block[: end - start]], start)

    def read(self, buffer: memoryview, offset: int) -> int:
        """Read into a buffer; return how many bytes came, 0 at the end of the file."""
        start, block = self._last
        if offset < start:
            return self._file.read(buffer, offset)
        part = block[offset - start :][: buffer.nbytes]
        buffer[: part.nbytes] = part
        return part.nbytes


def _allocate_block() -> memoryview:
    return np.empty(BLOCK_BYTES, np.uint8).data


DataFile = Descriptor | BlockFile

_PART_BYTES = 320 << 10
"""Fits into a second-level cache of 1 MB together with the file's own bytes, and what else is used. Measured in random
order, a loader that reads batches of 38 MB takes up to 3 % less time than with parts of 640 kB, up to 12 % less than
with parts of 1.3 MB, where other programs use the third-level cache, and 11 to 13 % less than with one part."""


def find_parts(segments: Sequence[int], offsets: Sequence[int], sizes: Sequence[int]) -> Iterator[tuple[slice, int]]:
    """Divide frames, in the order of the files, into neighbours that one system call can read; yield them, and bytes.

    Each part stays in the processor's cache until it is hashed.
    """
    count = len(sizes)
    ends = list(map(add, offsets, sizes))
    if count and ends[:-1] == offsets[1:] and segments.count(segments[0]) == sizes.count(sizes[0]) == count:
        step = min(MAX_BUFFERS, max(1, _PART_BYTES // max(1, sizes[0])))
        for start in range(0, count, step):
            stop = min(start + step, count)
            yield slice(start, stop), (stop - start) * sizes[0]
        return
    start, nbytes = 0, 0
    for stop, size in enumerate(sizes):
        is_apart = stop > 0 and (segments[stop], offsets[stop]) != (segments[stop - 1], ends[stop - 1])
        is_full = stop - start == MAX_BUFFERS or (nbytes > 0 and nbytes + size > _PART_BYTES)
        if stop > start and (is_apart or is_full):
            yield slice(start, stop), nbytes
            start, nbytes = stop, 0
        nbytes += size
    if count:
        yield slice(start, count), nbytes


def fill_buffer(file: DataFile, buffer: memoryview, offset: int) -> bool:
    """Read a file into a buffer; return False if it ends before, or cannot be read."""
    with SuppressFaults(OSError):
        while buffer.nbytes and (done := file.read(buffer, offset)):
            buffer, offset = buffer[done:], offset + done
    return not buffer.nbytes
