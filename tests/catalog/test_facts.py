"""Facts as columns: independent of their chunks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from framefeed.catalog import _catalog_file
from framefeed.catalog._catalog import Catalog
from framefeed.catalog._columns import compute_label_codes, content_fingerprint, get_fact, hash_column
from framefeed.catalog._plan_columns import PlanColumns, find_usable_rows, hash_plan_columns, make_plan_columns
from framefeed.errors import UnreadableMedia
from tests.catalog.synthetic import catalog, names

COLUMNS = st.one_of(
    st.lists(st.none() | st.text(max_size=5), max_size=12).map(lambda values: pa.array(values, pa.string())),
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=12).map(
        lambda values: pa.array(values, pa.int64())
    ),
    st.lists(st.none() | st.floats(1, allow_nan=False), max_size=12).map(lambda values: pa.array(values, pa.float64())),
    st.lists(st.none() | st.booleans(), max_size=12).map(lambda values: pa.array(values, pa.bool_())),
)


def hashed(column: pa.ChunkedArray) -> str:
    digest = xxhash.xxh3_128()
    hash_column(digest, column)
    return digest.hexdigest()


@given(COLUMNS, COLUMNS, st.integers(0, 12))
def test_a_hash_is_of_values_not_of_chunks(one: pa.Array, other: pa.Array, cut: int) -> None:
    whole = pa.chunked_array([one])
    assert hashed(pa.chunked_array([one.slice(0, cut), one.slice(cut)])) == hashed(whole)
    if pa.types.is_string(one.type) and len(one):
        encoded = pa.chunked_array([one.slice(0, cut).dictionary_encode(), one.slice(cut).dictionary_encode()])
        assert hashed(encoded) == hashed(whole)
    if one.type == other.type:
        assert (hashed(pa.chunked_array([other])) == hashed(whole)) == other.equals(one)


def test_where_one_text_ends_counts() -> None:
    assert hashed(pa.chunked_array([["ab", "c"]])) != hashed(pa.chunked_array([["a", "bc"]]))
    assert hashed(pa.chunked_array([["a", None]])) != hashed(pa.chunked_array([["a", ""]]))


def test_a_fingerprint_does_not_depend_on_chunks() -> None:
    table = catalog(names(30), failed=[3], labels=["b", "a", None] * 10, take=range(30)).table
    cut = pa.concat_tables([table.slice(0, 7), table.slice(7, 0), table.slice(7)])
    assert content_fingerprint(cut, ["x"]) == content_fingerprint(table, ["x"])
    assert content_fingerprint(table, ["y"]) != content_fingerprint(table, ["x"])


def test_codes_of_labels_whatever_their_dictionaries() -> None:
    chunks = [
        pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.int32()), pa.array(["b", "a"])),
        pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array(["c"])),
        pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array(["gone"])),
    ]
    coded = compute_label_codes(pa.chunked_array(chunks), ["a", "b", "c"])
    assert (coded.dtype, coded.tolist()) == (np.int64, [0, 1, -1, 2, 2, -1])
    plain = compute_label_codes(pa.chunked_array([["c", None, "a"]]), ["a", "b", "c"])
    assert plain.tolist() == [2, -1, 0]


def test_labels_of_many_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_catalog_file, "ROWS_PER_GROUP", 3)
    labels = [*"ccbbaadd", None, "a"]
    made = catalog(names(10), labels=labels)
    made.to_parquet(tmp_path / "cat.parquet")
    opened = Catalog.open(tmp_path / "cat.parquet")
    assert opened.column_values("label").tolist() == made.column_values("label").tolist()
    assert opened.take([9, 0]).column_values("label").tolist() == [0, 2]


# --- columns for plans ------------------------------------------------------------------------------


def made_columns() -> pa.StructArray:
    """Of three rows: with an index, failed, and without a frame."""
    table = pa.table(
        {
            "source": ["a", "b", "é"],
            "kind": ["video", None, "video"],
            "num_frames": [4, None, 0],
            "width": [5, None, 7],
            "height": [6, None, 8],
            "num_key_frames": [1, None, 1],
            "error_type": [None, "EmptyVideo", None],
        }
    )
    return make_plan_columns(partial(get_fact, table))


def plan_columns(**changes: list[int]) -> PlanColumns:
    made = made_columns()
    columns = {field.name: made.field(field.name) for field in made.type} | {n: pa.array(v) for n, v in changes.items()}
    return PlanColumns(pa.StructArray.from_arrays(list(columns.values()), fields=list(made.type)), 3, 2, "x.arrow")


def test_columns_for_plans_are_those_of_the_catalog() -> None:
    made = plan_columns()
    assert [made.source(row) for row in range(3)] == ["a", "b", "é"]
    assert (made.numbers("num_frames").tolist(), made.numbers("width").tolist()) == ([4, -1, 0], [5, -1, 7])
    assert (made.has_failed.tolist(), made.usable_rows.tolist()) == ([False, True, False], [0])
    assert made.frame_rows.tolist() == [0, -1, 1]
    assert find_usable_rows(np.array([False, True, False]), np.array([-1, 3, 0])).tolist() == [0]


def test_readable_pictures_have_one_frame_whatever_their_header_claims() -> None:
    columns = {name: [4, None, 0, 3, 4] for name in ("num_frames", "width", "height", "num_key_frames")}
    kinds, errors = ["image", "image", "image", "image", "video"], [None, None, None, "CorruptMedia", None]
    table = pa.table({"source": [*"abcde"], "kind": kinds, "error_type": pa.array(errors, pa.string()), **columns})
    made = PlanColumns(make_plan_columns(partial(get_fact, table)), 5, 5, "x.arrow")
    assert made.numbers("num_frames").tolist() == [1, 1, 1, 3, 4]
    assert made.usable_rows.tolist() == [0, 1, 2, 4]


@pytest.mark.parametrize("rows", [[0, -1, 2], [0, -2, 1], [2**62, 0, 0]])
def test_C12_frame_rows_outside_the_tables_are_refused(rows: list[int]) -> None:
    with pytest.raises(UnreadableMedia, match=r"x\.arrow"):
        _ = plan_columns(frame_row=rows).frame_rows


@pytest.mark.parametrize("usable", [[3, -1, -1], [1, 0, -1], [-2, 0, 1], [0, -1, 1], [1, 1, -1]])
def test_C12_usable_rows_that_are_none_are_refused(usable: list[int]) -> None:
    with pytest.raises(UnreadableMedia, match="usable rows"):
        _ = plan_columns(usable_row=usable).usable_rows


@pytest.mark.parametrize("name", ["frame_row", "num_frames", "width", "height", "usable_row", "has_failed"])
def test_C12_a_flipped_bit_of_a_column_is_noticed_at_each_use(name: str) -> None:
    made = made_columns()
    checksums = hash_plan_columns(made)
    flipped = pa.array(made.field(name).to_numpy() ^ np.array([1, 0, 0], made.field(name).to_numpy().dtype))
    arrays = [flipped if field.name == name else made.field(field.name) for field in made.type]
    read = PlanColumns(pa.StructArray.from_arrays(arrays, fields=list(made.type)), 3, 2, "x.arrow", None, checksums)
    for other in set(checksums) - {name}:
        read.numbers(other)
    for _ in range(2):  # Nor is it believed by who asks again.
        with pytest.raises(UnreadableMedia, match=rf"x\.arrow: .* the checksum of {name} is another"):
            read.numbers(name)


def test_C12_columns_of_other_rows_are_refused() -> None:
    other = pa.StructArray.from_arrays([pa.array([1, 2, 3])], names=["source"])
    for given_columns, count in ((made_columns(), 4), (other, 3)):
        with pytest.raises(UnreadableMedia, match="rows of the facts"):
            PlanColumns(given_columns, count, 1, "x.arrow")


def test_C12_a_source_that_is_no_text_is_refused() -> None:
    made = made_columns()
    texts = made.field("source")
    bad = pa.Array.from_buffers(pa.large_string(), 3, [None, texts.buffers()[1], pa.py_buffer(b"\xff\xfe\xff\xff")])
    columns = [bad, *(made.field(number) for number in range(1, made.type.num_fields))]
    damaged = pa.StructArray.from_arrays(columns, fields=list(made.type))
    with pytest.raises(UnreadableMedia, match="row 0"):
        PlanColumns(damaged, 3, 1, "x.arrow").source(0)
