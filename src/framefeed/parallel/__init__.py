"""Call functions in threads or processes, and return the results in order.

Rooms up to `decode` take outcomes, shortages and stops from the modules that all rooms share, and so load no pools.
"""

from __future__ import annotations

from framefeed._outcome import Err, Ok, catch_error, catch_outcome, shorten_repr
from framefeed._shortage import (
    SAYS_NOTHING_OF_FILES,
    allocate,
    find_shortage,
    make_shortage_error,
    raise_shortage,
    register_releasable,
    release_idle,
    try_again_in_shortage,
)
from framefeed._stopping import (
    DEADLINE,
    Cancelled,
    StopDetector,
    cancelled_by,
    check_deadline,
    check_stop,
    fetch_limit,
    time_limit,
)
from framefeed.parallel._budget import thread_budget
from framefeed.parallel._child import CallLate, ProcessDied, ProcessEnded, ProcessHung
from framefeed.parallel._gauge import Gauge, WorkerTimes
from framefeed.parallel._lent_memory import LentMemory
from framefeed.parallel._ordered import OrderedOutcomes, ordered_outcomes
from framefeed.parallel._ordered_map import call_each, ordered_map
from framefeed.parallel._pools import CLOSE_SECONDS, SOON_SECONDS, ClosedByWith, InlinePool, Pool, ThreadPool, run_next
from framefeed.parallel._processes import (
    ProcessCounts,
    ProcessPool,
    RemoteCaller,
    RemoteCalls,
    check_sendable,
    is_sendable,
    open_pool,
)
from framefeed.parallel._shared_lines import SharedLines
from framefeed.parallel._shared_memory import SharedBlock, SharedMemory, SharedRange

__all__ = [
    "CLOSE_SECONDS",
    "DEADLINE",
    "SAYS_NOTHING_OF_FILES",
    "SOON_SECONDS",
    "CallLate",
    "Cancelled",
    "ClosedByWith",
    "Err",
    "Gauge",
    "InlinePool",
    "LentMemory",
    "Ok",
    "OrderedOutcomes",
    "Pool",
    "ProcessCounts",
    "ProcessDied",
    "ProcessEnded",
    "ProcessHung",
    "ProcessPool",
    "RemoteCaller",
    "RemoteCalls",
    "SharedBlock",
    "SharedLines",
    "SharedMemory",
    "SharedRange",
    "StopDetector",
    "ThreadPool",
    "WorkerTimes",
    "allocate",
    "call_each",
    "cancelled_by",
    "catch_error",
    "catch_outcome",
    "check_deadline",
    "check_sendable",
    "check_stop",
    "fetch_limit",
    "find_shortage",
    "is_sendable",
    "make_shortage_error",
    "open_pool",
    "ordered_map",
    "ordered_outcomes",
    "raise_shortage",
    "register_releasable",
    "release_idle",
    "run_next",
    "shorten_repr",
    "thread_budget",
    "time_limit",
    "try_again_in_shortage",
]
