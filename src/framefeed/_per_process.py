"""Values that begin anew in a forked child.

A child has one thread of its parent: another one may have held a lock, or have been in the middle of a change, and will
never end it. So each lock, and what it guards if a half change would harm, is a `PerProcess` value, and so is what a
child must leave to its parent: threads, worker processes, open streams, the segment that is being written.

>>> from threading import Lock
>>> lock = PerProcess(Lock)
>>> with lock.value:
...     pass
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from framefeed._live_set import LiveSet

T = TypeVar("T")


class PerProcess(Generic[T]):
    """A value of this process; a child that is forked while this object is alive has another one.

    Args:
        make: Makes the value. It must not refer to the owner of this object, which would make a cycle.
        begin: Makes the child's value from the parent's, in place of ``make``; it may be the same object. The values of
            other objects may still be the parent's.
    """

    __slots__ = ("__weakref__", "_begin", "_make", "value")

    def __init__(self, make: Callable[[], T], begin: Callable[[T], T] | None = None) -> None:
        self._make = make
        self._begin = begin
        self.value = make()
        _ALIVE.add(self)

    def begin(self) -> T:
        """Begin in a forked child; return the value of the parent."""
        left = self.value
        self.value = self._make() if self._begin is None else self._begin(left)
        return left


def keep_forever(left: object) -> None:
    """Never free an object of the parent, also as the interpreter ends: it would wait for threads that are not here."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(left))


_ALIVE = LiveSet[PerProcess[Any]]()


def _begin_all() -> None:
    # Values of the parent are freed when all have begun: their finalisers may need others.
    left = [each.begin() for each in list(_ALIVE)]
    left.clear()


os.register_at_fork(after_in_child=_begin_all)
