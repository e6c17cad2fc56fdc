"""Calls in worker processes: each thread of a pool owns one, and waits for it.

One worker process, as seen by the thread that it works for: started, asked, replaced when it dies, reaped.

The kinds of pools, by name.
"""

from __future__ import annotations

import io
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from threading import Thread, current_thread, local
from types import FunctionType
from typing import Any, Generic, NoReturn, TypeVar
from weakref import finalize

from framefeed._checks import check_integer, expected
from framefeed.errors import LoadError, UsageError
from framefeed.parallel import _worker
from framefeed.parallel._forking import renew_after_fork
from framefeed.parallel._outcome import Err, outcome_of, shortened
from framefeed.parallel._pools import CLOSE_SECONDS, InlinePool, Pool, ThreadPool
from framefeed.parallel._worker import (
    FOREIGN,
    FUNCTION,
    ITEM,
    PATH,
    UNSENDABLE,
    UNUSABLE,
    VALUE,
    Buffer,
    Frames,
    Message,
    dumps,
    loads,
)

# Seconds between two looks at whether a worker lives that does not answer. Its channel says so at once; but a process
# that a dead worker started may still hold the channel open.
LIVENESS_SECONDS = 1.0

# Seconds for an idle worker to end by itself, so that what it registered with atexit is done, before it is killed.
ENDING_SECONDS = 2.0

# A worker has one thread. These are the pools that numeric libraries would start when they are imported; where the
# user has set one, that holds.
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

_OUT_OF_MEMORY = ", which the kernel sends when memory runs out"


class ProcessDied(Exception):
    """There is no process to give an answer; the message says which one and how it ended."""


def _command() -> list[str]:
    # The options of this interpreter, as multiprocessing hands them on: -O, -I, -X, -W and what PYTHONWARNINGS says.
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # no public name
    return [sys.executable, *flags, "-P", str(Path(_worker.__file__))]


def _environment() -> dict[str, str]:
    return {**_ONE_THREAD, **os.environ, "FRAMEFEED_THREADS": "1"}


@dataclass(frozen=True, slots=True)
class Start:
    """How the workers of one pool are started: all alike, however late.

    Attributes:
        command: The program and its arguments, without the numbers of the sockets.
        environment: The environment variables.
        path: ``sys.path``.
    """

    command: Sequence[str] = field(default_factory=_command)
    environment: Mapping[str, str] = field(default_factory=_environment)
    path: Sequence[str] = field(default_factory=lambda: list(sys.path))


class Child:
    """A worker process, started when first needed; one thread owns it, others may `stop` it.

    Args:
        start: How to start it.
    """

    def __init__(self, start: Start) -> None:
        self._start_as = start
        self._process: Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._lifeline: socket.socket | None = None
        self._poller = select.poll()
        self._function: bytes | None = None
        self._stopped = self._ended = False
        renew_after_fork(self)

    def ask(self, function: bytes, item: Frames) -> Message:
        """Have the process call a function.

        Args:
            function: Its pickle; sent when it is another than last time.
            item: The pickle of its argument.

        Returns:
            The kind of the answer, and its content.

        Raises:
            ProcessDied: If none can be started, or it dies before it has answered.
        """
        try:
            return self._ask(function, item)
        except (EOFError, ConnectionError):
            raise ProcessDied(self._reap(0 if self._stopped else LIVENESS_SECONDS)) from None

    def stop(self, *, for_good: bool = False) -> None:
        """End the process, also in the middle of a call; the next call has another one.

        For any thread, also in a finaliser: it takes no lock. The owner, who may be waiting for an answer, hears of it
        and does the rest.

        Args:
            for_good: Whether there is to be no next call.
        """
        self._stopped = True
        self._ended |= for_good
        channel = self._channel
        if channel is not None:
            with suppress(OSError):  # closed by the owner meanwhile
                channel.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let an idle process end, and wait for that."""
        self._ended = True
        if self._process is not None:
            self._reap(ENDING_SECONDS)

    def begin_anew(self) -> None:
        """Forget the process without touching it: after a fork it is the parent's."""
        process, self._process = self._process, None
        if process is not None:
            process.returncode = 0  # or it would be waited for, and warned about, by the wrong process
        self._close_sockets()

    def _ask(self, function: bytes, item: Frames) -> Message:
        try:
            self._send(function, item)
        except ConnectionError:
            # It died while it had nothing to do; this item has nothing to do with it.
            self._reap(0)
            self._send(function, item)
        if self._ended:
            self.stop()
        return _worker.receive(self._read)

    def _send(self, function: bytes, item: Frames) -> None:
        if self._process is None or self._process.poll() is not None:
            self._restart()
        if self._function is not function:
            _worker.send(self._write, FUNCTION, [function])
            self._function = function
        _worker.send(self._write, ITEM, item)

    def _restart(self) -> None:
        if self._process is not None:
            self._reap(0)
        self._stopped = False
        with _two_ends() as (self._channel, channel), _two_ends() as (self._lifeline, lifeline):
            passed = (channel.fileno(), lifeline.fileno())
            try:
                self._process = Popen(
                    [*self._start_as.command, *map(str, passed)],
                    env=self._start_as.environment,
                    stdin=DEVNULL,
                    pass_fds=passed,
                )
            except OSError as error:
                self._close_sockets()
                raise ProcessDied(f"cannot start a worker process: {error}") from error
        self._function = None
        self._poller = select.poll()
        self._poller.register(self._channel, select.POLLIN)
        _worker.send(self._write, PATH, _worker.dumps(self._start_as.path))

    def _write(self, data: Buffer) -> int:
        assert self._channel is not None
        return self._channel.send(data, socket.MSG_NOSIGNAL)

    def _read(self, into: memoryview) -> int:
        assert self._channel is not None and self._process is not None
        while not self._poller.poll(LIVENESS_SECONDS * 1000):
            if self._process.poll() is not None:
                return 0
        return self._channel.recv_into(into)

    def _reap(self, patience_seconds: float) -> str:
        """Close the channel, wait for the process, in the end kill it; say how it ended."""
        process, self._process = self._process, None
        assert process is not None
        if self._channel is not None:
            self._channel.close()
        try:
            process.wait(patience_seconds)
        except TimeoutExpired:
            process.kill()
            process.wait()
        self._close_sockets()
        return f"worker process {process.pid} {_how(process.returncode)}"

    def _close_sockets(self) -> None:
        for end in (self._channel, self._lifeline):
            if end is not None:
                end.close()
        self._channel = self._lifeline = None


def _how(status: int) -> str:
    if status >= 0:
        return f"exited with status {status}"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
    return f"was killed by {name}{_OUT_OF_MEMORY if name == 'SIGKILL' else ''}"


@contextmanager
def _two_ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with theirs:
        yield ours, theirs


class Children:
    """The processes of one pool, each owned by one of its threads."""

    def __init__(self) -> None:
        self._start = Start()
        self._of: dict[Thread, Child] = {}
        self._ended = False
        self._owner = os.getpid()

    @contextmanager
    def for_this_thread(self) -> Iterator[None]:
        """Where `child_of_this_thread` is a child of this pool."""
        # Its processes inherit this: Ctrl-C reaches every process of the terminal, and is the parent's business.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        child = Child(self._start)
        _own.child = self._of[current_thread()] = child
        if self._ended:
            child.stop(for_good=True)
        try:
            yield
        finally:
            del self._of[current_thread()], _own.child
            child.close()

    def stop(self, thread: Thread) -> None:
        """End the process of a thread, if it has one; the next call has another."""
        child = self._of.get(thread)
        if child is not None:
            child.stop()

    def end(self) -> None:
        """End all processes without waiting, also in the middle of a call. For any thread, also in a finaliser."""
        self._ended = True
        if os.getpid() == self._owner:
            for child in list(self._of.values()):
                child.stop(for_good=True)


def child_of_this_thread() -> Child:
    """The process that works for the calling thread of a process pool."""
    child: Child = _own.child
    return child


_own = local()


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


KINDS = ("inline", "threads", "processes")


def open_pool(workers: int, kind: str = "threads") -> Pool:
    """Make a pool.

    Args:
        workers: Number of calls that run at once; with 0, calls run inline for every kind.
        kind: "threads", "processes" or "inline".

    Raises:
        UsageError: If there is no such kind, or the number of workers is negative.
    """
    if kind not in KINDS:
        raise expected("kind", f"one of {', '.join(KINDS)}", kind)
    check_integer("workers", workers, least=0)
    if not workers or kind == "inline":
        return InlinePool()
    return ThreadPool(workers) if kind == "threads" else ProcessPool(workers)
