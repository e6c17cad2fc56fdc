"""The system's calls that a store makes, counted, recorded, and failing when they are told to."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

WRITING = ("open", "pwritev", "fsync", "rename", "mkdir", "unlink", "flock")
READING = ("open", "preadv", "pread", "scandir", "stat", "lstat", "fstat")
ALL = ("open", "mkdir", "pwritev", "fsync", "rename", "preadv", "pread", "scandir", "stat", "lstat", "fstat")
SHORTAGES = (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN)
ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT, errno.EACCES)

_KEEPS_OPEN = {"pwritev", "fsync", "preadv", "pread"}


@dataclass
class Faults:
    """What is to go wrong.

    Attributes:
        calls: Names of the calls that are counted.
        at: Number of the call that fails first; None: none does.
        code: What it fails with.
        goes_on: Whether all that come after fail as well.
        is_short: Writes write half first, and one by one.
        is_interrupted: Whether a call that fails is interrupted by Ctrl-C instead.
        count: How many calls there were.
        failed: How many of them failed.
    """

    calls: tuple[str, ...] = WRITING
    at: int | None = None
    code: int = errno.ENOSPC
    goes_on: bool = False
    is_short: bool = False
    is_interrupted: bool = False
    count: int = 0
    failed: int = 0
    names: list[str] = field(default_factory=list)

    def fails(self, name: str) -> bool:
        if name not in self.calls:
            return False
        number, self.count = self.count, self.count + 1
        self.names.append(name)
        hit = self.at is not None and (number == self.at or (self.goes_on and number > self.at))
        self.failed += hit
        return hit


@contextmanager
def faulty(faults: Faults, folder: Path) -> Iterator[None]:
    """Have calls that concern a folder go wrong."""
    with pytest.MonkeyPatch.context() as patch:
        for name in {*WRITING, *READING}:
            module: Any = fcntl if name == "flock" else os
            patch.setattr(module, name, _wrapped(name, getattr(module, name), faults, folder))
        yield


def _wrapped(name: str, right: Callable[..., Any], faults: Faults, folder: Path) -> Callable[..., Any]:
    def call(first: Any, *others: Any, **named: Any) -> Any:
        path = os.readlink(f"/proc/self/fd/{first}") if isinstance(first, int) else os.fspath(first)
        if not path.startswith(os.fspath(folder)):
            return right(first, *others, **named)
        if name == "pwritev" and faults.is_short:
            others = ([_half(others[0])], *others[1:])
        if faults.fails(name):
            if faults.is_interrupted:
                raise KeyboardInterrupt
            raise OSError(faults.code, os.strerror(faults.code), first if isinstance(first, str) else None)
        return right(first, *others, **named)

    return call


def _half(buffers: Sequence[memoryview]) -> memoryview:
    return buffers[0][: (len(buffers[0]) + 1) // 2]
