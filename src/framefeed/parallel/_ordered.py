"""Call a function on many items at once, with results in the order of the items.

What arrives where. An exception of the function is an `Err` at its item's position, whatever its class, with the
traceback of the worker (from a process it comes as a copy, with that traceback as a note); so is one of ``size_of``.
A worker process that dies is a `WorkerLost` at the position of the item it had. Only KeyboardInterrupt is raised there
instead: it is a wish to stop, and inline it is the user's Ctrl-C. An exception of ``items`` is raised after the
outcomes of all items before it; an interrupt while they are being asked, at once. Whatever exception leaves an iterator
ends it, as with a generator.

One run: the buffer that a consumer and the workers of a pool share, with its lock and its waiting.

A *ticket* in the pool's queue is the run's `_work`: it starts whatever the buffer lets start at that moment, so that
positions start in order, and nothing starts while the buffer is overweight. A ticket that finds nothing to start does
nothing; the consumer writes new ones when it has taken a result.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Generic, NoReturn, TypeVar
from weakref import finalize, proxy

from framefeed._checks import check_integer, expected
from framefeed.errors import DeadlineExceeded, LoadError, UsageError, WorkerLost
from framefeed.parallel._budget import thread_budget
from framefeed.parallel._outcome import Err, Ok, outcome_of, shortened
from framefeed.parallel._pools import CLOSE_SECONDS, SOON_SECONDS, ClosedByWith, Pool
from framefeed.parallel._processes import ProcessDied, ProcessPool, RemoteCalls, open_pool
from framefeed.parallel._reorder import ReorderBuffer
from framefeed.parallel._stopping import cancelled_by, check_deadline

T = TypeVar("T")
R = TypeVar("R")

STAGE = "parallel"

# Seconds between two looks at whether the worker of the awaited result still lives: it costs microseconds a second,
# and a loss is noticed at once, as a user sees it.
LIVENESS_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Limits(Generic[R]):
    """What bounds a run.

    Attributes:
        max_in_flight: Most items pulled and not yet yielded.
        max_bytes: Weight of finished results above which only the next one is worked on.
        size_of: Weight of a result in bytes.
        deadline_seconds: Longest wait for one next result.
    """

    max_in_flight: int
    max_bytes: int | None = None
    size_of: Callable[[R], int] | None = None
    deadline_seconds: float | None = None

    def __post_init__(self) -> None:
        check_integer("max_in_flight", self.max_in_flight, least=1)
        if self.size_of is not None and not callable(self.size_of):
            raise expected("size_of", "a function that gives the bytes of one result, or None", self.size_of)
        if self.max_bytes is not None:
            check_integer("max_bytes", self.max_bytes, least=0)
        if self.max_bytes is not None and self.size_of is None:
            raise UsageError(
                "max_bytes needs size_of, the bytes of one result, such as size_of=lambda array: array.nbytes"
            )
        check_deadline(self.deadline_seconds)


class Run(Generic[T, R]):
    """What workers know of an iteration: never the iterator itself, so that an abandoned one is garbage."""

    def __init__(self, function: Callable[[T], R], pool: Pool, limits: Limits[R], *, owns_pool: bool) -> None:
        self._function = function
        # A call that hangs keeps its run alive; a pool of others must not hang on that, or it would never be garbage.
        self._pool: Pool = pool if owns_pool else proxy(pool)
        self._owns_pool = owns_pool
        self._size_of = limits.size_of if limits.max_bytes is not None else None
        self._deadline_seconds = limits.deadline_seconds
        # Inline nothing runs ahead: an item is pulled when its result is asked for.
        max_count = limits.max_in_flight if pool.workers else 1
        self._buffer: ReorderBuffer[T, Ok[R] | Err] = ReorderBuffer(max_count, limits.max_bytes)
        self._workers: dict[int, threading.Thread] = {}
        self._late: threading.Thread | None = None
        self._tickets = 0
        self._cancelled = False
        self._owner = os.getpid()
        self._changed = threading.Condition()

    @property
    def has_room(self) -> bool:
        """Whether another item may be pulled."""
        return self._buffer.has_room

    @property
    def is_empty(self) -> bool:
        """Whether every item that came in has left as an outcome."""
        return not len(self._buffer)

    def add(self, item: T) -> None:
        """Take in an item and hand it out to the pool."""
        with self._changed:
            self._buffer.admit(item)
        self._hand_out()

    def take(self) -> Ok[R] | Err | None:
        """Wait for the next outcome; None where another thread closed the run meanwhile.

        Raises:
            DeadlineExceeded: If it does not come in time.
        """
        with self._changed:
            self._await_head()
            if self._cancelled:
                return None
            outcome = self._buffer.take()
        self._hand_out()
        return outcome

    def cancel(self) -> None:
        """Start nothing more, and wait for nothing.

        The garbage collector may call this in a thread that holds the lock: setting a flag is all that is safe.
        """
        self._cancelled = True
        if self._owns_pool and os.getpid() == self._owner:
            self._pool.abandon()

    def close(self, wait_seconds: float) -> None:
        """Start nothing more, wait a bounded time for the calls that are running, and drop their results.

        For a call that came too late nothing is waited any longer.
        """
        self._cancelled = True
        if os.getpid() != self._owner:
            # The workers are the parent's, and one of them may have held the lock.
            return
        until = monotonic() + wait_seconds
        with self._changed:
            if not self._changed.wait_for(lambda: not self._others(), wait_seconds):
                for worker in self._others():
                    self._pool.stop(worker)
            is_stuck = self._late in self._workers.values()
            self._buffer = ReorderBuffer(1)
            self._changed.notify_all()
        if self._owns_pool:
            self._pool.close(wait_seconds=0.0 if is_stuck else max(0.0, until - monotonic()))

    def _hand_out(self) -> None:
        with self._changed:
            missing = 0 if self._cancelled else max(0, self._buffer.startable - self._tickets)
            self._tickets += missing
        # Without the lock: an inline pool works here and now.
        for _ in range(missing):
            self._pool.submit(self._work)

    def _work(self) -> None:
        job = self._begin()
        if job is not None:
            position, _ = job
            # Not kept in a local: an error's traceback reaches this frame, and would so reach itself.
            self._complete(position, outcome_of(self._measured, job))

    def _begin(self) -> tuple[int, T] | None:
        with self._changed:
            self._tickets -= 1
            job = None if self._cancelled else self._buffer.start()
            if job is not None:
                self._workers[job[0]] = threading.current_thread()
            return job

    def _measured(self, job: tuple[int, T]) -> tuple[R, int]:
        position, item = job
        try:
            with cancelled_by(lambda: self._cancelled):
                value = self._function(item)
        except ProcessDied as death:
            message = f"item {position} ({shortened(item)}) is lost: {death}"
            raise WorkerLost(message, position=position, stage=STAGE) from death
        return value, 0 if self._size_of is None else max(0, operator.index(self._size_of(value)))

    def _complete(self, position: int, measured: Ok[tuple[R, int]] | Err) -> None:
        with self._changed:
            del self._workers[position]
            if self._cancelled:
                self._changed.notify_all()
                return
            if isinstance(measured, Err):
                self._buffer.finish(position, measured)
            else:
                value, weight = measured.value
                self._buffer.finish(position, Ok(value), weight)
            if position == self._buffer.head:
                self._changed.notify_all()

    def _await_head(self) -> None:
        until = None if self._deadline_seconds is None else monotonic() + self._deadline_seconds
        while not self._cancelled and not self._buffer.head_is_ready:
            left = LIVENESS_SECONDS if until is None else until - monotonic()
            if left <= 0:
                raise self._too_late()
            if not self._changed.wait(min(left, LIVENESS_SECONDS)):
                self._check_alive()

    def _check_alive(self) -> None:
        position = self._buffer.head
        worker = self._workers.get(position)
        if worker is None:
            # No worker is free, or the ticket went with a closed pool (`submit` says so) or with a dead thread
            # (`submit` replaces it). A superfluous ticket does nothing.
            self._tickets += 1
            self._pool.submit(self._work)
        elif not worker.is_alive():
            del self._workers[position]
            message = f"{worker.name} died while it worked on {self._head_name()}"
            self._buffer.finish(position, Err(WorkerLost(message, position=position, stage=STAGE)))

    def _too_late(self) -> DeadlineExceeded:
        worker = self._late = self._workers.get(self._buffer.head)
        if worker is not None:
            self._pool.stop(worker)
        state = "no worker was free for it" if worker is None else f"{worker.name} is still working on it"
        return DeadlineExceeded(
            f"no result for {self._head_name()} within {self._deadline_seconds} s: {state}; "
            "raise deadline_seconds if an item may take longer",
            position=self._buffer.head,
            stage=STAGE,
        )

    def _head_name(self) -> str:
        return f"item {self._buffer.head} ({shortened(self._buffer.head_item)})"

    def _others(self) -> list[threading.Thread]:
        not_waited_for = (threading.current_thread(), self._late)
        return [worker for worker in self._workers.values() if worker not in not_waited_for]


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
