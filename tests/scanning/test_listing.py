"""Listing: which files of folders are rows, in which order, and which of them are the same file."""

from __future__ import annotations

import os
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from framefeed.errors import MissingMedia, UsageError
from framefeed.scanning import _walk
from framefeed.scanning._listing import list_roots


def make(folder: Path, *files: str) -> None:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def list_files(folder: Path, *roots: str) -> list[str]:
    paths = list_roots([folder / root for root in roots] or folder).paths
    return [os.path.relpath(path, folder) for path in paths]


def test_the_order_is_not_that_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "data/1.mp4", *(f"set/{folder}/{number}.mp4" for folder in "abc" for number in range(5)))
    for name in "lmnop":
        (tmp_path / "set" / name).symlink_to("../data")  # The first of them is listed.
    list_entries, chance = _walk._list_entries, random.Random(1)

    def shuffle(folder: str) -> _walk._Entries:
        entries = list_entries(folder)
        chance.shuffle(entries.names)
        chance.shuffle(entries.others)
        return entries

    expected = [*(f"set/{folder}/{number}.mp4" for folder in "abc" for number in range(5)), "set/l/1.mp4"]
    assert list_files(tmp_path, "set") == expected
    monkeypatch.setattr(_walk, "_list_entries", shuffle)
    for _ in range(3):
        assert list_files(tmp_path, "set") == expected


def test_roots_come_in_the_order_given_and_named_files_always(tmp_path: Path) -> None:
    make(tmp_path, "b/1.mp4", "a/1.mp4", "a/poster.jpg")
    assert list_files(tmp_path, "b", "a/poster.jpg", "missing.mp4", "a") == [
        "b/1.mp4", "a/poster.jpg", "missing.mp4", "a/1.mp4",
    ]  # fmt: skip


def test_S16_loops_of_links_end(tmp_path: Path) -> None:
    make(tmp_path, "a/1.mp4")
    (tmp_path / "a" / "up").symlink_to("..")
    (tmp_path / "a" / "self").symlink_to("self")
    (tmp_path / "loop.mp4").symlink_to("loop.mp4")
    (tmp_path / "broken.mp4").symlink_to("nowhere")
    assert list_files(tmp_path) == ["a/1.mp4", "broken.mp4", "loop.mp4"]


def test_of_a_file_and_its_links_the_file_is_the_row(tmp_path: Path) -> None:
    make(tmp_path, "b/1.jpg", "data/2.jpg")
    (tmp_path / "b" / "0.jpg").symlink_to("1.jpg")
    (tmp_path / "b" / "3.jpg").symlink_to("1.jpg")
    (tmp_path / "b" / "out.jpg").symlink_to("../data/2.jpg")
    (tmp_path / "l").symlink_to("b")
    assert list_files(tmp_path, "l") == ["l/1.jpg", "l/out.jpg"]
    assert list_files(tmp_path, "l", "data") == ["l/1.jpg", "data/2.jpg"]
    assert list_files(tmp_path, "data", "b") == ["data/2.jpg", "b/1.jpg"]
    assert list_files(tmp_path, "b/3.jpg", "b/0.jpg", "b/1.jpg") == ["b/1.jpg"]
    assert list_files(tmp_path, "b/3.jpg", "b/0.jpg") == ["b/3.jpg"]


def labelled(folder: Path, *roots: str, **options: Any) -> list[tuple[str, str]]:
    listing = list_roots([folder / root for root in roots] or folder, by_parent=True, **options)
    paths = [os.path.relpath(path, folder) for path in listing.paths]
    return list(zip(paths, listing.label_by_folder().to_pylist(), strict=True))


def test_a_linked_file_is_a_row_for_each_label(tmp_path: Path) -> None:
    make(tmp_path, "run/a.mp4", "data/b.mp4")
    for link in ("jump/a.mp4", "jump/again.mp4", "run/same.mp4"):
        (tmp_path / link).parent.mkdir(exist_ok=True)
        (tmp_path / link).symlink_to(tmp_path / "run/a.mp4")
    assert labelled(tmp_path, "run", "jump") == [("run/a.mp4", "run"), ("jump/a.mp4", "jump")]
    assert labelled(tmp_path, "*/*.mp4") == [("data/b.mp4", "data"), ("jump/a.mp4", "jump"), ("run/a.mp4", "run")]
    assert labelled(tmp_path, "run/same.mp4", "jump/a.mp4") == [("run/same.mp4", "run"), ("jump/a.mp4", "jump")]
    (tmp_path / "list.txt").write_text("jump/a.mp4\nrun/a.mp4\n")
    assert labelled(tmp_path, "list.txt") == [("jump/a.mp4", "jump"), ("run/a.mp4", "run")]
    (tmp_path / "list.csv").write_text("path,split\njump/a.mp4,train\nrun/a.mp4,train\n")
    assert labelled(tmp_path, "list.csv") == [("jump/a.mp4", "jump"), ("run/a.mp4", "run")]


def test_a_linked_folder_is_listed_for_each_label_beside_a_folder_that_begins_as_it(tmp_path: Path) -> None:
    make(tmp_path, "run/a.mp4", "run-2/b.mp4")
    (tmp_path / "run-2" / "again").symlink_to("../run")
    rows = [("run/a.mp4", "run"), ("run-2/again/a.mp4", "again"), ("run-2/b.mp4", "run-2")]
    assert sorted(labelled(tmp_path)) == sorted(rows)
    assert sorted(labelled(tmp_path, "run", "run-2")) == sorted(rows)


def test_repeated_files_and_folders_are_counted(tmp_path: Path) -> None:
    make(tmp_path, "a/1.mp4", "a/2.mp4")
    (tmp_path / "a" / "link.mp4").symlink_to("1.mp4")
    (tmp_path / "a" / "up").symlink_to("..")
    listing = list_roots([tmp_path, tmp_path / "a" / "2.mp4"])
    assert (listing.num_rows, listing.stats.repeated_files, listing.stats.repeated_folders) == (2, 2, 1)
    (tmp_path / "list.csv").write_text("path,split\na/1.mp4,train\na/2.mp4,train\n")
    for roots in (["a", "list.csv"], ["list.csv", "a"]):
        listing = list_roots([tmp_path / root for root in roots])
        assert (listing.num_rows, listing.stats.repeated_files) == (2, 1 if roots[0] == "a" else 0)


def test_hard_links_are_rows_of_their_own(tmp_path: Path) -> None:
    make(tmp_path, "a/1.jpg")
    os.link(tmp_path / "a" / "1.jpg", tmp_path / "a" / "2.jpg")
    assert list_files(tmp_path) == ["a/1.jpg", "a/2.jpg"]


def test_folders_interleave_with_files_by_bytes(tmp_path: Path) -> None:
    make(tmp_path, "a/b.jpg", "a-b.jpg", "ab.jpg", "a.jpg", "a0.jpg", "a/z/y.jpg", "a/z-.jpg")
    listed = list_roots(tmp_path)
    assert listed.paths == sorted(listed.paths, key=os.fsencode)
    assert [(os.path.relpath(group.folder, tmp_path), group.names) for group in listed.groups] == [
        (".", ["a-b.jpg", "a.jpg"]), ("a", ["b.jpg", "z-.jpg"]), ("a/z", ["y.jpg"]), (".", ["a0.jpg", "ab.jpg"]),
    ]  # fmt: skip


def test_a_folder_of_files_is_one_group(tmp_path: Path) -> None:
    make(tmp_path, "a/m/note.txt", "a/1.jpg", "a/x.jpg")
    assert [group.names for group in list_roots(tmp_path).groups] == [["1.jpg", "x.jpg"]]


# --- folders of pictures as videos ------------------------------------------------------------------


def test_a_folder_that_holds_pictures_is_one_row(tmp_path: Path) -> None:
    make(tmp_path, "a/1.png", "a/2.PNG", "a/b/1.jpg", "a/b/x.mp4", "a-.mp4", "c/note.txt", "c/d/e/1.gif", "one/1.jpg")
    listed = list_roots(tmp_path, image_folders="video")
    kinds = [(os.path.relpath(path, tmp_path), group.kind) for group in listed.groups for path in group.paths()]
    assert kinds == [
        ("a", "image_folder"), ("a-.mp4", "files"), ("a/b", "image_folder"), ("a/b/x.mp4", "files"),
        ("c/d/e", "image_folder"), ("one", "image_folder"),
    ]  # fmt: skip
    assert listed.make_source_column(str(tmp_path)).to_pylist() == [path for path, _ in kinds]
    assert listed.label_by_folder().to_pylist()[2:5] == ["a", "b", "d"]
    assert list_roots(tmp_path / "a" / "b", image_folders="video").paths[0] == str(tmp_path / "a" / "b")
    assert list_roots(str(tmp_path / "[ac]*"), image_folders="video").paths[:2] == [
        str(tmp_path / "a"), str(tmp_path / "a-.mp4"),
    ]  # fmt: skip


def test_a_picture_that_is_named_stays_a_row(tmp_path: Path) -> None:
    make(tmp_path, "a/1.png")
    assert list_roots([tmp_path, tmp_path / "a" / "1.png"], image_folders="video").num_rows == 2


# --- what is named ----------------------------------------------------------------------------------


def test_a_missing_root_is_a_mistake_among_named_files_it_is_a_row(tmp_path: Path) -> None:
    make(tmp_path, "a.mp4")
    for roots in ("nothing", ["a.mp4/x"], ["missing.mp4"], ["a.mp4", "nothing"]):
        named = [roots] if isinstance(roots, str) else roots
        with pytest.raises(MissingMedia, match=named[-1]):
            list_roots([tmp_path / name for name in named])
    (tmp_path / "list.txt").write_text("missing.mp4\n")
    assert list_files(tmp_path, "a.mp4", "missing.mp4") == ["a.mp4", "missing.mp4"]
    assert list_files(tmp_path, "list.txt") == ["missing.mp4"]


def test_globs(tmp_path: Path) -> None:
    make(tmp_path, "a/1.jpg", "a/b/2.jpg", "a/b/.3.jpg", "a-b/4.png", "c/5.odd", "[x].jpg", "x.jpg")
    assert list_files(tmp_path, "**/*.jpg") == ["[x].jpg", "a/1.jpg", "a/b/2.jpg", "x.jpg"]
    assert list_files(tmp_path, "a*") == ["a-b/4.png", "a/1.jpg", "a/b/.3.jpg", "a/b/2.jpg"]
    assert list_files(tmp_path, "c/*") == ["c/5.odd"]
    assert list_files(tmp_path, "a/b/.*") == ["a/b/.3.jpg"]
    assert list_files(tmp_path, "[x].jpg") == ["[x].jpg"]
    assert list_files(tmp_path, "a/**", "a") == ["a/1.jpg", "a/b/2.jpg", "a/b/.3.jpg"]
    with pytest.raises(UsageError, match=r"\*\.mp4: this pattern matches no file"):
        list_files(tmp_path, "**/*.mp4")


def test_S16_globs_do_not_run_in_circles(tmp_path: Path) -> None:
    make(tmp_path, "a/1.jpg")
    for name in ("x", "y", "z"):
        (tmp_path / "a" / name).symlink_to("..")
    (tmp_path / "a" / "self.jpg").symlink_to("self.jpg")
    assert list_files(tmp_path, "**/*.jpg") == ["a/1.jpg", "a/self.jpg"]
    assert list_files(tmp_path, "**/a/**/*.jpg", "*/*/*/*.jpg") == ["a/1.jpg", "a/self.jpg"]


# --- what must not hurt -----------------------------------------------------------------------------


def refuse(monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    """Have the system refuse to list folders whose paths end so: root may list everything."""
    scandir = os.scandir

    def refusing(path: str) -> object:
        if path.endswith(ending):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)


def test_S16_a_folder_that_cannot_be_listed_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "a/1.mp4", "b/2.mp4")
    refuse(monkeypatch, "/a")
    assert "Permission denied" in str(list_roots(tmp_path).unlistable[str(tmp_path / "a")])
    assert list_files(tmp_path) == list_files(tmp_path, "**/*.mp4") == ["a", "b/2.mp4"]


def test_S16_a_very_deep_tree_ends_in_a_typed_row(tmp_path: Path) -> None:
    # Longer paths than the system takes (PATH_MAX is 4096) can only be made step by step.
    step, depth = "d" * 200, 40
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        for _ in range(depth):
            os.mkdir(step, dir_fd=folder)
            inner = os.open(step, os.O_RDONLY, dir_fd=folder)
            os.close(folder)
            folder = inner
            os.close(os.open("x.jpg", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
        listed = list_roots(tmp_path)
        (deepest,) = listed.unlistable
        assert "name too long" in str(listed.unlistable[deepest])
        assert listed.paths == sorted(listed.paths, key=os.fsencode)
        assert 15 < listed.num_rows < depth
    finally:
        os.close(folder)
        shutil.rmtree(tmp_path / step)


def test_S16_many_nested_folders_are_no_recursion(tmp_path: Path) -> None:
    folders = [os.path.join(tmp_path, *"d" * depth) for depth in range(1, sys.getrecursionlimit() + 20)]
    try:
        for folder in folders:
            os.mkdir(folder)
        for roots in (tmp_path, str(tmp_path / "**" / "*.jpg")):
            os.mknod(folders[-1] + "/x.jpg")
            assert list_roots(roots).paths == [folders[-1] + "/x.jpg"]
            os.remove(folders[-1] + "/x.jpg")
    finally:
        for folder in reversed(folders):
            os.rmdir(folder)


def test_S16_a_file_or_folder_that_disappears_during_the_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "a/1.mp4", "b/2.mp4", "c.mp4")
    stat = os.stat

    def vanishing(path: str, **options: Any) -> os.stat_result:
        if path == str(tmp_path / "a"):
            shutil.rmtree(path)
            (tmp_path / "c.mp4").unlink()
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", vanishing)
    listed = list_roots(tmp_path)
    assert [os.path.relpath(path, tmp_path) for path in listed.paths] == ["a", "b/2.mp4", "c.mp4"]
    assert "No such file" in str(listed.unlistable[str(tmp_path / "a")])


def test_lines_of_a_manifest_are_rows_unless_they_add_nothing(tmp_path: Path) -> None:
    make(tmp_path, "a.mp4", "b.mp4")
    (tmp_path / "x.csv").write_text("path,start\na.mp4,1\na.mp4,2\na.mp4,1\nb.mp4,\nb.mp4,\nmissing.mp4,5\n")
    listed = list_roots([tmp_path, tmp_path / "x.csv", tmp_path / "b.mp4"])
    rows = zip(listed.paths, listed.get_columns().column("start").to_pylist(), strict=True)
    assert [(os.path.basename(path), start) for path, start in rows] == [
        ("a.mp4", 1), ("b.mp4", None), ("a.mp4", 2), ("missing.mp4", 5),
    ]  # fmt: skip


def test_lines_of_a_manifest_have_texts_and_parents_like_walked_files(tmp_path: Path) -> None:
    make(tmp_path, "a/1.jpg", "b/c/2.jpg", "3.jpg")
    (tmp_path / "list.txt").write_text("b/c/2.jpg\n3.jpg\na/1.jpg\n")
    (tmp_path / "full.txt").write_text(f"{tmp_path}/b/c/2.jpg\n{tmp_path}/3.jpg\n{tmp_path}/a/1.jpg\n")
    for name in ("list.txt", "full.txt"):
        listed = list_roots([tmp_path / name, tmp_path])
        assert listed.make_source_column(str(tmp_path)).to_pylist() == ["b/c/2.jpg", "3.jpg", "a/1.jpg"]
        assert listed.label_by_folder().to_pylist() == ["c", tmp_path.name, "a"]


def test_a_file_that_a_manifest_names_with_columns_is_no_row_again(tmp_path: Path) -> None:
    make(tmp_path, "a.mp4", "b.mp4")
    (tmp_path / "x.csv").write_text("path,start\na.mp4,1\na.mp4,2\n")
    listed = list_roots([tmp_path / "x.csv", tmp_path, tmp_path / "a.mp4"])
    assert [os.path.basename(path) for path in listed.paths] == ["a.mp4", "a.mp4", "b.mp4"]
    assert listed.column_rows.tolist() == [0, 1, -1]


def test_many_lines_about_one_file_take_no_square_of_steps(tmp_path: Path) -> None:
    # Time that grows with the square of their number takes ten minutes: the suite's timeout ends it.
    lines = "".join(f"a.mp4,{number}\n" for number in range(60_000))
    (tmp_path / "x.csv").write_text(f"path,start\n{lines}{lines}")
    assert list_roots(tmp_path / "x.csv").num_rows == 60_000


def test_columns_of_several_manifests_are_joined(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("path,label,take\na.mp4,1,1\n")
    (tmp_path / "y.csv").write_text("path,label,take,more\nb.mp4,cat,1.5,x\n")
    (tmp_path / "z.txt").write_text("c.mp4\n")
    listed = list_roots([tmp_path / "z.txt", tmp_path / "x.csv", tmp_path / "y.csv"])
    assert listed.get_columns().to_pydict() == {
        "label": [None, "1", "cat"], "take": [None, 1.0, 1.5], "more": [None, None, "x"],
    }  # fmt: skip


def test_something_that_is_no_path_is_refused() -> None:
    with pytest.raises(UsageError, match="bytes"):
        list_roots([b"not a path"])  # type: ignore[list-item]
