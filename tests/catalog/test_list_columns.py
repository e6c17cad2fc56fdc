"""Columns of lists: their arrays are those of the table, whatever its chunks; workers map what one process wrote."""

from __future__ import annotations

import json
import multiprocessing
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import framefeed as ff
from framefeed.catalog import ListColumn, _list_columns, read_plan_column
from framefeed.catalog._columns import Facts
from framefeed.catalog._list_columns import convert_lists
from framefeed.errors import MissingMedia, UsageError
from framefeed.testing import ClipSpec
from tests.corpus import clip_file
from tests.makers import plan_over, read_columns

LEAVES = [pa.int8(), pa.int64(), pa.uint16(), pa.float16(), pa.float32(), pa.float64(), pa.bool_()]
BOXES = [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], [8.0, 9.0, 10.0, 11.0]]


@st.composite
def columns(draw: st.DrawFn) -> tuple[pa.ChunkedArray, tuple[int, ...], list[bool]]:
    """A column in chunks, the shape of its first list, and which rows are faulty."""
    leaf = draw(st.sampled_from(LEAVES))
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    numbers = st.booleans() if leaf == pa.bool_() else st.integers(0, 100)
    fixed, kind = draw(st.booleans()), leaf

    def lists(form: tuple[int, ...]) -> st.SearchStrategy[Any]:
        if not form:
            return numbers
        return st.lists(lists(form[1:]), min_size=form[0], max_size=form[0])

    for length in reversed(shape):
        kind = pa.list_(kind, length) if fixed else pa.list_(kind)
    rows, faulty = [draw(lists(shape))], [False]
    for _ in range(draw(st.integers(0, 8))):
        row, fault = draw(lists(shape)), draw(st.sampled_from(["", "", "null", "inner", "longer", "number"]))
        if fault == "null":
            row = None
        elif (fault == "number" and len(shape) == 1) or (fault == "inner" and len(shape) > 1):
            row[-1] = None
        elif fault == "longer" and not fixed:
            row = [*row, row[0]]
        else:
            fault = ""
        rows.append(row)
        faulty.append(bool(fault))
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    parts = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    # A slice of a larger array has offsets of its own.
    chunks = [pa.array([rows[0], *part, rows[0]], kind).slice(1, len(part)) for part in parts]
    return pa.chunked_array(chunks, kind), shape, faulty


@given(columns())
def test_arrays_have_the_numbers_of_the_lists(case: tuple[pa.ChunkedArray, tuple[int, ...], list[bool]]) -> None:
    column, shape, expected = case
    values, faulty = convert_lists("box", column)
    assert faulty.tolist() == expected
    assert values.shape == (len(column), *shape)
    for row, is_faulty in enumerate(expected):
        if not is_faulty:
            assert values[row].tolist() == column[row].as_py()


def test_slices_of_nested_lists_keep_their_rows() -> None:
    kind = pa.list_(pa.list_(pa.int8(), 1), 2)
    rows = [[[0], [0]], None, [[1], [2]], [[3], [4]]]
    values, faulty = convert_lists("box", pa.chunked_array([pa.array([*rows, *rows], kind).slice(3, 4)]))
    assert faulty.tolist() == [False, False, True, False]
    assert values[~faulty].tolist() == [rows[3], rows[0], rows[2]]


@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.list_(pa.list_(pa.binary())), pa.list_(pa.date32())])
def test_lists_of_other_things_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(UsageError, match=r"column 'box' holds .*, which is not delivered with clips"):
        convert_lists("box", pa.chunked_array([pa.array([None, []], kind)]))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the user, where columns of any length are mapped from."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(_list_columns, "_MAPPED_ROWS", 1)
    return tmp_path / "cache"


def write_list(folder: Path, boxes: list[Any]) -> Path:
    path = clip_file("listed.mp4", ClipSpec(num_frames=4))
    lines = [json.dumps({"path": str(path), "box": box, "label": f"c{row}"}) for row, box in enumerate(boxes)]
    (folder / "list.jsonl").write_text("\n".join(lines))
    return folder / "list.jsonl"


plan_boxes = partial(plan_over, rule=ff.Uniform(2), size=(16, 16), columns=("box", "label"))


def test_lists_travel_with_clips(tmp_path: Path) -> None:
    plan = plan_boxes(ff.scan(write_list(tmp_path, BOXES), workers=1), clips_per_video=2)
    assert plan.columns_at(0)["box"].tolist() == BOXES[plan[0].row]
    for kind in ("threads", "processes"):
        with ff.ClipLoader(plan, batch_size=4, workers=1, kind=kind) as loader:
            for batch in loader:
                assert (batch["box"].dtype, batch["box"].shape) == (np.float64, (len(batch), 4))
                assert batch["box"].tolist() == [BOXES[row] for row in batch.rows]


@pytest.mark.parametrize("boxes", [[BOXES[0], None, BOXES[2]], [BOXES[0], [1.0], BOXES[2]], [BOXES[0], [None] * 4]])
def test_ragged_lists_and_nulls_are_refused_unless_they_are_left_out(boxes: list[Any], tmp_path: Path) -> None:
    catalog = ff.scan(write_list(tmp_path, boxes), workers=1)
    with pytest.raises(UsageError, match=r"expected 4 numbers in every row, but 1 of \d .* row 1 \(.*listed.mp4\)"):
        plan_boxes(catalog)
    rows = [row for row in range(len(boxes)) if row != 1]
    assert read_columns(plan_boxes(catalog[rows], shuffle=False), [0])["box"].tolist() == [BOXES[0]]


def test_a_row_that_failed_needs_no_list(tmp_path: Path) -> None:
    path = write_list(tmp_path, BOXES)
    path.write_text(path.read_text() + '\n{"path": "missing.mp4"}')
    with pytest.warns(UserWarning, match="1 of 4 rows are left out"):
        plan = plan_boxes(ff.scan(path, workers=1), shuffle=False)
    assert read_columns(plan, [2, 0])["box"].tolist() == [BOXES[2], BOXES[0]]


def test_columns_of_requests_may_be_arrays() -> None:
    path = clip_file("listed.mp4", ClipSpec(num_frames=4))
    requests = [ff.DecodeRequest(path, [number]) for number in range(3)]
    actions = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    plan = ff.plan_requests(requests, columns={"action": actions, "box": BOXES})
    with ff.ClipLoader(pickle.loads(pickle.dumps(plan)), batch_size=3) as loader:
        [batch] = loader
    assert np.array_equal(batch["action"], actions)
    assert batch["action"].dtype == np.float32
    assert batch["box"].tolist() == BOXES
    for wrong in ([[1], [2, 3], [4]], [[1], [None], [2]], [object()] * 3):
        with pytest.raises(UsageError, match="one number, text or list per request"):
            ff.plan_requests(requests, columns={"action": wrong})


def read_in_worker(plan: ff.EpochPlan, queue: Any) -> None:
    column = plan.clips.columns["box"]
    assert isinstance(column, ListColumn)
    queue.put((read_columns(plan, [0, 1, 2])["box"].tolist(), type(column.values).__name__))


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.test_all)])
@pytest.mark.usefixtures("cache")
def test_workers_map_the_array_that_one_process_wrote(method: str, tmp_path: Path) -> None:
    catalog = ff.scan(write_list(tmp_path, BOXES), out=tmp_path / "cat.parquet", workers=1)
    plan = plan_boxes(catalog[[2, 0, 1]], shuffle=False)
    assert isinstance(plan.clips.columns["box"].values, np.memmap)
    context: Any = multiprocessing.get_context(method)
    queue = context.SimpleQueue()
    process = context.Process(target=read_in_worker, args=(plan, queue))
    process.start()
    boxes, kind = queue.get()
    process.join()
    assert boxes == [BOXES[2], BOXES[0], BOXES[1]]
    # A spawned worker has the usual limit, and reads three rows itself.
    assert kind == ("memmap" if method == "fork" else "ndarray")


@pytest.mark.usefixtures("cache")
def test_a_mapped_column_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = list[str]()
    read = Facts.read

    def count(facts: Facts, name: str) -> pa.ChunkedArray:
        reads.append(name)
        return read(facts, name)

    monkeypatch.setattr(Facts, "read", count)
    out = tmp_path / "cat.parquet"
    ff.scan(write_list(tmp_path, BOXES), out=out, workers=1)
    for _ in range(3):
        column = read_plan_column(ff.Catalog.open(out), "box", np.arange(3))
        assert column[np.array([1, 1])].tolist() == [BOXES[1]] * 2
    assert reads == ["box"]
    other = [[0.5, 0.5]] * 2
    ff.scan(write_list(tmp_path, other), out=out, workers=1)
    assert read_plan_column(ff.Catalog.open(out), "box", np.arange(2))[np.arange(2)].tolist() == other
    assert reads == ["box", "box"]


@pytest.mark.usefixtures("cache")
def test_each_mapped_column_has_its_own_numbers(tmp_path: Path) -> None:
    path = str(clip_file("listed.mp4", ClipSpec(num_frames=4)))
    columns = {"path": [path] * 3, "box": BOXES, "more": [box[::-1] for box in BOXES], "few": [[1], [2], [3]]}
    ff.scan(pa.table(columns), out=tmp_path / "cat.parquet", workers=1)
    for names in (("box", "more", "few"), ("few", "more", "box")):
        catalog = ff.Catalog.open(tmp_path / "cat.parquet")
        plan = ff.plan_clips(catalog, ff.Uniform(2), seed=0, size=(16, 16), shuffle=False, columns=names)
        delivered = read_columns(plan, [0, 1, 2])
        assert {name: delivered[name].tolist() for name in names} == {name: columns[name] for name in names}


def test_a_file_that_was_cut_is_made_again(tmp_path: Path, cache: Path) -> None:
    catalog = ff.scan(write_list(tmp_path, BOXES), out=tmp_path / "cat.parquet", workers=1)
    plan_boxes(catalog)
    files = sorted(cache.rglob("*.npy"))
    assert len(files) == 2
    for path in files:
        path.write_bytes(path.read_bytes()[:-8] if path.stat().st_size > 200 else b"")
    assert read_columns(plan_boxes(catalog, shuffle=False), [0, 1, 2])["box"].tolist() == BOXES


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, cache: Path) -> None:
    cache.write_text("")
    catalog = ff.scan(write_list(tmp_path, BOXES), out=tmp_path / "cat.parquet", workers=1)
    with pytest.raises(UsageError, match=r"cannot write to .*XDG_CACHE_HOME in the environment"):
        plan_boxes(catalog)


@pytest.mark.usefixtures("cache")
def test_an_error_of_the_catalog_is_not_one_of_the_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(facts: Facts, name: str) -> pa.ChunkedArray:
        raise MissingMedia("cat.parquet: no such file", source="cat.parquet")

    monkeypatch.setattr(Facts, "read", fail)
    catalog = ff.scan(write_list(tmp_path, BOXES), out=tmp_path / "cat.parquet", workers=1)
    with pytest.raises(MissingMedia, match=r"cat\.parquet: no such file"):
        plan_boxes(catalog)


def test_a_target_is_one_number(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    plan = plan_boxes(ff.scan(write_list(tmp_path, BOXES), workers=1), shuffle=False)
    with pytest.raises(UsageError, match=r"one number or text per clip, but 'box' has \[4\]"):
        ff.torch.ClipDataset(plan, target="box")
    items = [item["box"] for item in ff.torch.ClipDataset(plan)]
    assert torch.stack(items).tolist() == BOXES
