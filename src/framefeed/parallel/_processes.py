"""Run calls in worker processes: each thread of a pool owns one process, and waits for its answers."""

from __future__ import annotations

import io
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread, current_thread, local
from types import FunctionType
from typing import Any, Generic, NoReturn, TypeVar
from weakref import finalize

from framefeed._checks import check_choice, check_integer
from framefeed._outcome import Err, Ok, catch_error, catch_outcome, shorten_repr
from framefeed.errors import LoadError, UsageError
from framefeed.parallel._child import ENDING_SECONDS, STAGE, Child, StartOptions
from framefeed.parallel._pools import CLOSE_SECONDS, InlinePool, Pool, ThreadPool
from framefeed.parallel._shared_memory import SharedMemory
from framefeed.parallel._worker import FOREIGN, UNSENDABLE, UNUSABLE, VALUE, dumps, loads


@dataclass(frozen=True, slots=True)
class ProcessCounts:
    """What happened to the processes of a pool, as a `Child` counts it. Those that were lost were replaced."""

    num_lost: int = 0
    start_seconds: float = 0.0

    def __add__(self, other: ProcessCounts) -> ProcessCounts:
        return ProcessCounts(self.num_lost + other.num_lost, self.start_seconds + other.start_seconds)


class Children:
    """The processes of one pool, each owned by one of its threads."""

    def __init__(self, memory: SharedMemory | None = None) -> None:
        self._options = StartOptions(memory=memory)
        self._by_thread: dict[Thread, Child] = {}
        self._all: list[Child] = []
        self._ended = False
        self._owner = os.getpid()

    @contextmanager
    def serving_this_thread(self) -> Iterator[None]:
        """Give the calling thread a process of this pool, see `child_of_this_thread`."""
        # Processes inherit the mask: Ctrl-C is sent to every process of the terminal, and only the parent handles it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        child = Child(self._options)
        _thread_local.child = self._by_thread[current_thread()] = child
        self._all.append(child)
        if self._ended:
            child.stop(for_good=True)
        try:
            yield
        finally:
            del self._by_thread[current_thread()], _thread_local.child
            child.close()

    def stop(self, thread: Thread) -> None:
        """End the process of a thread, if it has one; the next call starts another."""
        child = self._by_thread.get(thread)
        if child is not None:
            child.stop()

    def end(self) -> None:
        """End all processes without waiting, also in the middle of a call; in any thread, also in a finaliser."""
        self._ended = True
        if os.getpid() == self._owner:
            for child in list(self._by_thread.values()):
                child.stop(for_good=True)

    def count(self) -> ProcessCounts:
        """Count processes that were lost, and sum up the time for starting them; in any thread."""
        return ProcessCounts(
            sum(child.num_lost for child in self._all), sum(child.start_seconds for child in self._all)
        )


def child_of_this_thread() -> Child:
    """Return the process of the calling thread of a process pool."""
    child: Child = _thread_local.child
    return child


_thread_local = local()


T = TypeVar("T")
R = TypeVar("R")

# Seconds for a thread to end after its process was killed.
_KILLED_SECONDS = 5.0


class ProcessPool(ThreadPool):
    """Threads that each own a worker process, started at the thread's first call.

    A worker is a new interpreter with one thread and the options, environment and ``sys.path`` of this process at the
    time the pool was made. It imports the modules of its function, but never the main program: no
    ``if __name__ == "__main__"`` is needed, and objects that are defined there cannot be sent. Tasks run in the
    threads; functions that `RemoteCalls` wraps run in their processes.

    A process that dies, or that a signal stops, is replaced, and its call is tried once more. Unlike a thread, a
    process can be ended during a call: its deadline and `abandon` do so at once, `close` after its wait, and so do the
    garbage collector and any end of this process.

    Args:
        workers: Largest number of processes; at least 1.
        name: Threads are called ``framefeed-{name}-{number}``.
        memory: Memory that the processes can write to.
    """

    def __init__(self, workers: int, name: str = "process", memory: SharedMemory | None = None) -> None:
        self._children = Children(memory)
        super().__init__(workers, name, around=self._children.serving_this_thread)
        finalize(self, self._children.end).atexit = False

    @property
    def counts(self) -> ProcessCounts:
        """Counts of the processes that this pool has had."""
        return self._children.count()

    def stop(self, worker: threading.Thread) -> None:
        """End the process of a thread in the middle of its call; the next call starts another."""
        self._children.stop(worker)

    def abandon(self) -> None:
        """Drop queued tasks and end the processes, also those at a call, without waiting."""
        super().abandon()
        self._children.end()

    def close(self, wait_seconds: float = CLOSE_SECONDS) -> bool:
        """Drop queued tasks, wait for the calls that are running, and end those that take longer.

        Returns:
            Whether all other threads, and with them all processes, have ended.
        """
        if super().close(wait_seconds):
            return True
        self._children.end()
        return super().close(ENDING_SECONDS + _KILLED_SECONDS)

    def _close_soon(self) -> None:
        self.abandon()
        self.close()


class RemoteCaller:
    """A function that runs in the threads of a `ProcessPool`, because it makes calls in their processes itself."""

    __slots__ = ()


class RemoteCalls(RemoteCaller, Generic[T, R]):
    """Calls a function in the processes of the threads of a `ProcessPool`.

    Args:
        function: A callable that can be pickled and is not defined in the main program. It is pickled at once, sent
            once to each process, and keeps its state there between calls.
        deadline_seconds: Longest time for one call, from its start in a process that is ready for it.
    """

    def __init__(self, function: Callable[[T], R], deadline_seconds: float | None = None) -> None:
        self._deadline_seconds = deadline_seconds
        self._function = _send_argument(function)

    def __call__(self, item: T) -> R:
        """Call the function in the process of this thread.

        Raises:
            UsageError: If the item or the result cannot be sent.
            LoadError: If the function raised an exception that cannot be sent.
            ProcessHung: If the call took longer than its deadline, or its process was stopped twice.
            ProcessEnded: If the pool ended the process.
            ProcessDied: If the process, and then another one, died before it answered.
        """
        sent = catch_outcome(dumps, item)
        if isinstance(sent, Err):
            raise UsageError(
                f"{shorten_repr(item)} cannot be sent to a worker process ({_describe_error(sent.error)}): "
                'use items that can be pickled, or kind="threads"'
            ) from sent.error
        kind, answer = child_of_this_thread().ask(self._function, sent.value, self._deadline_seconds)
        received = catch_outcome(loads, answer)
        if isinstance(received, Err):
            message = f"the result of a worker process cannot be unpickled ({_describe_error(received.error)})"
            raise LoadError(message, stage=STAGE) from received.error
        if kind != VALUE:
            _raise_remote(kind, *received.value)
        value: R = received.value
        return value


_FAILURES = {
    FOREIGN: "{}",
    UNUSABLE: (
        "a worker process cannot unpickle the function or its argument ({}): define its functions and classes in a "
        "module that the worker can import, not in the main program"
    ),
    UNSENDABLE: 'the result cannot be sent from the worker process ({}): return something else, or use kind="threads"',
}


def _raise_remote(kind: bytes, error: Any, remote_traceback: str) -> NoReturn:
    if kind in _FAILURES:
        fault = LoadError if kind == FOREIGN else UsageError
        error = fault(_FAILURES[kind].format(error), stage=STAGE)
    if isinstance(error, LoadError) and error.remote_traceback is None:
        error.remote_traceback = remote_traceback
    error.add_note(f"In the worker process:\n{remote_traceback}")
    try:
        raise error
    finally:
        # The traceback refers to this frame, which must not refer to the error.
        del error


def _describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


class _FunctionPickler(pickle.Pickler):
    def reducer_override(self, value: object) -> Any:
        if isinstance(value, type | FunctionType) and value.__module__ == "__main__":
            # Pickled by name, it would be imported from the worker's own main program.
            raise pickle.PicklingError(f"{value.__qualname__} is defined in the main program")
        return NotImplemented


def check_sendable(name: str, value: object) -> None:
    """Check that an argument of the user can be sent to a worker process."""
    _send_argument(value, f"{name}: ")


def is_sendable(value: object) -> bool:
    """Whether a copy of a value arrives in another process."""
    sent = catch_error(dumps, value)
    return isinstance(sent, Ok) and isinstance(catch_error(loads, sent.value), Ok)


def _send_argument(value: object, prefix: str = "") -> bytes:
    buffer = io.BytesIO()
    sent = catch_error(_FunctionPickler(buffer, protocol=5).dump, value)
    if isinstance(sent, Err):
        raise UsageError(
            f"{prefix}{shorten_repr(value)} cannot be sent to a worker process ({_describe_error(sent.error)}): define "
            'it in a module that can be imported, or use kind="threads"'
        ) from sent.error
    return buffer.getvalue()


KINDS = ("inline", "threads", "processes")


def open_pool(workers: int, kind: str = "threads") -> Pool:
    """Make a pool of a kind. With 0 workers, calls run inline for every kind."""
    check_choice("kind", kind, KINDS)
    check_integer("workers", workers, least=0)
    if not workers or kind == "inline":
        return InlinePool()
    return ThreadPool(workers) if kind == "threads" else ProcessPool(workers)
