"""Recognise shortages of memory, descriptors or threads; release idle resources and try once more."""

from __future__ import annotations

import errno
import gc
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Protocol, TypeVar

from framefeed._live_set import LiveSet
from framefeed._units import format_bytes
from framefeed.errors import FramefeedError, MissingDependency, ResourceExhausted, UsageError

R = TypeVar("R")

_RESOURCES = {
    errno.ENOMEM: "memory",
    errno.EMFILE: "file descriptors of this process",
    errno.ENFILE: "file descriptors of the system",
    errno.EAGAIN: "threads, processes or buffers",
}
_ADVICE = {
    "memory": "give the process more memory, or use fewer workers",
    "file descriptors of this process": "raise the limit (ulimit -n), or use fewer workers",
    "file descriptors of the system": "close other programs, or raise fs.file-max",
    "threads, processes or buffers": "raise the limit (ulimit -u), or use fewer workers",
}


MAY_BE_SHORTAGES = (MemoryError, OSError, SystemError, FramefeedError)
"""Errors of PyAV and Arrow derive from the first two; framefeed's own errors have them as their cause."""
SAYS_NOTHING_OF_FILES = (UsageError, MissingDependency, ResourceExhausted)
"""Other files would have these errors too: no file is marked as failed by one."""
_NUMPY_NO_MEMORY = "error return without exception set"
"""Message of the SystemError that NumPy 2.4 raises without memory to index an array with another."""
_ARROW_NO_MEMORY = ("std::bad_alloc", "not enough memory")
"""Ends of messages of OSErrors without a number, which Arrow raises without memory for a header of Parquet or zstd."""


class Releasable(Protocol):
    """An object that keeps idle resources for a next call."""

    def release_idle(self) -> None:
        """Release idle resources; any thread may call it, so it takes no lock."""
        ...


def find_shortage(error: BaseException | None) -> str | None:
    """Name the resource that ran out, if an error or one of its causes is a shortage; else None."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, ResourceExhausted) and error.resource:
            return error.resource
        if isinstance(error, MemoryError) or (isinstance(error, SystemError) and str(error) == _NUMPY_NO_MEMORY):
            return _RESOURCES[errno.ENOMEM]
        if isinstance(error, OSError) and error.errno in _RESOURCES:
            return _RESOURCES[error.errno]
        if isinstance(error, OSError) and error.errno is None and str(error).rstrip().endswith(_ARROW_NO_MEMORY):
            return _RESOURCES[errno.ENOMEM]
        # Not the context, which may be an error that the caller is handling.
        error = error.__cause__
    return None


class SuppressFaults(suppress):
    """Suppress exceptions of some types, as of files that cannot be read, but no shortage."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        return bool(super().__exit__(kind, error, traceback)) and find_shortage(error) is None


def make_shortage_error(resource: str, name: str, stage: str) -> ResourceExhausted:
    """Build the error for a shortage."""
    advice = _ADVICE.get(resource, "free some of it")
    return ResourceExhausted(
        f"{name}: ran out of {resource} (stage: {stage}); this says nothing about the file: {advice}, and run it again",
        resource=resource,
        source=name,
        stage=stage,
    )


def try_again_in_shortage(call: Callable[[], R], name: str, stage: str, again: Callable[[str], R] | None = None) -> R:
    """Call a function; in a shortage, release idle resources and call it once more.

    ``again`` is called the second time in place of ``call``, with the name of the resource.
    """
    try:
        return call()
    except MAY_BE_SHORTAGES as error:
        resource = find_shortage(error)
        # A function that raises ResourceExhausted has tried twice already.
        if resource is None or (isinstance(error, ResourceExhausted) and again is None):
            raise
    # Outside the handler: the traceback of the error, which refers to objects of the first call, is freed.
    collect_and_release()
    try:
        return call() if again is None else again(resource)
    except MAY_BE_SHORTAGES as error:
        raise_shortage(error, name, stage)
        raise


def allocate(make: Callable[[], R], nbytes: int, what: str, advice: str, source: str | None = None) -> R:
    """Call a function that allocates memory; without memory, release idle resources and call it once more.

    ``what`` is the purpose of the memory, such as "a batch of 16 clips"; ``advice`` is a next step.
    """
    try:
        return make()
    except MemoryError:
        pass
    collect_and_release()
    try:
        return make()
    except MemoryError as error:
        message = f"{what}: ran out of memory for {format_bytes(nbytes)}: {advice}, or give the process more memory"
        raise ResourceExhausted(message, resource=_RESOURCES[errno.ENOMEM], source=source) from error


def count_free_memory() -> int | None:
    """Count the bytes of memory that the system and the control group have for this process; None if unknown."""
    found = []
    with suppress(OSError, ValueError, KeyError), open("/proc/meminfo", encoding="ascii") as file:
        found.append(1024 * int(dict(line.split(":") for line in file)["MemAvailable"].split()[0]))
    with suppress(OSError, ValueError, KeyError):
        most, used, facts = (read_group(name) for name in ("memory.max", "memory.current", "memory.stat"))
        # Pages of files can be given up.
        kept = int(dict(line.split() for line in facts.splitlines())["inactive_file"])
        found.append(int(most) - int(used) + kept)
    return min(found, default=None)


def read_group(name: str) -> str:
    """Read a file of this process's control group, as a container has it."""
    with open(f"/sys/fs/cgroup/{name}", encoding="ascii") as file:
        return file.read()


def raise_shortage(error: BaseException, name: str, stage: str) -> None:
    """Raise ResourceExhausted if an error is a shortage; return if it is another error, or ResourceExhausted itself."""
    resource = find_shortage(error)
    if resource is not None and not isinstance(error, ResourceExhausted):
        raise make_shortage_error(resource, name, stage) from error


_RELEASABLE = LiveSet[Releasable]()


def register_releasable(pool: Releasable) -> None:
    """Call the pool's `Releasable.release_idle` in a shortage; the pool is not kept alive."""
    _RELEASABLE.add(pool)


def collect_and_release() -> None:
    """Free what a failed call refers to, and release idle resources, before the call is made once more."""
    gc.collect()
    release_idle()


def release_idle() -> None:
    """Release the idle resources of all pools of this process."""
    for pool in _RELEASABLE:
        pool.release_idle()
