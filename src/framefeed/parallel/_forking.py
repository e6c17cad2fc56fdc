"""Renew objects in forked processes, and detect calls from the garbage collector.

The cyclic collector runs finalisers in any thread, in the middle of any call, and in any order: objects that a
finaliser refers to may be closed already. A ``finally`` that returns a resource must check `is_collecting` first.
"""

from __future__ import annotations

import gc
import os
import threading
from collections import OrderedDict
from functools import partial
from typing import Any, Protocol, cast
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


# The collector calls these, one after the other, with ("start" or "stop", info), the same dictionary for all three.
# Each is a C function: an interrupt that arrives during a collection is raised by the first Python code that runs, and
# in a callback it would be lost.
_LATEST: dict[str, object] = {}
"""The dictionary of the last collection that started, and of the last that stopped, in any thread."""
_OWN = threading.local()
"""The same of the calling thread, as attributes."""
_PHASES = OrderedDict.fromkeys(("start", "stop"))
"""The last phase comes last: any dictionary with content is a true `last` of `OrderedDict.move_to_end`."""
gc.callbacks.extend(cast("Any", [_LATEST.__setitem__, partial(setattr, _OWN), _PHASES.move_to_end]))


def is_collecting() -> bool:
    """Whether the calling thread runs the cyclic garbage collector, for example in a finaliser."""
    return next(reversed(_PHASES)) == "start" and getattr(_OWN, "start", None) is _LATEST["start"]
