"""Values of lists: nothing is lost without a message, and messages are short."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import pytest

from framefeed.errors import UsageError
from framefeed.scanning._scan import scan
from tests.scanning.test_list_mistakes import failures
from tests.scanning.test_manifests import names, read

LABELS = [
    ["1.10", "1.1"],
    ["+5", "5"],
    ["-0", "0"],
    ["0.50", "0.25"],
    [".5", "2.5"],
    ["1.0", "1.00"],
    ["1e5", "2"],
]
CSV_LABELS = [
    ["true", "false"],
    ["True", "FALSE"],
    ["2020-01-01", "2020-01-02"],
    ["2020-01-01 00:00:00", "2020-01-01 12:00:00"],
    ["2020-01-01T00:00:00", "2020-01-01T12:00:00"],
    ["10:00", "11:00"],
]


# --- values as they stand -----------------------------------------------------------------------------


@pytest.mark.parametrize("labels", LABELS + CSV_LABELS)
def test_labels_of_csv_stay_as_they_stand(tmp_path: Path, labels: list[str]) -> None:
    rows = "".join(f"{at}.mp4,{label}\n" for at, label in enumerate(labels))
    for content in (rows, f"path,label\n{rows}", f"path,Label\n{rows}", f"path,label\n{rows}b.mp4,3,4\n"):
        found = read(tmp_path, "list.csv", content).columns.column("label").to_pylist()
        assert found[: len(labels)] == labels
    third = "path,x,class\n" + rows.replace(",", ",1,")
    for column in ("class", 2, -1):
        found = read(tmp_path, "list.csv", third, columns={"label": column}).columns.column("label").to_pylist()
        assert found == labels


@pytest.mark.parametrize("labels", LABELS)
def test_labels_of_text_stay_as_they_stand(tmp_path: Path, labels: list[str]) -> None:
    rows = "".join(f"{at}.mp4 {label}\n" for at, label in enumerate(labels))
    assert read(tmp_path, "list.txt", rows).columns.to_pydict() == {"label": labels}
    rows = "".join(f"frames/{at} 7 {label}\n" for at, label in enumerate(labels))
    found = read(tmp_path, "list.txt", rows, columns={"path": 0, "label": 2}).columns
    assert found.to_pydict() == {"column_1": [7] * len(labels), "label": labels}


@pytest.mark.parametrize("labels", [["0.0", "10.0", ""], ["12", "1.0", "-3"]])
def test_integers_as_pandas_writes_them_are_integer_labels(tmp_path: Path, labels: list[str]) -> None:
    (tmp_path / "0.mp4").touch()
    rows = "".join(f"{at}.mp4,{label}\n" for at, label in enumerate(labels))
    (tmp_path / "list.csv").write_text("path,label\n" + rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = scan(tmp_path / "list.csv", workers=0).table.column("label").to_pylist()
    assert found == [int(float(label)) if label else None for label in labels]


# --- lines of other encodings -------------------------------------------------------------------------


@pytest.mark.parametrize("header", [b"path,label\n", b""])
def test_a_bad_line_that_is_not_utf8_is_one_bad_row(tmp_path: Path, header: bytes) -> None:
    content = header + b"a.mp4,cat\n\xe9.mp4,x,y\n\xe8.mp4,dog\n"
    manifest = read(tmp_path, "list.csv", content)
    (message,) = failures(tmp_path, manifest).values()
    assert message.endswith("expected 2 fields, found 3: correct the line")
    assert ".mp4,x,y" in message
    assert [names(tmp_path, manifest)[row] for row in (0, 2)] == ["a.mp4", os.fsdecode(b"\xe8.mp4")]
    assert manifest.columns.to_pydict() == {"label": ["cat", None, "dog"]}


# --- quotes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [3, 20_000])
@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize(
    ("bad", "last"),
    [
        ('x.mp4,"cat,1', ""),
        ('"x.mp4,cat,1', ""),
        ('x.mp4,"cat,1', 'z.mp4,"dog, big",2\n'),
        ('x.mp4,cat,"1', "z.mp4,dog,2\n"),
    ],
)
def test_an_open_quote_is_reported(tmp_path: Path, count: int, separator: str, bad: str, last: str) -> None:
    rows = "".join(f"{at}.mp4,cat,{at}\n" for at in range(count))
    for header, line in (("path,label,take\n", 3), ("", 2)):
        content = f"{header}a.mp4,cat,1\n{bad}\n{rows}{last}".replace(",", separator)
        with pytest.raises(UsageError, match=rf"list\.csv: line {line} .*the quote that opens here is not closed"):
            read(tmp_path, "list.csv", content)
    with pytest.raises(UsageError, match=r"line 1 .*the quote that opens here is not closed"):
        read(tmp_path, "list.csv", f'"path,label,take\n{rows}')


def test_a_template_does_not_hide_an_open_quote(tmp_path: Path) -> None:
    rows = "".join(f"{at},cat\n" for at in range(9))
    with pytest.raises(UsageError, match=r"line 11 \('\"9,cat'\): the quote that opens here is not closed"):
        read(tmp_path, "list.csv", f'id,label\n{rows}"9,cat\n{rows}', path_template="{id}.mp4")


def test_a_quote_that_another_closes_is_a_value_of_at_most_128_kib(tmp_path: Path) -> None:
    rows = "".join(f"{at}.mp4,cat,{at}\n" for at in range(20_000))
    head, tail = 'path,label,take\na.mp4,cat,1\nx.mp4,"cat,1\n', 'z.mp4,dog",2\n'
    assert len(read(tmp_path, "list.csv", f"{head}0.mp4,cat,0\n{tail}").paths) == 2
    with pytest.raises(UsageError, match=r"line 3 .*the quote that opens here is not closed"):
        read(tmp_path, "list.csv", f"{head}{rows}{tail}")


# --- headers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "options"),
    [
        ("path,kind", {}),
        ("Label,a/b,7", {}),
        ("url,2019", {}),
        ("vid,klass,3", {"columns": {"path": "vid"}}),
        ("vid,klass", {"path_template": "{klass}/{vid}.mp4"}),
    ],
)
def test_a_known_name_makes_a_header(tmp_path: Path, first: str, options: dict[str, Any]) -> None:
    rows = "a.mp4,x,1\nb.mp4,y,2\n" if first.count(",") == 2 else "a.mp4,x\nb.mp4,y\n"
    assert len(read(tmp_path, "list.csv", f"{first}\n{rows}", **options).paths) == 2


@pytest.mark.parametrize("first", ["x.mp4,label", "path.mp4,path", "videos/x,y", "x,7", "x,-1.5e-3", "s3://b/x,y"])
def test_a_media_file_a_slash_or_a_number_makes_a_row(tmp_path: Path, first: str) -> None:
    manifest = read(tmp_path, "list.csv", f"{first}\na.mp4,x\nb.mp4,y\n")
    assert (len(manifest.paths), manifest.columns.column_names) == (3, ["label"])


@pytest.mark.parametrize("first", ["vid,klass", "a.xyz,cat", "clip.id,clip.label", "# by me,x"])
@pytest.mark.parametrize("name", ["list.csv", "list.txt"])
def test_any_other_first_line_is_refused(tmp_path: Path, first: str, name: str) -> None:
    if first.startswith("#") and name == "list.txt":
        return  # a comment
    for content in (f"{first}\na.mp4,x\nb.mp4,y\n", first, first.partition(",")[0]):
        with pytest.raises(UsageError, match=r"whether its first line .* is a header: .*columns=.* with a header or"):
            read(tmp_path, name, content)
    for columns, count in (({"path": 0}, 3), ({"path": first.partition(",")[0]}, 2)):
        assert len(read(tmp_path, name, f"{first}\na.mp4,x\nb.mp4,y\n", columns=columns).paths) == count


# --- long lines ---------------------------------------------------------------------------------------

LONG = "x" * 300_000


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("list.txt", f"a.mp4 1\n{LONG} 3\nb.mp4 3\n"),
        ("list.txt", f"a.mp4 1 2\nb.mp4 {LONG}\nc.mp4 3 4\nd.mp4 3 4\n"),
        ("list.csv", f"path,label\na.mp4,1\n{LONG},2,3\nb.mp4,3\n"),
    ],
)
def test_messages_of_long_lines_are_short(tmp_path: Path, name: str, content: str) -> None:
    (message,) = failures(tmp_path, read(tmp_path, name, content)).values()
    assert len(message) < 500
    assert "x..." in message


def test_a_list_that_is_refused_shows_the_beginning_of_a_long_line(tmp_path: Path) -> None:
    for content in (f"{LONG}\n", f"{LONG} 5\n", f'path,label\n"{LONG}\n\n'):
        with pytest.raises(UsageError) as caught:
            read(tmp_path, "list.csv" if "path" in content else "list.txt", content)
        assert len(str(caught.value)) < 1000 + len(str(tmp_path))


@pytest.mark.parametrize(
    ("content", "outcome"),
    [
        ("a.mp4" + "\t" * 200_000 + "\n", 1),
        ("a.mp4" + " \t" * 100_000 + "\x0b\n", 1),
        ("a.mp4 " * 100_000 + "\nx\n", "all hold names of media files"),
        ('"a.mp4"' + "\t" * 200_000 + "\x0b\n", "is a header"),
        ('"a.mp4" ' * 50_000 + "\nx\n", 2),
    ],
)
def test_a_line_of_many_blanks_is_read_in_time_that_grows_with_its_length(
    tmp_path: Path, content: str, outcome: int | str
) -> None:
    # Time that grows with the square of the length takes an hour: the suite's timeout ends it.
    if isinstance(outcome, int):
        assert len(read(tmp_path, "list.txt", content).paths) == outcome
        return
    with pytest.raises(UsageError, match=outcome):
        read(tmp_path, "list.txt", content)
