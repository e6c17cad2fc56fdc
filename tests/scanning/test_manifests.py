"""Manifests: every line is kept, with its columns and their types."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed._names import make_absolute
from framefeed.errors import UnreadableMedia, UsageError
from framefeed.scanning._list_columns import ListOptions
from framefeed.scanning._manifests import read_manifest
from framefeed.scanning._rows import Listing, SourceGroup


def read(tmp_path: Path, name: str, content: bytes | str, **options: Any) -> Listing:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_manifest(str(path), ListOptions(**options))


def names(folder: Path, manifest: Listing) -> list[str]:
    return [os.path.relpath(path, folder) for path in manifest.paths]


@given(st.lists(st.text("a/.\n:\0\udcff", min_size=1, max_size=6), max_size=4))
def test_names_are_completed_as_one_name_is(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("list") / "list.parquet"
    pq.write_table(pa.table({"path": pa.array(map(os.fsencode, lines), pa.binary())}), path)
    assert read_manifest(str(path)).paths == [make_absolute(line, str(path.parent)) for line in lines]


def test_lists_without_oddities_are_kept_as_they_are(tmp_path: Path) -> None:
    assert read(tmp_path, "list.txt", "a/b.mp4\nc..mp4\n.d.mp4\n").groups[0].folder == str(tmp_path)
    assert read(tmp_path, "list.txt", "/a/b.mp4\n/c.mp4\n").groups == [SourceGroup("", ["/a/b.mp4", "/c.mp4"])]


def test_absolute_paths_and_urls_stay(tmp_path: Path) -> None:
    manifest = read(tmp_path, "list.txt", "/data/a.mp4\nhttps://host/b.mp4\n")
    assert manifest.paths == ["/data/a.mp4", "https://host/b.mp4"]


def test_a_word_in_the_last_of_many_lines_makes_a_column_text(tmp_path: Path) -> None:
    lines = "".join(f"video_{number:06d}_{'x' * 100}.mp4,{number}\n" for number in range(20_000))
    manifest = read(tmp_path, "list.csv", f"path,take\n{lines}last.mp4,none\n")
    assert manifest.columns.column("take").to_pylist()[-2:] == ["19999", "none"]


def test_D10_csv_with_odd_names(tmp_path: Path) -> None:
    manifest = read(tmp_path, "list.csv", b'path,label\ncaf\xe9.mp4,a\n"new\nline.mp4",b\n')
    assert names(tmp_path, manifest) == [os.fsdecode(b"caf\xe9.mp4"), "new\nline.mp4"]
    assert manifest.columns.to_pydict() == {"label": ["a", "b"]}


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
def test_other_files_as_manifest_are_a_usage_error(tmp_path: Path, name: str, content: str) -> None:
    with pytest.raises(UsageError, match=name):
        read(tmp_path, name, content)


def test_a_path_column_of_numbers_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"number": [1]}), tmp_path / "list.parquet")
    with pytest.raises(UsageError, match="int64, not paths"):
        read_manifest(str(tmp_path / "list.parquet"))


def test_S16_a_fifo_as_manifest_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "list.txt")
    with pytest.raises(UnreadableMedia, match="FIFO"):
        read_manifest(str(tmp_path / "list.txt"))


# --- lists as people have them ----------------------------------------------------------------------


KINETICS = "label,youtube_id,time_start,time_end,split\nplaying guitar,-abc_12,7,17,train\nskiing,xyz,130,140,val\n"


def test_something_something(tmp_path: Path) -> None:
    content = '[{"id": "74225", "label": "spinning", "placeholders": ["cube"]}, {"id": "7", "placeholders": []}]'
    with pytest.raises(UsageError, match=r"none of its columns \(id, label, placeholders\) holds names of media files"):
        read(tmp_path, "train.json", content)
    manifest = read(tmp_path, "train.json", content, path_template="{id}.webm")
    assert names(tmp_path, manifest) == ["74225.webm", "7.webm"]
    assert manifest.columns.column("placeholders").to_pylist() == [["cube"], []]


@pytest.mark.parametrize("template", ["{youtube_id.__class__}.mp4", "{youtube_id[0]}.mp4", "{id}.mp4"])
def test_a_template_sees_values_only(tmp_path: Path, template: str) -> None:
    with pytest.raises(UsageError, match="has no column"):
        read(tmp_path, "list.csv", KINETICS, path_template=template)


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("list.txt", "frames/a 5\nframes/b 7\n", None, r'say which one holds the paths, as in columns=\{"path": 0\}'),
        ("list.csv", "first,second\nx,y\n", None, r"cannot tell whether its first line \(first, second\) is a header"),
        ("list.csv", "path,label\nx,y\n", {"label": "lable"}, "no column 'lable': .*; did you mean 'label'"),
        ("list.csv", "a.mp4,1\n", {"label": 2}, "2 columns, 0 to 1, and no column 2"),
        ("list.csv", "a.mp4,1\n", {"label": "class"}, "has no header, and so no column 'class'"),
        ("list.csv", "path,label,a\nx,y,z\n", {"label": "a"}, "give two columns one name, 'label'"),
        ("list.json", '{"a": {"path": "x.mp4"}}', None, r"the path \('a'\) is .*, expected text"),
        ("a.csv", "label,left,right\n1,a.mp4,b.mp4\n2,c.mp4,d.mp4\n", None,
         "'left', 'right' all hold .*\"path\": \"left\""),
        ("a.csv", "1,a.mp4,b.mp4\n2,c.mp4,d.mp4\n", None, "'column_1', 'column_2' all hold .*\"path\": 1"),
        ("train.csv", KINETICS, None, r'path_template="\{label\}/\{youtube_id\}.mp4"'),
        ("list.json", "[1, 2]", None, "expected a list of objects"),
        ("list.json", "{", None, "not readable as json"),
    ],
)  # fmt: skip
def test_ambiguous_columns_are_refused(
    tmp_path: Path, name: str, content: str, columns: dict[str, str | int] | None, message: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        read(tmp_path, name, content, columns=columns)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": 3}, "columns must be a dict such as"),
        ({"columns": {"path": 1.5}}, "columns must be a dict such as"),
        ({"path_template": "x.mp4"}, "path_template must be text with columns in braces"),
        ({"path_template": "{"}, "cannot be read"),
        ({"columns": {"path": 0}, "path_template": "{a}"}, "give one of the two"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ListOptions(**options)


def test_relative_paths_count_from_the_folder_that_is_given(tmp_path: Path) -> None:
    manifest = read(tmp_path, "list.txt", "a.mp4\nb/c.mp4\n", folder="/data")
    assert manifest.paths == ["/data/a.mp4", "/data/b/c.mp4"]
