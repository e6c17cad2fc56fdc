"""The kinds of pools, by name."""

from __future__ import annotations

from framefeed.errors import UsageError
from framefeed.parallel.pools import InlinePool, Pool, ThreadPool
from framefeed.parallel.processes import ProcessPool

KINDS = ("inline", "threads", "processes")


def open_pool(workers: int, kind: str = "threads") -> Pool:
    """Make a pool.

    Args:
        workers: How many calls run at once; 0 runs them inline, whatever the kind.
        kind: "threads", "processes" or "inline".

    Raises:
        UsageError: If there is no such kind, or the number is negative.
    """
    if kind not in KINDS:
        raise UsageError(f"no kind of pool is called {kind!r}; there are {', '.join(KINDS)}")
    if workers < 0:
        raise UsageError(f"workers is {workers}; ask for 0 (inline) or more")
    if not workers or kind == "inline":
        return InlinePool()
    return ThreadPool(workers) if kind == "threads" else ProcessPool(workers)
