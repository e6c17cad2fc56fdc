"""Columns of values beside media: types over all archives, names that are taken, labels, and templates of names."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed._values import Limits
from framefeed.archives import MemberKind
from framefeed.errors import UsageError
from framefeed.scanning._list_json import to_column
from framefeed.scanning._list_template import fill_template, parse_template
from framefeed.scanning._tar_columns import check_template, fill_nulls, fit_template, join_columns
from framefeed.scanning._tar_rows import MOST_JSON_COLUMNS, ArchiveRows
from tests.scanning.test_tar_rows import make_rows

SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=3)
VALUES = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.sampled_from("xy"), SCALARS, max_size=2)


def make_archive(*samples: dict[str, Any], first: int = 0) -> ArchiveRows:
    """An archive with a picture a sample, and values by field."""
    members = []
    for number, sample in enumerate(samples, first):
        members.append((f"d/{number}.jpg", b"media", MemberKind.FILE))
        for field, value in sample.items():
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            members.append((f"d/{number}.{field}", data, MemberKind.FILE))
    return make_rows(members, limits=Limits())


def join(*archives: ArchiveRows, template: str = "", rivals: str = "") -> pa.Table:
    return join_columns(archives, parse_template(template) if template else (), rivals)[0]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([b"3", b"-4"], [3, -4]),
        ([b"3", b"cat"], ["3", "cat"]),
        ([b"3", b"007"], ["3", "007"]),
        ([b"0", None], [0, None]),
    ],
)
def test_labels_are_whole_numbers_if_all_are(labels: list[bytes | None], expected: list[object]) -> None:
    archives = [make_archive({} if label is None else {"cls": label}) for label in labels]
    assert join(*archives).column("label").to_pylist() == expected


def test_other_fields_are_columns_of_their_names() -> None:
    table = join(make_archive({"txt": b" a\n", "text": b"b", "index": b"7", "class": b"x", "id": b" 1 "}))
    values = {"key": "d/0", "field": "jpg", "txt": " a\n", "text": "b", "index": 7, "class": "x", "id": 1}
    assert table.to_pylist() == [values]


@given(st.lists(st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2), max_size=5), st.integers(0, 5))
def test_types_are_those_of_all_samples_for_any_cut_to_archives(objects: list[dict[str, Any]], cut: int) -> None:
    samples = [{"json": each} for each in objects]
    table = join(make_archive(*samples[:cut]), make_archive(*samples[cut:], first=cut))
    for name in "ab":
        values = [json.dumps(value) if isinstance(value, dict) else value for value in (o.get(name) for o in objects)]
        if any(name in each for each in objects):
            assert table.column(name).equals(to_column(values))
        else:
            assert name not in table.column_names


def test_names_that_are_taken_get_a_prefix() -> None:
    names = ["source", "label", "key", "field", "txt", "codec", "json.codec", "", "free", "n"]
    table = join(make_archive({"json": dict.fromkeys(names, 1)}), template="d/{n}.jpg")
    expected = ["key", "field", "n", "json.source", "json.label", "json.key", "json.field", "json.txt",
                "json.json.codec", "json.codec", "json.", "free", "json.n"]  # fmt: skip
    assert table.column_names == expected


def test_objects_in_json_are_text() -> None:
    samples = [{"json": {"box": {"x": 1}, "n": {"a": [1, {}]}}}, {"json": {"box": {"y": "z"}, "n": 3}}]
    table = join(make_archive(*samples))
    assert table.column("box").to_pylist() == ['{"x": 1}', '{"y": "z"}']
    assert table.column("n").to_pylist() == ['{"a": [1, {}]}', "3"]


def test_the_first_names_of_json_are_columns_and_a_warning_says_so() -> None:
    archives = [make_archive({"json": {f"{letter}{n}": n for n in range(MOST_JSON_COLUMNS - 3)}}) for letter in "ab"]
    table, remarks = join_columns(archives, ())
    assert table.num_columns == 2 + MOST_JSON_COLUMNS
    assert table.column_names[-1] == "b2"
    assert len(remarks) == 1
    assert "1,000 names" in remarks[0]


def test_labels_of_archives_go_before_a_template_with_one_warning() -> None:
    archives = [make_archive({"cls": b"3"}, {}), make_archive({"cls": b"4"})]
    table, remarks = join_columns(archives, parse_template("{label}/{n:02d}.jpg"), "label_from and path_template")
    assert table.column("label").to_pylist() == ["3", "d", "4"]
    assert table.column("n").to_pylist() == [0, 1, 0]
    assert len(remarks) == 1
    assert "2 media" in remarks[0]
    assert "label_from and path_template" in remarks[0]


def test_a_template_that_fits_no_member_is_refused() -> None:
    with pytest.raises(UsageError, match=r"fits no member of the archives, such as 'd/0.jpg'"):
        join(make_archive({}), template="{label}_{n}.jpg")


def test_facts_in_templates_get_another_name() -> None:
    assert join(make_archive({}), template="{key}/{width}.jpg").column_names == [
        "key",
        "field",
        "manifest_key",
        "manifest_width",
    ]


@pytest.mark.parametrize(
    ("template", "name", "values"),
    [
        ("{label}/{id}.mp4", "train/cat/a.mp4", ["cat", "a"]),
        ("{label}/{id}_{start:06d}_{end:06d}.mp4", "cat/a_b_000012_000022.mp4", ["cat", "a_b", "12", "22"]),
        ("x_{id}.mp4", "d/x_7.mp4", ["7"]),
        ("x_{id}.mp4", "d/ax_7.mp4", None),
        ("{label}/{id}.mp4", "a.mp4", None),
        ("{label}_{id}.mp4", "cat_1/a.mp4", None),
        ("{label}_{id}.mp4", "cat_1/a_2.mp4", ["a", "2"]),
        ("{label}/{id}.mp4", "cat/a.mkv", None),
        ("{label}/{id}.mp4", "cat/.mp4", None),
        ("{id:04d}.mp4", "x.mp4", None),
        ("{id:04d}.mp4", "0007.mp4", ["7"]),
        ("d/{id}.mp4", "a/d/7.mp4", ["7"]),
        ("{id}", "a/b", ["b"]),
    ],
)
def test_a_template_takes_values_from_the_end_of_a_name(template: str, name: str, values: list[str] | None) -> None:
    assert fit_template(parse_template(template), name) == values


PARTS = st.text("ab1", min_size=1, max_size=3)


@given(PARTS, PARTS, st.integers(0, 999))
def test_values_are_those_that_the_template_makes_a_name_of(label: str, video: str, start: int) -> None:
    parts = parse_template("{label}/{video}_{start:03d}.mp4")
    name = fill_template(parts, {"label": label, "video": video, "start": start})
    assert fit_template(parts, name) == [label, video, str(start)]


def test_a_template_without_text_between_its_parts_is_refused() -> None:
    with pytest.raises(UsageError, match=r"put text between \{a\} and \{b:03d\}"):
        check_template(parse_template("{a}{b:03d}.mp4"))
    check_template(parse_template("{a}/{b}.mp4"))


def test_S16_a_long_name_is_fitted_at_once() -> None:
    assert fit_template(parse_template("{a}_{b}_{c}_{d}.mp4"), "_" * 2**20 + ".mp4") is None


def test_nulls_are_filled_from_columns_of_other_types() -> None:
    def column(*values: object) -> pa.ChunkedArray:
        return pa.chunked_array([pa.array(values)])

    assert fill_nulls(column(1, None), column(None, 2)).to_pylist() == [1, 2]
    assert fill_nulls(column(1, None), column("a", "b")).to_pylist() == ["1", "b"]
    assert fill_nulls(column([1], None), column("a", "b")).to_pylist() == ["[1]", "b"]
    assert fill_nulls(column([1], None), column([2], [3])).to_pylist() == [[1], [3]]
    assert fill_nulls(column(None, None), column(1, 2)).to_pylist() == [1, 2]
    assert fill_nulls(column(1, 2), column(None, None)).to_pylist() == [1, 2]
