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
from framefeed.load._spec import list_arrays
from framefeed.plan import EpochPlan, RandomSegments, Uniform, count_planned
from framefeed.request import Letterbox, RandomResizedCrop
from tests.fakes import DamagedSources, SlopedDecoder
from tests.load.laws import content, load_all
from tests.makers import plan_of


@given(st.lists(st.integers(1, 3), max_size=3), st.integers(1, 70), st.integers(0, 9), st.integers(0, 9))
def test_a_mirrored_picture_is_the_picture_from_right_to_left(axes: list[int], width: int, left: int, at: int) -> None:
    rows = np.random.default_rng(width).integers(0, 256, (*axes, left + width + 3), np.uint8)
    pictures = rows[..., left : left + width]
    around = np.full((*axes, width + 20), 7, np.uint8)
    mirror(pictures, around[..., at : at + width])
    assert np.array_equal(around[..., at : at + width], pictures[..., ::-1])
    assert (np.delete(around, np.s_[at : at + width], axis=-1) == 7).all()


def unflip(plan: EpochPlan, pixels: np.ndarray) -> np.ndarray:
    flipped = np.array([request.flipped for request in plan])
    assert len(set(flipped.tolist())) == 2
    return np.where(flipped[:, None, None, None, None], pixels[..., ::-1], pixels)


@pytest.mark.parametrize("options", [{}, {"size": (21, 31)}, {"crop": RandomResizedCrop(24)}], ids=repr)
def test_a_flipped_clip_is_the_mirrored_clip(options: dict[str, Any]) -> None:
    plan, plain = (plan_of(clips_per_video=3, horizontal_flip=flip, **options) for flip in (0.5, 0))
    pixels, expected = (np.concatenate([batch.data for batch in load_all(each)]) for each in (plan, plain))
    assert np.array_equal(unflip(plan, pixels), expected)
    with pytest.raises(AssertionError):
        assert np.array_equal(pixels, expected)


def test_a_transform_sees_the_flipped_clip() -> None:
    plan = plan_of(horizontal_flip=0.5)
    pixels = np.concatenate([batch.data for batch in load_all(plan)])
    transformed = load_all(plan, transform=lambda clip, rng: clip[..., :8] + rng.integers(3, dtype=np.uint8))
    drawn = [
        plan.order.generator_at(plan.global_position(position)).integers(3, dtype=np.uint8)
        for position in range(len(plan))
    ]
    expected = pixels[..., :8] + np.array(drawn)[:, None, None, None, None]
    assert np.array_equal(np.concatenate([batch.data for batch in transformed]), expected)


@pytest.mark.parametrize("form", ["output", "planes"])
def test_a_cache_holds_one_picture_for_flipped_and_unflipped_clips(form: Any, tmp_path: Any) -> None:
    plan, plain = (plan_of(Uniform(4), clips_per_video=1, horizontal_flip=flip, size=(24, 32)) for flip in (0.5, 0))
    with FrameCache(tmp_path / "c", form=form) as cache:
        for epoch in range(4):
            here = plan.with_epoch(epoch)
            fresh = [content(batch) for batch in load_all(here)]
            assert [content(batch) for batch in load_all(here, cache=cache)] == fresh
        stored = cache.info().num_frames
        with FrameCache(tmp_path / "plain", form=form) as other:
            load_all(plain, cache=other)
            assert other.info().num_frames == stored == 24
        # A plan without flips finds them all.
        with ClipLoader(plain, batch_size=5, workers=0, cache=cache) as loader:
            assert [content(batch) for batch in loader] == [content(batch) for batch in load_all(plain)]
            assert loader.stats().counts.frames_decoded == 0


def test_clips_of_any_size_are_flipped_too() -> None:
    plan, plain = (plan_of(RandomSegments(2), unequal=True, horizontal_flip=flip) for flip in (0.5, 0))
    for workers in (0, 2):
        clips = [clip for batch in load_all(plan, workers=workers) for clip in batch.data]
        expected = [clip for batch in load_all(plain) for clip in batch.data]
        for request, clip, before in zip(plan, clips, expected, strict=True):
            assert np.array_equal(clip, before[..., ::-1] if request.flipped else before)


# --- a border ---------------------------------------------------------------------------------------

FILL = (9, 250, 114)
TALL = Letterbox(65, 40, fill=FILL)
"""The pictures of `plan_of`, 48 x 64, are 30 x 40 in it, with 17 rows above and 18 below."""
WIDE = Letterbox(48, 71, fill=FILL)
"""They are not resized in it, with 3 columns to the left and 4 to the right."""


def compose(plan: EpochPlan, pictures: np.ndarray, letterbox: Letterbox) -> np.ndarray:
    """Put pictures [B, T, C, H, W] into a border, in the plainest way."""
    rows, columns = letterbox.common
    whole = np.empty((*pictures.shape[:3], rows, columns), np.uint8)
    whole[...] = np.array(FILL, np.uint8)[:, None, None]
    for number, request in enumerate(plan):
        top, left, height, width = request.box
        whole[number, ..., top : top + height, left : left + width] = (
            pictures[number, ..., ::-1] if request.flipped else pictures[number]
        )
    return whole


@pytest.mark.parametrize(("letterbox", "size"), [(TALL, (30, 40)), (WIDE, (48, 64)), (Letterbox(24, 32), (24, 32))])
@pytest.mark.parametrize("flip", [0, 0.5])
def test_a_picture_lies_in_its_border_as_the_decoder_gives_it(
    letterbox: Letterbox, size: tuple[int, int], flip: float
) -> None:
    plan = plan_of(clips_per_video=3, size=letterbox, horizontal_flip=flip)
    assert (plan.picture_shape, plan[3].shape) == ((3, *letterbox.common), (4, 3, *letterbox.common))
    expected = np.concatenate([batch.data for batch in load_all(plan_of(clips_per_video=3, size=size))])
    batches = load_all(plan)
    assert np.array_equal(np.concatenate([batch.data for batch in batches]), compose(plan, expected, letterbox))
    boxes = np.concatenate([batch.boxes for batch in batches])
    assert boxes.dtype == np.int64
    assert boxes.tolist() == [list(request.box) for request in plan]
    flips = [batch.flipped for batch in batches if batch.flipped is not None]
    assert len(flips) == (len(batches) if flip else 0)
    assert not flip or np.concatenate(flips).tolist() == [request.flipped for request in plan]
    lefts = {request.flipped: request.box[1] for request in plan}
    if flip and letterbox is WIDE:
        assert lefts == {False: 3, True: 4}


def test_a_crop_comes_before_the_border() -> None:
    box = (5, 8, 20, 40)
    plan = plan_of(size=Letterbox(32, 30, fill=FILL), crop=box)
    assert {request.box for request in plan} == {(8, 0, 15, 30)}
    expected = np.concatenate([batch.data for batch in load_all(plan_of(size=(15, 30), crop=box))])
    pixels = np.concatenate([batch.data for batch in load_all(plan)])
    assert np.array_equal(pixels, compose(plan, expected, Letterbox(32, 30)))


def test_a_cache_knows_the_picture_and_no_border(tmp_path: Any) -> None:
    plan, plain = (plan_of(Uniform(2), clips_per_video=1, size=size) for size in (TALL, (30, 40)))
    with FrameCache(tmp_path / "c") as cache:
        fresh = [content(batch) for batch in load_all(plan)]
        assert [content(batch) for batch in load_all(plan, cache=cache)] == fresh
        for each in (plan, plain):
            with ClipLoader(each, batch_size=5, workers=0, cache=cache) as loader:
                assert [content(batch) for batch in loader] == [content(batch) for batch in load_all(each)]
                assert loader.stats().counts.frames_decoded == 0
    assert count_planned(plan, "output") == count_planned(plain, "output") == (12, 12 * 3 * 30 * 40)


def test_without_a_border_there_are_no_boxes_and_without_flips_none_of_them() -> None:
    (batch,) = load_all(plan_of(size=(30, 40)), batch_size=12)
    assert batch.boxes is batch.flipped is None
    assert not {"boxes", "flipped"} & list_arrays(batch).keys()
    with ClipLoader(plan_of(horizontal_flip=0.5), batch_size=5) as loader:
        arrays = loader.describe_batches().arrays
        assert (arrays["flipped"].shape, arrays["flipped"].dtype) == ((None,), np.bool_)
        assert next(iter(loader)).flipped.shape == (5,)
    (batch,) = load_all(plan_of(size=TALL), batch_size=12)
    assert list_arrays(batch)["boxes"] is batch.boxes
    with ClipLoader(plan_of(size=TALL), batch_size=5) as loader:
        arrays = loader.describe_batches().arrays
        assert arrays["data"].shape == (None, 4, 3, 65, 40)
        assert (arrays["boxes"].shape, arrays["boxes"].dtype) == ((None, 4), np.int64)


@pytest.mark.parametrize("options", [{}, {"unequal": True}])
def test_box_and_flip_of_a_failed_clip_are_zeros_and_those_of_a_substitute_its_own(
    options: dict[str, Any],
) -> None:
    plan = plan_of(size=WIDE, horizontal_flip=0.5, **options)
    bad = plan[0].source
    backend = SlopedDecoder(before=DamagedSources(bad))
    for batch in load_all(plan, backend=backend, on_error="skip"):
        for slot, position in enumerate(batch.positions.tolist()):
            assert batch.ok[slot] == (plan[position].source != bad)
            assert batch.boxes[slot].tolist() == (list(plan[position].box) if batch.ok[slot] else [0, 0, 0, 0])
            assert batch.flipped[slot] == (plan[position].flipped and batch.ok[slot])
            assert batch.data[slot].any() == batch.ok[slot]
            assert batch.data[slot].shape == (4, 3, 48, 71)
    with ClipLoader(plan, batch_size=5, workers=0, backend=backend, on_error="substitute") as loader:
        batches = list(loader)
        entries = {entry.position: entry.substitute for entry in loader.ledger}
    assert entries
    for batch in batches:
        for slot, position in enumerate(batch.positions.tolist()):
            request = plan[entries.get(position, position)]
            assert batch.boxes[slot].tolist() == list(request.box)
            assert batch.flipped[slot] == request.flipped
