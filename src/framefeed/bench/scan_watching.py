"""Who opens a file: the kernel's own watches (inotify), which see every process and every library. Linux."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Sequence
from typing import TypeVar

Result = TypeVar("Result")

# inotify(7) and <sys/inotify.h>
_IN_OPEN = 0x20
_IN_Q_OVERFLOW = 0x4000
_IN_ISDIR = 0x40000000
_EVENT = struct.Struct("iIII")
_BUFFER = 1 << 20


def count_opened(folders: Sequence[str], work: Callable[[], Result]) -> tuple[Result, int | None]:
    """Do some work, and count how often files right in some folders are opened meanwhile.

    Returns:
        What the work gives, and the count, None where the kernel cannot watch. It counts openings of one file right
        after each other once, and too many at once as one: a count of 0 is exact.
    """
    watcher = _watch(folders)
    if watcher is None:
        return work(), None
    try:
        return work(), _count(watcher)
    finally:
        os.close(watcher)


def _watch(folders: Sequence[str]) -> int | None:
    library = ctypes.CDLL(None, use_errno=True)
    watcher = int(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    if watcher < 0:
        return None
    for folder in folders:
        if library.inotify_add_watch(watcher, os.fsencode(folder), _IN_OPEN) < 0:
            os.close(watcher)
            return None
    return watcher


def _count(watcher: int) -> int:
    count = 0
    while True:
        try:
            events = os.read(watcher, _BUFFER)
        except BlockingIOError:
            return count
        at = 0
        while at < len(events):
            _, mask, _, length = _EVENT.unpack_from(events, at)
            count += bool(mask & _IN_Q_OVERFLOW or (mask & _IN_OPEN and not mask & _IN_ISDIR))
            at += _EVENT.size + length
