"""Items of data sets of several streams: dicts by stream, with the loader's values, lengths and fates."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import framefeed as ff
from framefeed.adapters.torch import ClipDataset
from framefeed.plan import Uniform
from tests.fakes import FlatDecoder
from tests.load.stream_media import fast, folder, plan_both, slow


@pytest.mark.parametrize("workers", [0, 1])
def test_items_of_a_data_set_are_those_of_the_loader(workers: int) -> None:
    plan = plan_both(horizontal_flip=0.5)
    with ff.ClipLoader(plan, batch_size=8, workers=1) as loader:
        (expected,) = loader
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


def test_boxes_of_any_stream_are_a_key_of_items() -> None:
    sources = [str(catalog.source(0)) for catalog in (slow(), fast())]
    requests = [{"a": ff.DecodeRequest(sources[0], [0]), "b": ff.DecodeRequest(sources[1], [0])}]
    sizes = {"a": (24, 32), "b": ff.Letterbox(40, 20)}
    assert ClipDataset(ff.plan_requests(requests, size=sizes))[0]["box"]["b"].tolist() == [12, 0, 15, 20]
    plan = ff.plan_requests(requests, size=sizes, columns={"box": [1]})
    with pytest.raises(ff.UsageError, match=r"columns \['box'\] have the same names as other keys"):
        ClipDataset(plan)


def test_results_of_a_transform_are_normalised_in_each_stream() -> None:
    def cut(clips: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: clip[:1] for name, clip in clips.items()}

    plan = plan_both()
    plain = ClipDataset(plan)[1]["data"]
    clips = ClipDataset(plan, transform=cut, dtype="float32", mean=0.5, std=0.25)[1]["data"]
    for name in ("slow", "fast"):
        assert torch.allclose(clips[name], (plain[name][:1] / 255 - 0.5) / 0.25, atol=1e-5)


def test_a_target_is_needed_of_joined_rows_alone(tmp_path: Path) -> None:
    paths = [str(slow().source(row)) for row in range(3)]
    pq.write_table(
        pa.table({"path": paths, "weather": ["dry", None, "wet"], "key": [0, 1, 2]}), tmp_path / "list.parquet"
    )
    left = ff.scan(tmp_path / "list.parquet", workers=0)
    options: Any = {"on": "key", "seed": 0, "shuffle": False, "columns": ["weather"]}
    with pytest.warns(UserWarning, match="1 of 5 rows"):
        plan = ff.plan_clips(None, Uniform(1), streams={"left": left, "right": left.take([0, 2])}, **options)
    dataset = ClipDataset(plan, target="weather")
    assert len({int(dataset[position][1]) for position in range(len(plan))}) == 2
    with pytest.raises(ff.UsageError, match="expected a value of the column 'weather'"):
        ClipDataset(ff.plan_clips(None, Uniform(1), streams={"left": left, "right": left}, **options), target="weather")


def test_D04_a_substitute_of_an_item_has_its_lengths() -> None:
    first, other = ([str(catalog.source(row)) for row in range(4)] for catalog in (slow(), fast()))
    requests = [
        {"a": ff.DecodeRequest(first[n], [0]), "b": ff.DecodeRequest(other[n], [0] * length)}
        for n, length in enumerate((2, 1, 1, 2))
    ]

    def spoil(name: str) -> None:
        if name == other[0]:
            raise ff.CorruptMedia(f"{name}: spoiled")

    for seed in range(4):
        plan = ff.plan_requests(requests, seed=seed)
        dataset = ClipDataset(plan, on_error="substitute", backend=FlatDecoder(before=spoil))
        item = dataset[0]
        assert item["ok"]
        assert item["source"] == {"a": first[3], "b": other[3]}
        assert dataset.ledger[0].source == other[0]


def test_a_clip_whose_transform_fails_is_not_valid_in_any_stream() -> None:
    def fail_once(clips: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        if any(clip.any() for clip in clips.values()):
            raise ValueError("mine")
        return clips

    item = ClipDataset(plan_both(), transform=fail_once, on_error="skip")[0]
    assert not item["ok"]
    for name in ("slow", "fast"):
        assert not item["data"][name].any()
        assert item["pts_seconds"][name].isnan().all()
        assert not item["valid"][name].any()
