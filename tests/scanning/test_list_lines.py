"""Text lists: comments, quotes, lines that do not fit, and labels that look like mistakes."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from framefeed.errors import MissingMedia, UsageError
from framefeed.scanning._scan import scan
from tests.scanning.test_manifests import names, read


@pytest.mark.parametrize("content", ["a.mp4 1\nb\nc\nd\n", "a.mp4\nb.mp4\n\nc.mp4 1\n", 'a.mp4\nb.mp4\n"x.y" 1\n'])
def test_a_few_values_among_paths_are_refused(tmp_path: Path, content: str) -> None:
    number, line = next((at, line) for at, line in enumerate(content.splitlines(), 1) if line.endswith("1"))
    with pytest.raises(UsageError, match=f"line {number} .*has a value behind its path, but most lines") as caught:
        read(tmp_path, "list.txt", content)
    assert f"line {number} ({line!r})" in str(caught.value)
    assert "list.txt" in str(caught.value)
    assert "CSV file with one column" in str(caught.value)


def test_a_name_with_an_ending_in_its_middle_is_a_path(tmp_path: Path) -> None:
    lines = ["a.mp4 (1)", "b.mp4 copy.mp4", "c.mp4", "d.mp4", "e.mp4"]
    (tmp_path / lines[0]).touch()
    assert names(tmp_path, read(tmp_path, "list.txt", "\n".join(lines))) == lines
    (tmp_path / lines[0]).unlink()
    with pytest.raises(UsageError, match=r"line 1 \('a\.mp4 \(1\)'\)"):
        read(tmp_path, "list.txt", "\n".join(lines))


@pytest.mark.parametrize(
    ("content", "paths", "labels"),
    [
        ('"a b.mp4" 3\nc.mp4 4\n', ["a b.mp4", "c.mp4"], [3, 4]),
        ('"a.mp4 b.mp4",3\n"c.xyz",4\n', ["a.mp4 b.mp4", "c.xyz"], [3, 4]),
        ('"a ""b"".mp4"\t3\nc.mp4\t4\r\n', ['a "b".mp4', "c.mp4"], ["3", "4\r"]),
        ('"a b.mp4" "to run"\n"c.mp4" sit\n', ["a b.mp4", "c.mp4"], ["to run", "sit"]),
    ],
)
def test_paths_in_quotes_are_read(tmp_path: Path, content: str, paths: list[str], labels: list[object]) -> None:
    manifest = read(tmp_path, "list.txt", content)
    assert names(tmp_path, manifest) == paths
    assert manifest.columns.to_pydict() == {"label": labels}


def test_quotes_around_paths_alone(tmp_path: Path) -> None:
    content = '"a b.mp4"\nc.mp4\n"d""e.mp4" \nx"y.mp4\n'
    assert names(tmp_path, read(tmp_path, "list.txt", content)) == ["a b.mp4", "c.mp4", 'd"e.mp4', 'x"y.mp4']
    (tmp_path / '"a b.mp4"').touch()
    assert names(tmp_path, read(tmp_path, "list.txt", content)) == content.splitlines()
    with_nuls = content.replace("\n", "\0")
    (tmp_path / '"a b.mp4"').unlink()
    assert names(tmp_path, read(tmp_path, "list.txt", with_nuls)) == content.splitlines()


def test_quotes_and_columns_by_number(tmp_path: Path) -> None:
    content = '"my frames/a" 5 300\nframes/b 7 20\nframes/c 8 10\n'
    manifest = read(tmp_path, "list.txt", content, columns={"path": 0, "label": 1})
    assert names(tmp_path, manifest) == ["my frames/a", "frames/b", "frames/c"]
    assert manifest.columns.to_pydict() == {"label": [5, 7, 8], "column_2": [300, 20, 10]}


def test_lines_that_begin_with_a_hash_are_comments(tmp_path: Path) -> None:
    content = (
        "# my list: path, label\n#\na.mp4 1\n# old.mp4 2\n## b.mp4 2\n#b.mp4 2\nc.mp4 3 # not a comment\nd.mp4 4\n"
    )
    (tmp_path / "b.mp4").touch()
    manifest = read(tmp_path, "list.txt", content)
    assert names(tmp_path, manifest)[::2] == ["a.mp4", "d.mp4"]
    assert manifest.columns.column("label").to_pylist() == ["1", "3 # not a comment", "4"]
    assert names(tmp_path, read(tmp_path, "list.txt", "# paths\na.mp4\n#b.mp4\n")) == ["a.mp4"]


def test_files_whose_names_begin_with_a_hash_stay(tmp_path: Path) -> None:
    # "#2.mp4" is missing, and so is "2.mp4": it is listed as a failed row rather than dropped.
    for name in ("# 1.mp4", "1.mp4", "#3.mp4", "3.mp4"):
        (tmp_path / name).touch()
    content = "# 1.mp4 5\n#2.mp4 6\n#3.mp4 7\n# 4.mp4 8\n"
    manifest = read(tmp_path, "list.txt", content)
    assert names(tmp_path, manifest) == ["# 1.mp4", "#2.mp4", "#3.mp4"]
    assert manifest.columns.to_pydict() == {"label": [5, 6, 7]}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("b.mp4", "expected a path and 1 value behind it, found a path alone: add what is missing"),
        ("b.xyz 4", r"expected a path and 1 value behind it, found no path with the ending of a media file, .*quotes"),
        ("b", r"found no path with the ending of a media file, such as \.mp4"),
        ("b.mp4 4 5", "expected a path and 1 value behind it, found 2: correct the line"),
    ],
)
def test_a_line_that_does_not_fit_says_why(tmp_path: Path, line: str, message: str) -> None:
    manifest = read(tmp_path, "list.txt", f"# comment\na.mp4 1\n\n{line}\nc.mp4 3\n")
    (error,) = manifest.bad.values()
    with pytest.raises(type(error), match=message):
        raise error
    assert f"line 4 ({line!r}): " in str(error), "comments and empty lines count"
    again = read(tmp_path, "list.txt", 'a.mp4 1\n"b.xyz" 4\nc.mp4 3\n')
    assert (again.bad, again.columns.to_pydict()) == ({}, {"label": [1, 4, 3]})


@pytest.mark.parametrize("name", ["list.txt", "list.csv", "list.json", "list.parquet"])
def test_a_missing_list_is_reported(tmp_path: Path, name: str) -> None:
    with pytest.raises(MissingMedia, match=rf"^list .*{name}: there is no such file: check its spelling$"):
        scan(tmp_path / name)


# --- labels -------------------------------------------------------------------------------------------

STRAY = r"line {}: the label '{}' is text, but {} of {} labels are integers"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("list.txt", "a.mp4 1\n\nb.mp4 x7\nc.mp4 3\n", STRAY.format(3, "x7", 2, 3)),
        ("list.csv", "path,label\na.mp4,1\n\nb.mp4,x\nc.mp4,3\n", STRAY.format(4, "x", 2, 3)),
        ("list.csv", 'path,label\n"x\nb.mp4",1\na.mp4,x\nc.mp4,3\n', STRAY.format(4, "x", 2, 3)),
        ("list.csv", "a.mp4,1\nb.mp4,2\nc.mp4\nd.mp4,x\n", STRAY.format(4, "x", 2, 3)),
        ("list.json", '[{"path": "a.mp4", "label": "1"}, {"path": "b.mp4", "label": "2"}, {"path": "c", "label": "x"}]',
         STRAY.replace("line", "row").format(r"2 \(from 0\)", "x", 2, 3)),
        ("list.txt", "".join(f"{n}.mp4 {'xy' if n in (7, 8) else n}\n" for n in range(10)),
         STRAY.format(8, "xy", 8, 10) + r" \(1 more are text too\)"),
    ],
)  # fmt: skip
def test_a_text_among_integer_labels_gives_a_warning(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    (tmp_path / "a.mp4").touch()
    (tmp_path / "0.mp4").touch()
    with pytest.warns(UserWarning, match=message) as caught:
        scan(tmp_path / name, workers=0)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert name in str(caught[0].message)


@pytest.mark.parametrize(
    "content",
    [
        "a.mp4 1\nb.mp4 2\n",
        "a.mp4 cat\nb.mp4 2\n",
        "a.mp4 cat\nb.mp4 dog\nc.mp4 3\nd.mp4 4\ne.mp4 5\n",
        "a.mp4 cat\nb.mp4 dog\n",
    ],
)
def test_correct_labels_give_no_warning(tmp_path: Path, content: str) -> None:
    (tmp_path / "list.txt").write_text(content)
    (tmp_path / "a.mp4").touch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scan(tmp_path / "list.txt", workers=0)


def test_empty_labels_of_a_csv_give_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").touch()
    (tmp_path / "list.csv").write_text("path,label\na.mp4,1\n\nb.mp4,\nc.mp4\nd.mp4,4\ne.mp4,\n")
    message = r"list\.csv: line 4: the label is empty, as in 2 of 5 rows: .*this is fine: .*add the labels"
    with pytest.warns(UserWarning, match=message) as caught:
        made = scan(tmp_path / "list.csv", workers=0)
    assert len(caught) == 1
    assert made.table.column("label").to_pylist() == [1, None, None, 4, None]
    (tmp_path / "list.csv").write_text("video,class\na.mp4,cat\nb.mp4,\n")
    with pytest.warns(UserWarning, match="line 3: the label is empty, as in 1 of 2 rows"):
        scan(tmp_path / "list.csv", columns={"label": "class"}, workers=0)


def test_empty_labels_that_are_filled_or_selected_give_no_warning(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").touch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (tmp_path / "list.csv").write_text("path,label\na.mp4,cat\nb.mp4,\n")
        assert scan(tmp_path / "list.csv", label_from="parent", workers=0).classes == sorted(["cat", tmp_path.name])
        (tmp_path / "list.csv").write_text("path,label\na.mp4,\nb.mp4,\n")
        assert scan(tmp_path / "list.csv", workers=0).classes == []
