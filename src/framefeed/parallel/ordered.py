"""Call a function on many items at once, with results in the order of the items.

What arrives where. An exception of the function is an `Err` at its item's position, whatever its class, with the
traceback of the worker (from a process it comes as a copy, with that traceback as a note); so is one of ``size_of``.
A worker process that dies is a `WorkerLost` at the position of the item it had. Only KeyboardInterrupt is raised there
instead: it is a wish to stop, and inline it is the user's Ctrl-C. An exception of ``items`` is raised after the
outcomes of all items before it; an interrupt while they are being asked, at once. Whatever exception leaves an iterator
ends it, as with a generator.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NoReturn, TypeVar
from weakref import finalize

from framefeed._checks import check_integer, expected
from framefeed.errors import LoadError, UsageError
from framefeed.parallel._run import STAGE, Limits, Run
from framefeed.parallel.budget import thread_budget
from framefeed.parallel.closing import SOON_SECONDS, ClosedByWith
from framefeed.parallel.kinds import open_pool
from framefeed.parallel.outcome import Err, Ok, outcome_of
from framefeed.parallel.pools import CLOSE_SECONDS, Pool
from framefeed.parallel.processes import ProcessPool, RemoteCalls

T = TypeVar("T")
R = TypeVar("R")


class OrderedOutcomes(Iterator[Ok[R] | Err], ClosedByWith, Generic[T, R]):
    """Iterator that `ordered_outcomes` returns. Use it in ``with``, call `close`, or drop it to end it."""

    def __init__(self, run: Run[T, R], items: Iterator[T], pool: Pool) -> None:
        self._run = run
        self._pool = pool
        self._items: Iterator[T] | None = items
        self._items_error: Exception | None = None
        self._ended = False
        self._advancing = threading.Lock()
        self._owner = os.getpid()
        finalize(self, run.cancel).atexit = False

    def __next__(self) -> Ok[R] | Err:
        if os.getpid() != self._owner:
            raise UsageError("the workers of this iterator are not in a forked process: make a new iterator there")
        if not self._advancing.acquire(blocking=False):
            raise UsageError("another thread is already advancing this iterator: use one iterator for each thread")
        came = False
        try:
            outcome = self._next()
            came = True
            return outcome
        finally:
            if not came:
                self.cancel()
            self._advancing.release()

    def cancel(self) -> None:
        """End the iteration without waiting: calls that have not started are dropped, running calls continue."""
        self._ended = True
        self._items = None
        self._run.cancel()

    def close(self, wait_seconds: float = CLOSE_SECONDS) -> None:
        """End the iteration, and wait until the calls that are running are over.

        Args:
            wait_seconds: How long to wait at most; what takes longer goes on unwatched.
        """
        self._ended = True
        self._items = None
        self._run.close(wait_seconds)

    def _close_soon(self) -> None:
        self.cancel()
        self.close(SOON_SECONDS)

    def _next(self) -> Ok[R] | Err:
        if self._ended:
            raise StopIteration
        while self._items is not None and self._run.has_room:
            # Not kept in a local: the traceback of its error reaches this frame, and would so reach itself.
            self._take_in(outcome_of(next, self._items))
        if self._run.is_empty:
            self._raise_end()
        outcome = self._run.take()
        if outcome is None:
            raise StopIteration
        if isinstance(outcome, Err) and isinstance(outcome.error, KeyboardInterrupt):
            raise outcome.error
        return outcome

    def _take_in(self, pulled: Ok[T] | Err) -> None:
        if isinstance(pulled, Ok):
            self._run.add(pulled.value)
            return
        self._items = None
        if not isinstance(pulled.error, Exception):
            raise pulled.error
        if not isinstance(pulled.error, StopIteration):
            self._items_error = pulled.error

    def _raise_end(self) -> NoReturn:
        self.close()
        error, self._items_error = self._items_error, None
        try:
            raise StopIteration if error is None else error
        finally:
            del error


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
                # Raised as it is, it would pass for the end of the items.
                message = f"the function raised StopIteration for item {self._position}"
                raise LoadError(message, position=self._position, stage=STAGE) from outcome.error
            raise outcome.error
        finally:
            # The traceback reaches this frame, and would so reach itself.
            del outcome

    def close(self, wait_seconds: float = CLOSE_SECONDS) -> None:
        """End the iteration, and wait until the calls that are running are over.

        Args:
            wait_seconds: How long to wait at most; what takes longer goes on unwatched.
        """
        self._outcomes.close(wait_seconds)

    def _close_soon(self) -> None:
        self._outcomes._close_soon()


def ordered_outcomes(
    function: Callable[[T], R],
    items: Iterable[T],
    *,
    workers: int | None = None,
    kind: str = "threads",
    max_in_flight: int,
    max_bytes: int | None = None,
    size_of: Callable[[R], int] | None = None,
    deadline_seconds: float | None = None,
    pool: Pool | None = None,
) -> OrderedOutcomes[T, R]:
    """Call a function on every item, several at once, and yield an `Ok` or `Err` for each, in the order of the items.

    Items are read in the thread that iterates, one at a time and at most ``max_in_flight`` ahead.

    Args:
        function: Called with one item, in a worker.
        items: Any iterable, also an endless one.
        workers: Number of calls that run at once; with 0, each call runs in the thread that iterates. None means the
            number of the pool if there is one, else the thread budget of the process.
        kind: "threads", "processes" or "inline"; arguments and results of processes are copied, see `ProcessPool`.
        max_in_flight: Largest number of items that are read and not yet yielded: queued, running or finished.
        max_bytes: While the finished results that wait to be yielded are larger than this, only the call for the next
            result may start. The limit can be exceeded by at most one result for each worker.
        size_of: Function that returns the bytes of a result; needed with ``max_bytes``.
        deadline_seconds: Longest wait for one next outcome; without effect for inline calls.
        pool: Pool to use, which stays open for the next call; by default, the iterator makes its own.

    Returns:
        An iterator of `Ok` and `Err`. Dropping it cancels calls that have not started; ``with`` and `close` also wait
        until no call is running, for at most `CLOSE_SECONDS`, so that resources of the calls can be freed. If the
        iterator has processes of its own, calls that take longer are ended, and at once if the iterator is dropped.

    Raises:
        UsageError: If the arguments do not fit together, or the function cannot be sent to a process.
        DeadlineExceeded: While iterating, if an outcome is late. The iteration then ends without waiting for the late
            call; a call in a process is ended.
    """
    if not callable(function):
        raise expected("function", "a function that takes one item", function)
    limits = Limits(max_in_flight, max_bytes, size_of, deadline_seconds)
    if pool is not None and workers is not None:
        raise UsageError(
            f"expected workers= or pool=, got both (workers={workers}): a pool has its own number of workers"
        )
    if pool is not None and (isinstance(pool, type) or not hasattr(pool, "submit")):
        raise expected("pool", "a pool such as ff.parallel.ThreadPool(4), or None", pool)
    source = _iterator_of(items)
    own_pool = None
    if pool is None:
        workers = thread_budget().threads if workers is None else check_integer("workers", workers, least=0)
        pool = own_pool = open_pool(min(workers, max_in_flight), kind)
    calls = RemoteCalls(function) if isinstance(pool, ProcessPool) else function
    return OrderedOutcomes(Run(calls, pool, limits, owns_pool=own_pool is not None), source, pool)


def _iterator_of(items: Iterable[T]) -> Iterator[T]:
    # A TypeError of a generator's own __iter__ is not about the argument.
    if isinstance(items, type) or not (hasattr(items, "__iter__") or hasattr(items, "__getitem__")):
        raise expected("items", "a list or another iterable", items)
    return iter(items)


def ordered_map(
    function: Callable[[T], R],
    items: Iterable[T],
    *,
    workers: int | None = None,
    kind: str = "threads",
    max_in_flight: int,
    max_bytes: int | None = None,
    size_of: Callable[[R], int] | None = None,
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
        deadline_seconds: Longest wait for one next result.
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
            deadline_seconds=deadline_seconds,
            pool=pool,
        )
    )
