"""Where something may be written: in a folder that is there, over nothing but one of its own kind."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from framefeed.errors import UsageError
from framefeed.media.regular_files import kind_at
from framefeed.parallel.shortage import raise_shortage

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def check_writable(path: str, noun: str, example: str, is_own: Callable[[str], bool]) -> None:
    """Make sure that writing a file at a path replaces nothing but one of its kind, or an empty file.

    Args:
        path: Where it is to be written.
        noun: What it is, for messages.
        example: A good name.
        is_own: Whether a regular file of some bytes is of its kind.

    Raises:
        UsageError: There is no such folder, or something else stands there.
    """
    folder, kind = os.path.dirname(path) or ".", kind_at(path)
    if not os.path.isdir(folder):
        raise UsageError(f"cannot write {path}: there is no folder {folder!r}; make it first")
    if os.path.isdir(path):
        raise UsageError(f"cannot write {path}: it is a folder; name a file in it, such as {example}")
    if kind is not None:
        raise UsageError(f"cannot write {path}: {kind} is already there; choose another name")
    if os.path.lexists(path) and not _may_be_replaced(path, is_own):
        raise UsageError(
            f"cannot write {path}: the file that is already there is not a {noun}, and is not overwritten; choose "
            "another name"
        )


def _may_be_replaced(path: str, is_own: Callable[[str], bool]) -> bool:
    return os.path.isfile(path) and (not os.path.getsize(path) or is_own(path))


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Say of what the system refuses inside the block which file was to be written, and what to do about it.

    Raises:
        UsageError: It refused something.
        ResourceExhausted: Memory or the like ran out.
    """
    try:
        yield
    except OSError as error:
        raise_shortage(error, path, "write")
        raise cannot_write(path, error) from error


def cannot_write(path: str, error: OSError) -> UsageError:
    """Build the error for a file that cannot be written."""
    if is_full(error):
        advice = "make room on the disk, or choose another one"
    else:
        advice = "choose another name, in a folder that may be written to"
    return UsageError(f"cannot write {path}: {error.strerror or error}; {advice}")


def is_full(error: BaseException) -> bool:
    """Whether there is no room for what was to be written."""
    return isinstance(error, OSError) and error.errno in _FULL
