"""The kinds of pools, by name."""

from __future__ import annotations

from framefeed._checks import check_integer, expected
from framefeed.parallel.pools import InlinePool, Pool, ThreadPool
from framefeed.parallel.processes import ProcessPool

KINDS = ("inline", "threads", "processes")


def open_pool(workers: int, kind: str = "threads") -> Pool:
    """Make a pool.

    Args:
        workers: Number of calls that run at once; with 0, calls run inline for every kind.
        kind: "threads", "processes" or "inline".

    Raises:
        UsageError: If there is no such kind, or the number of workers is negative.
    """
    if kind not in KINDS:
        raise expected("kind", f"one of {', '.join(KINDS)}", kind)
    check_integer("workers", workers, least=0)
    if not workers or kind == "inline":
        return InlinePool()
    return ThreadPool(workers) if kind == "threads" else ProcessPool(workers)
