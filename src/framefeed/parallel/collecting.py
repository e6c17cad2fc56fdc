"""Tell whether the calling thread is inside the cyclic garbage collector.

The collector runs finalisers in any thread, in the middle of any call, and in any order: what it finalises refers to
things that it may have closed before. A ``finally`` that gives something back asks here first.
"""

from __future__ import annotations

import gc
from threading import get_ident

from framefeed.parallel.forking import renew_after_fork


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
