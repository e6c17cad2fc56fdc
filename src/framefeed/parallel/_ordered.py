"""Call a function on many items at once, with results in the order of the items.

Errors:
    - Any exception of the function, or of ``size_of``, is an `Err` at its item's position, with the traceback of the
      worker; from a process it is a copy, with that traceback as a note. KeyboardInterrupt is raised instead: inline it
      is the user's Ctrl-C.
    - An item whose worker process dies is tried once more, in a new process. If that dies too, it is a `WorkerLost` at
      the position of the item. A process that a signal stops is killed after some two seconds, and counts as dead, but
      the second one is a `DeadlineExceeded`.
    - A call that takes longer than ``deadline_seconds`` in a process is a `DeadlineExceeded` at its position, and its
      process is killed. In a thread, a late result ends the iteration, because the call cannot be ended.
    - An exception of ``items`` is raised after the outcomes of all items before it; KeyboardInterrupt at once.
    - An exception that the iterator raises ends it, as with a generator.

Tickets: the pool's queue does not hold items but calls of `Run._work_on_next`. Each starts the item that the buffer
allows at that moment, so positions start in order, and nothing starts while finished results exceed ``max_bytes``. A
ticket that may start nothing does nothing; the consumer submits new ones when it has taken a result.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic, perf_counter
from typing import Any, Generic, TypeVar
from weakref import finalize, proxy, ref

from framefeed._checks import check_integer, expected
from framefeed._outcome import Err, Ok, catch_outcome, shorten_repr
from framefeed._stopping import StopDetector, cancelled_by, check_deadline
from framefeed.errors import DeadlineExceeded, UsageError, WorkerLost
from framefeed.parallel._budget import thread_budget
from framefeed.parallel._child import STAGE, CallLate, ProcessDied, ProcessHung
from framefeed.parallel._gauge import Gauge
from framefeed.parallel._pools import CLOSE_SECONDS, SOON_SECONDS, ClosedByWith, Pool
from framefeed.parallel._processes import ProcessPool, RemoteCaller, RemoteCalls, open_pool
from framefeed.parallel._reorder import ReorderBuffer

T = TypeVar("T")
R = TypeVar("R")

# Seconds between two checks that the worker of the next result is alive: they cost microseconds each.
LIVENESS_SECONDS = 1.0

_LATE_ADVICE = "raise deadline_seconds if an item may take longer"


@dataclass(frozen=True, slots=True)
class RunOptions(Generic[T, R]):
    """The options of `ordered_outcomes`, which describes them, without those of the pool."""

    max_in_flight: int
    max_bytes: int | None = None
    size_of: Callable[[R], int] | None = None
    cost_of: Callable[[T], float] | None = None
    weight_of: Callable[[T], int] | None = None
    step_of: Callable[[T], Hashable] | None = None
    deadline_seconds: float | None = None

    def __post_init__(self) -> None:
        check_integer("max_in_flight", self.max_in_flight, least=1)
        if self.size_of is not None and not callable(self.size_of):
            raise expected("size_of", "a function that gives the bytes of one result, or None", self.size_of)
        if self.cost_of is not None and not callable(self.cost_of):
            raise expected("cost_of", "a function that gives the predicted cost of one item, or None", self.cost_of)
        if self.weight_of is not None and not callable(self.weight_of):
            raise expected("weight_of", "a function that gives the weight of one item, or None", self.weight_of)
        if self.step_of is not None and not callable(self.step_of):
            raise expected("step_of", "a function that gives the step that an item is at, or None", self.step_of)
        if self.max_bytes is not None:
            check_integer("max_bytes", self.max_bytes, least=0)
            if self.size_of is None:
                raise UsageError(
                    "max_bytes needs size_of, the bytes of one result, such as size_of=lambda array: array.nbytes"
                )
        check_deadline(self.deadline_seconds)


class OrderedRun(Generic[T, R]):
    """The part of an iteration that its workers refer to: not the iterator, so that an abandoned one is freed."""

    def __init__(self, function: Callable[[T], R], pool: Pool, options: RunOptions[T, R], *, owns_pool: bool) -> None:
        self._function = function
        # A call that hangs keeps its run alive, which must not keep another owner's pool alive.
        self._pool: Pool = pool if owns_pool else proxy(pool)
        self._owns_pool = owns_pool
        self._options = options
        # Inline nothing runs ahead: an item is read when its result is requested.
        max_in_flight = options.max_in_flight if pool.workers else 1
        self._buffer: ReorderBuffer[T, Ok[R] | Err] = ReorderBuffer(max_in_flight, options.max_bytes)
        self._workers: dict[int, threading.Thread] = {}
        run = ref(self)  # the gauge outlives the run, and its results
        self.gauge = Gauge(pool.workers, options.max_in_flight, lambda: _count_ready(run()))
        self._late: threading.Thread | None = None
        self._tickets = 0
        # Weight of the items whose outcomes are taken at once.
        self._awaited = 1
        self._cancelled = False
        self._owner = os.getpid()
        self._changed = threading.Condition()

    @property
    def has_room(self) -> bool:
        """Whether another item may be pulled."""
        return self._buffer.has_room

    @property
    def is_empty(self) -> bool:
        """Whether the outcomes of all added items have been taken."""
        return not len(self._buffer)

    def add(self, item: T) -> None:
        """Add an item, and submit tickets to the pool."""
        options = self._options
        cost = 0.0 if options.cost_of is None else options.cost_of(item)
        weight = 1 if options.weight_of is None else options.weight_of(item)
        with self._changed:
            self._buffer.admit(item, cost, weight)
            tickets = self._count_tickets()
        self._submit(tickets)

    def take(self, weight: int) -> list[Ok[R] | Err] | None:
        """Wait for the next outcomes; None if another thread closed the run meanwhile.

        Args:
            weight: Weight of their items, at least 1; fewer are returned if ``max_bytes`` lets no other call start
                before.
        """
        with self._changed:
            self._awaited = weight
            stops, until = StopDetector(), None
            waited_for: tuple[int, Hashable] = (-1, None)
            while not self._cancelled:
                position = self._buffer.find_unready(weight)
                if position is None or self._buffer.is_blocked:
                    break
                step = position, self._read_step(position)
                if step != waited_for and self._options.deadline_seconds is not None:
                    until = monotonic() + self._options.deadline_seconds
                waited_for = step
                left = LIVENESS_SECONDS if until is None else until - monotonic()
                if left <= 0:
                    raise self._deadline_error(position)
                began, seconds = perf_counter(), min(left, LIVENESS_SECONDS)
                if not self._changed.wait(seconds):
                    self._replace_dead_worker(position)
                    if until is not None and stops.was_stopped(began, seconds):
                        until += perf_counter() - began
            if self._cancelled:
                return None
            outcomes: list[Ok[R] | Err] = []
            while weight > 0 and self._buffer.head_is_ready:
                weight -= self._buffer.head_weight
                outcomes.append(self._buffer.take())
            tickets = self._count_tickets()
        self._submit(tickets)
        return outcomes

    def cancel(self) -> None:
        """Start no more calls, without waiting.

        The garbage collector may call this in a thread that holds the lock, so it only sets a flag.
        """
        self._cancelled = True
        self.gauge.stop()
        if self._owns_pool and os.getpid() == self._owner:
            self._pool.abandon()

    def close(self, wait_seconds: float) -> None:
        """Start no more calls, wait a bounded time for those that are running, and drop their results.

        A call that has passed its deadline is not waited for.
        """
        self._cancelled = True
        self.gauge.stop()
        if os.getpid() != self._owner:
            # The workers are the parent's, and one of them may have held the lock at the fork.
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

    def _count_tickets(self) -> int:
        """Count the tickets that are missing, which the caller then submits; it holds the lock."""
        missing = 0 if self._cancelled else max(0, self._buffer.startable - self._tickets)
        self._tickets += missing
        return missing

    def _submit(self, tickets: int) -> None:
        # Without the lock: an inline pool runs the call in `submit`.
        for _ in range(tickets):
            self._pool.submit(self._work_on_next)

    def _work_on_next(self) -> None:
        with self._changed:
            self._tickets -= 1
            job = None if self._cancelled else self._buffer.start()
            if job is not None:
                self._workers[job[0]] = threading.current_thread()
                self.gauge.record(len(self._workers))
        if job is not None:
            # The outcome is no local: the traceback of its error refers to this frame, which would make a cycle.
            self._complete(job[0], catch_outcome(self._call_and_measure, job))

    def _call_and_measure(self, job: tuple[int, T]) -> tuple[R, int]:
        position, item = job
        try:
            # Asked at every packet: no Python function.
            with cancelled_by(partial(getattr, self, "_cancelled")):
                value = self._function(item)
        except ProcessHung as hang:
            advice = f"; {_LATE_ADVICE}" if isinstance(hang, CallLate) else ""
            message = f"no result for item {position} ({shorten_repr(item)}): {hang}{advice}"
            raise DeadlineExceeded(message, position=position, stage=STAGE) from hang
        except ProcessDied as death:
            message = f"item {position} ({shorten_repr(item)}) is lost: {death}"
            raise WorkerLost(message, position=position, stage=STAGE) from death
        size_of = None if self._options.max_bytes is None else self._options.size_of
        return value, 0 if size_of is None else max(0, operator.index(size_of(value)))

    def _complete(self, position: int, measured: Ok[tuple[R, int]] | Err) -> None:
        with self._changed:
            del self._workers[position]
            if self._cancelled:
                self._changed.notify_all()
                return
            if isinstance(measured, Err):
                self._buffer.finish(position, measured)
            else:
                value, nbytes = measured.value
                self._buffer.finish(position, Ok(value), nbytes)
            self.gauge.record(len(self._workers))
            if self._buffer.is_blocked or self._buffer.find_unready(self._awaited) is None:
                self._changed.notify_all()

    def _replace_dead_worker(self, position: int) -> None:
        worker = self._workers.get(position)
        if worker is None:
            # No worker is free, or the ticket was lost with a closed pool (`submit` raises) or with a dead thread
            # (`submit` replaces it). One ticket too many does no harm.
            self._tickets += 1
            self._pool.submit(self._work_on_next)
        elif not worker.is_alive():
            del self._workers[position]
            message = f"{worker.name} died while it worked on {self._name_item(position)}"
            self._buffer.finish(position, Err(WorkerLost(message, position=position, stage=STAGE)))
            self.gauge.record(len(self._workers))

    def _read_step(self, position: int) -> Hashable:
        item, step_of = self._buffer.item_at(position), self._options.step_of
        return None if item is None or step_of is None else step_of(item)

    def _deadline_error(self, position: int) -> DeadlineExceeded:
        worker = self._late = self._workers.get(position)
        if worker is not None:
            self._pool.stop(worker)
        state = "no worker was free for it" if worker is None else f"{worker.name} is still working on it"
        seconds = self._options.deadline_seconds
        return DeadlineExceeded(
            f"no result for {self._name_item(position)} within {seconds} s: {state}; {_LATE_ADVICE}",
            position=position,
            stage=STAGE,
        )

    def _name_item(self, position: int) -> str:
        return f"item {position} ({shorten_repr(self._buffer.item_at(position))})"

    def _others(self) -> list[threading.Thread]:
        not_waited_for = (threading.current_thread(), self._late)
        return [worker for worker in self._workers.values() if worker not in not_waited_for]


def _count_ready(run: OrderedRun[Any, Any] | None) -> int:
    return 0 if run is None else run._buffer.ready_weight


class OrderedOutcomes(Iterator[Ok[R] | Err], ClosedByWith, Generic[T, R]):
    """Iterator that `ordered_outcomes` returns. Use it in ``with``, call `close`, or drop it to end it."""

    def __init__(self, run: OrderedRun[T, R], items: Iterator[T], pool: Pool) -> None:
        self._run = run
        self._pool = pool
        self._items: Iterator[T] | None = items
        self._items_error: Exception | None = None
        self._ended = False
        self._advancing = threading.Lock()
        self._owner = os.getpid()
        self.gauge = run.gauge
        finalize(self, run.cancel).atexit = False

    def __next__(self) -> Ok[R] | Err:
        return self.take(1)[0]

    def take(self, weight: int) -> list[Ok[R] | Err]:
        """Return the next outcomes, in order, when all of them are there: so the caller's thread wakes up once.

        Args:
            weight: Weight of their items, at least 1; without ``weight_of``, their number. It may be less: at the end
                of the items, and where ``max_in_flight`` or ``max_bytes`` allow no more.
        """
        if os.getpid() != self._owner:
            raise UsageError("the workers of this iterator are not in a forked process: make a new iterator there")
        if not self._advancing.acquire(blocking=False):
            raise UsageError("another thread is already advancing this iterator: use one iterator for each thread")
        has_outcomes = False
        try:
            outcomes = self._take(weight)
            has_outcomes = True
            return outcomes
        finally:
            if not has_outcomes:
                self.cancel()
            self._advancing.release()

    def fill(self) -> None:
        """Read items and start their calls as far as ``max_in_flight`` allows, without waiting for an outcome."""
        with self._advancing:
            if not self._ended:
                self._pull_items()

    def cancel(self) -> None:
        """End the iteration without waiting: calls that have not started are dropped, running calls continue."""
        self._ended = True
        self._items = None
        self._run.cancel()

    def close(self, wait_seconds: float = CLOSE_SECONDS) -> None:
        """End the iteration, and wait until the calls that are running are over.

        Args:
            wait_seconds: Longest wait; calls that take longer continue on their own.
        """
        self._ended = True
        self._items = None
        self._run.close(wait_seconds)

    def _close_soon(self) -> None:
        self.cancel()
        self.close(SOON_SECONDS)

    def _take(self, weight: int) -> list[Ok[R] | Err]:
        if self._ended:
            raise StopIteration
        self._pull_items()
        if self._run.is_empty:
            self.close()
            error, self._items_error = self._items_error, None
            try:
                raise StopIteration if error is None else error
            finally:
                del error
        outcomes = self._run.take(weight)
        if outcomes is None:
            raise StopIteration
        for outcome in outcomes:
            if isinstance(outcome, Err) and isinstance(outcome.error, KeyboardInterrupt):
                raise outcome.error
        return outcomes

    def _pull_items(self) -> None:
        while self._items is not None and self._run.has_room:
            # The outcome is no local: the traceback of its error refers to this frame, which would make a cycle.
            self._add_item(catch_outcome(next, self._items))

    def _add_item(self, pulled: Ok[T] | Err) -> None:
        if isinstance(pulled, Ok):
            self._run.add(pulled.value)
            return
        self._items = None
        if not isinstance(pulled.error, Exception):
            raise pulled.error
        if not isinstance(pulled.error, StopIteration):
            self._items_error = pulled.error


def ordered_outcomes(  # noqa: PLR0913 - public: what its users ask for
    function: Callable[[T], R],
    items: Iterable[T],
    *,
    workers: int | None = None,
    kind: str = "threads",
    max_in_flight: int,
    max_bytes: int | None = None,
    size_of: Callable[[R], int] | None = None,
    cost_of: Callable[[T], float] | None = None,
    weight_of: Callable[[T], int] | None = None,
    step_of: Callable[[T], Hashable] | None = None,
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
        cost_of: Function that predicts the cost of an item, in any unit. An item that costs much more than the others
            of the ``max_in_flight`` starts before them, so that they are done while it runs. Called in the thread that
            iterates.
        weight_of: Function that returns how many items an item counts as, at least 1: ``max_in_flight`` then bounds
            the sum, beyond which the last item may reach. Called in the thread that iterates.
        step_of: Function that returns the step that an item is at while a thread works on it: the wait for its outcome
            begins anew with each step. Called in the thread that iterates.
        deadline_seconds: With processes, longest time for one call; with threads, longest wait for one next outcome, or
            for its next step; without effect for inline calls.
        pool: Pool to use, which stays open for the next call; by default, the iterator makes its own.

    Returns:
        An iterator of `Ok` and `Err`. Dropping it cancels calls that have not started; ``with`` and `close` also wait
        until no call is running, for at most `CLOSE_SECONDS`, so that resources of the calls can be freed. If the
        iterator has processes of its own, calls that take longer are ended, and at once if the iterator is dropped.

    Raises:
        UsageError: If the arguments do not fit together, or the function cannot be sent to a process.
        DeadlineExceeded: While iterating, if an outcome of a thread is late. The iteration then ends without waiting
            for the late call.
    """
    if not callable(function):
        raise expected("function", "a function that takes one item", function)
    options = RunOptions(max_in_flight, max_bytes, size_of, cost_of, weight_of, step_of, deadline_seconds)
    if pool is not None and workers is not None:
        raise UsageError(
            f"expected workers= or pool=, got both (workers={workers}): a pool has its own number of workers"
        )
    if pool is not None and (isinstance(pool, type) or not hasattr(pool, "submit")):
        raise expected("pool", "a pool such as ff.parallel.ThreadPool(4), or None", pool)
    # Checked first: a TypeError of a generator's own __iter__ is not about the argument.
    if isinstance(items, type) or not (hasattr(items, "__iter__") or hasattr(items, "__getitem__")):
        raise expected("items", "a list or another iterable", items)
    iterator = iter(items)
    own_pool = None
    if pool is None:
        workers = thread_budget().threads if workers is None else check_integer("workers", workers, least=0)
        pool = own_pool = open_pool(min(workers, max_in_flight), kind)
    calls = function
    if isinstance(pool, ProcessPool):
        # The deadline of a call in a process ends the process, and so needs none for the wait.
        options = replace(options, deadline_seconds=None)
        calls = function if isinstance(function, RemoteCaller) else RemoteCalls(function, deadline_seconds)
    run = OrderedRun(calls, pool, options, owns_pool=own_pool is not None)
    return OrderedOutcomes(run, iterator, pool)
