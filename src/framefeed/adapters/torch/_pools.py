"""The threads of data loaders: one pool for each number of workers, shared by all loaders of the process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

from framefeed.parallel import InlinePool, Pool, ThreadPool, renew_after_fork


class _Inside(threading.local):
    is_worker = False


_inside = _Inside()


@contextmanager
def _marking_thread() -> Iterator[None]:
    _inside.is_worker = True
    yield


class SharedPools:
    """Pools by their number of threads. A pool lives as long as a loader or an iterator refers to it."""

    def __init__(self) -> None:
        self._pools: WeakValueDictionary[int, ThreadPool] = WeakValueDictionary()
        self._making = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Forget the pools: their threads are the parent's."""
        self._pools = WeakValueDictionary()
        self._making = threading.Lock()

    def find(self, workers: int) -> Pool:
        """Return the pool with this number of threads; in one of its threads, or for 0, a pool that calls inline."""
        if workers == 0 or _inside.is_worker:
            return InlinePool()
        with self._making:
            pool = self._pools.get(workers)
            if pool is None:
                pool = self._pools[workers] = ThreadPool(workers, "torch", _marking_thread)
            return pool

    def forget(self, pool: Pool) -> None:
        """Give the pool to no further loader: a call in it does not end."""
        with self._making:
            if self._pools.get(pool.workers) is pool:
                del self._pools[pool.workers]


POOLS = SharedPools()
