"""The threads of data loaders: one pool for each number of workers, shared by all loaders of the process."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from weakref import WeakValueDictionary

import torch

from framefeed._per_process import PerProcess
from framefeed.errors import DeadlineExceeded
from framefeed.parallel import InlinePool, Pool, ThreadPool


class BatchTimeout(DeadlineExceeded, RuntimeError):
    """A batch took longer than ``timeout``; also a RuntimeError, as in torch."""


_inside = threading.local()


@contextmanager
def _being_worker() -> Iterator[None]:
    """Let operators of torch in this thread, of a pool, use this thread alone (L03).

    ``torch.set_num_threads(1)`` would also be the number of all threads that are started later.
    """
    _inside.is_worker = True
    torch.get_num_threads()  # the first call in a thread sets its number
    for library in _find_openmp():
        library.omp_set_num_threads(1)
    yield


@cache
def _find_openmp() -> list[ctypes.CDLL]:
    """Return the OpenMP libraries of this process: torch brings one of its own."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:  # not Linux
        return []
    paths = {line[line.index("/") :] for line in lines if "/" in line}
    names = ("libgomp", "libiomp5", "libomp")
    return [ctypes.CDLL(path) for path in sorted(paths) if Path(path).name.startswith(names)]


class SharedPools:
    """Pools by their number of threads. A pool lives as long as a loader or an iterator refers to it."""

    def __init__(self) -> None:
        self._pools: WeakValueDictionary[int, ThreadPool] = WeakValueDictionary()
        self._making = threading.Lock()

    def find(self, workers: int) -> Pool:
        """Return the pool with this number of threads; in one of its threads, or for 0, a pool that calls inline."""
        if workers == 0 or hasattr(_inside, "is_worker"):
            return InlinePool()
        with self._making:
            pool = self._pools.get(workers)
            if pool is None:
                pool = self._pools[workers] = ThreadPool(workers, "torch", _being_worker)
            return pool

    def forget(self, pool: Pool) -> None:
        """Give the pool to no further loader: a call in it does not end."""
        with self._making:
            if self._pools.get(pool.workers) is pool:
                del self._pools[pool.workers]


POOLS = PerProcess(SharedPools)
