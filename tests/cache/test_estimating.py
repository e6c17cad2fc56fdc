"""estimate: what it multiplies, and whether a cache becomes what it said."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

import framefeed.cache.prefill._demand
import framefeed.cache.prefill._sampling
from framefeed.cache._frame_cache import FrameCache
from framefeed.cache.prefill._demand import FillOptions, PlanDemand, count_demand
from framefeed.cache.prefill._estimate import CLIP_SECONDS, CacheEstimate, Room, estimate, scale_up
from framefeed.cache.prefill._sampling import PlanSample, SampleCounts
from framefeed.cache.store._format import ROW
from framefeed.errors import CacheError, MissingMedia, UsageError
from framefeed.plan import AtSeconds, Dense, EpochPlan, EveryFrame, RandomSegments, Uniform, plan_clips
from framefeed.request import RandomCrop
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, make_folder, write_clip
from tests.cache.builders import Watched, built, count_needed, fewest_decoded, needed_frames
from tests.fakes import FlatDecoder
from tests.makers import plan_fakes, plan_of

DEMAND = PlanDemand(clips=100, clip_frames=800, frames=500, pictures=2000, pieces=50, varies=False, frames_at_most=5000)
COUNTS = SampleCounts(clips=5, failed=0, error=None, clip_frames=40, decode_seconds=4.0, fill_seconds=3.0, pictures=300,
                  fill_cpu_seconds=1.5)  # fmt: skip
SAMPLE = PlanSample(COUNTS, codec="lz4", reason="it reads fast", frames=20, runs=5, stored_frames=20,
                    stored_bytes=4_000, write_seconds=0.004, stream_bytes=5_000, read_seconds=0.2, list_seconds=240e-6,
                    loader_pictures=80)  # fmt: skip


def estimate_of(
    demand: PlanDemand = DEMAND, counts: SampleCounts = COUNTS, room: Room | None = None, **sample: Any
) -> CacheEstimate:
    return scale_up(demand, "output", replace(SAMPLE, counts=counts, **sample), room or Room(workers=2))


# --- the multiplication -------------------------------------------------------------------------------


def test_measurements_are_multiplied() -> None:
    said = estimate_of()
    (lz4,) = said.codecs
    assert lz4.nbytes == 500 * (200 + ROW.itemsize) + 50 * 1000
    assert lz4.build_seconds == pytest.approx((2000 * 3.0 / 300 + 500 * 0.004) / 2 + 100 * SAMPLE.list_seconds)
    assert lz4.build_cpu_seconds == pytest.approx(2000 * 1.5 / 300 + 500 * 0.004 + 100 * SAMPLE.list_seconds)
    assert lz4.clips_per_second == pytest.approx(2 / (8 * 0.2 / 20 + CLIP_SECONDS))
    assert said.decode_clips_per_second == pytest.approx(2 / (80 * 4.0 / 300 + CLIP_SECONDS))
    assert (said.chosen, said.codec, said.reason) == (lz4, "lz4", "lz4: it reads fast")
    assert (said.sample, said.sampled_frames) == (COUNTS, 20)


def test_twice_the_workers_take_half_the_time() -> None:
    two, four = estimate_of(), estimate_of(room=Room(workers=4))
    assert four.decode_clips_per_second == pytest.approx(2 * two.decode_clips_per_second)
    one, other = two.codecs[0], four.codecs[0]
    listing = 100 * SAMPLE.list_seconds
    assert other.build_seconds - listing == pytest.approx((one.build_seconds - listing) / 2)
    assert other.build_cpu_seconds == one.build_cpu_seconds
    assert other.clips_per_second == pytest.approx(2 * one.clips_per_second)
    assert other.nbytes == one.nbytes


def test_time_in_python_is_not_divided_by_workers() -> None:
    assert estimate_of(room=Room(workers=1000)).codecs[0].clips_per_second == pytest.approx(1 / CLIP_SECONDS)


def test_whether_a_cache_fits() -> None:
    nbytes = estimate_of().codecs[0].nbytes
    for room, fits in [
        (Room(2), True),
        (Room(2, max_bytes=nbytes), True),
        (Room(2, max_bytes=nbytes - 1), False),
        (Room(2, free_bytes=nbytes), True),
        (Room(2, free_bytes=nbytes - 1), False),
        (Room(2, free_bytes=nbytes - 100, bytes_there=100), True),
        (Room(2, max_bytes=nbytes - 1, free_bytes=10 * nbytes, bytes_there=100), False),
    ]:
        said = estimate_of(room=room)
        assert said.fits is fits
        assert ("the frames of these clips do not fit: " in str(said)) is not fits
    assert "more than the 1 kB that the disk has left for the cache" in str(estimate_of(room=Room(2, free_bytes=1000)))
    assert "more than max_bytes, 1 kB" in str(estimate_of(room=Room(2, max_bytes=1000)))


def test_the_printed_estimate() -> None:
    said = str(estimate_of()).splitlines()
    assert said[0] == "100 clips need 500 different frames, stored after crop and resize:"
    assert said[1].split() == ["a", "frame", "on", "disk", "CPU", "to", "build", "then", "clips/s,", "at", "most"]
    assert said[2].split()[:3] == [">", "lz4", "356"]
    assert said[3].split() == ["no", "cache", "1.87"]
    assert said[4] == (
        "measured on 20 frames of 5 clips; clips/s with 2 workers, all frames in the cache and its files in memory"
    )
    assert said[5] == "lz4: it reads fast"
    assert said[6] == (
        "to build with lz4: about 12 s of CPU time; with 2 workers about 11 s, longer if other programs use the "
        "processor"
    )
    assert said[7].startswith("the frames of these clips fit: ")
    assert len(said) == 8
    assert max(map(len, said)) <= 140
    varying = str(estimate_of(replace(DEMAND, varies=True)))
    assert (
        "each epoch needs other frames: all epochs together need up to 5,000 frames, 1.78 MB: they fit too" in varying
    )
    assert "their number has no limit" in str(estimate_of(replace(DEMAND, varies=True, frames_at_most=None)))


def test_random_starts_fit_if_all_their_epochs_fit() -> None:
    varies, nbytes = replace(DEMAND, varies=True), estimate_of().codecs[0].nbytes
    for room, fits in [(Room(2), True), (Room(2, max_bytes=10 * nbytes), True), (Room(2, max_bytes=nbytes), False)]:
        said = estimate_of(varies, room=room)
        assert said.bytes_at_most == 10 * nbytes
        assert said.fits is fits
        assert ("they do not fit, because this is more than" in str(said)) is not fits
        assert "the frames of these clips fit: " in str(said)
    endless = estimate_of(replace(varies, frames_at_most=None))
    assert (endless.bytes_at_most, endless.fits) == (None, False)
    failing = replace(COUNTS, failed=3, error="CorruptMedia: a.mp4: damaged")
    assert "3 of 8 sampled clips cannot be decoded: CorruptMedia: a.mp4: damaged" in str(estimate_of(counts=failing))


def test_numbers_have_the_precision_of_an_estimate() -> None:
    def speeds(scale: float) -> list[str]:
        said = estimate_of(read_seconds=0.2 / scale, loader_pictures=80 / scale)
        return [line.split("   ")[-1].strip() for line in str(said).splitlines()[2:4]]

    assert speeds(1) == ["24.9", "1.87"]
    assert speeds(12) == ["290", "22.4"]
    assert speeds(10**6) == ["4,170"] * 2


def test_a_speed_at_the_limit_is_explained() -> None:
    limit = "4,170 clips/s is the limit of this estimate: to plan and deliver a clip takes at least 0.24 ms in Python"
    gain = "no cache reaches this limit too, so these clips cannot show what a cache gains"
    slow = str(estimate_of(read_seconds=1e-7))
    assert limit in slow
    assert gain not in slow
    both = str(estimate_of(read_seconds=1e-7, loader_pictures=80e-6))
    assert limit in both
    assert gain in both
    assert "limit of this estimate" not in str(estimate_of())


def test_nouns_agree_with_their_number() -> None:
    demand = replace(DEMAND, clips=1, clip_frames=1, frames=1, pictures=1, pieces=1)
    said = str(estimate_of(demand, replace(COUNTS, clips=1), Room(1), stored_frames=1)).splitlines()
    assert said[0] == "1 clip needs 1 different frame, stored after crop and resize:"
    assert said[4].startswith("measured on 1 frame of 1 clip; clips/s with 1 worker, ")


def test_stored_frames_are_mentioned() -> None:
    assert "has 1 frame already" in str(estimate_of(room=Room(2, frames_there=1)))
    assert "already" not in str(estimate_of())


def test_an_empty_sample_gives_no_division_by_zero() -> None:
    demand = replace(DEMAND, clips=0, clip_frames=0, frames=0)
    none = scale_up(demand, "planes", PlanSample(SampleCounts()), Room(1))
    assert (none.chosen, none.fits, none.decode_clips_per_second) == (None, True, 0.0)
    assert "measured on 0 frames of 0 clips; clips/s with 1 worker" in str(none)


# --- what is wanted -----------------------------------------------------------------------------------

RULES = [Uniform(4), Dense(6, stride=2), RandomSegments(5), EveryFrame()]
Counter = Callable[[EpochPlan, int, FillOptions], PlanDemand]


def big_plan(rule: Any, **options: Any) -> EpochPlan:
    clips = 1 if isinstance(rule, EveryFrame) else 8
    lengths = [60 + row % 7 for row in range(60)]
    return plan_fakes(lengths, rule, clips_per_video=clips, seed=3, size=(8, 8), **options)


@lru_cache
def count_needed_and_decoded(rule: Any, epochs: int) -> tuple[int, int]:
    """Count frames and pictures one by one, which takes half a second."""
    plan = big_plan(rule)
    needed = needed_frames(plan, epochs)
    return sum(map(len, needed.values())), fewest_decoded(plan, needed)


def check_demand(count: Counter, rule: Any, epochs: int, share: float) -> None:
    plan = big_plan(rule)
    num_frames, num_pictures = count_needed_and_decoded(rule, epochs)
    demand = count(plan, epochs, FillOptions(False, 1 << 30))
    assert demand.clips == len(plan) * epochs
    assert demand.clip_frames == pytest.approx(len(plan) * epochs * plan.clip_shape[0], rel=share)
    assert demand.frames == pytest.approx(num_frames, rel=share)
    assert demand.pictures == pytest.approx(num_pictures, rel=share)
    assert demand.frames_at_most is not None
    assert demand.frames <= demand.frames_at_most
    assert demand.varies is isinstance(plan.rule, (RandomSegments, Dense))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("is_sampled", [False, True])
def test_demand(rule: Any, epochs: int, is_sampled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_sampled:
        monkeypatch.setattr(framefeed.cache.prefill._demand, "PLANNED_CLIPS", 400)
    plan = big_plan(rule)
    is_whole = not is_sampled and len(plan) * epochs <= framefeed.cache.prefill._demand.PLANNED_CLIPS
    check_demand(count_demand, rule, epochs, 0 if is_whole else 0.12)


def test_a_rank_needs_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framefeed.cache.prefill._demand, "PLANNED_CLIPS", 300)
    plan = big_plan(Uniform(4), rank=1, world_size=2, shuffle="videos")
    demand = count_demand(plan, 1, FillOptions(False, 1 << 30))
    assert demand.frames == pytest.approx(count_needed(plan), rel=0.12)


def counts_shared_frames_twice(plan: EpochPlan, epochs: int, options: FillOptions) -> PlanDemand:
    """Forgets that clips share frames."""
    demand = count_demand(plan, epochs, options)
    return replace(demand, frames=demand.clip_frames)


def counts_first_epoch_only(plan: EpochPlan, epochs: int, options: FillOptions) -> PlanDemand:
    return replace(count_demand(plan, 1, options), clips=len(plan) * epochs)


@pytest.mark.parametrize("wrong", [counts_shared_frames_twice, counts_first_epoch_only])
def test_wrong_variants_are_caught(wrong: Counter) -> None:
    with pytest.raises(AssertionError):
        check_demand(wrong, RandomSegments(5), 3, 0.12)


def test_random_crops_as_outputs_have_no_limit() -> None:
    plan = plan_of(Uniform(4), size=(16, 16), crop=RandomCrop(24, 24))
    assert count_demand(plan, 1, FillOptions(True, 1 << 30)).frames_at_most is None
    whole = count_demand(plan, 1, FillOptions(False, 1 << 30))
    assert (whole.frames_at_most, whole.varies) == (180, False)


# --- against caches that were built -------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["raw", "zstd", "auto"])
@pytest.mark.parametrize("form", ["output", "planes"])
def test_the_cache_becomes_as_large_as_estimated(form: Any, codec: str, tmp_path: Path) -> None:
    make_folder(tmp_path / "videos", videos_per_class=5, seconds=2)
    plan = plan_clips(scan(tmp_path / "videos", workers=0), RandomSegments(8), seed=0, size=(64, 64))
    with FrameCache(tmp_path / "c", form=form, codec=codec) as cache:
        said = estimate(plan, cache, workers=2, epochs=2, clips=8)
        assert not (tmp_path / "c").exists(), "nothing is stored"
        assert said.chosen is not None
        report = built(plan, cache, epochs=2)
        assert report.frames_stored == said.outlook.frames
        assert said.chosen.nbytes == pytest.approx(cache.info().bytes_on_disk, rel=0.3)
        assert {kind.codec for kind in cache.info().kinds} == {said.codec}
        assert said.outlook.varies
        assert said.decode_clips_per_second > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "codec"), [("output", "raw"), ("output", "zstd"), ("planes", "lz4"), ("planes", "jpeg:90")]
)
@pytest.mark.parametrize("rule", [RandomSegments(8), EveryFrame()], ids=lambda rule: type(rule).__name__)
def test_an_estimate_of_all_clips_is_the_size_of_the_cache(rule: Any, form: Any, codec: str, tmp_path: Path) -> None:
    make_folder(tmp_path / "videos", videos_per_class=2, seconds=1)
    plan = plan_clips(scan(tmp_path / "videos", workers=0), rule, seed=0, size=(64, 64))
    with FrameCache(tmp_path / "c", form=form, codec=codec) as cache:
        said = estimate(plan, cache, epochs=2, clips=100)
        assert said.chosen is not None
        report = built(plan, cache, epochs=2)
        assert said.sampled_frames == said.outlook.frames == report.frames_stored
        assert said.chosen.nbytes == cache.info().bytes_on_disk


@pytest.mark.parametrize("error", [None, MissingMedia, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("form", ["output", "planes"])
def test_the_sample_is_stored_beside_the_cache_and_removed(
    form: Any, error: type[BaseException] | None, tmp_path: Path
) -> None:
    beside = list[str]()

    def before_decoding() -> None:
        beside.extend(os.listdir(tmp_path))
        if error is not None:
            raise error("now")

    plan, is_stop = plan_of(size=(24, 32)), error is not None and not issubclass(error, Exception)
    with FrameCache(tmp_path / "c", form=form) as cache, pytest.raises(error) if is_stop else nullcontext():  # type: ignore[arg-type]
        estimate(plan, cache, backend=Watched(before_decoding))
    assert {name.partition("-estimate-")[0] for name in beside} == {"framefeed"}
    assert os.listdir(tmp_path) == []


def test_nothing_stays_after_an_interrupt_while_the_folder_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, remove = list[object](), shutil.rmtree

    def remove_later(*args: Any, **options: Any) -> None:
        calls.append(args)
        if len(calls) == 1:
            raise KeyboardInterrupt
        remove(*args, **options)

    monkeypatch.setattr(shutil, "rmtree", remove_later)
    with FrameCache(tmp_path / "c") as cache, pytest.raises(KeyboardInterrupt):
        estimate(plan_of(size=(24, 32)), cache)
    assert len(calls) == 2
    assert os.listdir(tmp_path) == []


def test_a_folder_beside_the_cache_that_cannot_be_made() -> None:
    with (
        FrameCache("/proc/self/cache") as cache,
        pytest.raises(CacheError, match=r"beside the cache: .* without an est"),
    ):
        estimate(plan_of(size=(24, 32)), cache, clips=2)


def test_where_only_the_cache_itself_can_be_written_the_sample_lies_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: path != os.fspath(tmp_path))
    seen = list[str]()
    with FrameCache(tmp_path / "c") as cache:
        estimate(plan_of(size=(24, 32)), cache, backend=Watched(lambda: seen.extend(os.listdir(tmp_path / "c"))))
        assert cache.info().num_frames == 0
    assert len(set(seen)) == 1
    assert os.listdir(tmp_path / "c") == []


def test_failures_are_mentioned(tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    make_folder(folder, videos_per_class=3, seconds=1)
    demand = scan(folder, workers=0)
    with FrameCache(tmp_path / "c") as cache:
        for path in sorted(folder.glob("*/*.mp4"))[:3]:
            path.unlink()
        said = estimate(plan_clips(demand, Uniform(4), seed=0, size=(24, 32)), cache)
        assert (said.sample.clips, said.sample.failed) == (3, 3)
        assert "3 of 6 sampled clips cannot be decoded: MissingMedia" in str(said)
        shutil.rmtree(folder)
        said = estimate(plan_clips(demand, Uniform(4), seed=0, size=(24, 32)), cache)
        assert said.chosen is None
        assert "6 of 6" in str(said)
        late = plan_clips(demand, AtSeconds([9.0], policy="error"), seed=0, size=(24, 32))
        assert "FrameNotFound" in str(estimate(late, cache))


def test_the_sample_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_clip(tmp_path / "v.mp4", ClipSpec(num_frames=50, height=480, width=640))
    plan = plan_clips(scan(path, workers=0), EveryFrame(), seed=0)
    monkeypatch.setattr(framefeed.cache.prefill._sampling, "MAX_BYTES", 10 * 640 * 480 * 3 // 2)
    long = plan_clips(plan.catalog, Uniform(40), seed=0)
    with FrameCache(tmp_path / "c") as cache:
        for each in (plan, long):
            assert 0 < estimate(each, cache, clips=100).sampled_frames <= 11


def test_there_is_room(tmp_path: Path) -> None:
    plan = plan_of(size=(24, 32))
    with FrameCache(tmp_path / "a" / "b" / "c", max_bytes="1MB") as cache:
        room = estimate(plan, cache, workers=3, clips=2).room
        assert (room.workers, room.max_bytes, room.bytes_there) == (3, 10**6, 0)
        assert room.free_bytes is not None
        assert room.free_bytes > 0
        built(plan, cache)
        assert estimate(plan, cache, clips=2).room.bytes_there == cache.info().bytes_on_disk > 0
    assert "these clips do not fit" in str(estimate(plan, FrameCache(tmp_path / "d", max_bytes=500), clips=2))


def test_wrong_calls(tmp_path: Path) -> None:
    plan, cache = plan_of(size=(24, 32)), FrameCache(tmp_path / "c")
    for wrong in (
        lambda: estimate([plan], cache),  # type: ignore[arg-type]
        lambda: estimate(plan, tmp_path),  # type: ignore[arg-type]
        lambda: estimate(plan, cache, epochs=0),
        lambda: estimate(plan, cache, clips=0),
        lambda: estimate(plan_of(), cache, backend=FlatDecoder()),
    ):
        with pytest.raises(UsageError):
            wrong()
    assert not os.listdir(tmp_path)
