"""Call a function once in each process of a pool."""

from __future__ import annotations

from threading import Barrier, BrokenBarrierError
from typing import Generic, TypeVar

from framefeed._outcome import Ok
from framefeed.errors import DeadlineExceeded, WorkerLost
from framefeed.parallel._ordered import ordered_outcomes
from framefeed.parallel._pools import CLOSE_SECONDS
from framefeed.parallel._processes import ProcessPool, RemoteCaller, RemoteCalls, child_of_this_thread

T = TypeVar("T")
R = TypeVar("R")


class _CallsAtOnce(RemoteCaller, Generic[T, R]):
    """Calls a function in the process of each thread, after all threads have met: so none makes two of the calls."""

    def __init__(self, calls: RemoteCalls[T, R], threads: int) -> None:
        self._calls = calls
        self._meeting = Barrier(threads)

    def __call__(self, item: T) -> list[R]:
        self._meeting.wait(CLOSE_SECONDS)
        return [self._calls(item)] if child_of_this_thread().is_running else []


def call_each(pool: ProcessPool, calls: RemoteCalls[T, R], item: T) -> list[R]:
    """Call a function once in each process of a pool that has been started.

    Args:
        pool: A pool without other work.
        calls: The function.
        item: Its argument.

    Returns:
        The results, without those of processes that died; none if the pool had other work for `CLOSE_SECONDS`.

    Raises:
        Exception: What the function raised.
    """
    each = _CallsAtOnce(calls, pool.workers)
    results: list[R] = []
    with ordered_outcomes(each, [item] * pool.workers, pool=pool, max_in_flight=pool.workers) as outcomes:
        for outcome in outcomes:
            if isinstance(outcome, Ok):
                results += outcome.value
            elif not isinstance(outcome.error, (BrokenBarrierError, WorkerLost, DeadlineExceeded)):
                raise outcome.error
    return results
