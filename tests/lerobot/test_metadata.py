"""LeRobotDatasetMetadata has what lerobot's class offers to a policy, and names the way where a name is missing."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed.testing import make_lerobot
from framefeed.torch import LeRobotDataset, LeRobotDatasetMetadata

TOP = "observation.images.top"
# The public names of the class of lerobot 0.4.4, and those of its main branch of November 2026 that read.
NAMES = (
    "camera_keys", "chunks_size", "create", "data_files_size_in_mb", "data_path", "episodes", "ensure_readable",
    "features", "filter_episodes", "fps", "get_chunk_settings", "get_data_file_path", "get_task_index",
    "get_video_file_path", "image_keys", "info", "load_metadata", "names", "pull_from_repo", "repo_id", "revision",
    "robot_type", "root", "save_episode", "save_episode_tasks", "shapes", "stats", "tasks", "total_episodes",
    "total_frames", "total_tasks", "update_chunk_settings", "update_video_info", "url_root", "video_files_size_in_mb",
    "video_keys", "video_path", "depth_keys", "finalize",
)  # fmt: skip


def make_policy(features: dict[str, Any], stats: dict[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Do what lerobot's `make_policy` does with the metadata: kind and shape of each feature, and its statistics."""
    made = {}
    for key, feature in features.items():
        shape = feature["shape"]
        if feature["dtype"] in ("image", "video"):
            assert feature["names"][2] == "channels"
            made[key] = "visual", (shape[2], shape[0], shape[1])
        elif key.startswith(("observation", "action")):
            made[key] = key.split(".")[0], shape
            assert all(stats[key][kind].shape == shape for kind in ("min", "max", "mean", "std"))
    return made


@pytest.mark.parametrize("version", ["3.0", "2.1"])
def test_a_policy_gets_what_lerobot_would_give_it(original: dict[str, Path], version: str) -> None:
    root = original[version]
    meta = LeRobotDatasetMetadata("me/data", root, revision="main", metadata_buffer_size=3)
    assert [name for name in NAMES if not hasattr(meta, name)] == []
    assert bool(meta)
    assert make_policy(meta.features, meta.stats) == {
        TOP: ("visual", (3, 32, 48)),
        "wrist": ("visual", (3, 32, 48)),
        "observation.state": ("observation", (6,)),
        "action": ("action", (6,)),
    }
    assert (meta.repo_id, meta.revision, meta.root, meta.url_root) == ("me/data", "main", root, "hf://datasets/me/data")
    assert (meta.root / meta.get_video_file_path(1, TOP)).is_file()
    assert (meta.root / meta.get_data_file_path(2)).is_file()
    assert meta.get_chunk_settings()["chunks_size"] == 1000
    assert meta.filter_episodes(lambda episode: episode["length"] > 8) == [0, 2]
    assert meta.filter_episodes(lambda episode: episode["length"] > 8, candidates=[2, 1]) == [2]
    meta.stats.setdefault(TOP, {})["mean"] = np.zeros((3, 1, 1))  # as lerobot's factory does for ImageNet
    assert meta.stats[TOP]["mean"].shape == (3, 1, 1)


def test_the_meta_of_a_data_set_is_one(original: dict[str, Path]) -> None:
    data = LeRobotDataset("me/data", original["3.0"])
    for each in (data, pickle.loads(pickle.dumps(data)), copy.deepcopy(data)):
        assert isinstance(each.meta, LeRobotDatasetMetadata)
        assert (each.meta.repo_id, each.meta.root, each.root) == ("me/data", original["3.0"], original["3.0"])
        assert each.meta.features == data.features
        assert len(each.meta.episodes) == each.num_episodes == 3


def test_what_downloads_or_writes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ff.MissingMedia, match="hf download me/data"):
        LeRobotDatasetMetadata("me/data", tmp_path)
    meta = LeRobotDatasetMetadata("me/data", make_lerobot(tmp_path, episodes=(2,), cameras=()))
    with pytest.raises(ff.UsageError, match="downloads nothing"):
        LeRobotDatasetMetadata("me/data", tmp_path, force_cache_sync=True)
    for refused in (LeRobotDatasetMetadata.create, meta.save_episode, meta.update_video_info):
        with pytest.raises(ff.UsageError, match="writes and downloads none"):
            refused()


WAYS: dict[str, tuple[str, str]] = {
    "stats": ("data", r"it is dataset\.meta\.stats"),
    "total_frames": ("data", r"it is dataset\.meta\.total_frames"),
    "episode_data_index": ("data", r'it is dataset\.meta\.episodes\["dataset_from_index"\]'),
    "num_frame": ("data", "did you mean 'num_frames'"),
    "camera_key": ("meta", "did you mean 'camera_keys'"),
    "select_columns": ("hf_dataset", r"hf_dataset\['action'\]; rows are read with dataset\[i\]"),
    "to_pandas": ("hf_dataset", r"ff\.lerobot\.open\(root\)\.rows"),
}


@pytest.mark.parametrize("name", WAYS)
def test_attribute_errors_name_the_way(name: str, original: dict[str, Path]) -> None:
    data = LeRobotDataset("me/data", original["3.0"])
    owners = {"data": data, "meta": data.meta, "hf_dataset": data.hf_dataset}
    owner, message = WAYS[name]
    with pytest.raises(AttributeError, match=rf"no (attribute )?'{name}'.*{message}"):
        getattr(owners[owner], name)
    assert not hasattr(owners[owner], name)
