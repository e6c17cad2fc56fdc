"""Claims: who builds what, so that two builders of one cache do not decode the same frames.

Every builder locks one byte of ``building.lock`` for each group that it works on, and keeps the lock until what it
stored is sealed, so that others can read it. Locks end with their process: a killed builder claims nothing. They save
work and settle nothing; where locks cannot be had, the same frames may be stored twice.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from hashlib import blake2b
from time import monotonic, sleep
from types import TracebackType
from typing import Self

FILE_NAME = "building.lock"
PATIENCE_SECONDS = 60.0
_LOOK_SECONDS = 0.05

_GROUP_BITS = 24
_PLAN_BITS = 38
"""Together they stay below 2**62, and neighbouring groups lock neighbouring bytes, which the system joins."""


class Claims:
    """The claims of one builder; a context manager that gives them back.

    Args:
        folder: Of the cache; made where it is missing.
        work: What the groups are numbered in: builders with the same text have the same groups.
        patience_seconds: How long to wait for others, at most.
    """

    def __init__(self, folder: str, work: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
        digest = int.from_bytes(blake2b(work.encode(), digest_size=8).digest())
        self._base = digest % (1 << _PLAN_BITS) << _GROUP_BITS
        self._folder = folder
        self._file = -1
        self._patience = patience_seconds

    def __enter__(self) -> Self:
        with suppress(OSError):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            path = os.path.join(self._folder, FILE_NAME)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def take(self, number: int) -> bool:
        """Claim a group; False where another process has claimed it."""
        return self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB, number)

    def wait(self, number: int) -> None:
        """Wait until no process claims a group. Call it without a claim, or two processes may wait for each other.

        A builder that was stopped claims for ever: patience ends, once for all groups, and they are worked on twice.
        """
        end = monotonic() + self._patience
        while not self.take(number):
            if monotonic() >= end:
                self._patience = 0.0
                return
            sleep(_LOOK_SECONDS)
        self._lock(fcntl.LOCK_UN, number)

    def give_back(self) -> None:
        """Claim nothing any more: what was stored is sealed."""
        if self._file >= 0:
            fcntl.lockf(self._file, fcntl.LOCK_UN)

    def _lock(self, how: int, number: int) -> bool:
        if self._file < 0:
            return True
        try:
            fcntl.lockf(self._file, how, 1, self._base + number % (1 << _GROUP_BITS))
        except (BlockingIOError, PermissionError):
            return False
        except OSError:
            return True  # a file system without locks
        return True
