"""One worker process, as seen by the thread that it works for: started, asked, replaced when it dies, reaped."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from threading import Thread, current_thread, local

from framefeed.parallel import _worker
from framefeed.parallel._worker import FUNCTION, ITEM, PATH, Buffer, Frames, Message
from framefeed.parallel.forking import renew_after_fork

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
