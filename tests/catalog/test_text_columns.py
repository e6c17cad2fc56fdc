"""Columns of text: what is read of them, and how those of large catalogs are mapped."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import framefeed as ff
from framefeed.catalog import TextColumn, _list_columns
from framefeed.catalog._text_columns import holds_text, join_texts, read_texts, write_texts
from framefeed.errors import UsageError
from framefeed.testing import ClipSpec, write_clip
from tests.load.test_texts import CAPTIONS, COLUMNS, TAGS, VERBS, list_videos, write_table
from tests.makers import VIDEOS


def write_and_read(values: pa.ChunkedArray) -> TextColumn:
    file = io.BytesIO()
    write_texts(values, file)
    file.seek(0)
    return TextColumn(read_texts(np.load(file)))


TYPES = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
LISTS = [pa.list_(pa.string()), pa.large_list(pa.large_string())]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_texts_of_any_type_are_read(kind: pa.DataType) -> None:
    chunks = [pa.array(some, pa.string()) for some in (CAPTIONS[:2], CAPTIONS[2:])]
    is_encoded = pa.types.is_dictionary(kind)
    values = pa.chunked_array([each.dictionary_encode() if is_encoded else each.cast(kind) for each in chunks])
    assert holds_text(kind)
    column = TextColumn(join_texts(values))
    assert [column[row] for row in range(VIDEOS)] == CAPTIONS == column[np.arange(VIDEOS)]
    assert write_and_read(values)[np.array([3, 1])] == [CAPTIONS[3], None]
    assert column.shape == (VIDEOS,)
    assert column.find_nulls(np.array([2, 1, 0, 1])).tolist() == [1, 1]
    assert column.select(np.array([1, 2, 1])).find_nulls(np.arange(3)).tolist() == [0, 2]


@pytest.mark.parametrize("kind", LISTS, ids=str)
def test_lists_of_texts_are_read(kind: pa.DataType) -> None:
    column = TextColumn(join_texts(pa.chunked_array([pa.array(TAGS, kind)])))
    assert holds_text(kind)
    assert column[np.arange(VIDEOS)] == TAGS
    assert column.shape == (VIDEOS, None)
    assert column.select(np.array([5, 0]))[0] == TAGS[5]


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.binary(), pa.date32(), pa.list_(pa.int8()), pa.list_(pa.list_(pa.string()))]
)
def test_other_types_hold_no_text(kind: pa.DataType) -> None:
    assert not holds_text(kind)


def test_no_rows_have_no_text() -> None:
    column = write_and_read(pa.chunked_array([], pa.string()))
    assert (len(column), column[np.empty(0, np.int64)], column.list_distinct()) == (0, [], ())


def test_a_large_catalog_maps_its_texts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_list_columns, "_MAPPED_ROWS", 1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    table = write_table(tmp_path / "list.parquet", caption=CAPTIONS, tags=TAGS, verb=VERBS, score=[*range(VIDEOS)],
                        label=["b", "a"] * 3)  # fmt: skip
    plan = ff.plan_clips(ff.scan(table, out=tmp_path / "cat.parquet"), ff.Uniform(1), seed=4, columns=COLUMNS)
    assert any("text" in path.name for path in (tmp_path / "cache").rglob("*.npy"))
    again: Any = ff.plan_clips(ff.Catalog.open(tmp_path / "cat.parquet"), ff.Uniform(1), seed=4, columns=COLUMNS)
    assert not again.clips.columns["caption"].values.buffers()[2].is_mutable
    for each in (plan, again):
        with ff.ClipLoader(each, batch_size=5, workers=2) as loader:
            for batch in loader:
                assert batch["caption"] == [CAPTIONS[row] for row in batch.rows]
                assert batch["tags"] == [TAGS[row] for row in batch.rows]
        assert each.texts["verb"] == ("eat", "run", "sit")


def test_text_that_is_not_utf8_is_an_error_that_names_it(tmp_path: Path) -> None:
    texts = pa.array([b"a", b"\xff\xfe", b"c", b"d", b"e", b"f"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"path": list_videos(), "caption": texts}), tmp_path / "list.parquet")
    with pytest.raises((UsageError, ff.MediaError), match="caption"):
        ff.scan(tmp_path / "list.parquet")


def test_a_list_may_come_after_none() -> None:
    column = TextColumn.of("tags", [None, ["a"]])
    assert (column[0], column[1], column.has_lists) == (None, ["a"], True)


def test_headers_of_a_part_of_a_catalog_are_those_of_its_rows(tmp_path: Path) -> None:
    for number, frames in enumerate((12, 30)):
        write_clip(tmp_path / f"{number}.mp4", ClipSpec(num_frames=frames))
    whole = ff.scan(tmp_path)
    part = whole[np.array([False, True])]
    assert part.info(0) == whole.info(1)
    assert part.info(0).num_frames_from_header == 30
