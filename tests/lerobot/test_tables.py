"""Columns are read with each table once, large ones with the first rows; texts and subtasks are those of the tables."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import framefeed as ff
from framefeed.lerobot import _tables
from framefeed.lerobot._files import Files
from framefeed.torch import LeRobotDataset
from tests.lerobot.cases import LENGTHS, SUBTASKS, TOP, WORDS, add_texts, edit_column, find_dataset

COLUMNS = ("action", "words", "subtask_index", "timestamp")
FIRST_TABLE = "data/chunk-000/file-000.parquet"


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return find_dataset("texts", tmp_path)


@pytest.fixture(params=["in memory", "mapped"])
def is_mapped(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> bool:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if request.param == "mapped":
        monkeypatch.setattr(_tables, "_MAPPED_ROWS", 0)
    return request.param == "mapped"


def list_mapped(folder: Path) -> list[Path]:
    return [*folder.glob("cache/framefeed/columns/*.npy")]


def read_all(reader: Any) -> dict[str, Any]:
    return reader.read(reader.find_rows(range(len(reader))))


def test_each_table_is_read_once(texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, read_table = list[str](), Files.read_table

    def count(self: Files, name: str, keep: Callable[[str], bool]) -> pa.Table:
        names.append(name)
        return read_table(self, name, keep)

    monkeypatch.setattr(Files, "read_table", count)
    data = LeRobotDataset("me/data", texts, delta_timestamps={"action": [0.0, 0.1]})
    data.__getitems__(range(len(data)))
    assert [name for name in names if name.startswith("data/")] == [
        f"data/chunk-000/file-00{n}.parquet" for n in (0, 1, 2)
    ]


def test_large_tables_are_read_with_the_first_rows(texts: Path, tmp_path: Path, is_mapped: bool) -> None:
    data = LeRobotDataset("me/data", texts)
    assert list_mapped(tmp_path) == []
    item = data[13]
    numbers = len(data.features) - 1
    assert len(list_mapped(tmp_path)) == (numbers if is_mapped else 0)
    again = pickle.loads(pickle.dumps(data))
    assert again[13].keys() == item.keys()
    assert all(torch.equal(value, again[13][key]) for key, value in item.items() if not isinstance(value, str))
    assert {key: value for key, value in again[13].items() if isinstance(value, str)} == {
        "words": WORDS[13], "task": "pick the cube", "subtask": "reach"
    }  # fmt: skip
    for path in list_mapped(tmp_path)[:2]:
        path.unlink()  # those that are there stay
    assert torch.equal(LeRobotDataset("me/data", texts)[13]["action"], item["action"])
    assert len(list_mapped(tmp_path)) == (numbers if is_mapped else 0)


def test_missing_tables_are_errors_of_opening(texts: Path, is_mapped: bool) -> None:
    (texts / FIRST_TABLE).unlink()
    with pytest.raises(ff.MissingMedia, match="file-000"):
        LeRobotDataset("me/data", texts)
    assert LeRobotDataset("me/data", texts, episodes=[3])[0]["words"] == WORDS[sum(LENGTHS[:3])]


def test_damaged_tables_leave_no_column(texts: Path, tmp_path: Path, is_mapped: bool) -> None:
    (texts / FIRST_TABLE).with_stem("file-001").write_bytes(b"PAR1")
    with pytest.raises(ff.UnreadableMedia, match=r"file-001\.parquet: cannot be read as a Parquet file"):
        LeRobotDataset("me/data", texts)[0]
    assert list_mapped(tmp_path) == []
    assert [*tmp_path.glob("cache/framefeed/columns/.framefeed-*")] == []


@pytest.mark.parametrize("episodes", [None, [1, 4]])
def test_rows_have_texts(texts: Path, is_mapped: bool, episodes: list[int] | None) -> None:
    robots = ff.lerobot.open(texts)
    reader = robots.rows(episodes=episodes, columns=COLUMNS)
    rows = read_all(reader)
    numbers = reader.find_rows(range(len(reader)))
    assert rows["words"].tolist() == [WORDS[row] for row in numbers]
    assert np.array_equal(rows["action"][:, 0], numbers)
    assert robots.meta.subtasks is not None
    assert [robots.meta.subtasks[code] for code in rows["subtask_index"]] == [SUBTASKS[row // 4 % 3] for row in numbers]
    data = LeRobotDataset("me/data", texts, episodes=episodes)
    assert data.hf_dataset["words"] == rows["words"].tolist()
    assert "words" in data.hf_dataset.column_names
    batch = next(iter(torch.utils.data.DataLoader(data, batch_size=len(data), num_workers=2)))
    assert batch["words"] == rows["words"].tolist()
    assert batch["subtask"] == [SUBTASKS[row // 4 % 3] for row in numbers]


def test_plans_have_the_texts_of_tasks_and_subtasks(texts: Path, is_mapped: bool) -> None:
    robots = ff.lerobot.open(texts)
    columns = robots._source.make_columns({}, ("subtask", "task", "subtask_index"), None)
    for row in range(0, len(columns["subtask"]), 7):
        assert columns["subtask"][row] == SUBTASKS[row // 4 % 3]
        assert robots.meta.subtasks is not None
        assert columns["subtask"][row] == robots.meta.subtasks[int(columns["subtask_index"][row])]
        assert columns["task"][row] in robots._source.tasks


def test_texts_are_no_columns_of_plans(tmp_path: Path) -> None:
    root = find_dataset("gop30", tmp_path)
    add_texts(root)
    robots = ff.lerobot.open(root)
    message = (
        r"'words' is of type string, and only numbers .* 'task' .*: other texts are read with data\.rows\(columns="
    )
    for call in (
        lambda: robots.plan({TOP: [0.0]}, seed=0, columns=["words"]),
        lambda: robots.column("words"),
        lambda: robots.rows({"words": [0.0]}),
        lambda: LeRobotDataset("me/data", root, delta_timestamps={"words": [0.0]}),
    ):
        with pytest.raises(ff.UsageError, match=message):
            call()


@pytest.mark.parametrize("values", ["numbers", "a null"])
def test_wrong_texts_are_errors_that_name_the_file(texts: Path, values: str) -> None:
    edit_column(
        texts / FIRST_TABLE, "words", lambda words: range(len(words)) if values == "numbers" else [None, *words[1:]]
    )
    with pytest.raises(
        ff.UnreadableMedia, match="expected texts .*got int64" if values == "numbers" else "has a null"
    ) as e:
        ff.lerobot.open(texts).rows(columns=["words"])
    assert str(texts / FIRST_TABLE) in str(e.value)


def test_texts_that_are_not_utf8_are_errors_that_name_row_and_column(texts: Path) -> None:
    for name, column in ((FIRST_TABLE, "words"), ("meta/tasks.parquet", "task")):
        path = texts / name
        table = pq.read_table(path)
        column = column if column in table.column_names else "__index_level_0__"
        kept = path.read_bytes()
        values = pa.array([b"\xff", *map(str.encode, table[column].to_pylist()[1:])])
        odd = pa.Array.from_buffers(pa.string(), len(values), values.buffers())
        pq.write_table(table.set_column(table.column_names.index(column), column, odd), path, use_dictionary=False)
        with pytest.raises(ff.UnreadableMedia, match=rf"text '\\udcff' in row 0 of the column '{column}'") as caught:
            _ = ff.lerobot.open(texts).rows(columns=["words"]), ff.lerobot.open(texts).meta.tasks
        assert str(path) in str(caught.value)
        path.write_bytes(kept)


def test_texts_of_dictionaries_are_the_same(texts: Path) -> None:
    path = texts / FIRST_TABLE
    table = pq.read_table(path)
    words = table["words"].combine_chunks().dictionary_encode()
    pq.write_table(table.set_column(table.column_names.index("words"), "words", words), path)
    assert read_all(ff.lerobot.open(texts).rows(columns=["words"]))["words"].tolist() == WORDS


def test_subtasks_may_be_missing(texts: Path) -> None:
    (texts / "meta/subtasks.parquet").unlink()
    data = LeRobotDataset("me/data", texts)
    assert data.meta.subtasks is None
    assert "subtask" not in data[0]
    source = ff.lerobot.open(texts)._source
    with pytest.raises(ff.UsageError, match=r"no meta/subtasks\.parquet, .*read the column 'subtask_index'"):
        source.make_columns({}, ["subtask"], None)
    assert len(source.make_columns({}, ["subtask_index"], None)["subtask_index"]) == source.info.total_frames


def test_subtasks_have_texts(texts: Path) -> None:
    edit_column(texts / FIRST_TABLE, "subtask_index", lambda codes: [*codes[:2], 3, *codes[3:]])
    with pytest.raises(
        ff.UnreadableMedia, match=r"subtasks\.parquet: row 2 .* subtask_index 3, but there are 3 subtasks"
    ):
        LeRobotDataset("me/data", texts)
    edit_column(texts / "meta/subtasks.parquet", "subtask_index", lambda _: [0, 2, 3])
    with pytest.raises(ff.UnreadableMedia, match=r"subtasks\.parquet: expected a subtask_index from 0 to 2"):
        LeRobotDataset("me/data", texts)


def test_columns_of_some_episodes_are_not_taken_for_those_of_all(texts: Path, is_mapped: bool) -> None:
    robots = ff.lerobot.open(texts)
    assert read_all(robots.rows(episodes=[4], columns=["action"]))["action"][:, 0].tolist() == list(range(36, 45))
    assert robots.column("action")[:, 0].tolist() == list(range(sum(LENGTHS)))
    assert ff.lerobot.open(texts).column("action")[:, 0].tolist() == list(range(sum(LENGTHS)))


def test_tables_that_were_written_again_are_read_again(texts: Path, is_mapped: bool) -> None:
    before = ff.lerobot.open(texts).column("timestamp").copy()
    for path in (texts / "data").rglob("*.parquet"):
        edit_column(path, "timestamp", lambda values: np.float32(values) + 1)
    assert np.array_equal(ff.lerobot.open(texts).column("timestamp"), before + 1)


@pytest.mark.parametrize("kind", ["tasks", "subtasks"])
def test_texts_have_the_numbers_of_their_rows(texts: Path, kind: str) -> None:
    expected = list(getattr(ff.lerobot.open(texts).meta, kind))
    path = texts / f"meta/{kind}.parquet"
    table = pq.read_table(path)
    pq.write_table(table.append_column("notes", [["about"] * len(table)]).take([*range(1, len(table)), 0]), path)
    assert list(getattr(ff.lerobot.open(texts).meta, kind)) == expected
