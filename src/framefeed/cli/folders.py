"""Folders for what a command writes."""

from __future__ import annotations

import os

from framefeed.errors import UsageError


def made_folder(folder: str) -> str:
    """Make a folder, and those above it, where they are missing.

    Raises:
        UsageError: It cannot be made.
    """
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder {folder}: {error.strerror}") from error
    return folder
