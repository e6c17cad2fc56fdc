"""A lock that says when a thread waits for it, so that a test can wait for the race that it is about."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.patience import PATIENCE_SECONDS


class AwaitedLock:
    """A lock for ``with``.

    Args:
        when_awaited: Called by each thread that has to wait for it, before it waits.
    """

    def __init__(self, when_awaited: Callable[[], object]) -> None:
        self._lock = threading.Lock()
        self._when_awaited = when_awaited

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._when_awaited()
            assert self._lock.acquire(timeout=PATIENCE_SECONDS)

    def __exit__(self, *_: object) -> None:
        self._lock.release()
