"""Pictures of unequal size in one plan: batches are lists of clips, with the same frames as in equal plans."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

import framefeed as ff
from framefeed.catalog import Catalog
from framefeed.errors import UsageError
from framefeed.load._loader import ClipLoader
from framefeed.plan import AtIndices, EpochPlan, Uniform, plan_clips
from framefeed.request import CenterCrop, RandomCrop
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, read_stamps, write_clip
from tests.fakes import DamagedSources, FlatDecoder
from tests.load.laws import load_all
from tests.makers import plan_over

SIZES = [(40, 60), (60, 40), (48, 48), (40, 60), (33, 71), (80, 20)]
"""(height, width) of each picture."""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    folder = tmp_path_factory.mktemp("pictures")
    for number, (height, width) in enumerate(SIZES):
        rows = np.arange(height, dtype=np.uint8)[:, None, None]
        shade = np.broadcast_to(rows + 20 * number, (height, width, 3)).astype(np.uint8)
        Image.fromarray(shade).save(folder / f"{number}.png")
    return scan(folder)


plan_unequal = partial(plan_over, rule=Uniform(1), shuffle=False, unequal=True)


def fail_rows(pictures: Catalog, rows: Iterable[int]) -> FlatDecoder:
    """A decoder that reads all pictures but those of some rows."""
    return FlatDecoder(DamagedSources(*(pictures.source(row) for row in rows)))


def decode_each(plan: EpochPlan) -> list[npt.NDArray[np.uint8]]:
    """What `VideoDecoder` gives for each position."""
    clips = []
    for request in plan:
        with ff.VideoDecoder(request.source, size=request.output.size, crop=request.output.crop) as decoder:
            clips.append(decoder.get_frames_at(request.indices).data)
    return clips


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "options", [{}, {"size": 32}, {"crop": RandomCrop(20, 20), "size": 16}, {"size": (24, 24)}, {"shuffle": True}]
)
def test_batches_are_lists_of_the_planned_frames(pictures: Catalog, workers: int, options: dict[str, Any]) -> None:
    plan = plan_unequal(pictures, **options)
    expected = decode_each(plan)
    batches = load_all(plan, batch_size=4, workers=workers)
    assert [len(batch.data) for batch in batches] == [4, 2]
    assert all(isinstance(batch.data, list) for batch in batches)
    got = [clip for batch in batches for clip in batch.data]
    for position, (clip, frames) in enumerate(zip(got, expected, strict=True)):
        assert clip.shape == plan[position].shape
        np.testing.assert_array_equal(clip, frames)
    assert repr(batches[0]) == "ClipBatch(4 clips of any size)"


def test_without_it_the_error_names_it(pictures: Catalog) -> None:
    for size in (None, 32):
        with pytest.raises(UsageError, match="unequal=True"):
            plan_unequal(pictures, size=size, unequal=False)
    with pytest.raises(UsageError, match="unequal: expected True or False"):
        plan_unequal(pictures, unequal="yes")
    with pytest.raises(UsageError, match="expected one that fits into the picture"):
        plan_unequal(pictures, crop=CenterCrop(50, 50))


def test_there_is_no_common_shape(pictures: Catalog) -> None:
    plan = plan_unequal(pictures)
    for name in ("picture_shape", "clip_shape"):
        with pytest.raises(UsageError, match=r"plan\[position\]\.shape"):
            getattr(plan, name)
    assert [plan[position].shape[2:] for position in range(6)] == SIZES
    assert plan.describe().clips == 6


@pytest.mark.parametrize("workers", [0, 2])
def test_a_transform_may_return_any_shape(pictures: Catalog, workers: int) -> None:
    def flat(clip: npt.NDArray[np.uint8], rng: np.random.Generator) -> npt.NDArray[np.float64]:
        if clip.shape[2] == 48:
            raise ValueError("square")
        return clip.reshape(-1) / 2

    (batch,) = load_all(plan_unequal(pictures), batch_size=6, workers=workers, transform=flat, on_error="skip")
    # The transform fails for the black clip too.
    shapes = [(1, 3, 48, 48) if size == (48, 48) else (3 * size[0] * size[1],) for size in SIZES]
    assert [clip.shape for clip in batch.data] == shapes
    assert not batch.data[2].any()
    assert batch.ok.tolist() == [True, True, False, True, True, True]


def test_a_clip_that_fails_is_zeros_of_its_own_shape(pictures: Catalog) -> None:
    options: dict[str, Any] = {"batch_size": 6, "workers": 0, "on_error": "skip"}
    (batch,) = load_all(plan_unequal(pictures), backend=fail_rows(pictures, [1]), **options)
    assert [clip.shape[2:] for clip in batch.data] == SIZES
    assert not batch.data[1].any()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("rows", [{1}, set(range(len(SIZES)))])
def test_with_a_transform_a_clip_that_fails_is_zeros_like_its_result(
    pictures: Catalog, rows: set[int], workers: int
) -> None:
    """As in a ClipDataset, so that a transform that makes all clips equal makes them stackable."""

    def cut(clip: npt.NDArray[np.uint8], rng: np.random.Generator) -> npt.NDArray[np.float32]:
        return clip[0, :, :20, :20].astype(np.float32) + 1

    plan = plan_unequal(pictures)
    options: dict[str, Any] = {"batch_size": 6, "workers": workers, "on_error": "skip", "transform": cut}
    (batch,) = load_all(plan, backend=fail_rows(pictures, rows), **options)
    stacked = np.stack(batch.data)
    assert (stacked.dtype, stacked.shape) == (np.float32, (6, 3, 20, 20))
    assert stacked.any(axis=(1, 2, 3)).tolist() == batch.ok.tolist() == [row not in rows for row in range(6)]


@pytest.mark.parametrize("rows", [[1], list(range(len(SIZES)))])
def test_D04_a_substitute_has_its_own_shape(pictures: Catalog, rows: list[int]) -> None:
    options: dict[str, Any] = {"batch_size": 6, "workers": 0, "on_error": "substitute"}
    (batch,) = load_all(plan_unequal(pictures), backend=fail_rows(pictures, rows), **options)
    assert batch.ok.all() == (rows == [1])
    assert [clip.shape[2:] for clip in batch.data] == [SIZES[row] for row in batch.rows]


def test_a_clip_that_cannot_be_planned_is_zeros_of_its_own_shape(pictures: Catalog) -> None:
    plan = plan_clips(pictures, AtIndices([3], policy="error"), seed=0, shuffle=False, unequal=True)
    (batch,) = load_all(plan, batch_size=6, workers=0, on_error="skip")
    assert [clip.shape[2:] for clip in batch.data] == SIZES
    assert not batch.ok.any()


def test_clips_of_videos_of_unequal_size_and_kept_ones(tmp_path: Path) -> None:
    for number, (height, width) in enumerate([(48, 64), (64, 96)]):
        write_clip(tmp_path / f"{number}.mp4", ClipSpec(num_frames=20, height=height, width=width))
    plan = plan_clips(scan(tmp_path), Uniform(4), seed=0, clips_per_video=2, unequal=True)
    with ClipLoader(plan, batch_size=2, workers=2) as loader:
        kept = [clip for _ in range(3) for batch in loader for clip in batch.data]
    expected = [plan.with_epoch(epoch)[i].indices.tolist() for epoch in range(3) for i in range(4)]
    assert [read_stamps(clip) for clip in kept] == expected


@pytest.mark.parametrize("size", [None, 32])
def test_through_a_cache(pictures: Catalog, tmp_path: Path, size: int | None) -> None:
    plan = plan_unequal(pictures, size=size)
    expected = decode_each(plan)
    cache = ff.FrameCache(tmp_path / "cache", max_bytes="10MB")
    for _ in range(2):
        with ClipLoader(plan, batch_size=4, workers=0, cache=cache) as loader:
            got = [clip for batch in loader for clip in batch.data]
        for clip, frames in zip(got, expected, strict=True):
            np.testing.assert_array_equal(clip, frames)
        cached = loader.stats().counts.frames_cached
    assert cached == 6
    cache.close()


def test_frames_named_by_a_column_may_be_of_unequal_pictures(pictures: Catalog, tmp_path: Path) -> None:
    lines = [f"{pictures.source(row)},0" for row in range(len(SIZES))]
    (tmp_path / "list.csv").write_text("\n".join(["path,frame", *lines]))
    catalog = scan(tmp_path / "list.csv", workers=0)
    for options in ({}, {"size": 16}):
        plan = plan_clips(catalog, at="frame", seed=0, shuffle=False, unequal=True, **options)
        expected = decode_each(plan_unequal(pictures, **options))
        with ClipLoader(plan, batch_size=len(SIZES)) as loader:
            for clip, frames in zip(next(iter(loader)).data, expected, strict=True):
                assert np.array_equal(clip, frames)
