"""Folders for what a command writes."""

from __future__ import annotations

import os

from framefeed.errors import UsageError
from framefeed.media.regular_files import kind_at


def made_folder(folder: str) -> str:
    """Make a folder, and those above it, where they are missing.

    Raises:
        UsageError: It cannot be made.
    """
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        kind = kind_at(folder)
        is_taken = os.path.exists(folder) and kind != "a folder"
        reason = f"{kind or 'a file'} is already there" if is_taken else error.strerror
        raise UsageError(f"cannot make the folder {folder}: {reason}; choose another one") from error
    return folder
