"""Run calls in worker processes: each thread of a pool owns one process, and waits for its answers."""

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

from framefeed._checks import check_choice, check_integer
from framefeed.errors import LoadError, UsageError
from framefeed.parallel import _worker
from framefeed.parallel._forking import renew_after_fork
from framefeed.parallel._outcome import Err, Ok, catch_outcome, shorten_repr
from framefeed.parallel._pools import CLOSE_SECONDS, InlinePool, Pool, ThreadPool
from framefeed.parallel._shared_memory import SharedMemory
from framefeed.parallel._worker import (
    FOREIGN,
    FUNCTION,
    ITEM,
    PATH,
    UNSENDABLE,
    UNUSABLE,
    VALUE,
    Buffer,
    Message,
    Parts,
    dumps,
    loads,
)

# Seconds between two checks that a worker without an answer is alive. Its channel closes when it dies, unless another
# process that the worker started still has it open.
LIVENESS_SECONDS = 1.0

# Seconds for an idle worker to end by itself and run its atexit hooks, before it is killed.
ENDING_SECONDS = 2.0

# A worker has one thread: no thread pools of numeric libraries. Variables that the user has set are kept.
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

_OUT_OF_MEMORY = ", which the kernel sends when memory runs out"


class ProcessDied(Exception):
    """A worker process ended without an answer, or cannot be started; the message has its number and exit status."""


def _make_command() -> list[str]:
    # The options of this interpreter, as multiprocessing passes them: -O, -I, -X, -W and those of PYTHONWARNINGS.
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # no public name
    return [sys.executable, *flags, "-P", str(Path(_worker.__file__))]


@dataclass(frozen=True, slots=True)
class StartOptions:
    """Options that all workers of one pool are started with, taken when the pool is made.

    Attributes:
        command: The program and its arguments, without the numbers of the sockets.
        environment: The environment variables.
        path: ``sys.path``.
        inherited: Descriptors that the workers have too, under the same numbers.
    """

    command: Sequence[str] = field(default_factory=_make_command)
    environment: Mapping[str, str] = field(
        default_factory=lambda: {**_ONE_THREAD, **os.environ, "FRAMEFEED_THREADS": "1"}
    )
    path: Sequence[str] = field(default_factory=lambda: list(sys.path))
    inherited: Sequence[int] = ()


class Child:
    """A worker process, started when first needed; one thread owns it, others may `stop` it.

    Args:
        options: Command, environment and path.
    """

    def __init__(self, options: StartOptions) -> None:
        self._options = options
        self._process: Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._lifeline: socket.socket | None = None
        self._poller = select.poll()
        self._function: bytes | None = None
        self._stopped = self._ended = False
        renew_after_fork(self)

    def ask(self, function: bytes, item: Parts) -> Message:
        """Call a function in the process.

        Args:
            function: Pickle of the function; sent if it is not the same as in the last call.
            item: Pickle of its argument.

        Returns:
            The kind of the answer, and its content.

        Raises:
            ProcessDied: If no process can be started, or it dies before it has answered.
        """
        try:
            return self._ask(function, item)
        except (EOFError, ConnectionError):
            raise ProcessDied(self._reap(0 if self._stopped else LIVENESS_SECONDS)) from None

    def stop(self, *, for_good: bool = False) -> None:
        """End the process, also in the middle of a call; the next call starts another one.

        Can be called by any thread, and in a finaliser: it takes no lock. It closes the channel; the owner's thread,
        which may be waiting for an answer, then waits for the process.

        Args:
            for_good: Whether there is no next call.
        """
        self._stopped = True
        self._ended |= for_good
        channel = self._channel
        if channel is not None:
            with suppress(OSError):  # closed by the owner meanwhile
                channel.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End an idle process, and wait for it."""
        self._ended = True
        if self._process is not None:
            self._reap(ENDING_SECONDS)

    def after_fork(self) -> None:
        """Forget the process, and leave it as it is: after a fork it is the parent's."""
        process, self._process = self._process, None
        if process is not None:
            process.returncode = 0  # or Popen would wait for it, and warn about it, in the wrong process
        self._close_sockets()

    def _ask(self, function: bytes, item: Parts) -> Message:
        try:
            self._send(function, item)
        except ConnectionError:
            # It died while it was idle, so this item is not the reason.
            self._reap(0)
            self._send(function, item)
        if self._ended:
            self.stop()
        return _worker.receive(self._read)

    def _send(self, function: bytes, item: Parts) -> None:
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
        with _opening_pair() as (self._channel, channel), _opening_pair() as (self._lifeline, lifeline):
            passed = (channel.fileno(), lifeline.fileno())
            try:
                self._process = Popen(
                    [*self._options.command, *map(str, passed)],
                    env=self._options.environment,
                    stdin=DEVNULL,
                    pass_fds=(*passed, *self._options.inherited),
                )
            except OSError as error:
                self._close_sockets()
                raise ProcessDied(f"cannot start a worker process: {error}") from error
        self._function = None
        self._poller = select.poll()
        self._poller.register(self._channel, select.POLLIN)
        _worker.send(self._write, PATH, _worker.dumps(self._options.path))

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
        """Close the channel, wait for the process, kill it if it does not end; describe how it ended."""
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
        return f"worker process {process.pid} {_describe_status(process.returncode)}"

    def _close_sockets(self) -> None:
        for end in (self._channel, self._lifeline):
            if end is not None:
                end.close()
        self._channel = self._lifeline = None


def _describe_status(status: int) -> str:
    if status >= 0:
        return f"exited with status {status}"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
    return f"was killed by {name}{_OUT_OF_MEMORY if name == 'SIGKILL' else ''}"


@contextmanager
def _opening_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with theirs:
        yield ours, theirs


class Children:
    """The processes of one pool, each owned by one of its threads.

    Args:
        inherited: Descriptors that the processes inherit.
    """

    def __init__(self, inherited: Sequence[int] = ()) -> None:
        self._options = StartOptions(inherited=inherited)
        self._by_thread: dict[Thread, Child] = {}
        self._ended = False
        self._owner = os.getpid()

    @contextmanager
    def serving_this_thread(self) -> Iterator[None]:
        """Give the calling thread a process of this pool, see `child_of_this_thread`."""
        # Processes inherit the mask: Ctrl-C is sent to every process of the terminal, and only the parent handles it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        child = Child(self._options)
        _thread_local.child = self._by_thread[current_thread()] = child
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


def child_of_this_thread() -> Child:
    """Return the process of the calling thread of a process pool."""
    child: Child = _thread_local.child
    return child


_thread_local = local()


T = TypeVar("T")
R = TypeVar("R")

STAGE = "parallel"

# Seconds for a thread to end after its process was killed.
_KILLED_SECONDS = 5.0


class ProcessPool(ThreadPool):
    """Threads that each own a worker process, started at the thread's first call.

    A worker is a new interpreter with one thread and the options, environment and ``sys.path`` of this process at the
    time the pool was made. It imports the modules of its function, but never the main program: no
    ``if __name__ == "__main__"`` is needed, and objects that are defined there cannot be sent. Tasks run in the
    threads; functions that `RemoteCalls` wraps run in their processes.

    A process that dies is replaced. Unlike a thread, a process can be ended during a call: `abandon` does so at once,
    `close` after its wait, and so do the garbage collector and any end of this process.

    Args:
        workers: Largest number of processes; at least 1.
        name: Threads are called ``framefeed-{name}-{number}``.
        memory: Memory that the processes can write to.
    """

    def __init__(self, workers: int, name: str = "process", memory: SharedMemory | None = None) -> None:
        self._memory = memory  # kept, so that its descriptor stays open
        self._children = Children(() if memory is None else (memory.descriptor,))
        super().__init__(workers, name, around=self._children.serving_this_thread)
        finalize(self, self._children.end).atexit = False

    def stop(self, worker: threading.Thread) -> None:
        """End the process of a thread in the middle of its call; the next call starts another."""
        self._children.stop(worker)

    def abandon(self) -> None:
        """Drop queued tasks and end the processes, also those at a call, without waiting."""
        super().abandon()
        self._children.end()

    def close(self, wait_seconds: float = CLOSE_SECONDS) -> bool:
        """Drop queued tasks, wait for the calls that are running, and end those that take longer.

        Args:
            wait_seconds: Longest wait.

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

    Raises:
        UsageError: If it cannot be sent.
    """

    def __init__(self, function: Callable[[T], R]) -> None:
        sent = catch_outcome(_dump_function, function)
        if isinstance(sent, Err):
            raise UsageError(
                f"{shorten_repr(function)} cannot be sent to a worker process ({_describe_error(sent.error)}): "
                'use a function of an importable module, or kind="threads"'
            ) from sent.error
        self._function = sent.value

    def __call__(self, item: T) -> R:
        """Call the function in the process of this thread.

        Returns:
            A copy of its result.

        Raises:
            UsageError: If the item or the result cannot be sent.
            LoadError: If the function raised an exception that cannot be sent.
            ProcessDied: If the process died before it answered.
        """
        sent = catch_outcome(dumps, item)
        if isinstance(sent, Err):
            raise UsageError(
                f"{shorten_repr(item)} cannot be sent to a worker process ({_describe_error(sent.error)}): "
                'use items that can be pickled, or kind="threads"'
            ) from sent.error
        kind, answer = child_of_this_thread().ask(self._function, sent.value)
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
            raise UsageError(f"{value.__qualname__} is defined in the main program: move it into a module")
        return NotImplemented


def check_sendable(name: str, value: object) -> None:
    """Check that an argument of the user can be sent to a worker process.

    Raises:
        UsageError: It cannot; the message names it.
    """
    sent = catch_outcome(_dump_function, value)
    if isinstance(sent, Err):
        raise UsageError(
            f"{name}: {shorten_repr(value)} cannot be sent to a worker process ({_describe_error(sent.error)}): define "
            'it in a module that can be imported, or use kind="threads"'
        ) from sent.error


def is_sendable(value: object) -> bool:
    """Whether a copy of a value arrives in another process."""
    sent = catch_outcome(dumps, value)
    return isinstance(sent, Ok) and isinstance(catch_outcome(loads, sent.value), Ok)


def _dump_function(function: object) -> bytes:
    buffer = io.BytesIO()
    _FunctionPickler(buffer, protocol=5).dump(function)
    return buffer.getvalue()


KINDS = ("inline", "threads", "processes")


def open_pool(workers: int, kind: str = "threads") -> Pool:
    """Make a pool of a kind.

    Args:
        workers: Number of calls that run at once; with 0, calls run inline for every kind.
        kind: "threads", "processes" or "inline".

    Raises:
        UsageError: If there is no such kind, or the number of workers is negative.
    """
    check_choice("kind", kind, KINDS)
    check_integer("workers", workers, least=0)
    if not workers or kind == "inline":
        return InlinePool()
    return ThreadPool(workers) if kind == "threads" else ProcessPool(workers)
