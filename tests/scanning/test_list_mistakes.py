"""Mistakes in lists: a bad line is a row with its error, its line and the fix; the other lines stay as they are."""

from __future__ import annotations

import codecs
import json
import os
import warnings
from pathlib import Path
from typing import Any

import pytest

from framefeed.errors import UsageError
from framefeed.scanning._list_columns import ListOptions
from framefeed.scanning._manifests import read_manifest
from framefeed.scanning._rows import Listing
from framefeed.scanning._scan import scan
from tests.scanning.test_manifests import names, read

KINETICS = "label,youtube_id,time_start,time_end\n"
TEMPLATE = "{label}/{youtube_id}_{time_start:06d}_{time_end:06d}.mp4"


def failures(folder: Path, manifest: Listing) -> dict[str, str]:
    """What is wrong with the bad lines, by what stands behind the name of the list."""
    found = {}
    for name, error in manifest.unlistable.items():
        path = str(error.source)
        assert os.path.dirname(path) == str(folder)
        assert name.startswith(f"{path} ")
        assert str(error).startswith(f"{path}: ")
        found[name.removeprefix(f"{path} ")] = str(error).removeprefix(f"{path}: ")
    return found


# --- JSON ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0, "0", "1", "a b"], ["0", "0", "1", "a b"]),
        (["Archery", 1, True, 0.5], ["Archery", "1", "true", "0.5"]),
        (["Archery", None, 1, 2], ["Archery", None, "1", "2"]),
        ([2**70, 1, 2, 3], [str(2**70), "1", "2", "3"]),
    ],
)
def test_json_values_of_several_types_keep_their_own_text(
    tmp_path: Path, labels: list[Any], expected: list[Any]
) -> None:
    records = [{"path": f"{number}.mp4", "label": label} for number, label in enumerate(labels)]
    manifest = read(tmp_path, "list.json", json.dumps(records))
    assert manifest.columns.column("label").to_pylist() == expected
    lines = "\n".join(map(json.dumps, records))
    assert read(tmp_path, "list.jsonl", lines).columns.column("label").to_pylist() == expected


def test_a_path_in_json_that_is_not_text_is_one_bad_row(tmp_path: Path) -> None:
    records = [{"path": path, "label": 1} for path in ("a.mp4", 7, "b.mp4", ["c.mp4"], None)] + [{"label": 2}]
    manifest = read(tmp_path, "list.json", json.dumps(records))
    assert failures(tmp_path, manifest) == {
        "row 1": "row 1 (from 0): the path ('path') is 7, expected text: correct or remove it",
        "row 3": "row 3 (from 0): the path ('path') is [\"c.mp4\"], expected text: correct or remove it",
        "row 4": "row 4 (from 0): the path ('path') is missing: add it, or remove the line",
        "row 5": "row 5 (from 0): the path ('path') is missing: add it, or remove the line",
    }
    assert [names(tmp_path, manifest)[row] for row in (0, 2)] == ["a.mp4", "b.mp4"]


def test_a_bad_line_of_json_lines_is_a_row(tmp_path: Path) -> None:
    lines = [
        '{"video": "a.mp4", "label": "x\u2028"}',
        '{"video": "b.mp4", "label": ',
        "",
        '["c.mp4"]',
        '{"video": null, "label": "x"}',
        '{"viedo": "d.mp4", "label": "x"}',
        *(f'{{"video": "{number}.mp4", "label": "y"}}' for number in range(4)),
    ]
    for content in ("\n".join(lines), "\r\n".join(lines) + "\n"):
        manifest = read(tmp_path, "list.jsonl", content)
        found = failures(tmp_path, manifest)
        assert list(found) == ["line 2", "line 4", "line 5", "line 6"]
        assert found["line 2"].startswith("line 2: not readable as JSON (Expecting value at character ")
        assert found["line 4"].startswith(
            'line 4: expected an object such as {"path": "a.mp4", "label": "cat"}, found ['
        )
        assert found["line 6"] == "line 6: the path ('video') is missing: add it, or remove the line"
        assert [name for name in names(tmp_path, manifest) if "list" not in name] == [
            "a.mp4", "0.mp4", "1.mp4", "2.mp4", "3.mp4",
        ]  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        '[\n{"path": "a.mp4"},\n{"path": "b.mp4"}\n',
        '{\n"videos": [\n{"path": "a.mp4"},\n{"path": "b.mp4"}\n',
        '[{"path": "a.mp4"}, {"path": ',
        "[" * 100_000,
    ],
)
def test_json_that_breaks_off_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(UsageError, match=r"list\.json: not readable as json: "):
        read(tmp_path, "list.json", content)


def test_other_values_than_objects_in_a_list_are_rows(tmp_path: Path) -> None:
    manifest = read(tmp_path, "list.json", '[{"path": "a.mp4"}, "b.mp4"]')
    assert failures(tmp_path, manifest) == {
        "row 1": 'row 1 (from 0): expected an object such as {"path": "a.mp4", "label": "cat"}, found "b.mp4": '
        "correct or remove it"
    }


# --- numbers and text ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["000003", "12"], ["000003", "12"]),
        (["01234567890", "12345678901"], ["01234567890", "12345678901"]),
        (["12345678901", "1e100000000"], ["12345678901", "1e100000000"]),
        (["12345678901", "12345678e10"], ["12345678901", "12345678e10"]),
        (["12345678901234567890", "1"], ["12345678901234567890", "1"]),
        (["0x10", "7"], ["0x10", "7"]),
        (["inf", "7"], ["inf", "7"]),
        (["3", "12"], [3, 12]),
        (["0", "-5"], [0, -5]),
    ],
)
def test_numbers_that_would_lose_text_stay_text(tmp_path: Path, ids: list[str], expected: list[Any]) -> None:
    content = "path,id,take\n" + "".join(f"{at}.mp4,{value},{at}\n" for at, value in enumerate(ids))
    columns = read(tmp_path, "list.csv", content).columns
    assert columns.to_pydict() == {"id": expected, "take": [0, 1]}
    plain = "".join(f"{at}.mp4,{value}\n" for at, value in enumerate(ids))
    assert read(tmp_path, "list.txt", plain).columns.to_pydict() == {"label": expected}


@pytest.mark.parametrize(
    ("template", "ids", "expected"),
    [
        ("{id}.mp4", ["000003", "12"], ["000003.mp4", "12.mp4"]),
        ("{id:06d}.mp4", ["3", "12"], ["000003.mp4", "000012.mp4"]),
        ("{id:06d}.mp4", ["003", "12"], ["000003.mp4", "000012.mp4"]),
        ("{id:06}.mp4", ["003", "12"], ["000003.mp4", "000012.mp4"]),
        ("{id}.mp4", ["12345678901", "1e100000000"], ["12345678901.mp4", "1e100000000.mp4"]),
        ("{id}.mp4", ["1.10", "+5", "-0"], ["1.10.mp4", "+5.mp4", "-0.mp4"]),
        ("{id}.mp4", ["10:00", "11:00"], ["10:00.mp4", "11:00.mp4"]),
        ("{id}.mp4", ["True", "false"], ["True.mp4", "false.mp4"]),
        ("{id}.mp4", ["2020-01-01T00:00:00Z"], ["2020-01-01T00:00:00Z.mp4"]),
        ("{id:06d}.mp4", ["3.0", "12.0"], ["000003.mp4", "000012.mp4"]),
        ("{id:>6}.mp4", ["003", "x"], ["   003.mp4", "     x.mp4"]),
        ("{id:.1f}.mp4", ["03.25", "7"], ["3.2.mp4", "7.0.mp4"]),
        ("{id:05.1f}.mp4", ["1.50", "+2"], ["001.5.mp4", "002.0.mp4"]),
        ("{id:03d}.mp4", ["+5", "-0"], ["005.mp4", "000.mp4"]),
    ],
)
def test_templates_take_numbers_as_they_stand(
    tmp_path: Path, template: str, ids: list[str], expected: list[str]
) -> None:
    content = "id,label\n" + "".join(f"{value},a\n" for value in ids)
    assert names(tmp_path, read(tmp_path, "list.csv", content, path_template=template)) == expected


@pytest.mark.parametrize(("spec", "kind"), [("06d", "an integer"), ("06", "a number")])
def test_one_bad_number_is_one_bad_row(tmp_path: Path, spec: str, kind: str) -> None:
    content = KINETICS + "a,x,10,20\na,y,4O,50\nb,z,60,70\n"
    manifest = read(tmp_path, "list.csv", content, path_template=TEMPLATE.replace("06d", spec))
    assert failures(tmp_path, manifest) == {
        "line 3": f"line 3: time_start is '4O', and {{time_start:{spec}}} in path_template needs {kind}: correct the "
        "line, or the template"
    }
    assert names(tmp_path, manifest)[::2] == ["a/x_000010_000020.mp4", "b/z_000060_000070.mp4"]
    assert manifest.columns.column("time_start").to_pylist() == ["10", "4O", "60"]


@pytest.mark.parametrize("value", ["", " ", '""'])
def test_an_empty_value_in_a_template_is_a_bad_row(tmp_path: Path, value: str) -> None:
    content = KINETICS + f"a,x,10,20\n\n{value},y,40,50\n"
    manifest = read(tmp_path, "list.csv", content, path_template=TEMPLATE)
    assert failures(tmp_path, manifest) == {
        "line 4": f"line 4: label is empty, and path_template={TEMPLATE!r} needs it: add it, or remove the line"
    }


def test_no_line_that_fits_names_the_list_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no line fits: line 2: label is empty") as caught:
        read(tmp_path, "list.csv", KINETICS + ",y,40,50\n", path_template=TEMPLATE)
    assert str(caught.value).count("list.csv") == 1


# --- text lists of numbers ----------------------------------------------------------------------------

VIDEOMAE = "a.mp4 120 1\nb.mp4 84 0\nc.mp4 90 2\n"


@pytest.mark.parametrize("values", ["x 120 1", "110 archery", "110 nan", "playing guitar"])
def test_one_line_with_a_word_among_numbers_is_a_bad_row(tmp_path: Path, values: str) -> None:
    columns: dict[str, str | int] = {"path": 0, "count": 1, "label": 2}
    manifest = read(tmp_path, "list.txt", f"{VIDEOMAE}# comment\nd.mp4 {values}\ne.mp4 7 3\n", columns=columns)
    assert failures(tmp_path, manifest) == {
        "line 5": f"line 5 ('d.mp4 {values}'): expected a path and 2 numbers behind it (a path without the ending of a "
        "media file in double quotes): correct the line"
    }
    assert manifest.columns.to_pydict() == {"count": [120, 84, 90, None, 7], "label": [1, 0, 2, None, 3]}


def test_words_in_most_lines_are_one_value(tmp_path: Path) -> None:
    content = "a.mp4 120 run\nb.mp4 84 jump\nc.mp4 90 2\n"
    with pytest.raises(
        UsageError, match=r"no column 2 \(line 1 is read as 'a\.mp4', '120 run'; .*use tabs or commas\)"
    ):
        read(tmp_path, "list.txt", content, columns={"path": 0, "label": 2})


def test_a_long_list_is_read_in_time_that_grows_with_its_length(tmp_path: Path) -> None:
    # Time that grows with the square of the length takes a quarter of an hour: the suite's timeout ends it.
    content = "".join(f"/v/{number}.mp4 {number} {number % 7}\n" for number in range(300_000))
    assert len(read(tmp_path, "list.txt", content).paths) == 300_000


# --- lines --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("list.csv", "\n\npath,label\na.mp4,1\n\n,2\nb.mp4,3\n", 6),
        ("list.csv", "\n\npath,label\na.mp4,1\n\nx\nb.mp4,3\n", 6),
        ("list.csv", 'path,label\n"a\nb.mp4",1\nx\nb.mp4,3\n', 4),
        ("list.csv", "a.mp4,1\n\nx\nb.mp4,3\n", 3),
        ("list.csv", "path;label\r\na.mp4;1\r\n\r\nx\r\nb.mp4;3\r\n", 4),
        ("list.txt", "# comment\n\na.mp4 1\nx\nb.mp4 3\n", 4),
        ("list.jsonl", '{"path": "a.mp4", "label": 1}\n\n{}\n{"path": "b.mp4", "label": 3}\n', 3),
    ],
)
def test_lines_are_counted_as_editors_count_them(tmp_path: Path, name: str, content: str, line: int) -> None:
    manifest = read(tmp_path, name, content)
    ((place, message),) = failures(tmp_path, manifest).items()
    assert place == f"line {line}"
    assert message.startswith(f"line {line}")
    assert manifest.columns.column("label").to_pylist()[::2] == [1, 3]


# --- encodings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("list.csv", "path,label\na.mp4,a\n\nb.mp4,Ärchery\n", r"line 4: the value '\\xc4rchery' of column 'label'"),
        ("list.csv", "a.mp4,a\nb.mp4,Ärchery\n", r"line 2: the value '\\xc4rchery' of column 'label'"),
        ("list.csv", "path,Größe\na.mp4,1\n", r"line 1: the header 'Gr\\xf6\\xdfe'"),
        ("list.txt", "# list\na.mp4 a\nb.mp4 Ärchery\n", r"line 3: the value '\\xc4rchery' of column 'label'"),
        ("list.jsonl", '{"path": "a.mp4"}\n{"path": "Ä.mp4"}\n', "line 2"),
    ],
)
def test_text_in_another_encoding_is_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(UsageError, match=rf"{name}: {message} is not UTF-8: save the list as UTF-8"):
        read(tmp_path, name, content.encode("cp1252"))
    read(tmp_path, name, content)
    read(tmp_path, name, codecs.BOM_UTF8 + content.encode())
    read(tmp_path, name, content.encode("utf-16"))


def test_a_template_of_text_in_another_encoding_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"line 2: the value .* of column 'label' is not UTF-8"):
        read(tmp_path, "list.csv", "label,id\nÄ,1\n".encode("cp1252"), path_template="{label}/{id}.mp4")


# --- names of columns ---------------------------------------------------------------------------------


def test_two_columns_that_may_be_the_label_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"both columns 'Label' and 'LABEL' may be the label.*\{\"label\": \"Label\"\}"
    ):
        read(tmp_path, "list.csv", "path,Label,LABEL\na.mp4,x,y\n")


def test_two_columns_of_one_name_are_explained(tmp_path: Path) -> None:
    content = "path,label,template\na.mp4,x,y\n"
    with pytest.raises(UsageError) as caught:
        read(tmp_path, "list.csv", content, columns={"label": "template"})
    example = '{"label": "template", "other_label": "label"}'
    assert "would give two columns one name, 'label': it has a column 'label' too" in str(caught.value)
    assert str(caught.value).endswith(f"give that one another name, as in columns={example}")
    found = read(tmp_path, "list.csv", content, columns=json.loads(example))
    assert found.columns.to_pydict() == {"other_label": ["x"], "label": ["y"]}


def test_a_swapped_name_is_explained(tmp_path: Path) -> None:
    content = "Video,Klasse\na.mp4,x\n"
    with pytest.raises(
        UsageError, match=r"no column 'label', .*the new name comes first, then the name in the list"
    ) as e:
        read(tmp_path, "list.csv", content, columns={"Klasse": "label"})
    assert str(e.value).endswith('columns={"label": "Klasse"}')


# --- relative paths -----------------------------------------------------------------------------------


def test_a_list_of_missing_relative_paths_says_where_they_start(tmp_path: Path) -> None:
    name, videos, lists = "list.csv", tmp_path / "videos", tmp_path / "lists"
    videos.mkdir()
    lists.mkdir()
    (videos / "b.mp4").touch()
    (lists / name).write_text("path,label\na.mp4,1\nb.mp4,2\n")
    with pytest.warns(UserWarning, match="none of the listed files exists, for example .*a.mp4: ") as caught:
        made = scan(lists / name, workers=0)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    message = str(caught[0].message)
    assert f"relative paths of {lists / name} start at {lists};" in message
    assert 'scan(..., root="FOLDER")' in message
    assert [kind for _, kind, _ in made.failures] == ["MissingMedia"] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scan(lists / name, root=videos, workers=0)
    with pytest.warns(UserWarning, match=f"{name} start at {tmp_path};"):
        scan(lists / name, root=tmp_path, workers=0)


def test_absolute_paths_of_another_machine_are_said_so(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("/no/a.mp4 1\n/no/b.mp4 2\n")
    with pytest.warns(UserWarning, match="none of the listed files exists, for example /no/a.mp4: .* another machine"):
        assert len(scan(tmp_path / "list.txt", workers=0).failures) == 2
    (tmp_path / "b.mp4").touch()
    (tmp_path / "list.txt").write_text(f"/no/a.mp4 1\n{tmp_path}/b.mp4 2\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(scan(tmp_path / "list.txt", workers=0).failures) == 2


def test_a_missing_ending_is_named_and_added(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "a.mp4").write_bytes(b"")
    path = tmp_path / "list.txt"
    path.write_text("x/a 0\nx/b 1\n")
    with pytest.warns(UserWarning, match='columns={"name": 0}, path_template="{name}.mp4"'):
        scan(path, columns={"path": 0}, workers=0)
    found = read_manifest(os.fspath(path), ListOptions({"name": 0}, "{name}.mp4"))
    assert names(tmp_path, found) == ["x/a.mp4", "x/b.mp4"]
