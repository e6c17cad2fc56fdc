"""The folder of generated media: one for all processes of a test run, which would each encode the same files."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

_VARIABLE = "FRAMEFEED_TESTS_CORPUS"


def share_folder() -> Callable[[], None]:
    """Make the folder for this process and all that it starts; return what removes it."""
    folder = os.environ[_VARIABLE] = tempfile.mkdtemp(prefix="framefeed-corpus-")

    def remove() -> None:
        del os.environ[_VARIABLE]
        shutil.rmtree(folder, ignore_errors=True)

    return remove


def corpus_folder() -> Path:
    """Path of the shared folder; in a program that pytest has not started, of one that goes when it ends."""
    return Path(os.environ[_VARIABLE]) if _VARIABLE in os.environ else _own_folder()


@lru_cache(maxsize=1)
def _own_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="framefeed-corpus-"))
    owner = os.getpid()

    def remove() -> None:
        # A forked child inherits this hook, and must not take the corpus from its parent.
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
