"""Text lists: comments, quotes, and lines that do not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from framefeed.errors import MissingMedia, UsageError
from framefeed.scanning._scan import scan
from tests.scanning.test_manifests import names, read


def test_the_first_line_says_whether_values_are_behind_the_paths(tmp_path: Path) -> None:
    lines = ["a.mp4", "b.mp4 copy.mp4", "c.mp4 1", "d,e.mp4", "f.xyz", "g"]
    assert names(tmp_path, read(tmp_path, "list.txt", "\n".join(lines))) == lines
    manifest = read(tmp_path, "list.txt", "\n".join(["a.mp4 1", *lines]))
    assert [path.partition(" ")[2] for path in manifest.unlistable] == [f"line {line}" for line in (2, 3, 5, 6, 7)]
    assert manifest.columns.to_pydict() == {"label": [1, None, None, 1, None, None, None]}


@pytest.mark.parametrize(
    ("content", "paths", "labels"),
    [
        ('"a b.mp4" 3\nc.mp4 4\n', ["a b.mp4", "c.mp4"], [3, 4]),
        ('"a.mp4 b.mp4",3\n"c.xyz",4\n', ["a.mp4 b.mp4", "c.xyz"], [3, 4]),
        ('"a ""b"".mp4"\t3\nc.mp4\t4\r\n', ['a "b".mp4', "c.mp4"], [3, 4]),
        ('"a b.mp4" "to run"\n"c.mp4" sit\n', ["a b.mp4", "c.mp4"], ["to run", "sit"]),
        ('"#1.mp4" 3\n#2.mp4 4\n', ["#1.mp4"], [3]),
        ("my dir/a.mp4 3\nb.mp4 4\n", ["my dir/a.mp4", "b.mp4"], [3, 4]),
    ],
)
def test_paths_in_quotes_are_read(tmp_path: Path, content: str, paths: list[str], labels: list[object]) -> None:
    manifest = read(tmp_path, "list.txt", content)
    assert names(tmp_path, manifest) == paths
    assert manifest.columns.to_pydict() == {"label": labels}


def test_quotes_around_paths_alone(tmp_path: Path) -> None:
    content = '"a b.mp4"\nc.mp4\n"d""e.mp4" \nx"y.mp4\n'
    assert names(tmp_path, read(tmp_path, "list.txt", content)) == ["a b.mp4", "c.mp4", 'd"e.mp4', 'x"y.mp4']


def test_lines_that_begin_with_a_hash_are_comments(tmp_path: Path) -> None:
    (tmp_path / "#b.mp4").touch()
    content = "# my list: path, label\n#\na.mp4 x\n# old.mp4 2\n## b.mp4 2\n#b.mp4 2\nc.mp4 3 # none\nd.mp4 4\n"
    manifest = read(tmp_path, "list.txt", content)
    assert names(tmp_path, manifest) == ["a.mp4", "c.mp4", "d.mp4"]
    assert manifest.columns.column("label").to_pylist() == ["x", "3 # none", "4"]
    assert names(tmp_path, read(tmp_path, "list.txt", "# paths\na.mp4\n#b.mp4\n")) == ["a.mp4"]


@pytest.mark.parametrize("line", ["b.mp4", "b.xyz 4", "b", "b.mp4 4 5", "b.mp4 four", "b.mp4 playing guitar"])
def test_a_line_that_does_not_fit_says_why(tmp_path: Path, line: str) -> None:
    manifest = read(tmp_path, "list.txt", f"# comment\na.mp4 1\n\n{line}\nc.mp4 3\n")
    (error,) = manifest.unlistable.values()
    assert f"line 4 ({line!r}): expected a path and 1 number behind it" in str(error), "comments and empty lines count"
    again = read(tmp_path, "list.txt", 'a.mp4 1\n"b.xyz" 4\nc.mp4 3\n')
    assert (again.unlistable, again.columns.to_pydict()) == ({}, {"label": [1, 4, 3]})


def test_a_header_of_another_width_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"header has 3 columns, but line 2 .* is a path and a text behind it"):
        read(tmp_path, "list.txt", "path label split\na.mp4 run\n")


@pytest.mark.parametrize("name", ["list.txt", "list.csv"])
def test_names_between_nuls_are_refused(tmp_path: Path, name: str) -> None:
    for content in (b"a.mp4\0b.mp4\0", "path\na.mp4\n".encode("utf-16-le")):
        with pytest.raises(UsageError, match="line 1 has a NUL character: write one path a line"):
            read(tmp_path, name, content)


@pytest.mark.parametrize("name", ["list.txt", "list.csv", "list.json", "list.parquet"])
def test_a_missing_list_is_reported(tmp_path: Path, name: str) -> None:
    with pytest.raises(MissingMedia, match=rf"^list .*{name}: there is no such file: check its spelling$"):
        scan(tmp_path / name)
