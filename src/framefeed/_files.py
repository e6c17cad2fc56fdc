"""Write files whole or not at all, and have them outlast a loss of power."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def replacing(path: str | os.PathLike[str], *, is_durable: bool = False) -> Iterator[str]:
    """Give the path of a new file beside a target, which replaces the target when the block ends without an error.

    Args:
        path: The target. It keeps its content where the block raises.
        is_durable: Wait until the disk has the new content, so that a loss of power leaves the old or the new one.

    Yields:
        Path of the new file; the block creates it. Its name does not depend on the target's, which may be as long as a
        name can be.

    Raises:
        OSError: The new file cannot be moved over the target; it is removed.
    """
    target = os.fspath(path)
    scratch = os.path.join(os.path.dirname(target), f".framefeed-{secrets.token_hex(8)}.tmp")
    try:
        yield scratch
        if is_durable:
            _flush(scratch, os.O_RDONLY)
        os.replace(scratch, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(scratch)
        raise


def flush_folder(path: str) -> None:
    """Wait until the disk has the names of a folder's files, so that they outlast a loss of power.

    Raises:
        OSError: The folder cannot be opened or flushed.
    """
    _flush(path, os.O_RDONLY | os.O_DIRECTORY)


def _flush(path: str, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
