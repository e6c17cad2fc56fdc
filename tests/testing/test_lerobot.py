"""LeRobot data sets: tables and videos agree, in every version and layout."""

from __future__ import annotations

import io
import json
from itertools import accumulate
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from framefeed.testing import make_lerobot, read_stamp, read_stamps

LENGTHS = (12, 1, 15, 8, 9)
CAMERAS = {"observation.images.top": 2, "observation.images.wrist": 3}


@pytest.mark.parametrize("options", [{}, {"gop": 30, "fps": 7}, {"codec": "libsvtav1"}], ids=["h264", "gop30", "av1"])
def test_rows_of_shared_files_show_their_numbers(tmp_path: Path, options: dict[str, Any]) -> None:
    root = make_lerobot(tmp_path, episodes=LENGTHS, cameras=CAMERAS, **options)
    info = json.loads((root / "meta/info.json").read_text())
    episodes = pq.read_table(root / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    rows = [row for file in sorted(root.glob("data/*/*.parquet")) for row in pq.read_table(file).to_pylist()]
    assert [row["index"] for row in rows] == list(range(sum(LENGTHS)))
    assert len({row["data/file_index"] for row in episodes}) == 3
    assert any(len({row[f"videos/{camera}/file_index"] for camera in CAMERAS}) == 2 for row in episodes)
    for camera in CAMERAS:
        pictures = {}
        for episode in episodes:
            file = {name: episode[f"videos/{camera}/{name}"] for name in ("chunk_index", "file_index")}
            path = root / info["video_path"].format(video_key=camera, **file)
            pictures[episode["episode_index"]] = _read(path), episode[f"videos/{camera}/from_timestamp"]
        for row in rows:
            stamps, start = pictures[row["episode_index"]]
            assert stamps[round((start + row["timestamp"]) * info["fps"])] == row["index"] == row["action"][0]


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_earlier_versions_hold_the_same_rows_in_files_an_episode(tmp_path: Path, version: str) -> None:
    root = make_lerobot(tmp_path / version, version=version, episodes=LENGTHS)
    shared = make_lerobot(tmp_path / "3.0", episodes=LENGTHS)
    info = json.loads((root / "meta/info.json").read_text())
    files = [{"episode_chunk": 0, "episode_index": episode} for episode in range(len(LENGTHS))]
    tables = [pq.read_table(root / info["data_path"].format(**file)) for file in files]
    assert [table.num_rows for table in tables] == list(LENGTHS)
    of_shared = [row for file in sorted(shared.glob("data/*/*")) for row in pq.read_table(file).to_pylist()]
    assert [row for table in tables for row in table.to_pylist()] == of_shared
    stamps = [_read(root / info["video_path"].format(video_key="observation.images.top", **file)) for file in files]
    assert [stamp for video in stamps for stamp in video] == list(range(sum(LENGTHS)))
    lines = [json.loads(line) for line in (root / "meta/episodes.jsonl").read_text().splitlines()]
    assert [line["length"] for line in lines] == list(LENGTHS)
    assert (root / "meta/stats.json").exists() == (version == "2.0")


def test_images_and_further_columns_are_in_the_tables(tmp_path: Path) -> None:
    grid = np.arange(5 * 6).reshape(5, 2, 3) / 8
    root = make_lerobot(tmp_path, episodes=[2, 3], cameras=(), image_keys=["side"], columns={"grid": grid})
    rows = pq.read_table(root / "data/chunk-000/file-000.parquet").to_pylist()
    assert np.array_equal([row["grid"] for row in rows], grid)
    pictures = [np.asarray(Image.open(io.BytesIO(row["side"]["bytes"]))) for row in rows]
    assert [read_stamp(picture) for picture in pictures] == list(range(5))
    features = json.loads((root / "meta/info.json").read_text())["features"]
    assert features["side"]["dtype"] == "image"
    assert features["grid"] == {"dtype": "float64", "shape": [2, 3], "names": None}


def test_episodes_begin_at_sums_of_floats(tmp_path: Path) -> None:
    root = make_lerobot(tmp_path, episodes=[1] * 7, episodes_per_file=7, size=(24, 32))
    table = pq.read_table(root / "meta/episodes/chunk-000/file-000.parquet")
    starts = table["videos/observation.images.top/from_timestamp"].to_pylist()
    assert starts == [*accumulate([1 / 30] * 6, initial=0.0)]
    assert starts[6] != 6 / 30


@pytest.mark.parametrize("version", ["v2.1", 2.1])
def test_versions_are_taken_as_they_are_called(tmp_path: Path, version: str | float) -> None:
    for _ in range(2):
        root = make_lerobot(tmp_path, version=version, episodes=(3,), cameras=())
        assert json.loads((root / "meta/info.json").read_text())["codebase_version"] == "v2.1"


def test_wrong_calls(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected one of 3\.0, 2\.1, 2\.0"):
        make_lerobot(tmp_path, version="1.6")
    with pytest.raises(ValueError, match=r"expected a folder, and then version='2\.1', got 'v2\.1' alone"):
        make_lerobot("v2.1")
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta/info.json").write_text('{"robot_type": "so100"}')
    with pytest.raises(ValueError, match="has a data set that make_lerobot has not written"):
        make_lerobot(tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["meta", "info.json"]
    with pytest.raises(ValueError, match="numbers to 65535"):
        make_lerobot(tmp_path, episodes=[65537])


def _read(path: Path) -> list[int]:
    with av.open(path) as container:
        return read_stamps(np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]))
