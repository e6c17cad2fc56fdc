"""Listing: what is found in folders, in what order, and what counts as the same file."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterable
from pathlib import Path
from time import monotonic

import pytest

from framefeed.errors import UsageError
from framefeed.index.listing import list_roots


def make(folder: Path, *files: str) -> None:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def found(folder: Path, *roots: str) -> list[str]:
    paths = list_roots([folder / root for root in roots] or folder).paths
    return [os.path.relpath(path, folder) for path in paths]


def test_folders_give_videos_by_ending_in_the_order_of_their_bytes(tmp_path: Path) -> None:
    make(tmp_path, "b/x.mp4", "b-x.MP4", "a.webm", "é.mkv", "b/notes.txt", "Z.ts", "b/c/d.avi", "mp4", ".mp4")
    assert found(tmp_path) == ["Z.ts", "a.webm", "b-x.MP4", "b/c/d.avi", "b/x.mp4", "é.mkv"]


def test_the_order_is_not_that_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, *(f"{folder}/{number}.mp4" for folder in "abc" for number in range(5)))
    (tmp_path / "l").symlink_to("b")
    before = found(tmp_path)
    scandir = os.scandir

    class Shuffled:
        def __init__(self, path: str) -> None:
            with scandir(path) as entries:
                self._entries = list(entries)
            random.Random(1).shuffle(self._entries)

        def __enter__(self) -> Iterable[os.DirEntry[str]]:
            return self._entries

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(os, "scandir", Shuffled)
    assert found(tmp_path) == before == sorted(before)


def test_roots_come_in_the_order_given_and_named_files_always(tmp_path: Path) -> None:
    make(tmp_path, "b/1.mp4", "a/1.mp4", "a/poster.jpg")
    assert found(tmp_path, "b", "a/poster.jpg", "missing.mp4", "a") == [
        "b/1.mp4", "a/poster.jpg", "missing.mp4", "a/1.mp4",
    ]  # fmt: skip


def test_a_file_met_twice_is_one_row(tmp_path: Path) -> None:
    make(tmp_path, "a/1.mp4", "a/2.mp4")
    (tmp_path / "link.mp4").symlink_to("a/1.mp4")
    (tmp_path / "folder").symlink_to("a")
    assert found(tmp_path, "a/2.mp4", "a", "./a/1.mp4", "link.mp4", "folder", "folder/2.mp4") == ["a/2.mp4", "a/1.mp4"]


def test_S16_loops_of_links_end(tmp_path: Path) -> None:
    make(tmp_path, "a/1.mp4")
    (tmp_path / "a" / "up").symlink_to("..")
    (tmp_path / "a" / "self").symlink_to("self")
    (tmp_path / "loop.mp4").symlink_to("loop.mp4")
    (tmp_path / "broken.mp4").symlink_to("nowhere")
    assert found(tmp_path) == ["a/1.mp4", "broken.mp4", "loop.mp4"]


def test_linked_folders_are_followed(tmp_path: Path) -> None:
    make(tmp_path, "data/1.mp4", "set/2.mp4")
    (tmp_path / "set" / "more").symlink_to("../data")
    assert found(tmp_path, "set") == ["set/2.mp4", "set/more/1.mp4"]


def test_S16_special_files_are_listed_without_being_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mp4")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket.mp4"))
        (tmp_path / "folder.mp4").mkdir()
        assert found(tmp_path) == ["pipe.mp4", "socket.mp4"]


def test_D10_odd_names(tmp_path: Path) -> None:
    odd = [b"%03d.mp4", b"-rf.mp4", b"a:b.mp4", b"caf\xe9.mp4", b"new\nline.mp4", b" .mp4", b"x" * 251 + b".mp4"]
    for name in odd:
        Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name))).touch()
    assert [os.path.basename(os.fsencode(path)) for path in list_roots(tmp_path).paths] == sorted(odd)


def test_a_folder_that_cannot_be_listed_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "a/1.mp4", "b/2.mp4")
    scandir = os.scandir

    def refusing(path: str) -> object:
        if path.endswith("/a"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    listed = list_roots(tmp_path)
    assert [os.path.relpath(path, tmp_path) for path in listed.paths] == ["a", "b/2.mp4"]
    assert "Permission denied" in str(listed.unlistable[str(tmp_path / "a")])


def test_lines_of_a_manifest_are_rows_unless_they_add_nothing(tmp_path: Path) -> None:
    make(tmp_path, "a.mp4", "b.mp4")
    (tmp_path / "x.csv").write_text("path,start\na.mp4,1\na.mp4,2\na.mp4,1\nb.mp4,\nb.mp4,\nmissing.mp4,5\n")
    listed = list_roots([tmp_path, tmp_path / "x.csv", tmp_path / "b.mp4"])
    rows = zip(listed.paths, listed.taken_columns().column("start").to_pylist(), strict=True)
    assert [(os.path.basename(path), start) for path, start in rows] == [
        ("a.mp4", 1), ("b.mp4", None), ("a.mp4", 2), ("missing.mp4", 5),
    ]  # fmt: skip


def test_many_lines_about_one_file_take_no_square_of_time(tmp_path: Path) -> None:
    lines = "".join(f"a.mp4,{number}\n" for number in range(20_000))
    (tmp_path / "x.csv").write_text(f"path,start\n{lines}{lines}")
    begin = monotonic()
    assert len(list_roots(tmp_path / "x.csv").paths) == 20_000
    assert monotonic() - begin < 10


def test_columns_of_several_manifests_are_joined(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("path,label,take\na.mp4,1,1\n")
    (tmp_path / "y.csv").write_text("path,label,take,more\nb.mp4,cat,1.5,x\n")
    (tmp_path / "z.txt").write_text("c.mp4\n")
    listed = list_roots([tmp_path / "z.txt", tmp_path / "x.csv", tmp_path / "y.csv"])
    assert listed.taken_columns().to_pydict() == {
        "label": [None, "1", "cat"], "take": [None, 1.0, 1.5], "more": [None, None, "x"],
    }  # fmt: skip


def test_something_that_is_no_path_is_refused() -> None:
    with pytest.raises(UsageError, match="bytes"):
        list_roots([b"not a path"])  # type: ignore[list-item]
