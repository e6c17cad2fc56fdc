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
