"""What objects with locks and counts of their own need in a forked process."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """What is told that it is in another process now."""

    def begin_anew(self) -> None:
        """Replace locks, which a thread may have held that is not here, and forget what only the parent did."""
        ...


_FORKED: WeakSet[Forked] = WeakSet()


def renewed_by_forks(thing: Forked) -> None:
    """Have a thing begin anew in every process that is forked while it lives; it is not kept alive."""
    _FORKED.add(thing)


def _begin_anew() -> None:
    for thing in list(_FORKED):
        thing.begin_anew()


os.register_at_fork(after_in_child=_begin_anew)
