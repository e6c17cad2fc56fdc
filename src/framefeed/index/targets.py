"""Where something may be written: in a folder that is there, over nothing but one of its own kind."""

from __future__ import annotations

import os
from collections.abc import Callable

from framefeed.errors import UsageError


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
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise UsageError(f"cannot write {path}: there is no folder {folder!r}; make it first")
    if os.path.isdir(path):
        raise UsageError(f"cannot write {path}: it is a folder; name a file in it, such as {example}")
    if os.path.lexists(path) and not _may_be_replaced(path, is_own):
        raise UsageError(f"cannot write {path}: a file that is no {noun} stands there; choose another name")


def _may_be_replaced(path: str, is_own: Callable[[str], bool]) -> bool:
    return os.path.isfile(path) and (not os.path.getsize(path) or is_own(path))
