"""Trees of very many files that take no room: hard links to a few originals, removed whatever happens."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

FILES_A_FOLDER = 1000


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder of folders of files. File n is a link to original n modulo their number.

    Attributes:
        root: The outermost folder.
        originals: What the files are links to.
        count: Files in all.
    """

    root: Path
    originals: list[Path]
    count: int

    def __len__(self) -> int:
        return self.count

    def path(self, number: int) -> str:
        """Name of a file; names rise with the number, byte by byte."""
        suffix = self.originals[number % len(self.originals)].suffix
        return f"{self.root}/{number // FILES_A_FOLDER:05}/{number:08}{suffix}"

    def paths(self, count: int | None = None) -> list[str]:
        """Names of the first files, or of all."""
        return [self.path(number) for number in range(self.count if count is None else min(count, self.count))]

    def folders(self) -> list[str]:
        """The folders that hold the files."""
        return [f"{self.root}/{number:05}" for number in range(-(-self.count // FILES_A_FOLDER))]


@contextmanager
def linked_tree(originals: Sequence[Path], root: Path, count: int) -> Iterator[Tree]:
    """Make a tree, and remove it at the end, also one that was interrupted half made.

    Args:
        originals: On the same file system as ``root``.
        root: A folder that is not there yet.
        count: How many files.
    """
    tree = Tree(root, list(originals), count)
    try:
        _grow(tree)
        yield tree
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _grow(tree: Tree) -> None:
    for folder in tree.folders():
        os.makedirs(folder)
    sources = [os.fspath(original) for original in tree.originals]
    for number in range(tree.count):
        path = tree.path(number)
        try:
            os.link(sources[number % len(sources)], path)
        except OSError as error:
            if error.errno != errno.EMLINK:
                raise
            # A file has so many names and no more (65,000 on ext4): a copy takes the next ones.
            shutil.copyfile(sources[number % len(sources)], path)
            sources[number % len(sources)] = path
