"""What is done to decoded clips on their way into the batch: the same bytes on every path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.cache import FrameCache
from framefeed.load._finish import mirror
from framefeed.load._loader import ClipLoader
from framefeed.plan import EpochPlan, RandomSegments, Uniform
from framefeed.request import RandomResizedCrop
from tests.load.laws import content
from tests.load.media import plan_of


@given(st.lists(st.integers(1, 3), max_size=3), st.integers(1, 70), st.integers(0, 9), st.integers(0, 9))
def test_a_mirrored_picture_is_the_picture_from_right_to_left(axes: list[int], width: int, left: int, at: int) -> None:
    rows = np.random.default_rng(width).integers(0, 256, (*axes, left + width + 3), np.uint8)
    pictures = rows[..., left : left + width]
    around = np.full((*axes, width + 20), 7, np.uint8)
    mirror(pictures, around[..., at : at + width])
    assert np.array_equal(around[..., at : at + width], pictures[..., ::-1])
    assert (np.delete(around, np.s_[at : at + width], axis=-1) == 7).all()


def load(plan: EpochPlan, **options: Any) -> list[Any]:
    with ClipLoader(plan, **{"batch_size": 5, "workers": 0, **options}) as loader:
        return list(loader)


def unflip(plan: EpochPlan, pixels: np.ndarray) -> np.ndarray:
    flipped = np.array([request.flipped for request in plan])
    assert len(set(flipped.tolist())) == 2
    return np.where(flipped[:, None, None, None, None], pixels[..., ::-1], pixels)


@pytest.mark.parametrize("options", [{}, {"size": (21, 31)}, {"crop": RandomResizedCrop(24)}], ids=repr)
def test_a_flipped_clip_is_the_mirrored_clip(options: dict[str, Any]) -> None:
    plan, plain = (plan_of(clips_per_video=3, horizontal_flip=flip, **options) for flip in (0.5, 0))
    pixels, expected = (np.concatenate([batch.data for batch in load(each)]) for each in (plan, plain))
    assert np.array_equal(unflip(plan, pixels), expected)
    with pytest.raises(AssertionError):
        assert np.array_equal(pixels, expected)


def test_a_transform_sees_the_flipped_clip() -> None:
    plan = plan_of(horizontal_flip=0.5)
    pixels = np.concatenate([batch.data for batch in load(plan)])
    transformed = load(plan, transform=lambda clip, rng: clip[..., :8] + rng.integers(3, dtype=np.uint8))
    drawn = [plan.generator_at(position).integers(3, dtype=np.uint8) for position in range(len(plan))]
    expected = pixels[..., :8] + np.array(drawn)[:, None, None, None, None]
    assert np.array_equal(np.concatenate([batch.data for batch in transformed]), expected)


@pytest.mark.parametrize("form", ["output", "planes"])
def test_a_cache_holds_one_picture_for_flipped_and_unflipped_clips(form: Any, tmp_path: Any) -> None:
    plan, plain = (plan_of(Uniform(4), clips_per_video=1, horizontal_flip=flip, size=(24, 32)) for flip in (0.5, 0))
    with FrameCache(tmp_path / "c", form=form) as cache:
        for epoch in range(4):
            here = plan.with_epoch(epoch)
            fresh = [content(batch) for batch in load(here)]
            assert [content(batch) for batch in load(here, cache=cache)] == fresh
        stored = cache.info().num_frames
        with FrameCache(tmp_path / "plain", form=form) as other:
            load(plain, cache=other)
            assert other.info().num_frames == stored == 24
        # A plan without flips finds them all.
        with ClipLoader(plain, batch_size=5, workers=0, cache=cache) as loader:
            assert [content(batch) for batch in loader] == [content(batch) for batch in load(plain)]
            assert loader.stats().counts.frames_decoded == 0


def test_clips_of_any_size_are_flipped_too() -> None:
    plan, plain = (plan_of(RandomSegments(2), unequal=True, horizontal_flip=flip) for flip in (0.5, 0))
    for workers in (0, 2):
        clips = [clip for batch in load(plan, workers=workers) for clip in batch.data]
        expected = [clip for batch in load(plain) for clip in batch.data]
        for request, clip, before in zip(plan, clips, expected, strict=True):
            assert np.array_equal(clip, before[..., ::-1] if request.flipped else before)
