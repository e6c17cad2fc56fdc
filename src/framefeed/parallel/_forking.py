"""What objects with locks, threads or descriptors of their own need in a forked process.

Tell whether the calling thread is inside the cyclic garbage collector.

The collector runs finalisers in any thread, in the middle of any call, and in any order: what it finalises refers to
things that it may have closed before. A ``finally`` that gives something back asks here first.
"""

from __future__ import annotations

import gc
import os
from threading import get_ident
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """An object that is renewed in a forked process."""

    def begin_anew(self) -> None:
        """Replace locks, which a thread may have held that is not here, and forget what only the parent did.

        Others may not have begun anew yet: what must be finalised goes through `finalise_after_fork`.
        """
        ...


_FORKED: WeakSet[Forked] = WeakSet()
_LEFT: list[object] = []


def renew_after_fork(thing: Forked) -> None:
    """Have a thing begin anew in every process that is forked while it lives; it is not kept alive."""
    _FORKED.add(thing)


def finalise_after_fork(thing: object) -> None:
    """Keep a thing of the parent's until all others have begun anew: its finaliser may need them."""
    _LEFT.append(thing)


def _begin_anew() -> None:
    for thing in list(_FORKED):
        thing.begin_anew()
    _LEFT.clear()


os.register_at_fork(after_in_child=_begin_anew)


class _Collections:
    """The threads that are collecting; one operation on a set each, which needs no lock."""

    def __init__(self) -> None:
        self._threads: set[int] = set()
        gc.callbacks.append(self._note)
        renew_after_fork(self)

    def begin_anew(self) -> None:
        """Forget the threads that are not in the forked process."""
        self._threads.intersection_update({get_ident()})

    def has(self, thread: int) -> bool:
        """Whether a thread is collecting."""
        return thread in self._threads

    def _note(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._threads.add(get_ident())
        else:
            self._threads.discard(get_ident())


_COLLECTIONS = _Collections()


def is_collecting() -> bool:
    """Whether the calling thread is inside the cyclic garbage collector, as a finaliser that it runs is."""
    return _COLLECTIONS.has(get_ident())
