"""Generated media for the tests of every room: written once at first use, removed when the test run ends.

Use as ``from tests.corpus import corpus_file``; `expected_stamps` says what a sequential decode of it reads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from framefeed.testing import ClipSpec, write_clip
from tests.corpus_folder import corpus_folder
from tests.pathologies import pathology

_specs: dict[str, tuple[object, ...]] = {}


def corpus_file(name: str) -> Path:
    """Path of a pathology by its file name, such as ``"open_gop.mp4"``; other tests share it: do not change it."""
    return write_once(corpus_folder() / name, pathology(name).write)


def expected_stamps(name: str) -> list[int]:
    """Numbers that a sequential decode of `corpus_file(name)` reads."""
    stamps = pathology(name).stamps
    assert stamps is not None, f"{name} is damaged: no stamps can be promised"
    return list(stamps)


def clip_file(name: str, *specs: ClipSpec) -> Path:
    """Path of a clip written by `write_clip` from specs, under a name that belongs to these specs alone."""
    assert _specs.setdefault(name, specs) == specs, f"{name} is the name of another clip"
    return write_once(corpus_folder() / f"clip_{name}", lambda path: write_clip(path, *specs))


def write_once(path: Path, write: Callable[[Path], object]) -> Path:
    """Write a file of the corpus at its first use."""
    if not path.exists():
        # The ending stays: it chooses the container.
        scratch = path.with_name(f"writing_{os.getpid()}_{path.name}")
        write(scratch)
        # Another process of this run may have written it meanwhile, and a test may have read that: it stays.
        with suppress(FileExistsError):
            os.link(scratch, path)
        scratch.unlink()
    return path
