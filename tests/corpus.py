"""Generated media for the tests of every room: written at first use, removed when the test run ends.

Use as ``from tests.corpus import corpus_file``; `expected_stamps` says what a sequential decode of it reads.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path

from framefeed.testing import ClipSpec, write_clip
from tests.pathologies import pathology


def corpus_file(name: str) -> Path:
    """Path of a pathology by its file name, such as ``"open_gop.mp4"``; other tests share it: do not change it."""
    path = _folder() / name
    if not path.exists():
        pathology(name).write(_scratch(path))
        _scratch(path).rename(path)
    return path


def expected_stamps(name: str) -> list[int]:
    """Numbers that a sequential decode of `corpus_file(name)` reads."""
    stamps = pathology(name).stamps
    assert stamps is not None, f"{name} is damaged: no stamps can be promised"
    return list(stamps)


def clip_file(name: str, *specs: ClipSpec) -> Path:
    """Path of a clip written by `write_clip` from specs, under a name that belongs to these specs alone."""
    path = _folder() / f"clip_{name}"
    if not path.exists():
        write_clip(_scratch(path), *specs)
        _scratch(path).rename(path)
    return path


def _scratch(path: Path) -> Path:
    # The ending stays: it chooses the container.
    return path.with_name(f"writing_{os.getpid()}_{path.name}")


@lru_cache(maxsize=1)
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="framefeed-corpus-"))
    owner = os.getpid()

    def remove() -> None:
        # A forked child inherits this hook, and must not take the corpus from its parent.
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
