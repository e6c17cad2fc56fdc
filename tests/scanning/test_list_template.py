"""Paths from templates: names of columns are looked up whole, and no value or format breaks a scan."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from framefeed.errors import UsageError
from framefeed.scanning._list_columns import ListOptions, rename_columns
from framefeed.scanning._list_table import ListTable
from framefeed.scanning._manifests import read_manifest
from framefeed.scanning._scan import scan
from tests.scanning.test_manifests import names, read


def built(folder: Path, template: str, *records: dict[str, Any]) -> list[str]:
    """Paths of rows; a bad row is what is wrong with it."""
    manifest = read(folder, "list.json", json.dumps(records), path_template=template)
    prefix = f"{folder}/list.json: row "
    return [
        str(manifest.unlistable[path]).removeprefix(prefix).partition(": ")[2] if path in manifest.unlistable else name
        for path, name in zip(manifest.paths, names(folder, manifest), strict=True)
    ]


@pytest.mark.parametrize(
    ("template", "record", "expected"),
    [
        ("{video.id}.mp4", {"video.id": "a"}, "a.mp4"),
        ("{a[0]}.mp4", {"a[0]": 7, "a": "no"}, "7.mp4"),
        ("{label}{label.__class__}.mp4", {"label": "x", "label.__class__": "y"}, "xy.mp4"),
        ("{0}.mp4", {"0": "a"}, "a.mp4"),
        ("{{{id}}}.mp4", {"id": "a"}, "{a}.mp4"),
        ("{id}/{id:04d}", {"id": 7}, "7/0007"),
        ("{id:>1000}", {"id": "x"}, " " * 999 + "x"),
        ("{id:.2f}", {"id": 0.125}, "0.12"),
    ],
)
def test_a_template_takes_the_whole_name_of_a_column(
    tmp_path: Path, template: str, record: dict[str, Any], expected: str
) -> None:
    assert built(tmp_path, template, record) == [expected]


def test_a_template_formats_dates(tmp_path: Path) -> None:
    pq.write_table(pa.table({"day": [dt.date(2024, 5, 1)]}), tmp_path / "list.parquet")
    manifest = read_manifest(str(tmp_path / "list.parquet"), ListOptions(path_template="{day:%Y/%m}.mp4"))
    assert names(tmp_path, manifest) == ["2024/05.mp4"]


@pytest.mark.parametrize(
    ("template", "value", "message"),
    [
        ("{id:c}", -1, "id is -1, outside of the range of {id:c} in path_template"),
        ("{id:.2f}", "9" * 400, f"id is '{'9' * 99}, outside of the range of {{id:.2f}} in path_template"),
        ("{id:06d}", "x", "id is 'x', and {id:06d} in path_template needs an integer"),
        ("{id:06d}", ["x"], "id is ['x'], and {id:06d} in path_template needs an integer"),
        ("{id:.2f}", "x", "id is 'x', and {id:.2f} in path_template needs a number"),
        ("{id:s}", [7], "id is [7], and {id:s} in path_template needs text"),
        ("{id:>6}", [7], "id is [7], and {id:>6} in path_template needs text or a number"),
    ],
)
def test_a_value_that_does_not_fit_is_explained(tmp_path: Path, template: str, value: object, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        built(tmp_path, template, {"id": value})
    advice = "correct the line, or the template"
    assert str(caught.value).endswith(f"list.json: no line fits: row 0 (from 0): {message}: {advice}")


@pytest.mark.parametrize(("template", "bad"), [("{id:c}", -1), ("{id:c}", 0x110000), ("{id:.1f}", "9" * 400)])
def test_a_value_out_of_range_is_one_bad_row(tmp_path: Path, template: str, bad: int | str) -> None:
    good = type(bad)(65)
    first, second, third = built(tmp_path, template, {"id": good}, {"id": bad}, {"id": good})
    assert first == third == template.format(id=65)
    assert second == (
        f"id is {bad!r:.100}, outside of the range of {template} in path_template: correct the line, or the template"
    )


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{id:>{width}}.mp4", r"\{id:>\{width\}\} has braces inside braces: write a number there"),
        ("{id:>99999999999}.mp4", r"\{id:>99999999999\} has a width or precision above 1,000"),
        ("{id:>99999999999999999999}.mp4", "has a width or precision above 1,000"),
        ("{id:.1001f}.mp4", "has a width or precision above 1,000"),
        ("{label}/{}.mp4", r"\{\} names no column: write the name of a column into the braces"),
        ("{:06d}.mp4", r"\{:06d\} names no column"),
        ("{label}/{id!s:06d}.mp4", "has !s, a conversion: leave it out"),
        ("{id:6z!}.mp4", r"\{id:6z!\} has a format that does not fit numbers or text"),
        ("{id:06d.mp4", "cannot be read"),
        ("{id}}.mp4", "cannot be read"),
    ],
)
def test_a_template_that_fits_no_value_is_refused(template: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ListOptions(path_template=template)


@pytest.mark.parametrize(
    ("template", "columns", "advice"),
    [
        ("{0}.mp4", None, "{column_0} in place of {0}"),
        ("{1}/{0}.mp4", {"label": 1}, "{label} in place of {1}"),
        ("{nonsense}.mp4", None, "its columns are 'column_0', 'column_1', 'column_2'"),
    ],
)
@pytest.mark.parametrize("name", ["list.csv", "list.txt"])
def test_columns_without_a_header_are_named(
    tmp_path: Path, name: str, template: str, columns: dict[str, str | int] | None, advice: str
) -> None:
    content = "1,7,x\n2,8,y\n"
    with pytest.raises(UsageError) as caught:
        read(tmp_path, name, content, path_template=template, columns=columns)
    assert advice in str(caught.value)
    manifest = read(tmp_path, name, content, path_template="{column_0}.mp4")
    assert names(tmp_path, manifest) == ["1.mp4", "2.mp4"]


def test_columns_with_a_header_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"names of columns, not their numbers: write \{label\} in place of \{1\}"):
        read(tmp_path, "list.csv", "id,label\n1,x\n", path_template="{1}.mp4")


@pytest.mark.parametrize("content", ["", "\n\n", "# comment\n\n# another\n"])
@pytest.mark.parametrize("options", [{"columns": {"path": 0}}, {"columns": {"path": "a"}}, {"path_template": "{a}"}])
def test_a_list_without_lines_has_no_rows(tmp_path: Path, content: str, options: dict[str, Any]) -> None:
    assert read(tmp_path, "list.txt", content, **options).paths == []
    assert read(tmp_path, "list.csv", "\n", **options).paths == []
    assert read(tmp_path, "list.json", "[]", **options).paths == []
    with pytest.warns(UserWarning, match="no media"):
        assert len(scan(tmp_path / "list.txt", workers=0, **options)) == 0


def test_names_of_columns_are_counted_once() -> None:
    # Time that grows with the square of their number takes five minutes: the suite's timeout ends it.
    table = pa.Table.from_arrays([pa.array([1])] * 150_000, [f"c{number}" for number in range(150_000)])
    listed = ListTable(dict(zip(table.column_names, table.columns, strict=True)))
    assert len(rename_columns(listed, ListOptions()).columns) == 150_000
