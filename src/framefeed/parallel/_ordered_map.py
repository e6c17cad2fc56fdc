"""Call a function on many items at once, in order, up to the first failure; or once in each process of a pool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from threading import Barrier, BrokenBarrierError
from typing import Generic, TypeVar

from framefeed._outcome import Ok
from framefeed.errors import DeadlineExceeded, LoadError, WorkerLost
from framefeed.parallel._child import STAGE
from framefeed.parallel._ordered import OrderedOutcomes, ordered_outcomes
from framefeed.parallel._pools import CLOSE_SECONDS, ClosedByWith, Pool
from framefeed.parallel._processes import ProcessPool, RemoteCaller, RemoteCalls, child_of_this_thread

T = TypeVar("T")
R = TypeVar("R")


class OrderedValues(Iterator[R], ClosedByWith, Generic[T, R]):
    """Iterator that `ordered_map` returns. Use it in ``with``, call `close`, or drop it to end it."""

    def __init__(self, outcomes: OrderedOutcomes[T, R]) -> None:
        self._outcomes = outcomes
        self._position = 0

    def __next__(self) -> R:
        outcome = next(self._outcomes)
        if isinstance(outcome, Ok):
            self._position += 1
            return outcome.value
        self._outcomes.cancel()
        try:
            if isinstance(outcome.error, StopIteration):
                # As it is, it would end the loop over this iterator.
                message = f"the function raised StopIteration for item {self._position}"
                raise LoadError(message, position=self._position, stage=STAGE) from outcome.error
            raise outcome.error
        finally:
            # The traceback refers to this frame, which must not refer to the error.
            del outcome

    def close(self, wait_seconds: float = CLOSE_SECONDS) -> None:
        """End the iteration, and wait until the calls that are running are over.

        Args:
            wait_seconds: Longest wait; calls that take longer continue on their own.
        """
        self._outcomes.close(wait_seconds)

    def _close_soon(self) -> None:
        self._outcomes._close_soon()


def ordered_map(  # noqa: PLR0913 - public: what its users ask for
    function: Callable[[T], R],
    items: Iterable[T],
    *,
    workers: int | None = None,
    kind: str = "threads",
    max_in_flight: int,
    max_bytes: int | None = None,
    size_of: Callable[[R], int] | None = None,
    cost_of: Callable[[T], float] | None = None,
    deadline_seconds: float | None = None,
    pool: Pool | None = None,
) -> OrderedValues[T, R]:
    """Call a function on every item, several at once, and yield the results in the order of the items.

    The first item that fails raises its error at its position, after the results of all items before it, and ends
    the iteration. StopIteration becomes a `LoadError`, because an iterator cannot raise it. Everything else is as in
    `ordered_outcomes`.

    Args:
        function: Called with one item, in a worker.
        items: Any iterable, also an endless one.
        workers: Number of calls that run at once; 0 runs them inline, None means the thread budget.
        kind: "threads", "processes" or "inline"; arguments and results of processes are copied, see `ProcessPool`.
        max_in_flight: Largest number of items that are read and not yet yielded.
        max_bytes: Bytes of finished results above which only the call for the next result may start.
        size_of: Function that returns the bytes of a result; needed with ``max_bytes``.
        cost_of: Function that predicts the cost of an item; costly items start early.
        deadline_seconds: Longest time for one call in a process, or longest wait for one result of a thread.
        pool: Pool to use, which stays open.

    Returns:
        An iterator of results.

    Raises:
        UsageError: If the arguments do not fit together.
        DeadlineExceeded: While iterating, if a result is late.
    """
    return OrderedValues(
        ordered_outcomes(
            function,
            items,
            workers=workers,
            kind=kind,
            max_in_flight=max_in_flight,
            max_bytes=max_bytes,
            size_of=size_of,
            cost_of=cost_of,
            deadline_seconds=deadline_seconds,
            pool=pool,
        )
    )


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

    Returns:
        The results, without those of processes that died; none if the pool had other work for `CLOSE_SECONDS`.
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
