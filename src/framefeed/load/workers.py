"""Workers: the threads of one loader, which live as long as it does and keep their open decoders between epochs."""

from __future__ import annotations

import os

from framefeed.parallel import Pool, open_pool


class Workers:
    """Makes a pool when it is first needed, and again in a forked process, where threads do not go along.

    Args:
        count: Threads; 0 works in the thread that asks for batches.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: Pool | None = None
        self._process = 0

    @property
    def pool(self) -> Pool:
        """The pool."""
        if self._pool is None or self.are_elsewhere:
            self._pool, self._process = open_pool(self.count), os.getpid()
        return self._pool

    @property
    def are_elsewhere(self) -> bool:
        """Whether the threads are in the process that this one was forked from; so may be the locks they held."""
        return self._process != os.getpid()

    def discard(self) -> None:
        """Leave a pool behind whose threads may hang, without waiting; the next pass has another."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.abandon()

    def close(self) -> None:
        """Wait, for a bounded time, until no thread is left."""
        pool, self._pool = self._pool, None
        if pool is not None and not self.are_elsewhere:
            pool.close()
