"""Calls in worker processes: each thread of a pool owns one, and waits for it."""

from __future__ import annotations

import io
import pickle
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, Generic, NoReturn, TypeVar
from weakref import finalize

from framefeed.errors import LoadError, UsageError
from framefeed.parallel._child import ENDING_SECONDS, Children, child_of_this_thread
from framefeed.parallel._worker import FOREIGN, UNSENDABLE, UNUSABLE, VALUE, dumps, loads
from framefeed.parallel.outcome import Err, outcome_of, shortened
from framefeed.parallel.pools import CLOSE_SECONDS, ThreadPool

T = TypeVar("T")
R = TypeVar("R")

STAGE = "parallel"

# Seconds for a thread to end once the process that it waited for has been killed.
_KILLED_SECONDS = 5.0


class ProcessPool(ThreadPool):
    """Threads that each own a worker process, started with the first call that the thread makes in it.

    A worker is a fresh interpreter with one thread and the options, environment and ``sys.path`` that this one had when
    the pool was made. It imports what its function needs, and never the main program: no ``if __name__ == "__main__"``
    is needed, and nothing that is defined there can be sent. Tasks run in the threads; what `RemoteCalls` wraps runs
    in their processes.

    A process that dies is replaced. Unlike a thread, one that is at a call can be ended: `abandon` does so at once,
    `close` after the time it is to wait, and so do the garbage collector and the end of this process, however it comes.

    Args:
        workers: Most processes; at least 1.
        name: Threads are called ``framefeed-{name}-{number}``.
    """

    def __init__(self, workers: int, name: str = "process") -> None:
        self._children = Children()
        super().__init__(workers, name, around=self._children.for_this_thread)
        finalize(self, self._children.end).atexit = False

    def stop(self, worker: threading.Thread) -> None:
        """End the process of a thread in the middle of its call; the next call has another."""
        self._children.stop(worker)

    def abandon(self) -> None:
        """Drop queued tasks and end the processes, also those at a call, without waiting."""
        super().abandon()
        self._children.end()

    def close(self, wait_seconds: float = CLOSE_SECONDS) -> bool:
        """Drop queued tasks, wait for the calls that are running, and end those that take longer.

        Args:
            wait_seconds: How long to wait at most.

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


class RemoteCalls(Generic[T, R]):
    """A function as the threads of a `ProcessPool` call it: in their processes.

    Args:
        function: Whatever can be pickled and is not defined in the main program; it is pickled here and now, sent once
            to each process, and keeps its state from call to call there.

    Raises:
        UsageError: If it cannot be sent.
    """

    def __init__(self, function: Callable[[T], R]) -> None:
        sent = outcome_of(_function_dumps, function)
        if isinstance(sent, Err):
            raise UsageError(
                f"{shortened(function)} cannot be sent to a worker process ({_named(sent.error)}): "
                'use a function of an importable module, or kind="threads"'
            ) from sent.error
        self._function = sent.value

    def __call__(self, item: T) -> R:
        """Call the function in the process of this thread.

        Returns:
            A copy of what it returned.

        Raises:
            UsageError: If the item or the result cannot be sent.
            LoadError: If the function raised what cannot be sent.
            ProcessDied: If the process died before it answered.
        """
        sent = outcome_of(dumps, item)
        if isinstance(sent, Err):
            raise UsageError(
                f"{shortened(item)} cannot be sent to a worker process ({_named(sent.error)}): "
                'use items that can be pickled, or kind="threads"'
            ) from sent.error
        kind, answer = child_of_this_thread().ask(self._function, sent.value)
        received = outcome_of(loads, answer)
        if isinstance(received, Err):
            message = f"the result of a worker process cannot be unpickled ({_named(received.error)})"
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
        # The traceback reaches this frame, and would so reach itself.
        del error


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


class _FunctionPickler(pickle.Pickler):
    def reducer_override(self, value: object) -> Any:
        if isinstance(value, type | FunctionType) and value.__module__ == "__main__":
            # Saved by name, it would be looked for in the worker's own main program.
            raise UsageError(f"{value.__qualname__} is defined in the main program: move it into a module")
        return NotImplemented


def _function_dumps(function: Callable[..., Any]) -> bytes:
    buffer = io.BytesIO()
    _FunctionPickler(buffer, protocol=5).dump(function)
    return buffer.getvalue()
