"""Pools: where calls run. Inline in the caller's thread, or in threads that live as long as their pool.

Threads and the end of the interpreter. Worker threads are not daemons: a daemon would be torn down in the middle of
native code when the interpreter finalises. But the interpreter joins threads that are not daemons *before* it runs
``atexit`` hooks (and so before ``weakref.finalize`` hooks), hence an idle worker that waits for such a hook to wake it
would hold up the exit for ever. ``threading._register_atexit`` is the hook that comes before that join; the standard
library's own ThreadPoolExecutor uses it for the same purpose. It drops what is queued and wakes the idle workers, so
that the exit waits for calls that already run and for nothing else. A call that never returns cannot be stopped from
outside its thread: it does hold up the exit, and the log says which pool it is in.

What is closed at the end of a ``with`` block.
"""

from __future__ import annotations

import logging
import os
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

from framefeed.errors import UsageError, WorkerLost

SOON_SECONDS = 0.5
"""Long enough for work that looks at whether it is cancelled, short enough for one who pressed Ctrl-C."""


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
        """Close, and wait for as little as possible: the user is at the keyboard."""
        self.close()


Task = Callable[[], object]
_Tasks = SimpleQueue[Task | None]

# Seconds that close() waits for calls that are running: long enough for a large item to be decoded, short enough
# not to be taken for a hang.
CLOSE_SECONDS = 10.0

_log = logging.getLogger(__name__)


class Pool(Protocol):
    """Runs tasks."""

    @property
    def workers(self) -> int:
        """How many tasks run at once; 0 means that `submit` itself runs them."""

    def submit(self, task: Task) -> None:
        """Have a task run, soon and once.

        Args:
            task: Takes nothing and must not raise: the error would be lost.

        Raises:
            UsageError: If the pool is closed.
            WorkerLost: If there is no worker and none can be started.
        """

    def stop(self, worker: threading.Thread) -> None:
        """End the call that a thread of the pool is making, where the kind of pool can.

        Args:
            worker: The thread.
        """

    def abandon(self) -> None:
        """Drop the tasks that have not begun, start nothing more, and wait for nothing.

        Safe to call again, from any thread, in a finaliser.
        """

    def close(self, wait_seconds: float = CLOSE_SECONDS) -> bool:
        """Abandon the pool and wait for the tasks that are running.

        Args:
            wait_seconds: How long to wait at most.

        Returns:
            Whether nothing runs any more.
        """


class InlinePool(ClosedByWith):
    """Runs each task in the thread that submits it."""

    workers = 0

    def __init__(self) -> None:
        self._closed = False

    def __repr__(self) -> str:
        return f"InlinePool({'closed' if self._closed else ''})"

    def submit(self, task: Task) -> None:
        """Run a task now.

        Raises:
            UsageError: If the pool is closed.
        """
        if self._closed:
            raise _closed_error(self)
        task()

    def stop(self, worker: threading.Thread) -> None:
        """Do nothing: there is no call but that of the thread that asks."""

    def abandon(self) -> None:
        """Refuse further tasks."""
        self._closed = True

    def close(self, wait_seconds: float = CLOSE_SECONDS) -> bool:
        """Refuse further tasks; nothing runs."""
        self._closed = True
        return True


class ThreadPool(ClosedByWith):
    """Runs tasks in threads, which start when they are first needed and are reused until the pool is closed.

    When the pool is closed, left by ``with`` or garbage-collected, or the interpreter ends, queued tasks are dropped
    and the threads end.

    Args:
        workers: Largest number of threads; at least 1.
        name: Threads are called ``framefeed-{name}-{number}``.
        around: Makes the context in which a thread works from its start to its end; it must not know the pool.
    """

    def __init__(
        self, workers: int, name: str = "worker", around: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
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
        self._growing = threading.Lock()
        # Threads know the queue, never the pool: an abandoned pool is garbage although its threads are waiting.
        weakref.finalize(self, _dismiss, self._tasks).atexit = False
        _close_before_threads_are_joined()
        _open_pools.add(self)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(workers={self._workers}, name={self._name!r}{', closed' if self._closed else ''})"
        )

    @property
    def workers(self) -> int:
        """Most threads."""
        return self._workers

    def submit(self, task: Task) -> None:
        """Queue a task for the next free thread.

        Args:
            task: Takes nothing and must not raise: its thread would end, and be replaced at the next `submit`.

        Raises:
            UsageError: If the pool is closed, was made before a fork, or is asked by one of its own threads, which
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
            self._grow()
        self._tasks.put(task)

    def stop(self, worker: threading.Thread) -> None:
        """Do nothing: a call in a thread cannot be ended from outside."""

    def abandon(self) -> None:
        """Drop queued tasks and let the threads end, without waiting."""
        self._drop()

    def close(self, wait_seconds: float = CLOSE_SECONDS) -> bool:
        """Drop queued tasks and wait for the threads to end.

        Args:
            wait_seconds: How long to wait for running tasks at most; a thread that closes its own pool does not
                wait for itself.

        Returns:
            Whether all other threads have ended.
        """
        self._drop()
        until = monotonic() + wait_seconds
        others = [thread for thread in self._threads if thread is not threading.current_thread()]
        for thread in others:
            thread.join(max(0.0, until - monotonic()))
        return not any(thread.is_alive() for thread in others)

    def _drop(self) -> None:
        self._closed = True
        _dismiss(self._tasks)

    def _grow(self) -> None:
        with self._growing:
            while self._ended:
                self._threads.remove(self._ended.popleft())
            if len(self._threads) == self._workers:
                return
            name = f"framefeed-{self._name}-{next(self._numbers)}"
            arguments = self._tasks, self._ended, self._around
            thread = threading.Thread(target=_serve, args=arguments, name=name, daemon=False)
            try:
                thread.start()
            except RuntimeError as error:
                # The system's limit on threads: fewer workers do the same work, none do not.
                if not self._threads:
                    raise WorkerLost(
                        f"{self!r} has no thread and cannot start one: {error}: the limit on memory or on threads "
                        "(ulimit -v, ulimit -u) is reached: raise it, or use workers=0, which needs no threads"
                    ) from error
            else:
                self._threads.append(thread)


def _closed_error(pool: Pool) -> UsageError:
    return UsageError(f"{pool!r} is closed and takes no more work: make a new pool")


def _serve(tasks: _Tasks, ended: deque[threading.Thread], around: Callable[[], AbstractContextManager[None]]) -> None:
    try:
        with around():
            while _run_next(tasks):
                pass
    finally:
        ended.append(threading.current_thread())


def _run_next(tasks: _Tasks) -> bool:
    # A function of its own, so that an idle thread keeps no task, and with it no result, alive.
    task = tasks.get()
    if task is None:
        tasks.put(None)
        return False
    task()
    return True


def _dismiss(tasks: _Tasks) -> None:
    # Runs wherever the garbage collector happens to be: no lock here but SimpleQueue's, which is made for that.
    with suppress(Empty):
        while True:
            tasks.get_nowait()
    tasks.put(None)


_open_pools: weakref.WeakSet[ThreadPool] = weakref.WeakSet()


@cache
def _close_before_threads_are_joined() -> None:
    threading._register_atexit(_close_all)  # type: ignore[attr-defined]  # the module docstring says why this one


def _close_all() -> None:
    pools = list(_open_pools)
    for pool in pools:
        pool.abandon()
    until = monotonic() + CLOSE_SECONDS
    for pool in pools:
        if not pool.close(wait_seconds=max(0.0, until - monotonic())):
            _log.warning("the interpreter waits at exit for a call that is still running in %r", pool)
