"""Tell a shortage of the machine from a fact about a file; release what is idle, and try once more."""

from __future__ import annotations

import errno
import gc
import weakref
from collections.abc import Callable
from typing import Protocol, TypeVar

from framefeed.errors import FramefeedError, ResourceExhausted

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


_MAY_BE_SHORTAGES = (MemoryError, OSError, SystemError, FramefeedError)
"""PyAV's and Arrow's own derive from the first two; ours have them as their cause."""
_UNSAID = "error return without exception set"
"""What Python says where NumPy 2.4 gets no memory to index an array with another, and forgets to say so."""


class Releasable(Protocol):
    """What keeps idle resources for a next call."""

    def release_idle(self) -> None:
        """Release what is not in use; called by any thread, so it takes no lock."""
        ...


def shortage_in(error: BaseException | None) -> str | None:
    """Say what ran out, if an error, or what led to it, is a shortage of the machine; else None."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, ResourceExhausted) and error.resource:
            return error.resource
        if isinstance(error, MemoryError) or (isinstance(error, SystemError) and str(error) == _UNSAID):
            return _RESOURCES[errno.ENOMEM]
        if isinstance(error, OSError) and error.errno in _RESOURCES:
            return _RESOURCES[error.errno]
        # Not the context: that may be what the caller is handling.
        error = error.__cause__
    return None


def resource_exhausted(resource: str, name: str, stage: str) -> ResourceExhausted:
    """Build the error that says what ran out.

    Args:
        resource: As `shortage_in` says it.
        name: Of the source that was being read, or of the work.
        stage: What was being done: "open", "index", "decode", ...
    """
    advice = _ADVICE.get(resource, "free some of it")
    return ResourceExhausted(
        f"{name}: ran out of {resource} (stage: {stage}); this says nothing about the file: {advice}, and run it again",
        resource=resource,
        source=name,
        stage=stage,
    )


def try_again_in_shortage(call: Callable[[], R], name: str, stage: str, again: Callable[[str], R] | None = None) -> R:
    """Call a function; where something ran out, release what is idle and call it once more.

    Args:
        call: Safe to be called a second time.
        name: For the error's message.
        stage: Likewise.
        again: What is called the second time, if it is not the same: with what ran out.

    Raises:
        ResourceExhausted: Something ran out both times.
    """
    try:
        return call()
    except _MAY_BE_SHORTAGES as error:
        resource = shortage_in(error)
        # What raises this has tried twice already.
        if resource is None or (isinstance(error, ResourceExhausted) and again is None):
            raise
    # Here, where the error is gone, and with its traceback what the first call held.
    gc.collect()
    release_idle()
    try:
        return call() if again is None else again(resource)
    except _MAY_BE_SHORTAGES as error:
        raise_shortage(error, name, stage)
        raise


def allocate(make: Callable[[], R], nbytes: int, what: str, advice: str, source: str | None = None) -> R:
    """Call what allocates memory; where there is none left, release what is idle and call it once more.

    Args:
        make: Allocates.
        nbytes: How much.
        what: It is for: "a batch of 16 clips".
        advice: What to ask for instead: "use a smaller batch_size".
        source: Name of the source concerned, if there is one.

    Raises:
        ResourceExhausted: There is none either time.
    """
    try:
        return make()
    except MemoryError:
        pass
    gc.collect()
    release_idle()
    try:
        return make()
    except MemoryError as error:
        message = f"{what}: ran out of memory for {nbytes / 2**20:,.1f} MiB: {advice}, or give the process more memory"
        raise ResourceExhausted(message, resource=_RESOURCES[errno.ENOMEM], source=source) from error


def raise_shortage(error: BaseException, name: str, stage: str) -> None:
    """Raise ResourceExhausted if an error is a shortage; return if it is another one, or says so itself."""
    resource = shortage_in(error)
    if resource is not None and not isinstance(error, ResourceExhausted):
        raise resource_exhausted(resource, name, stage) from error


_RELEASABLE: dict[int, weakref.ref[Releasable]] = {}


def register_releasable(pool: Releasable) -> None:
    """Have a pool release what is idle when something runs out; it is not kept alive."""
    # Single operations on a dict, which need no lock: also in a finaliser, and after a fork.
    key = id(pool)
    _RELEASABLE[key] = weakref.ref(pool, lambda _: _RELEASABLE.pop(key, None))


def release_idle() -> None:
    """Release what all pools of this process keep for a next call."""
    for reference in list(_RELEASABLE.values()):
        pool = reference()
        if pool is not None:
            pool.release_idle()
