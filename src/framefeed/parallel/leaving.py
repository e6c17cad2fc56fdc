"""What is to be done before a process ends, whichever way it was started."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from multiprocessing import parent_process
from multiprocessing.util import Finalize
from weakref import WeakMethod

_PRIORITY = 10
"""Above that of queues and pools, which end at 10 and below it in this order: whatever it is, it is done once."""


def before_process_ends(method: Callable[[], object]) -> None:
    """Have a bound method called before this process ends, if its object is still there then.

    A worker of ``multiprocessing``, which ends without running ``atexit``, calls it too; a process that is killed, or
    was forked from this one by other means, does not.

    Args:
        method: Bound; its object is not kept alive.
    """
    remembered, owner = WeakMethod(method), os.getpid()

    def leave() -> None:
        wanted = remembered()
        if wanted is not None and os.getpid() == owner:
            wanted()

    if parent_process() is None:
        atexit.register(leave)
    else:
        Finalize(None, leave, exitpriority=_PRIORITY)
