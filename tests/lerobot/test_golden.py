"""What lerobot's own reader gave is what framefeed gives: tables, masks, frame numbers, and pictures nearly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import framefeed as ff
from framefeed.testing import make_lerobot, read_stamps
from tests.lerobot.cases import DATASETS, GOLDEN, LENGTHS, READS, TOP, WRIST, find_dataset

READ = json.loads(GOLDEN.read_text(encoding="utf-8"))
MEAN_TOLERANCE = 0.01
"""Of the mean of a picture's pixels, from 0 to 1: TorchCodec's converter is another than ours."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("robots")


def read_all(data: Any, options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Read all rows in their order: columns, and of each camera the numbers that pictures show and their means."""
    deltas, episodes = dict(options.get("delta_timestamps", {})), options.get("episodes")
    others = [name for name in data.features if name not in deltas and name not in data.meta.camera_keys]
    reader = data.rows(deltas, episodes=episodes, columns=others)
    columns = reader.read(reader.find_rows(range(len(reader))))
    wanted = {camera: deltas.get(camera, [0.0]) for camera in data.meta.camera_keys}
    pictures: dict[str, list[Any]] = {}
    if not wanted:
        return columns, pictures
    plan = data.plan(wanted, episodes=episodes, seed=0, shuffle=False)
    with ff.ClipLoader(plan, batch_size=len(plan), workers=0) as loader:
        (batch,) = loader
    for camera, clips in batch.data.items():
        assert np.array_equal(~batch.valid[camera], reader_pads(data, {camera: wanted[camera]}, episodes))
        pictures[camera] = [
            [read_stamps(clip.transpose(0, 2, 3, 1)), (clip / 255).mean(axis=(1, 2, 3))] for clip in clips
        ]
    return columns, pictures


def reader_pads(data: Any, deltas: dict[str, Any], episodes: Any) -> np.ndarray:
    reader = data.rows(deltas, episodes=episodes)
    (pads,) = reader.read(reader.find_rows(range(len(reader)))).values()
    return pads


@pytest.mark.parametrize("name", READS)
def test_rows_and_frames_are_those_of_lerobot(name: str, folder: Path) -> None:
    dataset, options = READS[name]
    data = ff.lerobot.open(find_dataset(dataset, folder))
    facts = READ[name]["facts"]
    assert (data.fps, data.num_frames, data.num_episodes) == (
        facts["fps"],
        facts["total_frames"],
        facts["total_episodes"],
    )
    columns, pictures = read_all(data, options)
    items = READ[name]["items"]
    assert len(next(iter(columns.values()))) == facts["len"]
    for row, item in items.items():
        if isinstance(item, str):  # lerobot raised: with deltas of its timestamps it reads no camera
            continue
        compare(data, item, {key: values[int(row)] for key, values in columns.items()})
        for camera, clips in pictures.items():
            _, shape, stamps, means = item[camera]
            found, found_means = clips[int(row)]
            assert found == stamps
            assert np.allclose(found_means, means, atol=MEAN_TOLERANCE)
            assert len(found) == (shape[0] if len(shape) == 4 else 1)


def compare(data: Any, item: dict[str, Any], row: dict[str, Any]) -> None:
    """Compare the columns of an item with a row; lerobot gives floats as float32, and whole numbers as int64."""
    texts = {"task": data.meta.tasks} | ({"subtask": data.meta.subtasks} if data.meta.subtasks else {})
    assert {*row, *data.meta.camera_keys, *texts} == set(item)
    for key, value in row.items():
        if isinstance(value, str):
            assert value == item[key]
            continue
        dtype, shape, expected = item[key]
        kind = {"f": "float32", "i": "int64", "b": "bool"}[np.asarray(value).dtype.kind]
        assert (kind, list(np.shape(value))) == (dtype, shape), key
        assert np.array_equal(np.asarray(value).astype(kind), np.array(expected, kind)), key
    for key, table in texts.items():
        assert table[int(np.atleast_1d(row[f"{key}_index"])[0])] == item[key]


@pytest.mark.parametrize("name", dict.fromkeys(dataset for dataset, _ in READS.values()))
def test_meta_says_what_lerobots_says(name: str, folder: Path) -> None:
    meta = ff.lerobot.open(find_dataset(name, folder)).meta
    job = next(job for job, (dataset, _) in READS.items() if dataset == name)
    facts = READ[job]["facts"]
    for key in ("fps", "camera_keys", "video_keys", "image_keys", "total_episodes", "total_frames", "total_tasks"):
        assert getattr(meta, key) == facts[key]
    assert meta.features == {
        key: {**each, "shape": tuple(each["shape"])} for key, each in facts["features"].items()
    }  # lerobot's too are tuples, which JSON has as lists
    assert meta.names == facts["names"]
    assert {key: list(shape) for key, shape in meta.shapes.items()} == facts["shapes"]
    assert {text: meta.tasks.loc[text].task_index for text in meta.tasks.index} == facts["tasks"]
    assert meta.episodes["dataset_from_index"] == facts["dataset_from_index"]
    assert meta.episodes["dataset_to_index"] == facts["dataset_to_index"]
    assert meta.episodes[0] == facts["episode"]
    assert {key: set(each) for key, each in meta.stats.items()} == {
        key: set(each) for key, each in facts["stats"].items()
    }
    for key, each in meta.stats.items():
        for kind, values in each.items():
            assert np.allclose(values, facts["stats"][key][kind]), (key, kind)


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_older_versions_give_the_same_rows_and_frames(version: str, folder: Path) -> None:
    arguments = {key: value for key, value in DATASETS["cameras"].items() if key != "cameras"}
    arguments["cameras"] = list(DATASETS["cameras"]["cameras"])
    old = ff.lerobot.open(make_lerobot(folder / version, version=version, **arguments))
    new = ff.lerobot.open(find_dataset("cameras", folder))
    for options in (READS["mixed"][1], READS["subset"][1]):
        (columns, pictures), (expected, expected_pictures) = read_all(old, options), read_all(new, options)
        assert set(columns) == set(expected)
        assert all(np.array_equal(values, expected[key]) for key, values in columns.items())
        assert [[stamps for stamps, _ in clips] for clips in pictures.values()] == [
            [stamps for stamps, _ in clips] for clips in expected_pictures.values()
        ]
    for key, each in new.meta.stats.items():
        for kind, values in each.items():
            assert np.allclose(old.meta.stats[key][kind], values, atol=1e-5), (key, kind)


@pytest.mark.parametrize("version", ["3.0", "2.1"])
def test_meta_names_the_files_of_episodes(version: str, folder: Path) -> None:
    root = find_dataset("cameras", folder)
    if version == "2.1":
        root = make_lerobot(folder / "old", version=version, episodes=LENGTHS, cameras=[TOP, WRIST], size=(32, 48))
    meta = ff.lerobot.open(root).meta
    for episode, row in enumerate(meta.episodes):
        table = pq.read_table(root / meta.get_data_file_path(episode))
        assert episode in table["episode_index"].to_pylist()
        for camera in (TOP, WRIST):
            path = root / meta.get_video_file_path(episode, camera)
            assert path.is_file()
            assert camera in path.parts
            number = row[f"videos/{camera}/file_index"] if version == "3.0" else episode
            assert int(path.stem[-3:]) == number
    assert [meta.get_task_index(text) for text in [*meta.tasks, "fly"]] == [0, 1, None]
    with pytest.raises(IndexError, match="no ep_index 5"):
        meta.get_data_file_path(5)
    with pytest.raises(ff.UsageError, match="there is no camera 'action' of videos"):
        meta.get_video_file_path(0, "action")
