"""Functions that worker processes import by name. They import little, so that workers start fast."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any, NamedTuple


def same(item: Any) -> Any:
    return item


def tenfold(item: int) -> int:
    return item * 10


def process(item: object) -> int:
    return os.getpid()


def divide_six(item: int) -> float:
    return 6 / item


class Raise:
    """Raises at some items, and returns the others."""

    def __init__(self, error: BaseException, *items: object) -> None:
        self._error = error
        self._items = items

    def __call__(self, item: Any) -> Any:
        if item in self._items:
            raise self._error
        return item


class NeedsKeyword(Exception):
    """Can be pickled, and cannot be rebuilt."""

    def __init__(self, *, frame: int) -> None:
        super().__init__(f"frame {frame} is odd")


class HoldsLambda(Exception):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("held")
        self.held = lambda: None


def raise_by_name(name: str) -> str:
    if name == "keyword":
        raise NeedsKeyword(frame=3)
    if name == "lambda":
        raise HoldsLambda
    if name == "stop":
        next(iter(()))
    if name == "interrupt":
        raise KeyboardInterrupt
    return name


def unsendable_if_odd(item: int) -> Any:
    return (lambda: item) if item % 2 else item


class BreaksInTheWorker:
    """Can be pickled, and cannot be rebuilt."""

    def __reduce__(self) -> Any:
        return divide_six, (0,)


def die(how: str) -> str:
    if how == "exit":
        os._exit(3)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "segmentation fault":
        ctypes.string_at(0)
    return how


def hang(how: str) -> str:
    """Hang in native code that holds the interpreter's lock, or be stopped."""
    if how == "native":
        ctypes.PyDLL(None).pause()
    if how == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    return how


def write_and_hang(path: str) -> str:
    """Add the number of this process to a file, then do what its name says; see ``hang``."""
    with Path(path).open("a") as file:
        file.write(f"{os.getpid()} ")
    return hang(Path(path).name)


def end_by_signals(item: tuple[str, list[str]]) -> str:
    """Add a line to a file; at the first tries, send a signal to this process: one signal for each try."""
    path, signals = item
    with Path(path).open("a") as file:
        file.write("try\n")
    tries = len(Path(path).read_text().split())
    if tries <= len(signals):
        os.kill(os.getpid(), signal.Signals[f"SIG{signals[tries - 1]}"])
    return path


def close_the_channel(folder: str) -> None:
    """Close the channel after the second answer, and live on: as seen from the parent, the idle worker dies."""
    worker = sys.modules["__main__"]
    send = worker.send

    def send_and_close(*message: Any) -> None:
        send(*message)
        os.close(int(sys.argv[1]))
        (Path(folder) / "closed").touch()
        signal.pause()

    worker.send = send_and_close  # type: ignore[attr-defined]  # that of the worker's program


class Fate(NamedTuple):
    """An item of ``suffer``: its file, the signals that its tries send, the length of its work and of its result."""

    path: str
    signals: tuple[str, ...]
    spins: int
    size: int


def make_content(name: str, size: int) -> bytes:
    return (name.encode() * (size // len(name) + 1))[:size]


def suffer(item: Fate) -> tuple[str, bytes]:
    """Add this process to a file, work, and send it the signal of this try, or hang; see `chaos`."""
    path = Path(item.path)
    with path.open("a") as file:
        file.write(f"{os.getpid()}\n")
    tries = len(path.read_text().split())
    sum(range(item.spins))
    if item.signals == ("HANG",):
        hang("native")
    elif tries <= len(item.signals):
        os.kill(os.getpid(), signal.Signals[f"SIG{item.signals[tries - 1]}"])
    return path.name, make_content(path.name, item.size)


class SlowToLoad:
    """Waits, when it is unpickled, for "gate" to be opened for writing."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        (Path(self._folder) / "gate").read_bytes()

    def __call__(self, item: Any) -> Any:
        return item


def hang_and_tell(folder: str | None) -> None:
    """Write a file named after this process, then hang; where there is no folder, do nothing."""
    if folder is None:
        return
    (Path(folder) / str(os.getpid())).touch()
    hang("native")


def close_descriptors_and_hang(_: object) -> None:
    """Close all that was inherited, the channel to the parent included, and hang."""
    os.closerange(3, 256)
    hang("native")


def wait_and_tell(folder: str) -> None:
    """Say that it has begun, wait for "release" to be written, say that it is over."""
    (Path(folder) / "begun").touch()
    (Path(folder) / "release").read_bytes()
    (Path(folder) / "over").touch()


def leave_a_process_behind(folder: str) -> None:
    """Die while a process lives on that has inherited everything."""
    left = os.fork()
    if left == 0:
        signal.pause()
    (Path(folder) / f"left {left}").touch()
    os._exit(1)


def make_bytes(count: int) -> bytes:
    return bytes(count)


def shared_memory(_: object) -> list[str]:
    """What this process holds in /dev/shm, under a name or none."""
    held = Path("/proc/self/maps").read_text().splitlines()
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one that lists them
            held.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [name for name in held if "/dev/shm" in name or "memfd:" in name]


def surroundings(_: object) -> dict[str, Any]:
    return {
        "path": sys.path,
        "warnings": sys.warnoptions,
        "optimize": sys.flags.optimize,
        "threads": {name: value for name, value in os.environ.items() if "_THREADS" in name},
        "descriptors": len(os.listdir("/proc/self/fd")) - 1,  # less the one that lists them
        "input": Path("/proc/self/fd/0").readlink().as_posix(),
        "main": getattr(sys.modules["__main__"], "__file__", None),
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    }


class Counter:
    """Knows how often it was called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, item: object) -> int:
        self.calls += 1
        return self.calls


class Forward:
    """Has another process, that listens at an address, make the call."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __call__(self, item: Any) -> Any:
        with Client(self._address, "AF_UNIX") as line:
            line.send(item)
            value, error = line.recv()
        if error is not None:
            raise error
        return value


def nested(number: int) -> list[int]:
    from framefeed.parallel._ordered_map import ordered_map

    return list(ordered_map(tenfold, range(number), workers=1, kind="processes", max_in_flight=2))


def measure(_: object) -> tuple[int, int]:
    """Return the descriptors of this process, and its resident bytes."""
    resident = int(Path("/proc/self/statm").read_text().split()[1])
    return len(os.listdir("/proc/self/fd")), resident * os.sysconf("SC_PAGESIZE")
