"""The warning of a cache under a plan that draws other frames in each epoch."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from framefeed.cache._frame_cache import FrameCache
from framefeed.load import explain_useless_cache
from framefeed.plan import AtIndices, Dense, EveryFrame, RandomSegments, Rates, Uniform, estimate_reuse
from framefeed.request import RandomCrop
from tests.makers import plan_fakes


def plan_videos(rule: Any, num_videos: int = 40, num_frames: int = 100, **options: Any) -> Any:
    return plan_fakes([num_frames] * num_videos, rule, **{"seed": 3, "size": (8, 8), **options})


def measure_reuse(plan: Any) -> float:
    """Count the share in whole epochs: requested frames of the next one that this one has."""
    now, later = (
        [(each[position].row, ordinal) for position, clip in enumerate(each) for ordinal in clip.indices.tolist()]
        for each in (plan, plan.with_epoch(plan.epoch + 1))
    )
    known = set(now)
    return sum(frame in known for frame in later) / len(later)


@pytest.mark.parametrize(
    ("rule", "options", "low", "high"),
    [
        (Dense(10), {}, 0.05, 0.2),
        (Dense(10), {"clips_per_video": 5}, 0.3, 0.5),
        (Dense(80), {}, 0.85, 1.0),
        (Dense(200), {}, 1.0, 1.0),  # It fits nowhere, and starts at 0.
        (RandomSegments(10), {}, 0.05, 0.2),
        (Rates([(5, 4), (25, 4)]), {"clips_per_video": 2}, 0.05, 0.3),
        (Uniform(8), {}, 1.0, 1.0),
        (EveryFrame(), {}, 1.0, 1.0),
        (AtIndices([3, 4]), {}, 1.0, 1.0),
    ],
)
def test_the_share_is_that_of_whole_epochs(rule: Any, options: dict[str, Any], low: float, high: float) -> None:
    plan = plan_videos(rule, **options)
    assert low <= estimate_reuse(plan, by_output=True) <= high
    # Other positions draw other frames: both are samples of one share.
    assert estimate_reuse(plan, by_output=True) == pytest.approx(measure_reuse(plan), abs=0.08)


def test_the_share_is_of_both_epochs_together_and_of_all_ranks() -> None:
    plans = [
        plan_videos(Dense(10), rank=rank, world_size=4, shuffle=shuffle) for rank in (0, 3) for shuffle in (True, False)
    ]
    assert len({estimate_reuse(plan, by_output=False) for plan in plans}) == 1
    assert estimate_reuse(plan_videos(Dense(10)).with_epoch(5), False) != estimate_reuse(plan_videos(Dense(10)), False)


def test_outputs_of_random_crops_are_hardly_used_again() -> None:
    plan = plan_videos(Uniform(8), size=None, crop=RandomCrop(20))
    assert estimate_reuse(plan, by_output=False) == 1.0
    assert estimate_reuse(plan, by_output=True) < 0.05


def test_an_empty_plan_has_nothing_to_save() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert estimate_reuse(plan_videos(Dense(10), num_videos=0), by_output=True) == 1.0


def test_a_cache_says_once_what_pays(tmp_path: Path) -> None:
    message = explain_useless_cache(plan_videos(Dense(10)), FrameCache(tmp_path / "c"))
    assert message is not None
    share = re.match(r"cache: about (\d+) % of the next epoch's frames are among those that this epoch stores", message)
    assert share is not None
    assert 5 <= int(share[1]) <= 20
    for name in (
        "Uniform",
        "EveryFrame",
        "AtIndices",
        "start=0",
        "ff.cache.build(ff.plan_clips(catalog, ff.EveryFrame()",
    ):
        assert name in message
    assert "planes" not in message


def test_it_is_silent_where_a_cache_pays(tmp_path: Path) -> None:
    empty = FrameCache(tmp_path / "c")
    assert explain_useless_cache(plan_videos(Uniform(8)), empty) is None
    assert explain_useless_cache(plan_videos(Dense(95)), empty) is None
    assert explain_useless_cache(plan_videos(Uniform(8), size=None, crop=RandomCrop(20)), empty) is None
    stored = explain_useless_cache(
        plan_videos(Uniform(8), crop=RandomCrop(20)), FrameCache(tmp_path / "c", form="output")
    )
    assert stored is not None
    assert re.match("cache: about [0-4] %", stored)
    assert "A random crop needs form='planes'" in stored
    # Frames that are stored already may be all: what a folder has is not read.
    (tmp_path / "c").mkdir()
    assert explain_useless_cache(plan_videos(Dense(10)), empty) is not None
    (tmp_path / "c" / "any").touch()
    assert explain_useless_cache(plan_videos(Dense(10)), empty) is None
