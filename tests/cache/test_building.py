"""build: each frame that a plan wants is decoded once, and from then on the cache has it."""

from __future__ import annotations

import functools
import os
import resource
import shutil
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import framefeed.cache.prefill._build
from framefeed.cache._frame_cache import FrameCache
from framefeed.cache.prefill._build import BuildReport, build
from framefeed.decode import find_decoder
from framefeed.errors import CacheError, FramefeedError, MissingDependency, UsageError
from framefeed.media import ImageSequence
from framefeed.plan import AtSeconds, Dense, EpochPlan, EveryFrame, Rates, Uniform, plan_clips, plan_requests
from framefeed.request import DecodeRequest, RandomCrop
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, make_folder, write_clip
from tests.cache.builders import (
    Builder,
    Watched,
    assert_served,
    built,
    check_build,
    clips_through,
    count_needed,
    fewest_decoded,
    needed_frames,
)
from tests.cache.chaos import run_seeds
from tests.corpus import corpus_file
from tests.decode.forks import Child, result_of_child
from tests.fakes import FlatDecoder
from tests.judges import assert_same_arrays
from tests.lengths import sampled
from tests.makers import catalog, plan_of
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

PLANS: dict[str, Callable[[], EpochPlan]] = {
    "random segments": lambda: plan_of(size=(24, 32)),
    "rates": lambda: plan_of(Rates([(1, 4), (2, 4)]), size=(24, 32), clips_per_video=1),
    "dense, videos together": lambda: plan_of(Dense(6, stride=2), size=(20, 20), clips_per_video=3, shuffle="videos"),
    "every frame, whole": lambda: plan_of(EveryFrame(), clips_per_video=1, shuffle=False),
    "random crops": lambda: plan_of(Uniform(5), size=(16, 16), crop=RandomCrop(24, 24)),
    "one rank of two": lambda: plan_of(size=(24, 32), rank=1, world_size=2, tail="drop"),
}


# --- what it does -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workers", "name"),
    sampled([(workers, name) for workers in (3, 0) for name in PLANS], lambda case: case if case[0] else 0, step=3),
)
def test_each_frame_is_decoded_once_and_served(name: str, workers: int, tmp_path: Path) -> None:
    with FrameCache(tmp_path / "c") as cache:
        check_build(build, PLANS[name](), cache, workers=workers)


def test_several_epochs_at_once(tmp_path: Path) -> None:
    plan = PLANS["random segments"]().with_epoch(3)
    assert count_needed(plan, 3) > count_needed(plan)
    with FrameCache(tmp_path / "c") as cache:
        check_build(build, plan, cache, epochs=3)


def test_C11_a_build_continues_after_an_unfinished_epoch(tmp_path: Path) -> None:
    plan = PLANS["random segments"]()
    with FrameCache(tmp_path / "c") as cache:
        for _ in zip(range(5), clips_through(plan, cache, find_decoder()), strict=False):
            pass
        stored = cache.stats().frames_stored
        watched = Watched()
        report = built(plan, cache, backend=watched)
        assert report.frames_present == stored > 0
        assert report.frames_stored == len(watched.asked) == count_needed(plan) - stored
        assert_served(plan, cache)


def test_a_build_counts_no_hits_and_no_misses(tmp_path: Path) -> None:
    plan = PLANS["random segments"]()
    with FrameCache(tmp_path / "c") as cache:
        for _ in range(2):
            built(plan, cache)
        done = cache.stats()
        assert (done.frames_hit, done.frames_missed, done.frames_stored) == (0, 0, count_needed(plan))
        asked = sum(clip.shape[0] for clip in clips_through(plan, cache, find_decoder()))
        done = cache.stats()
        assert (done.frames_hit, done.frames_missed, done.hit_rate) == (asked, 0, 1.0)


def half(plan: EpochPlan, cache: FrameCache, **options: Any) -> BuildReport:
    first = plan_of(size=(24, 32), rank=0, world_size=2)
    return build(first, cache, **options)


def next_epoch(plan: EpochPlan, cache: FrameCache, **options: Any) -> BuildReport:
    return build(plan.with_epoch(plan.epoch + 1), cache, **options)


def clip_by_clip(plan: EpochPlan, cache: FrameCache, *, backend: Watched, **_: Any) -> BuildReport:
    present = cache.stats().frames_stored
    for _clip in clips_through(plan, cache, backend):
        pass
    cache.flush()
    stored = cache.stats().frames_stored - present
    return BuildReport(len(plan), stored, present, bytes_written=cache.info().stored_bytes if stored else 0)


def always_anew(plan: EpochPlan, cache: FrameCache, **options: Any) -> BuildReport:
    cache.clear()
    return build(plan, cache, **options)


@pytest.mark.parametrize("wrong", [half, next_epoch, clip_by_clip, always_anew])
def test_wrong_variants_are_caught(wrong: Builder, tmp_path: Path) -> None:
    with FrameCache(tmp_path / "c") as cache, pytest.raises(AssertionError):
        check_build(wrong, PLANS["random segments"](), cache)


@pytest.mark.parametrize("form", ["output", "planes"])
def test_pictures_and_sequences(form: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    for number in range(6):
        picture = rng.integers(0, 256, (30 + number % 2, 40, 3), dtype=np.uint8)
        Image.fromarray(picture).save(tmp_path / f"{number}.png")
    paths = sorted(map(os.fspath, tmp_path.glob("*.png")))
    plan = plan_requests(
        [DecodeRequest(paths[3], [0]), DecodeRequest(ImageSequence(paths[::2], fps=2), [2, 0, 1])], size=(20, 20)
    )
    with FrameCache(tmp_path / "c", form=form) as cache:
        report = built(plan, cache)
        assert (report.frames_stored, report.is_complete) == (4, True)
        assert_served(plan, cache)


@pytest.mark.parametrize("form", ["output", "planes"])
def test_tasks_bound_memory_and_change_no_frames(form: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_clip(tmp_path / "v.mp4", ClipSpec(num_frames=40, height=48, width=64, gop=6))
    plan = plan_clips(scan(tmp_path / "v.mp4", workers=0), EveryFrame(), seed=0)
    monkeypatch.setattr(framefeed.cache.prefill._build, "TASK_BYTES", 5 * 3 * 48 * 64)
    with FrameCache(tmp_path / "c", form=form) as cache:
        watched = Watched()
        assert built(plan, cache, backend=watched).frames_stored == count_needed(plan)
        assert_served(plan, cache)
        if form == "planes":
            assert watched.counts.frames_decoded == fewest_decoded(plan, needed_frames(plan))


# --- what fails ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["output", "planes"])
def test_D01_failures_are_listed_and_other_frames_stored(form: Any, tmp_path: Path) -> None:
    make_folder(tmp_path / "videos", videos_per_class=1, seconds=2, size=(48, 64))
    shutil.copy(corpus_file("truncated.mp4"), tmp_path / "videos" / "cut.mp4")
    gone = write_clip(tmp_path / "videos" / "gone.mp4", ClipSpec(num_frames=20))
    catalogue = scan(tmp_path / "videos", verify="none", workers=0)
    gone.unlink()
    plan = plan_clips(catalogue, Uniform(60), seed=0, size=(20, 20))
    with FrameCache(tmp_path / "c", form=form) as cache:
        report = built(plan, cache)
        assert sorted((os.path.basename(source), kind) for source, kind, _ in report.failed) == [
            ("cut.mp4", "CorruptMedia"), ("gone.mp4", "MissingMedia")]  # fmt: skip
        assert not report.is_complete
        assert report.stopped_because is None
        assert report.frames_stored + report.frames_failed == count_needed(plan)
        assert_same_arrays(clips_through(plan, cache, find_decoder()), clips_through(plan, None, find_decoder()))


@pytest.mark.parametrize("form", ["output", "planes"])
def test_D01_every_decodable_frame_of_a_damaged_video_is_stored(form: Any, tmp_path: Path) -> None:
    catalogue = scan(shutil.copy(corpus_file("truncated.mp4"), tmp_path), verify="none", workers=0)
    plan = plan_clips(catalogue, EveryFrame(), seed=0, size=(20, 20), shuffle=False)
    fresh = [clip is not None for clip in clips_through(plan, None, find_decoder())]
    assert 0 < sum(fresh) < len(fresh)
    with FrameCache(tmp_path / "c", form=form) as cache:
        report = built(plan, cache)
        assert (report.frames_stored, report.frames_failed) == (sum(fresh), len(fresh) - sum(fresh))
        ((_, kind, message),) = report.failed
        assert kind == "CorruptMedia"
        assert "truncated.mp4" in message
        again = built(plan, cache)
        assert (again.frames_present, again.frames_stored) == (sum(fresh), 0)


def test_clips_that_cannot_be_planned_are_listed(tmp_path: Path) -> None:
    with FrameCache(tmp_path / "c") as cache:
        report = built(plan_of(AtSeconds([1.0, 7.0], policy="error"), size=(20, 20)), cache)
        assert {kind for _, kind, _ in report.failed} == {"FrameNotFound"}
        assert len(report.failed) == len(catalog())
        assert report.frames_stored == 0


def test_C03_frames_of_a_replaced_file_are_stored_again(tmp_path: Path) -> None:
    path = tmp_path / "v.mp4"
    write_clip(path, ClipSpec(num_frames=20, first_stamp=0))
    with FrameCache(tmp_path / "c") as cache:
        for stamp in (0, 100):
            write_clip(path, ClipSpec(num_frames=20, first_stamp=stamp))
            plan = plan_clips(scan(path, workers=0), Uniform(8), seed=0, size=(24, 32))
            assert built(plan, cache).frames_stored == 8
            assert_served(plan, cache)
        os.utime(path)
        plan = plan_clips(scan(path, workers=0), Uniform(8), seed=0, size=(24, 32))
        assert built(plan, cache).frames_present == 8


# --- when it ends early -------------------------------------------------------------------------------


def test_C04_a_full_cache_ends_the_build(tmp_path: Path) -> None:
    plan = plan_of(EveryFrame(), clips_per_video=1, size=(32, 32))
    with quiet(), FrameCache(tmp_path / "c", codec="raw", max_bytes=200_000) as cache:
        watched = Watched()
        report = built(plan, cache, backend=watched)
        assert 0 < report.frames_stored < count_needed(plan)
        assert report.stopped_because is not None
        assert "full" in report.stopped_because
        assert not report.is_complete
        assert report.failed == []
        assert len(watched.asked) < count_needed(plan), "it does not decode on for nothing"
        assert sum(file.stat().st_size for file in (tmp_path / "c").iterdir()) <= 200_000
        assert_same_arrays(clips_through(plan, cache, find_decoder()), clips_through(plan, None, find_decoder()))


def test_C04_a_budget_for_less_than_a_frame_is_a_mistake(tmp_path: Path) -> None:
    plan = plan_of(EveryFrame(), clips_per_video=1, size=(32, 32))
    with quiet(), FrameCache(tmp_path / "c", codec="raw", max_bytes=5) as cache:
        with pytest.raises(UsageError, match=r"max_bytes=5 is too small for frames that need \d+ bytes") as raised:
            build(plan, cache)
        needed = int(str(raised.value).split("use max_bytes=")[1].split()[0])
    with quiet(), FrameCache(tmp_path / "c", codec="raw", max_bytes=needed) as cache:
        assert build(plan, cache).frames_stored > 0


def test_C04_a_loader_warns_of_a_budget_for_less_than_a_frame(tmp_path: Path) -> None:
    with FrameCache(tmp_path / "c", codec="raw", max_bytes=5) as cache, pytest.warns(UserWarning, match="too small"):
        list(clips_through(plan_of(size=(32, 32)), cache, find_decoder()))


@pytest.mark.parametrize("workers", [0, 2])
def test_an_interrupted_build_keeps_its_frames(workers: int, tmp_path: Path) -> None:
    plan = PLANS["random segments"]()

    def interrupt(done: int, total: int | None) -> None:
        assert total == 48
        if done >= 16:
            raise KeyboardInterrupt

    with FrameCache(tmp_path / "c") as cache, FrameCache(tmp_path / "c") as other:
        with pytest.raises(KeyboardInterrupt):
            built(plan, cache, workers=workers, progress=interrupt)
        report = built(plan, other)
        assert report.frames_present >= 12
        assert report.frames_present + report.frames_stored == count_needed(plan)
        assert_served(plan, other)


def test_C17_the_folder_is_removed_during_a_build(tmp_path: Path) -> None:
    plan = plan_of(EveryFrame(), clips_per_video=1, size=(32, 32))
    with quiet(), FrameCache(tmp_path / "c") as cache:
        report = built(plan, cache, workers=0, progress=lambda done, total: shutil.rmtree(tmp_path / "c", True))
        assert report.stopped_because is not None
        assert "No such file" in report.stopped_because
        assert not report.is_complete
    with FrameCache(tmp_path / "c") as cache:
        assert built(plan, cache).is_complete


@pytest.mark.parametrize("folder", ["/proc/self/cache", "/sys/cache"])
def test_C17_a_folder_that_cannot_be_made(folder: str) -> None:
    plan = PLANS["random segments"]()
    with quiet(), FrameCache(folder) as cache:
        watched = Watched()
        report = built(plan, cache, workers=0, backend=watched)
        assert report.stopped_because is not None
        assert folder in report.stopped_because
        assert report.frames_stored == 0
        assert len(watched.asked) < count_needed(plan)


@pytest.mark.parametrize("limit", [0, 20_000])
def test_C04_a_full_disk_ends_the_build(limit: int, tmp_path: Path) -> None:
    plan = PLANS["random segments"]()

    def build_on_a_full_disk() -> list[Any]:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        with quiet():
            report = built(plan, FrameCache(tmp_path / "c", codec="raw"))
        return [report.is_complete, report.stopped_because]

    is_complete, reason = result_of_child(build_on_a_full_disk)
    assert not is_complete
    assert "File too large" in reason
    assert os.listdir(tmp_path / "c") == ["lock"]
    with FrameCache(tmp_path / "c") as cache:
        assert built(plan, cache).frames_stored == count_needed(plan)
        assert_served(plan, cache)


@pytest.mark.parametrize(
    "seeds", [range(5), pytest.param(range(5, 10), marks=pytest.mark.test_all)], ids=["first", "others"]
)
def test_C01_killed_builders_leave_exact_frames_or_none(seeds: range) -> None:
    reports = result_of_child(lambda: run_seeds(seeds))  # make chaos: 200
    assert [report["verdict"] for report in reports] == ["exact"] * len(seeds)
    assert sum(report["killed"].count(" at ") for report in reports) >= len(seeds)
    assert len({report["found"] for report in reports}) > 1, "they died at different places"


def test_C01_a_store_that_leaves_half_a_file_is_caught(capfd: pytest.CaptureFixture[str]) -> None:
    (report,) = result_of_child(lambda: run_seeds(range(1, 2), sabotage=True))
    assert "wrong" in report
    assert "AssertionError" in capfd.readouterr().err


# --- several at once ----------------------------------------------------------------------------------


@pytest.mark.parametrize("world_size", [1, 2], ids=["the same plan", "ranks"])
def test_C05_two_processes_fill_one_cache(world_size: int, tmp_path: Path) -> None:
    whole, (begin, end) = PLANS["every frame, whole"](), os.pipe()

    def build_part(rank: int) -> str:
        plan = plan_of(EveryFrame(), clips_per_video=1, shuffle=False, rank=rank, world_size=world_size)
        with FrameCache(tmp_path / "c") as cache:
            os.read(begin, 1)
            report = built(plan, cache)
        return f"{report.frames_stored} {report.frames_present} {report.is_complete}"

    children = [Child(functools.partial(build_part, number % world_size)) for number in range(2)]
    os.write(end, b"go")
    counts = [child.report().split() for child in children]
    for each in (begin, end):
        os.close(each)
    assert [count[2] for count in counts] == ["True", "True"]
    assert all(int(count[0]) + int(count[1]) == count_needed(whole) // world_size for count in counts)
    with FrameCache(tmp_path / "c") as cache:
        num_stored = sum(int(count[0]) for count in counts)
        assert cache.info().num_frames == num_stored
        assert num_stored == count_needed(whole) if world_size == 2 else num_stored >= count_needed(whole)
        assert_served(whole, cache)


def test_C05_two_threads_build_the_same(tmp_path: Path) -> None:
    plan, reports = PLANS["random segments"](), list[BuildReport]()
    with FrameCache(tmp_path / "c") as cache:
        threads = [threading.Thread(target=lambda: reports.append(built(plan, cache))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
        assert all(report.frames_stored + report.frames_present == count_needed(plan) for report in reports)
        assert_served(plan, cache)


# --- wrong calls --------------------------------------------------------------------------------------


def test_wrong_calls(tmp_path: Path) -> None:
    plan = PLANS["random segments"]()
    cache: Any = FrameCache(tmp_path / "c")
    for wrong in (
        lambda: build([plan], cache),  # type: ignore[arg-type]
        lambda: build(plan, tmp_path / "c"),  # type: ignore[arg-type]
        lambda: build(plan, cache, epochs=0),
        lambda: build(plan, cache, clips=0),
        lambda: build(plan, cache, backend="none"),
        lambda: build(plan_of(), FrameCache(tmp_path / "c", form="planes"), backend=FlatDecoder()),
    ):
        with pytest.raises(UsageError):
            wrong()
    taken = tmp_path / "taken"
    taken.write_text("")
    with pytest.raises(CacheError, match="expected a folder"):
        build(plan, FrameCache(taken))
    assert os.listdir(tmp_path) == ["taken"]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", [UsageError, MissingDependency])
def test_what_says_nothing_about_a_file_ends_the_build(
    kind: type[FramefeedError], workers: int, tmp_path: Path
) -> None:
    def fail(*_: Any) -> FramefeedError:
        return kind("pip install a-plug-in")

    def raise_it(name: str) -> None:
        raise fail()

    plan = plan_of(size=(24, 32))
    for number, decoder in enumerate([FlatDecoder(raise_it), FlatDecoder(spoil=fail)]):
        with FrameCache(tmp_path / str(number)) as cache, pytest.raises(kind, match="pip install a-plug-in"):
            build(plan, cache, backend=decoder, workers=workers)


def test_a_progress_bar_is_shown_on_request(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plan = PLANS["random segments"]()
    with FrameCache(tmp_path / "c") as cache:
        build(plan, cache)
        assert capfd.readouterr() == ("", "")
        build(plan, cache, progress=True)
        assert "/48.0 [" in capfd.readouterr().err


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warning of a cache that it stores no more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
