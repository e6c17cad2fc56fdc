"""Memory that a process fills and lends to others, and uses again when none of them has it any more.

Fresh shared memory costs a page fault for each 4 KiB: twenty times as long as to copy a batch into memory that was used
before. The kernel says whether lent memory is free: a borrower gets a descriptor that was opened for it alone and has a
lock (``flock``). Copies of this descriptor in any process, and mappings made from it, share the lock, which ends with
the last of them. So borrowers need no code of ours, and may end in any way.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import threading
from weakref import finalize

from framefeed._cached import cached_property
from framefeed.parallel._shared_memory import SharedRange, allocate_pages, map_range, open_nameless

MOST_IDLE = 1
"""Free blocks that are kept beside the one that is lent: more of them brought nothing."""
MOST_BLOCKS = 16
"""Blocks that are kept: those that a program holds for long are left to it. More than are ready for a training loop."""


class LentBlock:
    """A file without a name, mapped in this process when its memory is asked for."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = -(-max(1, nbytes) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._descriptor = open_nameless()
        finalize(self, os.close, self._descriptor).atexit = False
        allocate_pages(self._descriptor, 0, self.nbytes)

    @cached_property
    def data(self) -> ctypes.Array[ctypes.c_ubyte]:
        """Its memory."""
        return map_range(SharedRange(self._descriptor, 0, self.nbytes))

    def write(self, content: memoryview, start: int) -> None:
        """Write bytes, as to a file: no page of it is mapped in this process."""
        while content:
            # Linux writes at most 2 GiB at once.
            written = os.pwrite(self._descriptor, content, start)
            content, start = content[written:], start + written

    def is_free(self) -> bool:
        """Whether no borrower has it."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return True

    def lend(self) -> int:
        """Return a descriptor for a borrower; the block is free when all its copies and mappings are closed."""
        # Opened again: a copy would share the lock of this process's own.
        descriptor = os.open(f"/proc/self/fd/{self._descriptor}", os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if self.is_free():
                raise OSError("locks of files have no effect on this system")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


class LentMemory:
    """Lends blocks of shared memory to other processes.

    It is not for forked processes, which would lend the same blocks as their parent: they make another one.
    """

    def __init__(self) -> None:
        self._blocks: list[LentBlock] = []
        self._lending = threading.Lock()

    def lend(self, nbytes: int) -> tuple[ctypes.Array[ctypes.c_ubyte], int]:
        """Lend a block of at least so many bytes, of any content.

        Returns:
            Its memory, and a descriptor for the borrower, which the caller closes.

        Raises:
            MemoryError: There is no memory for it.
            OSError: This system has no such memory.
        """
        with self._lending:
            block = self._choose(nbytes)
            return block.data, block.lend()

    def lend_unmapped(self, nbytes: int) -> tuple[LentBlock, int]:
        """Lend a block as `lend` does, which is not mapped in this process: it is filled with its `write`."""
        with self._lending:
            block = self._choose(nbytes)
            return block, block.lend()

    def _choose(self, nbytes: int) -> LentBlock:
        free = [block for block in self._blocks if block.is_free()]
        fitting = [block for block in free if block.nbytes >= nbytes]
        block = min(fitting, key=lambda each: each.nbytes) if fitting else None
        idle = [each for each in free if each is not block]
        dropped = [block, *idle[:-MOST_IDLE]]
        # The one that is lent comes last, so that those that were lent long ago come first.
        self._blocks = [each for each in self._blocks if each not in dropped][-MOST_BLOCKS + 1 :]
        # Those that are dropped are freed before another one is made.
        del free, fitting, idle, dropped
        block = block or LentBlock(nbytes)
        self._blocks.append(block)
        return block
