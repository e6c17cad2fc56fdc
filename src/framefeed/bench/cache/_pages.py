"""The page cache of the system: files written out and forgotten, so that reading them reaches for the disk. Linux."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Sequence

import numpy as np

# Pages that a processor has just put aside are only released at a second attempt.
TRIES = 3
_CHUNK = 1 << 20


def forget(paths: Sequence[str]) -> str | None:
    """Write files out and ask the system to drop their pages; those of other files stay.

    Return None where not one page is left in memory, else why reading them cold cannot be measured.
    """
    left = 0
    try:
        for _ in range(TRIES):
            for path in paths:
                with open(path, "rb", buffering=0) as file:
                    os.fsync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            left = sum(map(count_resident_pages, paths))
            if not left:
                return None
    except (OSError, AttributeError, ValueError) as error:
        # No fadvise or no mincore on this system, or the file system has neither.
        return f"{type(error).__name__}: {error}"
    pages = sum(map(count_pages, paths))
    return f"{left} of {pages} pages stayed in memory, as on tmpfs and some network file systems: name another --disk"


def count_resident_pages(path: str) -> int:
    """Count the pages of a file that are in memory, as mincore(2) says of files of one's own."""
    size = os.path.getsize(path)
    if not size:
        return 0
    mapped, flags = np.memmap(path, np.uint8, "r"), np.zeros(count_pages(path), dtype=np.uint8)
    start, answer = (ctypes.c_void_p(array.ctypes.data) for array in (mapped, flags))
    if ctypes.CDLL(None, use_errno=True).mincore(start, ctypes.c_size_t(size), answer):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return int(np.count_nonzero(flags & 1))


def count_pages(path: str) -> int:
    """Pages of a file."""
    return -(-os.path.getsize(path) // mmap.PAGESIZE)


def measure_disk(path: str, nbytes: int) -> dict[str, float] | str:
    """Write a file that nothing can compress, and read it cold, one part after the other.

    Return megabytes (10^6 bytes) a second, "write" with fsync and "read"; or why reading cannot be measured.
    """
    part = np.random.Generator(np.random.Philox(key=1)).bytes(_CHUNK)
    try:
        start = time.perf_counter()
        with open(path, "xb") as file:
            for _ in range(-(-nbytes // _CHUNK)):
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        written = time.perf_counter() - start
        why = forget([path])
        if why:
            return why
        start = time.perf_counter()
        with open(path, "rb", buffering=0) as file:
            while file.read(_CHUNK):
                pass
        seconds = {"write": written, "read": time.perf_counter() - start}
        return {name: round(os.path.getsize(path) / 1e6 / took, 1) for name, took in seconds.items()}
    finally:
        if os.path.exists(path):
            os.unlink(path)
