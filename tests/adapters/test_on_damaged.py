"""ClipDataset over frames that are always damaged (D01): each ``on_damaged``, cached or not, in workers."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from framefeed.adapters.torch._clip_dataset import ClipDataset
from framefeed.cache import FrameCache
from framefeed.catalog import Catalog
from framefeed.errors import CorruptMedia
from framefeed.load import ClipLoader
from framefeed.plan import AtIndices, plan_clips
from framefeed.scanning import scan
from tests.damaged import SPEC, damaged_clip
from tests.makers import plan_over

INDICES = (2, 11, 12, 14, 13, 17, 30, 14)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    folder = tmp_path_factory.mktemp("damaged")
    shutil.copy(damaged_clip("damage.mp4", (12, 13, 14, 15, 16, 30)), folder / "a.mp4")
    shutil.copy(damaged_clip("damage_mpeg4.avi", (13,), replace(SPEC, codec="mpeg4")), folder / "b.avi")
    return scan(folder, verify="full", workers=0)


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("on_damaged", ["skip", "deliver"])
def test_items_are_the_loaders_clips(on_damaged: str, cached: bool, catalog: Catalog, tmp_path: Path) -> None:
    plan = plan_over(catalog, AtIndices(INDICES), shuffle=False, on_damaged=on_damaged)
    with ClipLoader(plan, batch_size=2, workers=0) as loader:
        (batch,) = loader
    dataset = ClipDataset(plan, cache=FrameCache(tmp_path / "c", codec="raw") if cached else None)
    for workers in (0, 1):
        for _ in range(2):
            (items,) = DataLoader(dataset, batch_size=2, num_workers=workers)
            assert torch.equal(items["data"], torch.from_numpy(np.asarray(batch.data)))
            assert items["valid"].tolist() == batch.valid.tolist()
    for position in range(2):
        damaged = plan[position].damaged
        assert damaged is not None
        zeros = dataset[position]["data"].flatten(1).amax(1) == 0
        assert zeros.tolist() == (damaged.tolist() if on_damaged == "skip" else [False] * len(INDICES))
        assert dataset[position]["valid"].all() == (on_damaged == "deliver")


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.filterwarnings("ignore:.* damaged frames in .* may be in clips")
def test_an_error_is_raised_by_default(cached: bool, catalog: Catalog, tmp_path: Path) -> None:
    plan = plan_clips(catalog, AtIndices(INDICES), seed=0, shuffle=False)
    dataset = ClipDataset(plan, cache=FrameCache(tmp_path / "c", codec="raw") if cached else None)
    with pytest.raises(CorruptMedia, match="13, 14"):
        dataset[0]
