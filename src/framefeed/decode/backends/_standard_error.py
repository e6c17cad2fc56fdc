"""Keep what a library prints on standard error, file descriptor 2, and write on what others print there meanwhile."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock

from framefeed._per_process import PerProcess

_OWN_LINES = re.compile(
    r"\[[^\]@]+ @ 0x[0-9a-f]{6,}\] | *Last message repeated \d|Truncating packet of size \d"  # FFmpeg
    r"|\[\d\d:\d\d:\d\d\] /\S+\.(?:cc|cpp|h):\d+: "  # decord
    r"|\[/\S+\.(?:cc|cpp|cu|h):\d+\] |dlopen lib\S+ failed"  # DALI
    r"|\[ *(?:DEBUG|INFO|WARN|ERROR|FATAL):\d+@\d+\.\d+\] "  # OpenCV
)
"""Beginnings of lines of engines."""


def _restore_in_child(before: list[int]) -> list[int]:
    for original in before:
        os.dup2(original, 2)
    return []


_LOCK = PerProcess(Lock)
_LED_AWAY: PerProcess[list[int]] = PerProcess(list, _restore_in_child)
"""Where standard error led before, while it leads elsewhere."""


@contextmanager
def keeping_output() -> Iterator[list[str]]:
    """Keep what engines print on standard error in the block, by native code too; the list has it after the block.

    Lines of others are written on after the block.
    """
    lines: list[str] = []
    with _LOCK.value:
        try:
            original = os.dup(2)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            yield lines  # standard error is closed
            return
        try:
            with os.fdopen(os.memfd_create("standard error"), "r+b", buffering=0) as kept:
                _LED_AWAY.value.append(original)
                os.dup2(kept.fileno(), 2)
                try:
                    yield lines
                finally:
                    with suppress(OSError):  # closed by now
                        if os.path.sameopenfile(2, kept.fileno()):  # else it leads elsewhere by now
                            os.dup2(original, 2)
                    _LED_AWAY.value.clear()
                    kept.seek(0)
                    for line in kept.readall().splitlines(keepends=True):
                        text = line.decode(errors="replace")
                        if _OWN_LINES.match(text):
                            lines.append(text)
                        else:
                            with suppress(OSError):  # its reader is gone, or slow
                                os.write(2, line)
        finally:
            os.close(original)
