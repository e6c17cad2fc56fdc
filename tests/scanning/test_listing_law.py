"""Law: list_roots lists the same files as a simple walk with a path for every file."""

from __future__ import annotations

import glob
import os
import shutil
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framefeed._names import escape, to_stored_name
from framefeed.errors import UsageError
from framefeed.media import PICTURE_SUFFIXES
from framefeed.scanning._listing import list_roots
from framefeed.scanning._rows import ALL_MEDIA_SUFFIXES, Endings, Listing, get_suffix
from tests.lengths import IS_ALL

TREES = settings(max_examples=150 if IS_ALL else 60)

E_ACUTE = os.fsdecode("é".encode())  # by its bytes, which are a name under any locale
FOLDERS = ["", "a", "a/b", "a-b", "a/b/c", E_ACUTE, ".h", "a.mp4", os.fsdecode(b"\xff")]
FILES = [
    "a-b.jpg",
    "a.mp4",
    "b",
    "x.MKV",
    f"{E_ACUTE}.jpeg",
    ".png",
    ".x.png",
    "n.txt",
    "ab.Mp4",
    os.fsdecode(b"\x80.gif"),
]
LINKS = ["l.jpg", "l", "a-", "zz.mp4", "A.png"]


@dataclass(frozen=True)
class Tree:
    """Folders; files as (folder, name); links as (folder, name, target), the target relative to the top."""

    folders: list[str]
    files: list[tuple[str, str]]
    links: list[tuple[str, str, str]]

    def make(self, top: str) -> None:
        for folder in self.folders:
            os.makedirs(os.path.join(top, folder), exist_ok=True)
        for folder, name in self.files:
            path = os.path.join(top, folder, name)
            if not os.path.lexists(path):
                Path(path).touch()
        for folder, name, target in self.links:
            path = os.path.join(top, folder, name)
            if not os.path.lexists(path):
                os.symlink(os.path.join(top, target), path)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    folders = draw(st.lists(st.sampled_from(FOLDERS), min_size=1, max_size=6, unique=True))
    folders = sorted({"", *folders, *(folder[: folder.rfind("/")] for folder in folders if "/" in folder)})
    files = draw(st.lists(st.tuples(st.sampled_from(folders), st.sampled_from(FILES)), min_size=4, max_size=16))
    paths = [os.path.join(*file) for file in files]
    targets = st.sampled_from([*folders, *paths, "nowhere.mp4", *(os.path.join(folder, "l") for folder in folders)])
    links = st.lists(st.tuples(st.sampled_from(folders), st.sampled_from(LINKS), targets), max_size=6)
    return Tree(folders, files, draw(links))


def reference(roots: Sequence[str], image_folders: str) -> list[tuple[str, bool]]:
    """Path of each row, and whether it is a folder of pictures; a path and a realpath for every file."""
    rows, chosen = [], dict[str, str]()
    seen: set[tuple[int, int]] = set()
    for root in roots:
        listed = walked(root, image_folders, seen) if os.path.isdir(root) else [(root, False)]
        rows += sorted(listed, key=lambda row: os.fsencode(row[0]))
    for path, _ in rows:
        before = chosen.setdefault(os.path.realpath(path), path)
        if os.path.islink(before) and not os.path.islink(path):
            chosen[os.path.realpath(path)] = path
    first = dict.fromkeys(rows)
    return [row for row in first if chosen[os.path.realpath(row[0])] == row[0]]


def walked(root: str, image_folders: str, seen: set[tuple[int, int]]) -> Iterator[tuple[str, bool]]:
    folders, links = [root], deque[str]()
    while folders or links:
        folder = folders.pop() if folders else links.popleft()
        facts = os.stat(folder)
        if (facts.st_dev, facts.st_ino) in seen:
            continue
        seen.add((facts.st_dev, facts.st_ino))
        paths = sorted((os.path.join(folder, name) for name in os.listdir(folder)), key=lambda p: os.fsencode(p) + b"/")
        inner = [path for path in paths if os.path.isdir(path)]
        links += [path for path in inner if os.path.islink(path)]
        folders += [path for path in reversed(inner) if not os.path.islink(path)]
        files = [path for path in paths if path not in inner and get_suffix(path) in ALL_MEDIA_SUFFIXES]
        if image_folders == "video":
            if any(get_suffix(path) in PICTURE_SUFFIXES for path in files):
                yield folder, True
            files = [path for path in files if get_suffix(path) not in PICTURE_SUFFIXES]
        yield from ((path, False) for path in files)


def rows_of(listing: Listing) -> list[tuple[str, bool]]:
    kinds = [group.kind == "image_folder" for group in listing.groups for _ in group.names]
    return list(zip(listing.paths, kinds, strict=True))


@pytest.mark.parametrize("image_folders", ["image", "video"])
@TREES
@given(tree=trees(), roots=st.lists(st.sampled_from([*FOLDERS, "a/a.mp4", "a/l", "zz.mp4"]), min_size=1, max_size=3))
def test_a_listing_is_that_of_a_plain_walk(
    tmp_path_factory: pytest.TempPathFactory, image_folders: str, tree: Tree, roots: list[str]
) -> None:
    top = str(tmp_path_factory.mktemp("tree"))
    try:
        tree.make(top)
        named = [os.path.normpath(os.path.join(top, root)) for root in roots]
        named = [root for root in named if os.path.exists(root)] or [top]
        listing = list_roots(named, image_folders=image_folders)  # type: ignore[arg-type]
        assert rows_of(listing) == reference(named, image_folders)
        check_columns_of_text(listing, top)
    finally:
        shutil.rmtree(top)


def check_columns_of_text(listing: Listing, top: str) -> None:
    paths = listing.paths
    assert listing.num_rows == len(paths) == len(listing.column_rows)
    for root in (None, top, os.path.join(top, "a")):
        assert listing.make_source_column(root).to_pylist() == [to_stored_name(path, root) for path in paths]
    parents = [escape(os.path.basename(os.path.dirname(path))) for path in paths]
    assert listing.label_by_folder().to_pylist() == parents
    assert all(group.names and not group.folder.endswith("/") for group in listing.groups)


def all_labelled(folder: str, image_folders: str, above: frozenset[str] = frozenset()) -> Iterator[tuple[str, str]]:
    """Real path and label of every file, by every way through links but those that lead up."""
    real = os.path.realpath(folder)
    names = [name for name in os.listdir(folder) if not os.path.isdir(os.path.join(folder, name))]
    if image_folders == "video":
        if any(get_suffix(name) in PICTURE_SUFFIXES for name in names):
            yield real, os.path.basename(os.path.dirname(folder))
        names = [name for name in names if get_suffix(name) not in PICTURE_SUFFIXES]
    for name in names:
        if get_suffix(name) in ALL_MEDIA_SUFFIXES:
            yield os.path.realpath(os.path.join(folder, name)), os.path.basename(folder)
    if real in above:
        return
    for name in os.listdir(folder):
        inner = os.path.join(folder, name)
        leads_up = f"{real}/".startswith(f"{os.path.realpath(inner)}/")
        if os.path.isdir(inner) and not leads_up:
            yield from all_labelled(inner, image_folders, above | {real})


@pytest.mark.parametrize("image_folders", ["image", "video"])
@TREES
@given(tree=trees())
def test_files_that_are_labelled_by_their_folders_are_a_row_for_each_label(
    tmp_path_factory: pytest.TempPathFactory, image_folders: str, tree: Tree
) -> None:
    top = str(tmp_path_factory.mktemp("tree"))
    try:
        tree.make(top)
        listing = list_roots(top, image_folders=image_folders, by_parent=True)  # type: ignore[arg-type]
        labelled = [(os.path.realpath(path), os.path.basename(os.path.dirname(path))) for path in listing.paths]
        assert sorted(labelled) == sorted(set(all_labelled(top, image_folders)))
        assert listing.paths == sorted(listing.paths, key=os.fsencode)
        check_columns_of_text(listing, top)
    finally:
        shutil.rmtree(top)


PARTS = ["**", "*", "a*", "?", "[ab]", "[!a]*", "*.jpg", "*.mp4", ".*", "a", E_ACUTE, "*\udc80*"]


@TREES
@given(tree=trees(), parts=st.lists(st.sampled_from(PARTS), min_size=1, max_size=3))
def test_a_glob_matches_what_the_glob_module_does(
    tmp_path_factory: pytest.TempPathFactory, tree: Tree, parts: list[str]
) -> None:
    top = str(tmp_path_factory.mktemp("tree"))
    try:
        Tree(tree.folders, tree.files, []).make(top)
        pattern = os.path.join(top, *parts, "*.*")
        expected = {path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)}
        if "**" not in parts:
            matched = [path for path in glob.glob(pattern) if os.path.isdir(path)]
            expected |= {path for folder in matched for path, _ in walked(folder, "image", set())}
        try:
            assert list_roots(pattern).paths == sorted(expected, key=os.fsencode)
        except UsageError:
            assert not expected
    finally:
        shutil.rmtree(top)


NAMES = ("a.jpg", "b.JPG", "c.Jpg", "d.jpeg", "e.mp4", "f.ts", ".jpg", ".g.jpg", "..jpg", "h", "i.", "jpg", ".ts",
         "k.txt",
         "\udcff.jpg", "l.\udcff", "é.mp4", "m.webm", ".mp4", "n.jpg.txt", "o..jpg", ".", "x.avi")  # fmt: skip


@given(st.lists(st.sampled_from(NAMES), unique=True), st.sampled_from([ALL_MEDIA_SUFFIXES, PICTURE_SUFFIXES]))
def test_names_are_chosen_and_counted_by_their_endings(names: list[str], suffixes: frozenset[str]) -> None:
    endings = Endings(suffixes)
    expected = sorted((name for name in names if get_suffix(name) in suffixes), key=os.fsencode)
    assert endings.sorted_names(names) == expected
    assert endings.count_others(names) == Counter(map(get_suffix, set(names).difference(expected)))
