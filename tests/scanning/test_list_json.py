"""Values of lists in JSON that a catalog cannot hold: labels that are objects, other objects, and deep lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from framefeed.catalog import Catalog
from framefeed.errors import UsageError
from framefeed.scanning._manifests import read_manifest
from framefeed.scanning._scan import scan
from tests.scanning.test_manifests import read

NESTED: list[Any] = [{"a": 1}, [1, 2], {}, []]


def content_of(name: str, values: list[Any]) -> str:
    return json.dumps([{"path": f"{at}.mp4", name: value} for at, value in enumerate(values)])


@pytest.mark.parametrize("label", NESTED)
@pytest.mark.parametrize("others", [["cat", "dog"], [7, 8], [0.5, None], [None, None], [True, False]])
def test_a_label_that_is_an_object_is_a_bad_row_without_a_label(tmp_path: Path, label: Any, others: list[Any]) -> None:
    content = content_of("label", [others[0], label, others[1]])
    manifest = read(tmp_path, "list.json", content)
    (message,) = map(str, manifest.unlistable.values())
    shown = json.dumps(label)
    assert message.endswith(
        f"list.json: row 1 (from 0): the label is {shown}, expected text or a number: correct or remove it"
    )
    assert manifest.columns.column("label").to_pylist() == [others[0], None, others[1]]
    with pytest.warns(UserWarning, match="none of the listed files exists"):
        made = scan(tmp_path / "list.json", workers=0, out=tmp_path / "catalog.parquet")
    assert [kind for _, kind, _ in made.failures] == ["MissingMedia", "UnreadableMedia", "MissingMedia"]
    assert made.table.column("label").to_pylist()[1] is None


@pytest.mark.parametrize("label", NESTED)
def test_labels_that_are_all_objects_are_refused(tmp_path: Path, label: Any) -> None:
    for name in ("label", "Label", "class"):
        columns = {"label": "class"} if name == "class" else None
        with pytest.raises(UsageError, match=r"no line fits: row 0 \(from 0\): the label is "):
            read(tmp_path, "list.json", content_of(name, [label, label]), columns=columns)


def test_a_label_of_a_parquet_file_may_not_be_a_list(tmp_path: Path) -> None:
    path = tmp_path / "list.parquet"
    pq.write_table(pa.table({"path": ["a.mp4", "b.mp4"], "label": [["cat"], None]}), path)
    with pytest.raises(UsageError, match=r"column 'label' holds list<.*, expected text or numbers"):
        read_manifest(str(path))


def test_a_bad_label_does_not_build_a_path(tmp_path: Path) -> None:
    manifest = read(tmp_path, "list.json", content_of("label", ["cat", ["dog"]]), path_template="{label}/{path}")
    assert [str(error).partition(": ")[2] for error in manifest.unlistable.values()] == [
        'row 1 (from 0): the label is ["dog"], expected text or a number: correct or remove it'
    ]


def levels(count: int) -> Any:
    value: Any = 1
    for _ in range(count):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("values", "is_text"),
    [
        ([{}, {"a": 1}], True),
        ([{"a": None}, None], True),
        ([[{}], []], True),
        ([[], []], False),
        ([levels(20)], False),
        ([levels(21)], True),
        ([levels(100), 1], True),
        ([levels(900)], True),
    ],
)
def test_objects_and_deep_lists_become_json_text(tmp_path: Path, values: list[Any], is_text: bool) -> None:
    (tmp_path / "list.json").write_text(content_of("meta", values))
    out = tmp_path / "catalog.parquet"
    with pytest.warns(UserWarning, match="none of the listed files exists"):
        scan(tmp_path / "list.json", workers=0, out=out)
    column = Catalog.open(out).table.column("meta")
    assert pa.types.is_string(column.type) == is_text
    if is_text:
        assert [value and json.loads(value) for value in column.to_pylist()] == values
    assert len(column) == len(values)


@pytest.mark.parametrize("others", [({"a": 1}, "t"), ({"a": 1}, {}), ([1], {"a": 1}), ([1], ["a"]), (1, [None])])
def test_objects_of_two_lists_become_json_text(tmp_path: Path, others: tuple[Any, Any]) -> None:
    for name, value in zip("ab", others, strict=True):
        (tmp_path / f"{name}.json").write_text(content_of("meta", [value]).replace("0.mp4", f"{name}.mp4"))
    with pytest.warns(UserWarning, match="none of the listed files exists"):
        made = scan([tmp_path / "a.json", tmp_path / "b.json"], workers=0, out=tmp_path / "catalog.parquet")
    expected = [value if isinstance(value, str) else json.dumps(value) for value in others]
    assert made.table.column("meta").to_pylist() == expected


@pytest.mark.parametrize("path", NESTED)
def test_paths_that_are_objects_are_refused(tmp_path: Path, path: Any) -> None:
    with pytest.raises(UsageError, match=r"not paths|the path .* expected text"):
        read(tmp_path, "list.json", json.dumps([{"path": path}]))


@pytest.mark.parametrize("content", ["[{}, {}]", "{}\n{}\n", "{}"])
@pytest.mark.parametrize("options", [{}, {"columns": {"path": 0}}, {"path_template": "{id}"}])
def test_empty_objects_are_no_empty_list(tmp_path: Path, content: str, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="all of its objects are empty: expected objects such as"):
        read(tmp_path, "list.json", content, **options)


def test_levels_near_the_limit_of_json_are_read_or_refused(tmp_path: Path) -> None:
    for count in range(900, 1000):
        value = "[" * count + "]" * count
        content = f'{{"path": "a.mp4", "meta": {value}}}\n{{"path": "b.mp4"}}\n'
        manifest = read(tmp_path, "list.jsonl", content)
        assert manifest.paths[1] == str(tmp_path / "b.mp4")
        if manifest.unlistable:
            assert "recursion" in str(*manifest.unlistable.values())
        else:
            assert manifest.columns.column("meta").to_pylist() == [value, None]
