"""``limits=`` of every public function reaches the decoder, for higher and lower limits."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from torch.utils.data import DataLoader

import framefeed as ff
from framefeed._values import Limits
from framefeed.errors import LimitExceeded, UsageError
from framefeed.load import ClipLoader
from framefeed.plan import EpochPlan, Uniform
from framefeed.testing import ClipSpec, write_clip
from tests.fakes import FlatDecoder
from tests.makers import plan_over

WIDE, NARROW = Limits(max_side=20_000), Limits(max_side=60)
SIDE = 17_000
"""Longer than the default allows, in a picture of few pixels."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wide")
    Image.new("RGB", (SIDE, 8), (9, 90, 200)).save(folder / "wide.png")
    write_clip(folder / "clip.mp4", ClipSpec(num_frames=6, height=48, width=64))
    for path in folder.iterdir():
        os.utime(path, (1e9, 1e9))  # a cache stores no frames of a file that was written just now
    return folder


def plan_wide(path: Path, **options: Any) -> EpochPlan:
    return plan_over(ff.scan(path, limits=WIDE), Uniform(1), **options)


def through_loader(path: Path, limits: Limits | None) -> Any:
    with ClipLoader(plan_wide(path), batch_size=1, workers=0, limits=limits) as loader:
        return next(iter(loader)).data[0]


def through_dataset(path: Path, limits: Limits | None) -> Any:
    return ff.torch.ClipDataset(plan_wide(path), limits=limits)[0]["data"]


def through_a_worker(path: Path, limits: Limits | None) -> Any:
    items = iter(DataLoader(ff.torch.ClipDataset(plan_wide(path), limits=limits), num_workers=1, batch_size=None))
    try:
        return next(items)["data"]
    finally:
        list(items)  # or torch waits for the worker for 5 s


def through_decoder(path: Path, limits: Limits | None) -> Any:
    with ff.VideoDecoder(path, limits=limits) as decoder:
        return decoder[0][None]


def through_torch_decoder(path: Path, limits: Limits | None) -> Any:
    with ff.torch.VideoDecoder(path, limits=limits, num_ffmpeg_threads=2) as decoder:
        return decoder[0][None]


def through_a_known_index(path: Path, limits: Limits | None) -> Any:
    index = ff.build_index(path, limits=WIDE)
    with ff.VideoDecoder(path, frame_index=index, limits=limits) as decoder:
        return decoder[0][None]


@pytest.mark.parametrize(
    "read",
    [through_loader, through_dataset, through_a_worker, through_decoder, through_torch_decoder, through_a_known_index],
)
def test_limits_reach_the_decoder(read: Callable[..., Any], folder: Path) -> None:
    picture, video = folder / "wide.png", folder / "clip.mp4"
    pixels = np.asarray(read(picture, WIDE))
    assert pixels.shape == (1, 3, 8, SIDE)
    assert pixels[0, :, 0, 0].tolist() == [9, 90, 200]
    assert np.asarray(read(video, None)).shape == (1, 3, 48, 64)
    for path, limits in ((picture, None), (video, NARROW)):
        with pytest.raises(LimitExceeded):
            read(path, limits)


def test_limits_reach_the_filling_of_a_cache(folder: Path, tmp_path: Path) -> None:
    picture, video = plan_wide(folder / "wide.png", size=(8, 40)), plan_wide(folder / "clip.mp4", size=(8, 40))
    cache = ff.FrameCache(tmp_path / "cache", max_bytes="10MB")
    for plan, limits in ((picture, None), (video, NARROW)):
        failed = ff.cache.build(plan, cache, workers=0, limits=limits).failed
        assert [kind for _, kind, _ in failed] == ["LimitExceeded"]
    assert ff.cache.build(picture, cache, workers=0, limits=WIDE).frames_stored == 1
    # What is stored is small, and read without the limits that decoding needs.
    expected = ff.torch.ClipDataset(picture, limits=WIDE)[0]["data"]
    assert np.array_equal(ff.torch.ClipDataset(picture, cache=cache)[0]["data"], expected)
    cache.close()


def test_a_whole_picture_above_the_default_limits_is_delivered_though_not_stored(folder: Path, tmp_path: Path) -> None:
    plan, cache = plan_wide(folder / "wide.png"), ff.FrameCache(tmp_path / "cache", max_bytes="10MB")
    for _ in range(2):
        data = ff.torch.ClipDataset(plan, cache=cache, limits=WIDE)[0]["data"]
        assert data.shape == (1, 3, 8, SIDE)
    assert [kind for _, kind, _ in ff.cache.build(plan, cache, workers=0, limits=WIDE).failed] == ["CacheError"]
    cache.close()


def test_a_decoder_has_limits_of_its_own(folder: Path) -> None:
    plan = plan_wide(folder / "clip.mp4")
    for make in (ff.ClipLoader, ff.torch.ClipDataset):
        options: dict[str, Any] = {"batch_size": 1} if make is ff.ClipLoader else {}
        with pytest.raises(UsageError, match="give the limits to FlatDecoder"):
            make(plan, backend=FlatDecoder(), limits=WIDE, **options)
        with pytest.raises(UsageError, match=r"limits: expected an ff\.Limits"):
            make(plan, limits=5, **options)
