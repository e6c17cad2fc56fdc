"""What a loss of power leaves: a store's calls are recorded, and the disk is imagined after each of them.

Two worlds, the worst of both kinds: in the first a rename is on disk at once, and written data only when their file
was flushed; in the second a rename, too, is on disk only when its folder was flushed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

Image = dict[str, bytes]
"""Name -> content of the files in a folder."""


@dataclass
class Disk:
    """What is surely on it.

    Attributes:
        folder: That is watched.
        now: Names as every process sees them -> number of the file.
        flushed: Number of the file -> its content when it was flushed last.
        settled: Names as they were when the folder was flushed last.
        images: What a loss of power left after each call, in either world.
    """

    folder: Path
    now: dict[str, int] = field(default_factory=dict)
    flushed: dict[int, bytes] = field(default_factory=dict)
    settled: dict[str, int] = field(default_factory=dict)
    images: list[tuple[Image, Image]] = field(default_factory=list)

    def note(self) -> None:
        self.now = {path.name: path.stat().st_ino for path in self.folder.iterdir()}
        self.images.append((self._image(self.now), self._image(self.settled)))

    def flush(self, descriptor: int) -> None:
        inode = os.fstat(descriptor).st_ino
        if inode == self.folder.stat().st_ino:
            self.settled = dict(self.now)
        else:
            self.flushed[inode] = Path(f"/proc/self/fd/{descriptor}").read_bytes()

    def _image(self, names: dict[str, int]) -> Image:
        return {name: self.flushed.get(number, b"") for name, number in names.items()}


@contextmanager
def watched(disk: Disk) -> Iterator[None]:
    """Record what is done to a folder."""
    write, rename = os.pwritev, os.rename

    def pwritev(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        done = write(descriptor, buffers, offset)
        disk.note()
        return done

    def fsync(descriptor: int) -> None:
        disk.note()
        disk.flush(descriptor)
        disk.note()

    def renamed(before: str, after: str) -> None:
        rename(before, after)
        disk.note()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwritev", pwritev)
        patch.setattr(os, "fsync", fsync)
        patch.setattr(os, "rename", renamed)
        yield
