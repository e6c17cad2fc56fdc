"""Call functions in threads or processes, and return the results in order."""

from __future__ import annotations

from framefeed.parallel.budget import ThreadBudget, thread_budget
from framefeed.parallel.kinds import open_pool
from framefeed.parallel.ordered import OrderedOutcomes, OrderedValues, ordered_map, ordered_outcomes
from framefeed.parallel.outcome import Err, Ok
from framefeed.parallel.pools import CLOSE_SECONDS, InlinePool, Pool, ThreadPool
from framefeed.parallel.processes import ProcessPool
from framefeed.parallel.reorder import ReorderBuffer

__all__ = [
    "CLOSE_SECONDS",
    "Err",
    "InlinePool",
    "Ok",
    "OrderedOutcomes",
    "OrderedValues",
    "Pool",
    "ProcessPool",
    "ReorderBuffer",
    "ThreadBudget",
    "ThreadPool",
    "open_pool",
    "ordered_map",
    "ordered_outcomes",
    "thread_budget",
]
