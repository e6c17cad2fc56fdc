"""Renew objects in forked processes, and detect calls from the garbage collector.

The cyclic collector runs finalisers in any thread, in the middle of any call, and in any order: objects that a
finaliser refers to may be closed already. A ``finally`` that returns a resource must check `is_collecting` first.
"""

from __future__ import annotations

import gc
import os
from threading import get_ident
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """An object that is renewed in a forked process."""

    def after_fork(self) -> None:
        """Replace locks, because a thread of the parent may have held them, and forget the parent's own work.

        Other objects may not be renewed yet: pass objects that must be finalised to `finalise_after_fork`.
        """
        ...


_RENEWED: WeakSet[Forked] = WeakSet()
_FINALISED_LAST: list[object] = []


def renew_after_fork(item: Forked) -> None:
    """Call the object's `Forked.after_fork` in every process that is forked while it is alive; do not keep it alive."""
    _RENEWED.add(item)


def finalise_after_fork(item: object) -> None:
    """Keep an object of the parent until all others are renewed, because its finaliser may need them."""
    _FINALISED_LAST.append(item)


def _renew_all() -> None:
    for item in list(_RENEWED):
        item.after_fork()
    _FINALISED_LAST.clear()


os.register_at_fork(after_in_child=_renew_all)


class _CollectingThreads:
    """The threads that run the garbage collector; single operations on a set, which need no lock."""

    def __init__(self) -> None:
        self._threads: set[int] = set()
        gc.callbacks.append(self._update)
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Forget the threads that are not in the forked process."""
        self._threads.intersection_update({get_ident()})

    def has(self, thread: int) -> bool:
        return thread in self._threads

    def _update(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._threads.add(get_ident())
        else:
            self._threads.discard(get_ident())


_COLLECTING = _CollectingThreads()


def is_collecting() -> bool:
    """Whether the calling thread runs the cyclic garbage collector, for example in a finaliser."""
    return _COLLECTING.has(get_ident())
