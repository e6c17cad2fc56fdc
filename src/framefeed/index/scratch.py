"""Scratch files: claimed while their writer lives, so that what a killed one left can be told from work going on."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def claimed(path: str) -> Iterator[None]:
    """Create a file and claim it for as long as the context lasts, also under another name.

    Args:
        path: Of the file, which others do not write.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def remove_unclaimed(folder: str, pattern: re.Pattern[str], kept: str) -> None:
    """Remove the files that killed writers left.

    Args:
        folder: Where they lie.
        pattern: What their names match as a whole.
        kept: Name of one that stays, claimed or not.
    """
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.name != kept and pattern.fullmatch(entry.name)]
    for name in names:
        with suppress(OSError):  # Another process removed or claims it, or this one may not write there.
            _remove_unclaimed(os.path.join(folder, name))


def _remove_unclaimed(path: str) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            os.unlink(path)
    finally:
        os.close(descriptor)
