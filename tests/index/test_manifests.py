"""Manifests: every line is kept, with its columns and their types."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.errors import MissingMedia, UnreadableMedia, UsageError
from framefeed.index.manifests import Manifest, read_manifest
from framefeed.index.names import absolute


def read(folder: Path, name: str, content: bytes | str) -> Manifest:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_manifest(str(path))


def names(folder: Path, manifest: Manifest) -> list[str]:
    return [os.path.relpath(path, folder) for path in manifest.paths]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a.mp4\nb/c.mp4\n", ["a.mp4", "b/c.mp4"]),
        (b"a.mp4\n\n\nb.mp4", ["a.mp4", "b.mp4"]),
        (b"\xef\xbb\xbfa.mp4\r\nb.mp4\r\n", ["a.mp4", "b.mp4"]),
        (b"a.mp4\0new\nline.mp4\0", ["a.mp4", "new\nline.mp4"]),
        (b"#1.mp4\n a.mp4\nb .mp4\n", ["#1.mp4", " a.mp4", "b .mp4"]),
        (b"caf\xe9.mp4\n", [os.fsdecode(b"caf\xe9.mp4")]),
        (b"", []),
    ],
)
def test_text_holds_one_path_a_line(tmp_path: Path, content: bytes, expected: list[str]) -> None:
    assert names(tmp_path, read(tmp_path, "list.txt", content)) == expected


@given(st.lists(st.text("a/.\n:\0\udcff", max_size=6), max_size=4))
def test_names_are_completed_as_one_name_is(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("list") / "list.parquet"
    pq.write_table(pa.table({"path": pa.array(map(os.fsencode, lines), pa.binary())}), path)
    assert read_manifest(str(path)).paths == [absolute(line, str(path.parent)) for line in lines]


def test_lists_without_oddities_are_kept_as_they_are(tmp_path: Path) -> None:
    assert read(tmp_path, "list.txt", "a/b.mp4\nc..mp4\n.d.mp4\n").folder == str(tmp_path)
    assert read(tmp_path, "list.txt", "/a/b.mp4\n/c.mp4\n") == Manifest("", ["/a/b.mp4", "/c.mp4"], pa.table({}))
    assert read(tmp_path, "list.txt", "x\n/y\0").paths == [f"{tmp_path}/x\n/y"]


def test_absolute_paths_and_urls_stay(tmp_path: Path) -> None:
    manifest = read(tmp_path, "list.txt", "/data/a.mp4\nhttps://host/b.mp4\n")
    assert manifest.paths == ["/data/a.mp4", "https://host/b.mp4"]


CSV = """label,path,start_seconds,split,take,when,empty
cat,007,0.5,train,1,2020-01-02,
dog,sub/b.mp4,,test,2,2020-01-03,
,"c,d.mp4",2.25,,3,,
"""


def test_csv_columns_keep_their_types(tmp_path: Path) -> None:
    manifest = read(tmp_path, "list.csv", CSV)
    assert names(tmp_path, manifest) == ["007", "sub/b.mp4", "c,d.mp4"]
    assert manifest.columns.to_pydict() == {
        "label": ["cat", "dog", None],
        "start_seconds": [0.5, None, 2.25],
        "split": ["train", "test", None],
        "take": [1, 2, 3],
        "when": [dt.date(2020, 1, 2), dt.date(2020, 1, 3), None],
        "empty": [None, None, None],
    }


def test_a_word_in_the_last_of_many_lines_makes_a_column_text(tmp_path: Path) -> None:
    lines = "".join(f"video_{number:06d}_{'x' * 100}.mp4,{number}\n" for number in range(20_000))
    manifest = read(tmp_path, "list.csv", f"path,take\n{lines}last.mp4,none\n")
    assert manifest.columns.column("take").to_pylist()[-2:] == ["19999", "none"]


@pytest.mark.parametrize(
    ("header", "column"),
    [("a,path", 1), ("a,Source", 1), ("file,a", 0), ("a,VIDEO", 1), ("first,second", 0), ("video,path", 1)],
)
def test_the_path_column_is_found_by_name_else_the_first(tmp_path: Path, header: str, column: int) -> None:
    assert names(tmp_path, read(tmp_path, "list.csv", f"{header}\nx,y\n")) == ["xy"[column]]


def test_csv_without_header(tmp_path: Path) -> None:
    manifest = read(tmp_path, "list.csv", "a.mp4,3,x\nb.mp4,4,y\n")
    assert names(tmp_path, manifest) == ["a.mp4", "b.mp4"]
    assert manifest.columns.to_pydict() == {"column_1": [3, 4], "column_2": ["x", "y"]}


def test_tab_separated(tmp_path: Path) -> None:
    assert read(tmp_path, "list.tsv", "path\tlabel\na.mp4\tx, y\n").columns.to_pydict() == {"label": ["x, y"]}


def test_D10_csv_with_odd_names(tmp_path: Path) -> None:
    manifest = read(tmp_path, "list.csv", b'path,label\ncaf\xe9.mp4,\xe9\n"new\nline.mp4",b\n')
    assert names(tmp_path, manifest) == [os.fsdecode(b"caf\xe9.mp4"), "new\nline.mp4"]
    assert manifest.columns.to_pydict() == {"label": ["\0dce9", "b"]}


def test_a_line_without_a_path_is_kept(tmp_path: Path) -> None:
    assert read(tmp_path, "list.csv", "path,label\n,x\n").paths == [""]


def test_columns_named_like_facts_are_kept_apart(tmp_path: Path) -> None:
    assert read(tmp_path, "list.csv", "path,width\na.mp4,3\n").columns.to_pydict() == {"manifest_width": [3]}


@pytest.mark.parametrize("content", ["", "\n"])
def test_an_empty_csv_has_no_lines(tmp_path: Path, content: str) -> None:
    assert read(tmp_path, "list.csv", content).paths == []


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int8(), pa.string())])
def test_parquet_columns_keep_their_types(tmp_path: Path, kind: pa.DataType) -> None:
    paths = pa.array(["a.mp4", "b.mp4"]).cast(kind) if kind != pa.binary() else pa.array([b"a.mp4", b"b.mp4"])
    others: dict[str, Any] = {"start_seconds": [0.5, None], "boxes": [[1, 2], []], "label": [5, 6]}
    pq.write_table(pa.table({"path": paths, **others}), tmp_path / "list.parquet")
    manifest = read_manifest(str(tmp_path / "list.parquet"))
    assert names(tmp_path, manifest) == ["a.mp4", "b.mp4"]
    assert manifest.columns.to_pydict() == others


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("list.parquet", "no parquet"),
        ("list.csv", "path,label\na,b,c\n"),
        ("list.csv", "path,label,label\na,b,c\n"),
    ],
)
def test_what_is_no_manifest_is_the_users_mistake(tmp_path: Path, name: str, content: str) -> None:
    with pytest.raises(UsageError, match=name):
        read(tmp_path, name, content)


def test_a_path_column_of_numbers_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"number": [1]}), tmp_path / "list.parquet")
    with pytest.raises(UsageError, match="int64, not paths"):
        read_manifest(str(tmp_path / "list.parquet"))


@pytest.mark.parametrize("name", ["list.txt", "list.csv", "list.parquet"])
def test_a_missing_manifest_is_missing(tmp_path: Path, name: str) -> None:
    with pytest.raises(MissingMedia, match="no such file"):
        read_manifest(str(tmp_path / name))


def test_S16_a_fifo_as_manifest_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "list.txt")
    with pytest.raises(UnreadableMedia, match="FIFO"):
        read_manifest(str(tmp_path / "list.txt"))
