"""One run: the buffer that a consumer and the workers of a pool share, with its lock and its waiting.

A *ticket* in the pool's queue is the run's `_work`: it starts whatever the buffer lets start at that moment, so that
positions start in order, and nothing starts while the buffer is overweight. A ticket that finds nothing to start does
nothing; the consumer writes new ones when it has taken a result.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Generic, TypeVar
from weakref import proxy

from framefeed._checks import check_integer, expected
from framefeed.errors import DeadlineExceeded, UsageError, WorkerLost
from framefeed.parallel._child import ProcessDied
from framefeed.parallel.outcome import Err, Ok, outcome_of, shortened
from framefeed.parallel.pools import Pool
from framefeed.parallel.reorder import ReorderBuffer
from framefeed.parallel.stopping import cancelled_by, check_deadline

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
