"""codec="auto": raw for outputs, lz4 for planes and where raw would not fit; a cache that was begun keeps its codec."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from framefeed.cache._frame_cache import FrameCache
from framefeed.cache._state import PlannedFrames, choose_codec, find_stored_codec
from framefeed.cache.codecs._registry import known_codecs
from framefeed.cache.prefill._build import make_decoder
from framefeed.cache.store._format import Kind, StoreInfo
from framefeed.decode import RGB_PLANAR, PlaneLayout, find_decoder
from framefeed.load import ClipLoader
from framefeed.plan import (
    AtIndices,
    Dense,
    EveryFrame,
    RandomSegments,
    Uniform,
    count_planned,
    plan_clips,
    plan_requests,
)
from framefeed.request import CenterCrop, DecodeRequest, RandomCrop
from tests.cache.builders import assert_served, built, clips_through, count_needed
from tests.fakes import FakeCatalog, steady_index
from tests.makers import catalog, plan_fakes, plan_of

PLANES, OUTPUT = PlaneLayout("yuv420p", 64, 48), PlaneLayout(RGB_PLANAR, 64, 48)
MEGABYTE = 10**6


def contents(max_bytes: int | None = None, bytes_on_disk: int = 0, **kinds: int) -> StoreInfo:
    """Contents of a cache; frames by label, of another size than the layouts above."""
    other = {Kind(label.replace("_", ":"), PlaneLayout("yuv420p", 32, 32).text): (n, n) for label, n in kinds.items()}
    return StoreInfo(bytes_on_disk, max_bytes, 0, 0, 0, 0, other)


def choose(form: Any, info: StoreInfo, planned: PlannedFrames | None = None) -> str:
    return choose_codec("auto", form, PLANES if form == "planes" else OUTPUT, info, planned).label


# --- the rule -----------------------------------------------------------------------------------------


def test_outputs_are_raw_and_planes_lz4() -> None:
    assert (choose("output", contents()), choose("planes", contents())) == ("raw", "lz4")
    for max_bytes in (None, 1, 10**12):
        assert choose("planes", contents(max_bytes), PlannedFrames(10, 10)) == "lz4"


@pytest.mark.parametrize(
    ("max_bytes", "on_disk", "codec"),
    [(None, 0, "raw"), (102 * MEGABYTE, 0, "raw"), (100 * MEGABYTE, 0, "lz4"), (200 * MEGABYTE, 100 * MEGABYTE, "lz4"),
     (200 * MEGABYTE, 98 * MEGABYTE, "raw")],
)  # fmt: skip
def test_outputs_are_lz4_if_raw_would_not_fit(max_bytes: int | None, on_disk: int, codec: str) -> None:
    planned = PlannedFrames(1000, 100 * MEGABYTE)
    assert choose("output", contents(max_bytes, on_disk), planned) == codec
    assert choose("output", contents(max_bytes, on_disk)) == "raw", "nothing is known of the plan"


def test_a_given_codec_is_used() -> None:
    for name in known_codecs():
        assert choose_codec(name, "planes", PLANES, contents(1, raw=5), PlannedFrames(9, 9)).name == name


def test_a_cache_keeps_its_codec() -> None:
    for label in ("raw", "lz4hc", "zstd:3"):
        kinds = {label.replace(":", "_"): 3, "jpeg_90": 9, "lz5": 9, "zstd_2": 1}
        assert choose("planes", contents(1, **kinds)) == label
        assert choose("output", contents(**kinds)) == "raw", "pictures of other formats do not decide"


def test_frames_that_do_not_decide() -> None:
    for info in (contents(), contents(jpeg_90=3), contents(unknown=1)):
        assert find_stored_codec(PLANES, info) is None
    deep = PlaneLayout("yuv420p10le", 64, 48)
    kept = StoreInfo(0, None, 0, 0, 0, 0, {Kind("magicyuv", deep.text): (3, 5)})
    assert find_stored_codec(deep, kept) is None, "it does not take them"


# --- what a plan needs --------------------------------------------------------------------------------

FRAMES = [60, 10, 100]


fake_plan = partial(plan_fakes, FRAMES, seed=3, size=(8, 8))


@pytest.mark.parametrize(
    ("rule", "options", "epochs", "count"),
    [
        (EveryFrame(), {}, 5, 170),
        (Uniform(8), {"clips_per_video": 4}, 3, 24),
        (Uniform(20), {}, 1, 50),
        (AtIndices([3, 4]), {}, 1, 6),
        (Dense(4), {"clips_per_video": 2}, 1, 24),
        (Dense(4), {"clips_per_video": 2}, 10, 60 + 10 + 80),
        (RandomSegments(8), {}, 100, 170),
        (RandomSegments(8), {"rank": 1, "world_size": 3}, 1, 24),
    ],
)
def test_frames_are_counted_by_arithmetic(rule: Any, options: dict[str, Any], epochs: int, count: int) -> None:
    assert count_planned(fake_plan(rule, **options), "output", epochs) == (count, count * 3 * 8 * 8)
    assert count_planned(fake_plan(rule, **options), "planes", epochs) == (count, count * 64 * 48 * 3 // 2)


def test_outputs_of_random_crops_are_counted_for_each_clip() -> None:
    plan = fake_plan(Uniform(8), size=(8, 8), crop=RandomCrop(20), clips_per_video=2)
    assert count_planned(plan, "output", 3)[0] == 3 * 2 * 3 * 8
    assert count_planned(plan, "planes", 3)[0] == 24
    assert count_planned(fake_plan(Uniform(8), crop=CenterCrop(20)), "output", 3)[0] == 24


def test_outputs_that_differ_in_size_are_counted_by_their_own() -> None:
    videos: Any = FakeCatalog([steady_index(10)] * 3, sizes=[(48, 64), (64, 48), (48, 48)])
    plan = plan_clips(videos, EveryFrame(), seed=0, size=24, unequal=True)
    assert count_planned(plan, "output") == (30, 10 * 3 * (24 * 32 + 32 * 24 + 24 * 24))


def test_requests_of_many_lengths_are_counted() -> None:
    paths = [catalog().source(row) for row in range(2)]
    requests = [DecodeRequest(source=path, indices=list(range(n))) for path, n in zip(paths, (3, 5), strict=True)]
    assert count_planned(plan_requests(requests, size=(8, 8)), "output") == (8, 8 * 192)


@pytest.mark.parametrize("rule", [EveryFrame(), Uniform(4), RandomSegments(4)], ids=lambda rule: type(rule).__name__)
def test_no_plan_needs_more_than_is_counted(rule: Any) -> None:
    plan = plan_of(rule, clips_per_video=1, size=(24, 32))
    for epochs in (1, 3):
        assert count_needed(plan, epochs) <= count_planned(plan, "planes", epochs)[0]


# --- in a cache ---------------------------------------------------------------------------------------


def codecs_of(cache: FrameCache) -> set[str]:
    return {kind.codec for kind in cache.info().kinds}


@pytest.mark.parametrize(("form", "codec"), [("output", "raw"), ("planes", "lz4")])
@pytest.mark.parametrize("is_built", [True, False])
def test_a_build_and_a_loader_follow_the_rule(form: Any, codec: str, is_built: bool, tmp_path: Path) -> None:
    plan = plan_of(Uniform(4), size=(24, 32))
    for max_bytes, expected in ((None, codec), ("1GB", codec), (60_000, "lz4")):
        with FrameCache(tmp_path / f"{max_bytes}", form=form, max_bytes=max_bytes) as cache, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if is_built:
                built(plan, cache)
            else:
                # Two workers may both store a frame that both decoded, and 60,000 bytes have no space for that.
                with ClipLoader(plan, batch_size=4, workers=1, cache=cache) as loader:
                    list(loader)
            cache.flush()
            assert codecs_of(cache) == {expected}
            assert cache.stats().codec == expected
            assert not cache.stats().is_full


def test_lz4_stores_what_raw_could_not(tmp_path: Path) -> None:
    plan = plan_of(EveryFrame(), clips_per_video=1, size=(24, 32))
    raw_bytes = count_planned(plan, "output")[1]
    with FrameCache(tmp_path / "c", max_bytes=raw_bytes) as cache:
        assert built(plan, cache).is_complete
        assert codecs_of(cache) == {"lz4"}
        assert_served(plan, cache)


@pytest.mark.parametrize("codec", ["lz4hc", "zstd:3"])
def test_a_cache_that_was_begun_is_continued_with_its_codec(codec: str, tmp_path: Path) -> None:
    plan = plan_of(size=(24, 32))
    with FrameCache(tmp_path / "c", codec=codec) as cache:
        built(plan, cache)
    with FrameCache(tmp_path / "c", max_bytes="1GB") as cache:
        built(plan_of(size=(32, 32)), cache)
        assert codecs_of(cache) == {codec}


def test_one_cache_has_outputs_raw_and_planes_lz4(tmp_path: Path) -> None:
    with FrameCache(tmp_path / "c") as cache:
        built(plan_of(Uniform(4)), cache)
        built(plan_of(Uniform(4), size=(24, 32)), cache)
        assert {(kind.layout.split()[0], kind.codec) for kind in cache.info().kinds} == {
            ("yuv420p", "lz4"), (RGB_PLANAR, "raw")}  # fmt: skip


# --- full ---------------------------------------------------------------------------------------------


def test_a_full_cache_says_how_many_frames_it_has_and_what_to_do(tmp_path: Path) -> None:
    plan = plan_of(EveryFrame(), clips_per_video=1, size=(24, 32))
    with FrameCache(tmp_path / "c", codec="raw", max_bytes=100_000) as cache:
        with pytest.warns(UserWarning, match="the frame cache is full") as seen:
            for _ in clips_through(plan, cache, find_decoder()):
                pass
        stored = cache.info().num_frames
        assert 0 < stored < 180
        assert f": {stored} frames are stored, and the plan needs 180; to store more, " in str(seen[0].message)
        for advice in ("a larger max_bytes", 'codec="lz4hc"', "a smaller size="):
            assert advice in str(seen[0].message)
        assert cache.stats().trouble == str(seen[0].message) == built(plan, cache).stopped_because


def test_a_codec_that_makes_frames_smaller_is_not_told_of_lz4hc(tmp_path: Path) -> None:
    plan = plan_of(EveryFrame(), clips_per_video=1, size=(24, 32))
    with FrameCache(tmp_path / "c", codec="zstd", max_bytes=20_000) as cache:
        with pytest.warns(UserWarning, match="or begin an empty folder with a smaller size="):
            list(clips_through(plan, cache, find_decoder()))
        assert "lz4hc" not in str(cache.stats().trouble)


def test_a_cache_without_a_plan_names_no_number_of_it(tmp_path: Path) -> None:
    plan = plan_of(EveryFrame(), clips_per_video=1, size=(24, 32))
    with FrameCache(tmp_path / "c", codec="raw", max_bytes=100_000) as cache:
        make_decoder(plan, cache, find_decoder())
        cache.state.planned = None
        decoder = cache.decoder(find_decoder(), "output")
        with pytest.warns(UserWarning, match="frames are stored; to store more, use a larger max_bytes"):
            list(clips_through(plan, None, decoder))
