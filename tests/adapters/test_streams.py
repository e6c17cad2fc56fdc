"""Plans of several streams in the clothes of frameworks: dicts by stream with the loader's values."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
import torch

import framefeed as ff
from framefeed.adapters.torch import ClipDataset
from framefeed.load import ClipLoader
from framefeed.plan import Uniform
from tests.load.stream_media import folder, plan_both


def load_all(plan: Any, **options: Any) -> Any:
    with ClipLoader(plan, batch_size=8, workers=1, **options) as loader:
        (batch,) = list(loader)
    return batch


@pytest.mark.parametrize("workers", [0, 1])
def test_items_of_a_data_set_are_those_of_the_loader(workers: int) -> None:
    plan = plan_both(horizontal_flip=0.5)
    expected = load_all(plan)
    data_loader = torch.utils.data.DataLoader(ClipDataset(plan), batch_size=8, num_workers=workers)
    (batch,) = list(data_loader)
    for name in ("slow", "fast"):
        assert np.array_equal(batch["data"][name].numpy(), expected.data[name])
        assert np.array_equal(batch["pts_seconds"][name].numpy(), expected.pts_seconds[name])
        assert np.array_equal(batch["valid"][name].numpy(), expected.valid[name])
        assert batch["source"][name] == expected.sources[name]
    assert np.array_equal(batch["flipped"].numpy(), expected.flipped)
    assert np.array_equal(batch["label"].numpy(), expected["label"])
    pairs = ClipDataset(plan, target="label", dtype="float32")
    clip, label = pairs[3]
    assert torch.equal(clip["fast"], torch.from_numpy(expected.data["fast"][3]) / 255)
    assert label == expected["label"][3]


def test_a_transform_gets_the_streams() -> None:
    plan = plan_both()

    def add_noise(clips: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        draw = torch.rand(1)
        return {name: clip.float() + draw for name, clip in clips.items()}

    item = ClipDataset(plan, transform=add_noise)[2]
    plain = ClipDataset(plan)[2]
    offsets = {name: (item["data"][name] - plain["data"][name]).unique() for name in plain["data"]}
    assert all(torch.allclose(each, offsets["slow"][0], atol=1e-4) for each in offsets.values())


def test_a_clip_that_fails_is_zeros_in_all_streams(tmp_path: Path) -> None:
    copytree(folder(), tmp_path / "media")
    catalogs = {name: ff.scan(tmp_path / "media" / name, workers=0) for name in ("slow", "fast")}
    (tmp_path / "media" / "fast" / "scene_1.mp4").unlink()
    plan = ff.plan_clips(None, Uniform(2), streams=catalogs, on="stem", seed=0, shuffle=False)
    dataset = ClipDataset(plan, on_error="skip")
    item = dataset[1]
    assert not item["ok"]
    for name in ("slow", "fast"):
        assert not item["data"][name].any()
        assert item["pts_seconds"][name].isnan().all()
        assert not item["valid"][name].any()
    assert dataset.ledger[0].source.endswith("fast/scene_1.mp4")
    other = ClipDataset(plan, on_error="substitute")[1]
    assert other["ok"]
    assert {Path(source).stem for source in other["source"].values()} != {"scene_1"}
