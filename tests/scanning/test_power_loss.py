"""After a loss of power while a catalog is written, the old catalog or the new one is complete (C01)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from framefeed.catalog import Catalog, _catalog_file
from framefeed.errors import MissingMedia, StaleSource, UnreadableMedia
from tests.catalog.synthetic import catalog, names, same

Names = dict[str, int]
"""Name -> number of the file (inode)."""
Image = dict[str, bytes]
"""Name -> content of the files in a folder."""


class Disk:
    """What is surely on the disk of a folder while a program works on it.

    Content is there once its file was flushed; changes of names once the folder was flushed, and before that each of
    them or not, in any combination: file systems promise no order.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        files = [(path.name, path.stat().st_ino, path.read_bytes()) for path in folder.iterdir()]
        self._settled: Names = {name: number for name, number, _ in files}
        self._flushed = {number: content for _, number, content in files}
        self._changes: list[tuple[str, str | None, int]] = []
        self.images: list[Image] = []
        self._note()

    def rename(self, before: str, after: str) -> None:
        self._changes.append((os.path.basename(before), os.path.basename(after), os.stat(after).st_ino))
        self._note()

    def remove(self, path: str) -> None:
        self._changes.append((os.path.basename(path), None, 0))
        self._note()

    def flush(self, descriptor: int) -> None:
        facts = os.fstat(descriptor)
        if stat.S_ISDIR(facts.st_mode):
            self._settled = self._applied([True] * len(self._changes))
            self._changes = []
        else:
            self._flushed[facts.st_ino] = Path(f"/proc/self/fd/{descriptor}").read_bytes()
        self._note()

    def worlds(self) -> Iterator[Image]:
        """What a loss of power at this moment may leave."""
        for happened in product([False, True], repeat=len(self._changes)):
            names = self._applied(happened)
            yield {name: self._flushed.get(number, b"") for name, number in names.items()}

    def _note(self) -> None:
        self.images += [image for image in self.worlds() if image not in self.images]

    def _applied(self, happened: Any) -> Names:
        names = dict(self._settled)
        for (before, after, number), is_on_disk in zip(self._changes, happened, strict=True):
            if is_on_disk:
                names.pop(before, None)
                if after is not None:
                    names[after] = number
        return names


def write_watched(made: Catalog, path: Path, patch: pytest.MonkeyPatch) -> Disk:
    """Save a catalog, and record what the disk may hold meanwhile."""
    disk = Disk(path.parent)
    originals = {name: getattr(os, name) for name in ("replace", "unlink", "fsync")}

    def replace(before: str, after: str) -> None:
        originals["replace"](before, after)
        disk.rename(before, after)

    def unlink(name: str) -> None:
        originals["unlink"](name)
        disk.remove(name)

    with patch.context() as watching:
        watching.setattr(_catalog_file.os, "replace", replace)
        watching.setattr(_catalog_file.os, "unlink", unlink)
        watching.setattr(_catalog_file.os, "fsync", lambda descriptor: disk.flush(descriptor))
        made.to_parquet(path)
    return disk


def is_equal(path: Path, made: Catalog | None) -> bool:
    """Whether a catalog file opens as a catalog, wholly; None stands for no file."""
    try:
        opened = Catalog.open(path)
    except MissingMedia:
        return made is None
    if made is None or not opened.table.equals(made.table) or opened.has_frame_indexes != made.has_frame_indexes:
        return False
    rows = made.usable_rows.tolist() if made.has_frame_indexes else []
    return all(same(opened.frame_index(row), made.frame_index(row)) for row in rows)


def assert_power_may_fail(folder: Path, old: Catalog | None, new: Catalog, patch: pytest.MonkeyPatch) -> None:
    """The law: each world holds the old catalog or the new one, and once the save returned, the new one."""
    path, left = folder / "written" / "cat.parquet", folder / "left"
    path.parent.mkdir()
    if old is not None:
        old.to_parquet(path)
    disk = write_watched(new, path, patch)
    final = list(disk.worlds())
    for number, image in enumerate([*disk.images, *final]):
        work = left / str(number)
        work.mkdir(parents=True)
        for name, content in image.items():
            (work / name).write_bytes(content)
        is_new = is_equal(work / "cat.parquet", new)
        assert is_new or (number < len(disk.images) and is_equal(work / "cat.parquet", old)), sorted(image)


def sample(number: int) -> Catalog | None:
    return catalog(names(number)) if number else None


@pytest.mark.parametrize(("before", "after"), [(0, 3), (3, 5), (4, 4)])
def test_C01_a_loss_of_power_leaves_one_whole_catalog(
    before: int, after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = sample(after)
    assert new is not None
    assert_power_may_fail(tmp_path, sample(before), new, monkeypatch)


@pytest.mark.parametrize("forgotten", ["file", "folder"])
def test_C01_catalogs_that_are_not_flushed_are_noticed(
    forgotten: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Disk.flush

    def flush(disk: Disk, descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) != (forgotten == "folder"):
            right(disk, descriptor)

    monkeypatch.setattr(Disk, "flush", flush)
    new = sample(5)
    assert new is not None
    with pytest.raises((AssertionError, UnreadableMedia, StaleSource)):
        assert_power_may_fail(tmp_path, sample(3), new, monkeypatch)
