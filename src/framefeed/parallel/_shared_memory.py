"""Memory that a process shares with its workers: one file without a name, mapped block by block.

The workers inherit the file's descriptor when they start, so nothing is left behind when all processes have ended,
however they end, and no limit of ``/dev/shm`` applies. Blocks have no descriptors: ``mmap.mmap`` would keep one each.

Each block is a range of the file that no other block ever has, so a worker that still maps a freed block cannot write
to another one. All its pages are allocated when it is made: a shortage is an error then, and never SIGBUS later.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import tempfile
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any
from weakref import finalize

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

_MAP_FAILED = ctypes.c_void_p(-1).value
# Frees the pages of a range of a file, in all processes; not on all systems.
_MADV_REMOVE = getattr(mmap, "MADV_REMOVE", None)
_SHORTAGES = (errno.ENOMEM, errno.ENOSPC, errno.EAGAIN)

_MOST_BLOCKS = 64
"""Blocks that a worker has mapped. It maps one again that was dropped, which costs a page fault for each 4 KiB."""


@dataclass(frozen=True, slots=True)
class SharedRange:
    """The range of a block, to be sent to a worker. ``descriptor`` of the file is the same number in every process."""

    descriptor: int
    offset: int
    nbytes: int

    def open(self) -> ctypes.Array[ctypes.c_ubyte]:
        """Return the memory of the block, in a worker process; it stays mapped as long as a view of it lives."""
        block = _mapped.pop(self, None)
        if block is None:
            block = _Mapping(self)
            while len(_mapped) >= _MOST_BLOCKS:
                _mapped.popitem(last=False)
        _mapped[self] = block
        return block.lend()


class _Mapping:
    """A mapped range of a file; it ends when the last view of its memory is freed."""

    def __init__(self, shared: SharedRange) -> None:
        ends = (mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, shared.descriptor, shared.offset)
        address = _libc.mmap(None, shared.nbytes, *ends)
        if address == _MAP_FAILED:
            raise _make_error(ctypes.get_errno(), shared.nbytes)
        self.address: int = address
        self.nbytes = shared.nbytes
        finalize(self, _libc.munmap, address, shared.nbytes).atexit = False

    def lend(self) -> ctypes.Array[ctypes.c_ubyte]:
        """Return the memory; every view of it keeps the mapping."""
        memory = (ctypes.c_ubyte * self.nbytes).from_address(self.address)
        memory.mapping = self  # type: ignore[attr-defined]
        return memory


_mapped: OrderedDict[SharedRange, _Mapping] = OrderedDict()
"""Blocks of this worker, the one that was used last at the end."""


def open_nameless() -> int:
    """Open a file in memory that has no name, so that nothing is left behind, and return its descriptor."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("framefeed")
    descriptor, path = tempfile.mkstemp(prefix="framefeed-")
    os.unlink(path)
    return descriptor


def map_range(shared: SharedRange) -> ctypes.Array[ctypes.c_ubyte]:
    """Map a range of a file; it stays mapped as long as a view of it lives."""
    return _Mapping(shared).lend()


def allocate_pages(descriptor: int, offset: int, nbytes: int) -> None:
    """Allocate the pages of a range of a file; without memory for them, raise MemoryError."""
    try:
        os.posix_fallocate(descriptor, offset, nbytes)
    except OSError as error:
        raise _make_error(error.errno, nbytes) from error


class SharedMemory:
    """Lends blocks of memory that worker processes can write to; see `ProcessPool`.

    It is not for forked processes, which share its blocks with their parent: they make another one.
    """

    def __init__(self) -> None:
        self.descriptor = open_nameless()
        self._size = 0
        self._allocating = threading.Lock()
        finalize(self, os.close, self.descriptor).atexit = False

    def allocate(self, nbytes: int) -> SharedBlock:
        """Make a block of at least so many bytes, all zero; without memory for it, raise MemoryError."""
        size = -(-max(1, nbytes) // mmap.PAGESIZE) * mmap.PAGESIZE
        with self._allocating:
            # Mapped first: without address space, the pages would stay allocated.
            block = SharedBlock(SharedRange(self.descriptor, self._size, size))
            allocate_pages(self.descriptor, self._size, size)
            self._size += size
        return block


class SharedBlock:
    """A block of shared memory; when it is freed, its pages are freed in all processes."""

    def __init__(self, shared: SharedRange) -> None:
        self.shared = shared
        self.nbytes = shared.nbytes
        mapping = _Mapping(shared)
        self.data = mapping.lend()
        finalize(self, _free, mapping, os.getpid()).atexit = False


def _free(mapping: _Mapping, owner: int) -> None:
    # In a forked process the pages are still those of its parent.
    if _MADV_REMOVE is not None and os.getpid() == owner:
        _libc.madvise(mapping.address, mapping.nbytes, _MADV_REMOVE)


def _make_error(number: Any, nbytes: int) -> OSError | MemoryError:
    if number in _SHORTAGES:
        return MemoryError(f"no {nbytes} bytes of shared memory: {os.strerror(number)}")
    return OSError(number, f"cannot map {nbytes} bytes of shared memory: {os.strerror(number)}")
