"""One worker process: start it, ask it, notice that it is dead, stopped or late, and end it."""

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
from math import inf
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from time import perf_counter

from framefeed._per_process import PerProcess
from framefeed._shortage import find_shortage, try_again_in_shortage
from framefeed._stopping import StopDetector, check_stop
from framefeed.parallel import _worker
from framefeed.parallel._shared_memory import SharedMemory
from framefeed.parallel._worker import FUNCTION, ITEM, PATH, Buffer, Message, Parts

# Seconds between two checks that a worker without an answer is alive, and not stopped. Its channel closes when it dies,
# unless another process that the worker started still has it open.
LIVENESS_SECONDS = 1.0

# Seconds for an idle worker to end by itself and run its atexit hooks, before it is killed.
ENDING_SECONDS = 2.0

# Seconds for a process to start and to import the modules of its function, which do not count for any item's deadline:
# large libraries on a cold network file system take a minute or more.
START_UP_SECONDS = 300.0

# Seconds for the kernel to end a process that was killed. One that waits in the kernel, as for a file server that does
# not answer, ends when that wait ends.
_KILL_SECONDS = 1.0

# A worker has one thread: no thread pools of numeric libraries. Variables that the user has set are kept.
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OPENCV_FOR_THREADS_NUM"), "1"
)

_OUT_OF_MEMORY = ", which the kernel sends when memory runs out"

STAGE = "parallel"


class ProcessDied(Exception):
    """A worker process ended without an answer, or cannot be started; the message has its number and exit status."""


class ProcessHung(ProcessDied):
    """A worker process was killed, because it was stopped by a signal, or did not answer within the deadline."""


class CallLate(ProcessHung):
    """The call itself took longer than its deadline: a second try would take as long."""


class ProcessEnded(ProcessDied):
    """A worker process was ended by `Child.stop`, as when its pool was abandoned: no call of a function is at fault."""


class _NotStarted(ProcessDied):
    """No process can be started."""


@dataclass(slots=True)
class _Step:
    """What a process does now, and the time that it may take for it."""

    state: str
    fault: type[ProcessDied]
    limit_seconds: float
    spent_seconds: float = 0.0

    @property
    def left_seconds(self) -> float:
        return self.limit_seconds - self.spent_seconds


def _make_command() -> list[str]:
    # The options of this interpreter, as multiprocessing passes them: -O, -I, -X, -W and those of PYTHONWARNINGS.
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # no public name
    return [sys.executable, *flags, "-P", str(Path(_worker.__file__))]


@dataclass(frozen=True, slots=True)
class StartOptions:
    """Options that all workers of one pool are started with, taken when the pool is made.

    The workers have the descriptor of ``memory`` too, under the same number.
    """

    command: Sequence[str] = field(default_factory=_make_command)
    environment: Mapping[str, str] = field(
        default_factory=lambda: {**_ONE_THREAD, **os.environ, "FRAMEFEED_THREADS": "1"}
    )
    path: Sequence[str] = field(default_factory=lambda: list(sys.path))
    memory: SharedMemory | None = None


@dataclass(slots=True)
class _Running:
    """A worker process, and our ends of its sockets; None where there is none."""

    process: Popen[bytes] | None = None
    channel: socket.socket | None = None
    lifeline: socket.socket | None = None

    def leave_to_parent(self) -> _Running:
        """Forget the process in a forked child, and leave it as it is."""
        if self.process is not None:
            self.process.returncode = 0  # or Popen would wait for it, and warn about it, in the wrong process
        self.close_sockets()
        return _Running()

    def close_sockets(self) -> None:
        """Close our ends."""
        for end in (self.channel, self.lifeline):
            if end is not None:
                end.close()
        self.channel = self.lifeline = None


class Child:
    """A worker process, started when first needed; one thread owns it, others may `stop` it.

    ``num_lost`` processes died, or were killed because they did not answer. ``start_seconds`` passed until processes
    were ready for their first call, the imports of its function included.
    """

    def __init__(self, options: StartOptions) -> None:
        self.num_lost = 0
        self.start_seconds = 0.0
        self._options = options
        self._running = PerProcess(_Running, _Running.leave_to_parent)
        self._poller = select.poll()
        self._function: bytes | None = None
        self._stopped = self._ended = False
        self._step = _Step("was not ready", ProcessDied, START_UP_SECONDS)

    def ask(self, function: bytes, item: Parts, deadline_seconds: float | None = None) -> Message:
        """Call a function in the process; if that dies or is stopped by a signal, once more in a new one.

        Function and item are pickles. The deadline counts from the start of the call in a process that is ready for it.

        Raises:
            ProcessHung: If the call takes longer, or its process is stopped twice.
            ProcessEnded: If `stop` ended it.
            ProcessDied: If no process can be started, or two die before they have answered.
            ResourceExhausted: If there is not enough memory, or no descriptor for a channel.
        """
        self._stopped = self._ended
        try:
            return self._attempt(function, item, deadline_seconds)
        except (CallLate, _NotStarted):
            raise
        except ProcessDied as death:
            if self._stopped:
                raise
            first = str(death)
        check_stop()
        try:
            return self._attempt(function, item, deadline_seconds)
        except ProcessDied as death:
            raise type(death)(f"{first}, and at the second try {death}") from None

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self._running.value.process is not None and self._running.value.process.poll() is None

    def stop(self, *, for_good: bool = False) -> None:
        """End the process, also in the middle of a call; the next call starts another one.

        Can be called by any thread, and in a finaliser: it takes no lock. It closes the channel; the owner's thread,
        which may be waiting for an answer, then waits for the process. With ``for_good`` there is no next call.
        """
        self._stopped = True
        self._ended |= for_good
        channel = self._running.value.channel
        if channel is not None:
            with suppress(OSError):  # closed by the owner meanwhile
                channel.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End an idle process, and wait for it."""
        self._ended = True
        if self._running.value.process is not None:
            self._reap(ENDING_SECONDS)

    def _attempt(self, function: bytes, item: Parts, deadline_seconds: float | None) -> Message:
        is_in_step = False
        try:
            try:
                self._send(function, item, deadline_seconds)
            except ConnectionError:
                if self._stopped or self._ended:
                    raise
                # It died while it was idle, so this item is not the reason.
                self._reap(0)
                self._send(function, item, deadline_seconds)
            answer = _worker.receive(self._read)
            is_in_step = True
            return answer
        except (EOFError, ConnectionError):
            if self._stopped:
                raise ProcessEnded(self._reap(0)) from None
            raise ProcessDied(self._reap(LIVENESS_SECONDS)) from None
        finally:
            # Without memory for a message, for one: the next answer would begin in the middle of this one.
            if not is_in_step and self._running.value.process is not None:
                self._reap(0)

    def _send(self, function: bytes, item: Parts, deadline_seconds: float | None) -> None:
        self._step = _Step("was not ready", ProcessDied, START_UP_SECONDS)
        is_new, began = (
            self._running.value.process is None or self._running.value.process.poll() is not None,
            perf_counter(),
        )
        if is_new:
            self._restart()
        if self._function is not function:
            _worker.send(self._write, FUNCTION, [function])
            _worker.receive(self._read)
            self._function = function
        if is_new:
            self.start_seconds += perf_counter() - began
        limit_seconds = inf if deadline_seconds is None else deadline_seconds
        self._step = _Step("was still working on it", CallLate, limit_seconds)
        _worker.send(self._write, ITEM, item)

    def _restart(self) -> None:
        if self._running.value.process is not None:
            self._reap(0)
        try_again_in_shortage(self._start, "a worker process", STAGE)
        assert self._running.value.channel is not None
        self._function = None
        self._poller = select.poll()
        self._poller.register(self._running.value.channel)
        if self._stopped or self._ended:
            self.stop()
        _worker.send(self._write, PATH, _worker.dumps(self._options.path))

    def _start(self) -> None:
        try:
            with (
                _opening_pair() as (self._running.value.channel, channel),
                _opening_pair() as (self._running.value.lifeline, lifeline),
            ):
                passed = (channel.fileno(), lifeline.fileno())
                memory = self._options.memory
                self._running.value.process = Popen(
                    [*self._options.command, *map(str, passed)],
                    env=self._options.environment,
                    stdin=DEVNULL,
                    pass_fds=passed if memory is None else (*passed, memory.descriptor),
                )
        except OSError as error:
            self._running.value.close_sockets()
            if find_shortage(error) is not None:
                raise
            raise _NotStarted(f"cannot start a worker process: {error}") from error

    def _write(self, data: Buffer) -> int:
        assert self._running.value.channel is not None
        while True:
            with suppress(BlockingIOError):
                return self._running.value.channel.send(data, socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
            self._wait(select.POLLOUT)

    def _read(self, into: memoryview) -> int:
        assert self._running.value.channel is not None
        self._wait(select.POLLIN)
        return self._running.value.channel.recv_into(into)

    def _wait(self, event: int) -> None:
        """Wait until the channel can be read or written.

        Raises:
            EOFError: If the process is dead.
            ProcessHung: If it is stopped by a signal, or its time is over.
        """
        assert self._running.value.channel is not None and self._running.value.process is not None
        self._poller.modify(self._running.value.channel, event)
        process, step = self._running.value.process, self._step
        stops, is_suspected = StopDetector(), False
        while True:
            seconds = min(LIVENESS_SECONDS, step.left_seconds)
            began = perf_counter()
            if self._poller.poll(seconds * 1000):
                return
            if not stops.was_stopped(began, seconds):
                step.spent_seconds += seconds
            if process.poll() is not None:
                raise EOFError
            is_late = step.left_seconds <= 0
            is_stopped = _is_stopped(process.pid)
            # Once is not enough: when all processes go on after Ctrl-Z, this one may be the first.
            if is_stopped and (is_suspected or is_late):
                self._reap(0)
                raise ProcessHung(f"worker process {process.pid} was stopped by a signal and then killed")
            if is_late:
                self._reap(0)
                raise step.fault(
                    f"worker process {process.pid} {step.state} after {float(step.limit_seconds):g} s and was killed"
                )
            is_suspected = is_stopped

    def _reap(self, patience_seconds: float) -> str:
        """Close the channel, wait for the process, kill it if it does not end; describe how it ended."""
        process, self._running.value.process = self._running.value.process, None
        assert process is not None
        is_expected = self._stopped or self._ended
        self.num_lost += not is_expected
        if self._running.value.channel is not None:
            self._running.value.channel.close()
        is_killed_here = False
        try:
            process.wait(patience_seconds)
        except TimeoutExpired:
            process.kill()
            is_killed_here = True
            with suppress(TimeoutExpired):
                process.wait(_KILL_SECONDS)
        self._running.value.close_sockets()
        end = _describe_status(process.returncode)
        if is_killed_here and process.returncode == -signal.SIGKILL:
            # Not for lack of memory.
            end = "was ended, because its pool no longer works" if is_expected else "closed its channel and was killed"
        return f"worker process {process.pid} {end}"


def _describe_status(status: int | None) -> str:
    if status is None:
        return "cannot be killed while it waits in the kernel"
    if status >= 0:
        return f"exited with status {status}"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
    return f"was killed by {name}{_OUT_OF_MEMORY if name == 'SIGKILL' else ''}"


def _is_stopped(process: int) -> bool:
    """Whether a signal stops a process, so far as the system tells; a debugger's stop is another state."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] == "T"


@contextmanager
def _opening_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with theirs:
        yield ours, theirs
