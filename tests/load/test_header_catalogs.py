"""Pictures of a catalog of headers: the same bytes as from a full scan, through every way to load them."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from framefeed.cache import FrameCache, build
from framefeed.catalog import Catalog
from framefeed.decode import VideoDecoder
from framefeed.errors import StaleSource
from framefeed.load import ClipLoader
from framefeed.plan import EpochPlan, Uniform
from framefeed.request import RandomResizedCrop
from framefeed.scanning import scan
from tests.judges import assert_same_arrays
from tests.load.laws import check_resume
from tests.makers import plan_over
from tests.media.pictures import noise
from tests.pictures.made import made

NAMES = ["RGB.jpeg", "exif 6.jpeg", "animation.png", "palette 4.png", "P.bmp"]
WORKERS = [0, 2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of several kinds and sizes, animations among them."""
    root = tmp_path_factory.mktemp("pictures")
    for name in NAMES:
        (root / name).write_bytes(made()[name])
    first, *others = [Image.fromarray(noise(seed=seed)) for seed in range(3)]
    for kind in ("gif", "webp", "tiff"):
        first.save(root / f"animation.{kind}", save_all=True, append_images=others)
    return root


plan_pictures = partial(plan_over, rule=Uniform(2), seed=5, size=(24, 32))


@pytest.fixture(scope="module")
def headers(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    path = tmp_path_factory.mktemp("catalog") / "cat.parquet"
    scan(folder, depth="header", out=path, workers=0)
    return Catalog.open(path)


@pytest.fixture(scope="module")
def frames(folder: Path) -> Catalog:
    return scan(folder, workers=0)


def load(plan: EpochPlan, **options: Any) -> list[np.ndarray]:
    """Bytes, times and positions of the batches."""
    with ClipLoader(plan, batch_size=3, **{"workers": 0, **options}) as loader:
        return [array for batch in loader for array in (batch.data.copy(), batch.pts_seconds, batch.positions)]


@pytest.mark.parametrize(("workers", "kind"), [(0, "threads"), (2, "threads"), (1, "processes")])
def test_batches_are_those_of_a_full_scan(headers: Catalog, frames: Catalog, workers: int, kind: str) -> None:
    options = {"crop": RandomResizedCrop(20), "size": None}
    expected = load(plan_pictures(frames, **options))
    assert_same_arrays(load(plan_pictures(headers, **options), workers=workers, kind=kind), expected)


def test_resuming(headers: Catalog, frames: Catalog) -> None:
    check_resume(lambda workers: ClipLoader(plan_pictures(headers), batch_size=3, workers=workers))
    with ClipLoader(plan_pictures(frames), batch_size=3, workers=0) as loader:
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
        expected = [batch.data.copy() for batch in batches]
    with ClipLoader(plan_pictures(headers), batch_size=3, workers=0) as loader:
        loader.load_state_dict(state)
        assert_same_arrays([batch.data.copy() for batch in loader], expected)


@pytest.mark.parametrize("order", ["full scan first", "headers first"])
def test_a_cache_filled_from_one_serves_the_other(
    headers: Catalog, frames: Catalog, tmp_path: Path, order: str
) -> None:
    first, second = (frames, headers) if order == "full scan first" else (headers, frames)
    cache = FrameCache(tmp_path / "cache")
    report = build(plan_pictures(first), cache)
    assert (report.frames_stored, report.frames_failed) == (8, 0)
    assert build(plan_pictures(second), cache).frames_present == 8
    with ClipLoader(plan_pictures(second), batch_size=3, workers=0, cache=cache) as loader:
        data = [batch.data.copy() for batch in loader]
        assert loader.stats().counts.frames_decoded == 0
    assert_same_arrays(data, load(plan_pictures(first))[::3])
    assert cache.verify().num_frames == 8


def test_entries_are_sources(headers: Catalog, frames: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framefeed.decode._video_decoder.index_media", None)
    for row in headers.usable_rows.tolist():
        with VideoDecoder(headers[row]) as one, VideoDecoder(frames[row]) as other:
            assert len(one) == len(other) == 1
            np.testing.assert_array_equal(one[0], other[0])


@pytest.mark.parametrize("workers", WORKERS)
def test_D09_a_file_that_was_replaced_after_the_scan_is_stale(tmp_path: Path, workers: int) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(noise(seed=1)).save(path)
    catalog = scan(path, depth="header", workers=0)
    Image.fromarray(noise(seed=2)).save(path)
    os.utime(path, (1, 1))
    with (
        ClipLoader(plan_pictures(catalog), batch_size=1, workers=workers) as loader,
        pytest.raises(StaleSource, match=r"a\.png"),
    ):
        next(iter(loader))
    with pytest.raises(StaleSource, match=r"a\.png"), VideoDecoder(catalog[0]) as video:
        video[0]
