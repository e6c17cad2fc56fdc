"""What objects with locks, threads or descriptors of their own need in a forked process."""

from __future__ import annotations

import os
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
