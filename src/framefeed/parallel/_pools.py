"""Run calls in a pool: inline in the caller's thread, or in threads that live as long as their pool.

Threads and the end of the interpreter: worker threads are not daemons, because the interpreter would end a daemon in
the middle of native code. But it joins threads that are not daemons *before* it runs ``atexit`` hooks (and so before
``weakref.finalize`` hooks), and would wait forever for an idle worker that such a hook is to wake.
``threading._register_atexit`` hooks run before that join; the standard library's ThreadPoolExecutor uses one for the
same purpose. The hook drops queued tasks and wakes the idle workers, so that the exit waits only for calls that are
running. A call that never returns cannot be stopped from outside its thread: it blocks the exit, and the log names its
pool.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from itertools import count
from queue import Empty, SimpleQueue
from time import monotonic
from types import TracebackType
from typing import Protocol, Self

from framefeed._live_set import LiveSet
from framefeed.errors import UsageError, WorkerLost

SOON_SECONDS = 0.5
"""Long enough for calls that check whether they are cancelled, short enough after Ctrl-C."""


class ClosedByWith(ABC):
    """Context manager that returns itself and calls `close` at the end."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> object:
        """Release all resources."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is KeyboardInterrupt:
            self._close_soon()
        else:
            self.close()

    def _close_soon(self) -> None:
        """Close with the shortest wait: the user pressed Ctrl-C."""
        self.close()


Task = Callable[[], object]
_Tasks = SimpleQueue[Task | None]
_Urgent = deque[Task]

CLOSE_SECONDS = 10.0
"""Wait of `close` for running calls: long enough to decode a large item, too short to look like a hang."""

_log = logging.getLogger(__name__)


class Pool(Protocol):
    """Runs tasks."""

    @property
    def workers(self) -> int:
        """Number of tasks that run at once; with 0, `submit` itself runs them."""

    def submit(self, task: Task) -> None:
        """Run a task once, now or later. The task takes no arguments and must not raise: the error would be lost."""

    def stop(self, worker: threading.Thread) -> None:
        """End the running call of a thread of the pool, if this kind of pool can."""

    def abandon(self) -> None:
        """Drop the tasks that have not begun, without waiting.

        Can be called again, from any thread, and in a finaliser.
        """

    def close(self, wait_seconds: float = CLOSE_SECONDS) -> bool:
        """Abandon the pool, wait for the tasks that are running, and return whether all have ended."""


class InlinePool(ClosedByWith):
    """Runs each task in the thread that submits it."""

    workers = 0

    def __init__(self) -> None:
        self._closed = False

    def __repr__(self) -> str:
        return f"InlinePool({'closed' if self._closed else ''})"

    def submit(self, task: Task) -> None:
        """Run a task now."""
        if self._closed:
            raise _closed_error(self)
        task()

    def stop(self, worker: threading.Thread) -> None:
        """Do nothing: the only call is that of the calling thread."""

    def abandon(self) -> None:
        """Refuse further tasks."""
        self._closed = True

    def close(self, wait_seconds: float = CLOSE_SECONDS) -> bool:
        """Refuse further tasks."""
        self._closed = True
        return True


class ThreadPool(ClosedByWith):
    """Runs tasks in threads, which start when they are first needed and are reused until the pool is closed.

    When the pool is closed, left by ``with`` or garbage-collected, or the interpreter ends, queued tasks are dropped
    and the threads end.

    Args:
        workers: Largest number of threads; at least 1.
        name: Threads are called ``framefeed-{name}-{number}``.
        around: Makes the context manager that a thread is in from its start to its end; it must not refer to the pool.

    Raises:
        UsageError: If there is no worker, or the interpreter runs without its global lock.
    """

    def __init__(
        self, workers: int, name: str = "worker", around: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        is_gil_enabled = getattr(sys, "_is_gil_enabled", None)  # of Python 3.13 and later
        if is_gil_enabled is not None and not is_gil_enabled():
            raise UsageError(
                "this interpreter runs without its global lock (GIL), and the threads of framefeed are not tested "
                "without it: start Python with PYTHON_GIL=1 in the environment, or use workers=0, which starts no "
                "threads"
            )
        if workers < 1:
            raise UsageError(f"workers: expected at least 1, got {workers}; to run without threads, use InlinePool()")
        self._workers = workers
        self._name = name
        self._around = around
        self._numbers = count()
        self._owner = os.getpid()
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._ended: deque[threading.Thread] = deque()
        self._tasks: _Tasks = SimpleQueue()
        self._urgent: _Urgent = deque()
        self._starting = threading.Lock()
        # Threads refer to the queue, not to the pool: an abandoned pool is freed although its threads are waiting.
        weakref.finalize(self, _drop_tasks, self._tasks, self._urgent).atexit = False
        _register_close_at_exit()
        _open_pools.add(self)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(workers={self._workers}, name={self._name!r}{', closed' if self._closed else ''})"
        )

    @property
    def workers(self) -> int:
        """Largest number of threads."""
        return self._workers

    def submit(self, task: Task, *, is_urgent: bool = False) -> None:
        """Queue a task for the next free thread.

        Args:
            task: Takes no arguments and must not raise: its thread would end, and be replaced at the next `submit`.
            is_urgent: Whether it comes before all tasks that are queued without it.

        Raises:
            UsageError: If the pool is closed, was made before a fork, or is called by one of its own threads, which
                would then wait for itself.
            WorkerLost: If there is no thread and none can be started.
        """
        if self._closed:
            raise _closed_error(self)
        if os.getpid() != self._owner:
            raise UsageError(
                f"{self!r} was made before a fork, and its threads are not in the forked process: make a new pool"
            )
        if threading.current_thread() in self._threads:
            raise UsageError(f"{self!r} got work from one of its own threads: use another pool for nested calls")
        if self._ended or len(self._threads) < self._workers:
            self._start_thread()
        if is_urgent:
            self._urgent.append(task)
            task = int  # a task that does nothing
        self._tasks.put(task)

    def stop(self, worker: threading.Thread) -> None:
        """Do nothing: a call in a thread cannot be ended from outside."""

    def abandon(self) -> None:
        """Drop queued tasks and end the threads after their running tasks, without waiting."""
        self._closed = True
        _drop_tasks(self._tasks, self._urgent)

    def close(self, wait_seconds: float = CLOSE_SECONDS) -> bool:
        """Drop queued tasks and wait for the threads to end.

        Args:
            wait_seconds: Longest wait for running tasks; a thread that closes its own pool does not wait for itself.

        Returns:
            Whether all other threads have ended.
        """
        self._closed = True
        _drop_tasks(self._tasks, self._urgent)
        until = monotonic() + wait_seconds
        others = [thread for thread in self._threads if thread is not threading.current_thread()]
        for thread in others:
            thread.join(max(0.0, until - monotonic()))
        return not any(thread.is_alive() for thread in others)

    def _start_thread(self) -> None:
        with self._starting:
            while self._ended:
                self._threads.remove(self._ended.popleft())
            if len(self._threads) == self._workers:
                return
            name = f"framefeed-{self._name}-{next(self._numbers)}"
            arguments = self._tasks, self._urgent, self._ended, self._around
            thread = threading.Thread(target=_run_tasks, args=arguments, name=name, daemon=False)
            try:
                thread.start()
            except RuntimeError as error:
                # The system's limit on threads: fewer workers are enough, but not none.
                if not self._threads:
                    raise WorkerLost(
                        f"{self!r} has no thread and cannot start one: {error}: the limit on memory or on threads "
                        "(ulimit -v, ulimit -u) is reached: raise it, or use workers=0, which needs no threads"
                    ) from error
            else:
                self._threads.append(thread)


def _closed_error(pool: Pool) -> UsageError:
    return UsageError(f"{pool!r} is closed and takes no more work: make a new pool")


class _NextInLine:
    """A pool whose tasks come before those that another pool has queued, in its threads; see `run_next`."""

    def __init__(self, pool: ThreadPool) -> None:
        self._pool = pool
        self.workers = pool.workers
        self.stop = pool.stop
        self.abandon = pool.abandon
        self.close = pool.close

    def submit(self, task: Task) -> None:
        self._pool.submit(task, is_urgent=True)


def run_next(pool: Pool) -> Pool:
    """Return a pool that runs its tasks before those that are queued in another one, in the same threads."""
    return _NextInLine(pool) if isinstance(pool, ThreadPool) else pool


def _run_tasks(
    tasks: _Tasks,
    urgent: _Urgent,
    ended: deque[threading.Thread],
    around: Callable[[], AbstractContextManager[None]],
) -> None:
    try:
        with around():
            while (task := tasks.get()) is not None:
                while urgent:
                    with suppress(IndexError):  # another thread was faster
                        urgent.popleft()()
                task()
                # An idle thread keeps no task, and so no result, alive.
                task = None
            tasks.put(None)
    finally:
        ended.append(threading.current_thread())


def _drop_tasks(tasks: _Tasks, urgent: _Urgent) -> None:
    # The garbage collector may run this in any thread: it takes no lock but SimpleQueue's, which is made for this.
    urgent.clear()
    with suppress(Empty):
        while True:
            tasks.get_nowait()
    tasks.put(None)


_open_pools = LiveSet[ThreadPool]()


@cache
def _register_close_at_exit() -> None:
    threading._register_atexit(_close_all)  # type: ignore[attr-defined]  # see the module docstring


def _close_all() -> None:
    pools = list(_open_pools)
    for pool in pools:
        pool.abandon()
    until = monotonic() + CLOSE_SECONDS
    for pool in pools:
        if not pool.close(wait_seconds=max(0.0, until - monotonic())):
            _log.warning("the interpreter waits at exit for a call that is still running in %r", pool)
