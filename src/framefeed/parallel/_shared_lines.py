"""Share lines between processes through a small file."""

from __future__ import annotations

import errno
import os
import tempfile
import weakref
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.context import get_spawning_popen


class SharedLines:
    """A file that processes append whole lines to; it is removed with the object that made it.

    Forked processes share it, and processes that receive it as an argument when they are started. Any other copy, by
    ``pickle`` or ``copy``, is a new file. Lines beyond ``max_bytes`` of the file are dropped.
    """

    def __init__(self, max_bytes: int) -> None:
        descriptor, path = tempfile.mkstemp(prefix="framefeed-", suffix=".lines")
        os.close(descriptor)
        self._attach(path, max_bytes)
        weakref.finalize(self, _remove, path, os.getpid())

    def _attach(self, path: str, max_bytes: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._offset = 0

    def __reduce__(self) -> tuple[Callable[..., SharedLines], tuple[object, ...]]:
        if get_spawning_popen() is None:
            return SharedLines, (self._max_bytes,)
        return _attached, (self.path, self._max_bytes)

    def append(self, line: bytes) -> bool:
        """Append one line, which must not contain a line break; return whether it was written.

        Raises:
            OSError: The file cannot be written.
        """
        try:
            # Appending is atomic: lines of several processes do not mix.
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:  # the process that made it has ended
            return False
        try:
            if os.fstat(descriptor).st_size + len(line) >= self._max_bytes:
                return False
            # The first line break ends a part of a line, which another process wrote when the disk was full.
            data = b"\n%b\n" % line
            if os.write(descriptor, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
            return True
        finally:
            os.close(descriptor)

    def read(self) -> list[bytes]:
        """Read the lines that were appended since this process last read them, and parts of lines that failed."""
        with suppress(FileNotFoundError), open(self.path, "rb") as file:
            file.seek(self._offset)
            data = file.read()
            whole = data.rfind(b"\n") + 1
            self._offset += whole
            return [line for line in data[:whole].splitlines() if line]
        return []

    def rewind(self) -> None:
        """Read from the first line again."""
        self._offset = 0


def _attached(path: str, max_bytes: int) -> SharedLines:
    lines = SharedLines.__new__(SharedLines)
    lines._attach(path, max_bytes)
    return lines


def _remove(path: str, process: int) -> None:
    if os.getpid() == process:
        with suppress(OSError):
            os.unlink(path)
