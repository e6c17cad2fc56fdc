"""build with clips=N: which clips it fills, and what it says of the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import framefeed.cache.prefill._demand
from framefeed.cache._frame_cache import FrameCache
from framefeed.cache.prefill._build import BuildReport, predict_rest
from framefeed.cache.prefill._demand import FillOptions, choose_spread, count_demand, make_tasks
from framefeed.cache.store._format import ROW
from framefeed.catalog import Catalog
from framefeed.errors import MissingMedia
from framefeed.plan import AtSeconds, Dense, EpochPlan, EveryFrame, RandomSegments, Uniform, plan_clips
from framefeed.scanning import scan
from framefeed.testing import make_folder
from tests.cache.builders import (
    Watched,
    assert_served,
    built,
    clips_through,
    count_needed,
    fewest_decoded,
    needed_frames,
)
from tests.lengths import pairwise
from tests.makers import plan_fakes, plan_of

WHOLE = FillOptions(by_output=False, max_bytes=1 << 30)

# --- what a plan needs --------------------------------------------------------------------------------

RULES = [Uniform(4), Dense(6, stride=2), RandomSegments(5), EveryFrame()]
Counter = Callable[[EpochPlan, int, FillOptions], tuple[int, int]]


def big_plan(rule: Any, **options: Any) -> EpochPlan:
    clips = 1 if isinstance(rule, EveryFrame) else 8
    lengths = [60 + row % 7 for row in range(30)]
    return plan_fakes(lengths, rule, clips_per_video=clips, **{"seed": 3, "size": (8, 8), **options})


@lru_cache
def count_needed_and_decoded(rule: Any, epochs: int) -> tuple[int, int]:
    """Count frames and pictures one by one, which takes half a second."""
    plan = big_plan(rule)
    needed = needed_frames(plan, epochs)
    return sum(map(len, needed.values())), fewest_decoded(plan, needed)


def check_demand(count: Counter, rule: Any, epochs: int, share: float) -> None:
    demand = count(big_plan(rule), epochs, WHOLE)
    assert demand == pytest.approx(count_needed_and_decoded(rule, epochs), rel=share)


@pytest.mark.parametrize(("rule", "epochs", "is_sampled"), pairwise(RULES, [1, 3], [False, True]))
def test_demand(rule: Any, epochs: int, is_sampled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_sampled:
        monkeypatch.setattr(framefeed.cache.prefill._demand, "PLANNED_CLIPS", 200)
    is_whole = not is_sampled and len(big_plan(rule)) * epochs <= framefeed.cache.prefill._demand.PLANNED_CLIPS
    check_demand(count_demand, rule, epochs, 0 if is_whole else 0.12)


def test_a_rank_needs_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framefeed.cache.prefill._demand, "PLANNED_CLIPS", 150)
    plan = big_plan(Uniform(4), rank=1, world_size=2, shuffle="videos")
    assert count_demand(plan, 1, WHOLE)[0] == pytest.approx(count_needed(plan), rel=0.12)


def counts_shared_frames_twice(plan: EpochPlan, epochs: int, options: FillOptions) -> tuple[int, int]:
    """Forgets that clips share frames."""
    return sum(task.clip_frames for task in make_tasks(plan, epochs, options)), count_demand(plan, epochs, options)[1]


def counts_first_epoch_only(plan: EpochPlan, epochs: int, options: FillOptions) -> tuple[int, int]:
    return count_demand(plan, 1, options)


@pytest.mark.parametrize("wrong", [counts_shared_frames_twice, counts_first_epoch_only])
def test_wrong_variants_are_caught(wrong: Counter) -> None:
    with pytest.raises(AssertionError):
        check_demand(wrong, RandomSegments(5), 3, 0.12)


# --- which clips --------------------------------------------------------------------------------------


@given(total=st.integers(0, 300), count=st.integers(1, 400), together=st.integers(1, 20))
def test_numbers_are_chosen_in_blocks_over_the_whole(total: int, count: int, together: int) -> None:
    numbers = choose_spread(total, count, together).tolist()
    assert len(numbers) == min(total, count)
    assert sorted(set(numbers)) == numbers
    if numbers:
        assert numbers[0] == 0
        assert len(numbers) < 2 or numbers[-1] == total - 1
    num_blocks = 1 + np.count_nonzero(np.diff(numbers) > 1)
    assert num_blocks <= max(4, -(-count // together))


def test_neighbours_of_one_frame_and_clips_of_one_video_are_chosen_together() -> None:
    def list_rows(plan: EpochPlan, clips: int) -> list[int]:
        return [task.row for task in make_tasks(plan, 1, WHOLE, clips) for _ in range(task.clip_frames)]

    frames = list_rows(big_plan(EveryFrame()), 96)
    assert (frames[0], frames[-1]) == (0, 29)
    assert 6 <= len(set(frames)) <= 12
    videos = list_rows(big_plan(Uniform(1)), 48)
    assert (videos[0], videos[-1]) == (0, 29)
    assert 6 <= len(set(videos)) <= 12


def count_served(plan: EpochPlan, cache: FrameCache) -> int:
    """Count the clips that need no decoder."""

    def refuse() -> None:
        raise MissingMedia("decoded")

    return sum(clip is not None for clip in clips_through(plan, cache, Watched(refuse)))


@pytest.mark.parametrize("form", ["output", "planes"])
@pytest.mark.parametrize(("rule", "epochs"), [(RandomSegments(4), 2), (EveryFrame(), 1)], ids=["drawn", "all"])
def test_so_many_clips_are_filled_and_a_later_build_fills_the_others(
    rule: Any, epochs: int, form: Any, tmp_path: Path
) -> None:
    plan = plan_of(rule, clips_per_video=epochs, size=(24, 32))
    num_clips = len(plan) * epochs
    with FrameCache(tmp_path / "c", form=form) as cache:
        first = built(plan, cache, clips=5, epochs=epochs)
        assert (first.clips, first.rest_clips, first.is_complete) == (5, num_clips - 5, False)
        served = sum(count_served(plan.with_epoch(number), cache) for number in range(epochs))
        assert served == 5 if epochs == 1 else served >= 5
        rest = built(plan, cache, epochs=epochs)
        assert (rest.clips, rest.rest_clips, rest.rest_bytes, rest.rest_seconds) == (num_clips, 0, None, None)
        assert rest.frames_present == first.frames_stored > 0
        assert rest.frames_present + rest.frames_stored == count_needed(plan, epochs)
        assert_served(plan.with_epoch(epochs - 1), cache)


# --- what it says of the others -----------------------------------------------------------------------


@pytest.mark.parametrize("rule", [RandomSegments(4), EveryFrame()], ids=lambda rule: type(rule).__name__)
def test_the_others_take_the_bytes_that_were_predicted(rule: Any, tmp_path: Path) -> None:
    plan = plan_of(rule, clips_per_video=1, size=(24, 32))
    with FrameCache(tmp_path / "c", codec="raw") as cache:
        first = built(plan, cache, clips=3)
        rest = built(plan, cache)
        assert first.rest_bytes == rest.bytes_written + rest.frames_stored * ROW.itemsize
        assert first.rest_seconds is not None
        assert first.rest_seconds > 0


@pytest.fixture(scope="module")
def ten_videos(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    folder = tmp_path_factory.mktemp("videos")
    make_folder(folder, videos_per_class=5, seconds=2)
    return scan(folder, workers=0)


@pytest.mark.parametrize("codec", ["zstd", "auto"])
@pytest.mark.parametrize("form", ["output", "planes"])
def test_compressed_frames_are_predicted_about(form: Any, codec: str, ten_videos: Catalog, tmp_path: Path) -> None:
    plan = plan_clips(ten_videos, RandomSegments(8), seed=0, size=(64, 64))
    with FrameCache(tmp_path / "c", form=form, codec=codec) as cache:
        first = built(plan, cache, clips=4)
        before = cache.info().bytes_on_disk
        built(plan, cache)
        assert first.rest_bytes == pytest.approx(cache.info().bytes_on_disk - before, rel=0.3)


@pytest.mark.parametrize("is_sampled", [False, True])
def test_frames_that_are_there_are_not_predicted(
    is_sampled: bool, ten_videos: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_sampled:
        monkeypatch.setattr(framefeed.cache.prefill._demand, "PLANNED_CLIPS", 300)
    plan = plan_clips(ten_videos, EveryFrame(), seed=0, shuffle=False, size=(24, 32))
    with FrameCache(tmp_path / "c", codec="raw") as cache:
        built(plan_clips(ten_videos, EveryFrame(), seed=0, shuffle=False, size=(24, 32), rank=0, world_size=2), cache)
    with FrameCache(tmp_path / "c", codec="raw") as cache:
        first = built(plan, cache, clips=16)
        rest = built(plan, cache)
        assert rest.frames_stored == len(plan) // 2 - first.frames_stored
        taken = rest.bytes_written + rest.frames_stored * ROW.itemsize
        assert first.rest_bytes == pytest.approx(taken, rel=0.3 if is_sampled else 0)


def test_frames_of_a_source_that_is_gone_are_predicted(tmp_path: Path) -> None:
    make_folder(tmp_path / "videos", videos_per_class=2, seconds=1)
    plan = plan_clips(scan(tmp_path / "videos", workers=0), Uniform(4), seed=0, size=(24, 32))
    with FrameCache(tmp_path / "c", codec="raw") as cache:
        built(plan, cache, clips=1)
        for path in sorted((tmp_path / "videos").rglob("*.mp4"))[:-1]:
            path.unlink()
        report = built(plan, cache, clips=2)
        assert (report.frames_stored, len(report.failed)) == (4, 1)
        assert report.rest_bytes == 8 * (24 * 32 * 3 + ROW.itemsize)


def test_seconds_are_scaled_by_pictures_and_workers() -> None:
    # Half of what the cache lacked was stored, in 8 seconds of four threads, and a second more.
    report = BuildReport(clips=2, frames_stored=10, bytes_written=1000, workers=4, seconds=3.0)
    nbytes = 100 + ROW.itemsize
    # Three times the frames and three times the pictures of those that took the time.
    assert predict_rest(report, 8.0, (20, 200), (30, 300)) == (30 * nbytes, 1.0 + 2 * 3)
    # Four times the frames, and as many pictures.
    assert predict_rest(report, 8.0, (20, 200), (40, 100)) == (40 * nbytes, 1.0 + 2 * 2)
    assert predict_rest(report, 8.0, (20, 200), (0, 0)) == (0, 1.0)
    failed = replace(report, frames_failed=5)
    assert predict_rest(failed, 8.0, (20, 200), (30, 300))[0] == 25 * nbytes
    assert predict_rest(failed, 8.0, (20, 200), (3, 30))[0] == 0, "a sample may find less"


def test_where_nothing_was_stored_nothing_is_predicted(tmp_path: Path) -> None:
    plan = plan_of(size=(24, 32))
    with FrameCache(tmp_path / "c") as cache:
        whole = built(plan, cache, clips=100)
        assert (whole.clips, whole.rest_clips, whole.rest_bytes, whole.is_complete) == (len(plan), 0, 0, True)
        again = built(plan, cache, clips=3)
        assert (again.frames_stored, again.rest_clips, again.rest_bytes) == (0, len(plan) - 3, None)
        late = built(plan_of(AtSeconds([9.0], policy="error"), size=(24, 32)), cache, clips=3)
        assert (late.clips, late.rest_bytes, {kind for _, kind, _ in late.failed}) == (3, None, {"FrameNotFound"})
