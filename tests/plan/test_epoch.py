from __future__ import annotations

import json
import pickle
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.errors import FrameNotFound, TimeUnavailable, UsageError
from framefeed.index import FrameIndex, Timeline
from framefeed.plan import EpochPlan, order_by_catalog, sample_windows
from framefeed.plan._plan_clips import plan_clips
from framefeed.plan._plan_requests import plan_requests
from framefeed.plan._rules import AtIndices, AtSeconds, ClipRule, Dense, EveryFrame, RandomSegments, Rates, Uniform
from framefeed.request import (
    CenterCrop,
    ClipContext,
    ClipFrames,
    DecodeRequest,
    Letterbox,
    LongSide,
    RandomCrop,
    RandomResizedCrop,
    ResizeCrop,
)
from tests.corpus import clip_file
from tests.fakes import FakeCatalog, index_of, steady_index
from tests.makers import plan_fakes, plan_over


def catalog_of(num_videos: int, num_frames: int = 40) -> FakeCatalog:
    return FakeCatalog([steady_index(num_frames + row) for row in range(num_videos)])


def clips(plan: EpochPlan) -> list[tuple[int, DecodeRequest]]:
    return [(plan.global_position(i), plan[i]) for i in range(len(plan))]


def sign_request(request: DecodeRequest) -> tuple[str | bytes, tuple[int, ...]]:
    return request.source, tuple(request.indices.tolist())


# --- a pure function of position ----------------------------------------------------------------------


def check_pure(make: Callable[[], EpochPlan], order: Sequence[int]) -> None:
    """L11: the clip of a position does not depend on what was asked before, on the object or on pickling."""
    plan = make()
    expected = [make()[position] for position in range(len(plan))]
    for position in order:
        assert plan[position] == expected[position]
    travelled = pickle.loads(pickle.dumps(plan))
    assert [travelled[position] for position in range(len(plan))] == expected
    assert travelled.fingerprint == plan.fingerprint


PURE = [
    Uniform(4),
    Dense(4, stride=3),
    Dense(4, fps=8),
    Rates([(1, 1), (5, 3)]),
    RandomSegments(4),
    EveryFrame(),
]


@pytest.mark.parametrize("rule", PURE, ids=repr)
def test_L11_a_plan_is_a_pure_function_of_position(rule: ClipRule) -> None:
    catalog = catalog_of(3, 10)

    @given(st.lists(st.integers(0, 2), max_size=12), st.integers(0, 3), st.sampled_from([True, False]))
    def law(order: list[int], epoch: int, shuffle: bool) -> None:
        check_pure(
            lambda: plan_clips(catalog, rule, seed=3, epoch=epoch, shuffle=shuffle, size=32, crop=RandomCrop(40)), order
        )

    law()


class Ambient(Dense):
    """Draws from entropy of its own."""

    def choose(self, timeline: Timeline, context: ClipContext) -> ClipFrames:
        context.generator = np.random.default_rng()
        return super().choose(timeline, context)


class OneStream(Dense):
    """Draws from one generator after the other."""

    def choose(self, timeline: Timeline, context: ClipContext) -> ClipFrames:
        context.generator = self.__dict__.setdefault("_stream", np.random.default_rng(0))
        return super().choose(timeline, context)


@pytest.mark.parametrize("wrong", [Ambient, OneStream])
def test_the_law_of_purity_catches(wrong: type[Dense]) -> None:
    def make() -> EpochPlan:
        return plan_clips(catalog_of(8, 4000), wrong(4, stride=3), seed=3)

    with pytest.raises(AssertionError):
        check_pure(make, range(7, -1, -1))


def test_L11_epochs_and_clips_differ() -> None:
    catalog = catalog_of(1, 100_000)
    plan = plan_clips(catalog, Dense(4), seed=1, clips_per_video=50)
    starts = {(epoch, int(clip.indices[0])) for epoch in range(4) for _, clip in clips(plan.with_epoch(epoch))}
    assert len(starts) >= 198
    sources = [
        [clip.source for _, clip in clips(plan_clips(catalog_of(20), Dense(4), seed=1, epoch=e))] for e in (0, 1)
    ]
    assert sources[0] != sources[1]
    assert sorted(sources[0]) == sorted(sources[1])


def test_L12_another_epoch_is_the_plan_made_for_it() -> None:
    plan = plan_clips(catalog_of(9), RandomSegments(3), seed=1)
    assert clips(plan.with_epoch(5)) == clips(plan_clips(catalog_of(9), RandomSegments(3), seed=1, epoch=5))
    assert (plan.epoch, plan.with_epoch(5).epoch) == (0, 5)


def test_the_clips_are_the_same_on_every_machine() -> None:
    plan = plan_clips(catalog_of(4, 1000), Dense(2, stride=5), seed=42, epoch=1, size=8, crop=RandomCrop(16))
    found = [(clip.source, int(clip.indices[0]), clip.output.crop) for clip in plan]
    assert found == [
        ("video0.mp4", 472, (13, 12, 16, 16)),
        ("video3.mp4", 670, (12, 47, 16, 16)),
        ("video2.mp4", 325, (20, 30, 16, 16)),
        ("video1.mp4", 511, (31, 37, 16, 16)),
    ]


# --- order and shards ---------------------------------------------------------------------------------


def test_every_clip_of_every_video_comes_once() -> None:
    for shuffle in (True, False, "videos"):
        plan = plan_clips(catalog_of(7), Uniform(2), seed=1, clips_per_video=3, shuffle=shuffle)
        assert Counter(clip.source for clip in plan) == {f"video{row}.mp4": 3 for row in range(7)}


def test_without_shuffling_positions_follow_the_catalog() -> None:
    plan = plan_clips(catalog_of(3), Uniform(2), seed=1, clips_per_video=2, shuffle=False)
    assert [clip.source for clip in plan] == [f"video{row}.mp4" for row in (0, 0, 1, 1, 2, 2)]


@pytest.mark.parametrize("shuffle", [True, False, "videos"])
@pytest.mark.parametrize("tail", ["pad", "drop"])
def test_L14_ranks_share_one_epoch(shuffle: Any, tail: str) -> None:
    catalog, rule = catalog_of(11), Dense(3)
    options: dict[str, Any] = {"seed": 5, "clips_per_video": 3, "shuffle": shuffle}
    whole = dict(clips(plan_clips(catalog, rule, **options)))
    for world_size in range(1, 9):
        shares = [
            clips(plan_clips(catalog, rule, rank=rank, world_size=world_size, tail=tail, **options))
            for rank in range(world_size)
        ]
        assert len({len(share) for share in shares}) == 1
        times = Counter(position for share in shares for position, _ in share)
        assert all(whole[position] == clip for share in shares for position, clip in share)
        assert set(times) == set(whole) if tail == "pad" else set(times.values()) <= {1}


def test_shuffling_videos_keeps_the_clips_of_a_video_together_on_a_rank() -> None:
    c = 4
    for rank in range(3):
        plan = plan_over(catalog_of(10), Dense(2), clips_per_video=c, shuffle="videos", rank=rank, world_size=3)
        sources = [clip.source for clip in plan]
        assert all(len(set(sources[first : first + c])) == 1 for first in range(0, len(plan), c))
        positions = [plan.global_position(i) for i in range(len(plan))]
        assert positions == [(((i // c) * 3 + rank) * c + i % c) % (10 * c) for i in range(len(plan))]
        assert len({sign_request(clip) for clip in plan}) > 10


def test_a_plan_of_a_trillion_positions_takes_no_memory() -> None:
    plan = plan_clips(catalog_of(3), Uniform(2), seed=1, clips_per_video=10**12)
    assert len(plan) == 3 * 10**12
    assert plan[2 * 10**12 + 7].source.startswith("video")
    assert len(pickle.dumps(plan)) < 10_000


def test_positions_are_those_of_a_sequence() -> None:
    plan = plan_clips(catalog_of(3), Uniform(2), seed=1)
    assert plan[-1] == plan[2]
    assert plan[np.int64(1)] == plan[1]
    for position in (3, -4):
        with pytest.raises(IndexError, match="plan of length 3"):
            plan[position]
    with pytest.raises(IndexError):
        plan.global_position(np.array([0, 3]))
    with pytest.raises(TypeError):
        plan["0"]


# --- every frame --------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [[-1, 0], [3, 6]])
def test_clips_are_found_at_positions_of_the_epoch(wrong: list[int]) -> None:
    plan = plan_clips(catalog_of(3), Uniform(2), seed=0, clips_per_video=2, rank=1, world_size=3)
    assert [plan.clips_at(np.array([5])).plan(0)] == [plan.whole[5]]
    with pytest.raises(IndexError, match=f"global_positions: expected 0 to 5, got {wrong[0]} to {wrong[1]}"):
        plan.clips_at(np.array(wrong))


def test_every_frame_has_one_position() -> None:
    catalog = FakeCatalog([steady_index(n) for n in (3, 1, 5)], failed={1: ("CorruptMedia", "bad")})
    with pytest.warns(UserWarning, match="1 of 3 rows"):
        plan = plan_clips(catalog, EveryFrame(), seed=1, shuffle=False)
    assert [sign_request(clip) for clip in plan] == [
        *(("video0.mp4", (n,)) for n in range(3)),
        *(("video2.mp4", (n,)) for n in range(5)),
    ]
    with pytest.warns(UserWarning, match="left out"):
        shuffled = plan_clips(catalog, EveryFrame(), seed=1)
    assert Counter(map(sign_request, shuffled)) == Counter(map(sign_request, plan))
    assert [sign_request(clip) for clip in shuffled] != [sign_request(clip) for clip in plan]


@pytest.mark.parametrize("options", [{"clips_per_video": 2}, {"shuffle": "videos"}])
def test_every_frame_has_no_clips_per_video(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="EveryFrame"):
        plan_clips(catalog_of(2), EveryFrame(), seed=1, **options)


# --- windows ------------------------------------------------------------------------------------------


def trim_index(index: FrameIndex, first: int, stop: int) -> FrameIndex:
    """A video of these frames alone; its last frame ends where it ended."""
    end = int(index.pts[stop]) if stop < len(index) else index.end_pts
    return index_of(index.pts[first:stop], time_base=index.time_base, duration=end - int(index.pts[stop - 1]))


@pytest.mark.parametrize(
    "rule",
    [
        Uniform(4),
        Dense(3, stride=2),
        Dense(3, stride=2, start=0.04),
        Dense(4, stride=2, start=0, policy="wrap"),
        Dense(3, fps=7),
        RandomSegments(3),
        AtSeconds([0, 0.1, 9]),
        Rates([(9, 2)], 0.04),
    ],
    ids=repr,
)
@given(st.lists(st.integers(1, 4), min_size=4, max_size=30), st.data())
def test_a_window_is_a_video_of_its_own(rule: ClipRule, steps: list[int], data: st.DataObject) -> None:
    pts = 700 + np.concatenate([[0], np.cumsum(steps)]) * 20
    first = data.draw(st.integers(0, len(pts) - 1))
    stop = data.draw(st.integers(first + 1, len(pts)))
    index = index_of(pts, duration=15)
    ends = [*pts.tolist(), int(pts[-1]) + 1]
    window = {"from": [(ends[first] - 700) / 1000], "to": [(ends[stop] - 700) / 1000]}
    plan = plan_clips(FakeCatalog([index], columns=window), rule, seed=4, within=("from", "to"))
    alone = plan_clips(FakeCatalog([trim_index(index, first, stop)]), rule, seed=4)
    assert plan[0].indices.tolist() == (alone[0].indices + first).tolist()
    assert plan[0].valid.tolist() == alone[0].valid.tolist()
    assert np.array_equal(plan[0].pick_error_seconds, alone[0].pick_error_seconds, equal_nan=True)
    assert np.array_equal(plan[0].pts_seconds, alone[0].pts_seconds)


def test_open_windows_and_every_frame_in_windows() -> None:
    nan = float("nan")
    indexes = [steady_index(10, fps=10, start=7) for _ in range(4)]
    catalog = FakeCatalog(indexes, columns={"a": [nan, 0.5, 0.2, 5.0], "b": [0.3, nan, 0.4, 6.0]})
    with pytest.warns(UserWarning, match="1 of 4 rows"):
        plan = plan_clips(catalog, EveryFrame(), seed=1, shuffle=False, within=("a", "b"))
    frames = {"video0.mp4": range(3), "video1.mp4": range(5, 10), "video2.mp4": range(2, 4)}
    assert [sign_request(clip) for clip in plan] == [(name, (n,)) for name, numbers in frames.items() for n in numbers]
    assert [source for source, _ in plan.excluded] == ["video3.mp4"]


def test_an_empty_window_is_an_error_of_its_position() -> None:
    catalog = FakeCatalog([steady_index(10)], columns={"a": [3.0], "b": [4.0]})
    plan = plan_clips(catalog, Uniform(2), seed=1, within=("a", "b"))
    with pytest.raises(FrameNotFound, match=r"video0.mp4: no frame in the window from 3\.0 s to 4\.0 s"):
        plan[0]


@pytest.mark.parametrize("within", [("a", "nowhere"), ("a", "word")])
def test_a_wrong_window_is_refused(within: Any) -> None:
    catalog = FakeCatalog([steady_index(10)], columns={"a": [3.0], "word": ["x"]})
    with pytest.raises(UsageError):
        plan_clips(catalog, Uniform(2), seed=1, within=within)


# --- what is wrong, and where it is said --------------------------------------------------------------


def test_a_catalog_without_frame_indexes_names_the_way_out() -> None:
    with pytest.raises(UsageError, match=r"catalog\.with_frame_indexes\(\)"):
        plan_clips(FakeCatalog([steady_index(3)], has_frame_indexes=False), Uniform(2), seed=1)


def test_failed_rows_are_left_out_with_one_warning() -> None:
    catalog = FakeCatalog(
        [steady_index(5), steady_index(5), index_of([])], failed={0: ("UnreadableMedia", "not a video")}
    )
    with pytest.warns(UserWarning, match="2 of 3 rows") as caught:
        plan = plan_clips(catalog, Uniform(2), seed=1)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert plan.excluded == [
        ("video0.mp4", "UnreadableMedia: not a video"),
        ("video2.mp4", "EmptyVideo: it has no frames"),
    ]
    assert [clip.source for clip in plan] == ["video1.mp4"]
    pickle.loads(pickle.dumps(plan.with_epoch(1)))


def test_a_plan_of_nothing_has_no_positions() -> None:
    with pytest.warns(UserWarning, match=r"1 of 1 rows are left out.*no clips.*video0\.mp4 \(EmptyVideo: it has no"):
        plan = plan_clips(FakeCatalog([index_of([])]), Dense(2), seed=1, world_size=3)
    assert (len(plan), list(plan)) == (0, [])
    assert plan.describe().clips == 0
    with pytest.raises(UsageError, match="excluded"):
        _ = plan.picture_shape
    with pytest.warns(UserWarning, match="the catalog has no rows, so the plan has no clips"):
        assert len(plan_clips(FakeCatalog([]), Dense(2), seed=1)) == 0


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Dense(3, fps=7, start=0, tolerance_seconds=0.001), ["video0.mp4", "tolerance_seconds=0.001", "0.142857"]),
        (Dense(30, stride=1, start=0, policy="error"), ["video0.mp4", "frame 10", "10 frames", "'error'", "wrap"]),
        (AtSeconds([99], policy="error"), ["video0.mp4", "99.0", "'error'", "repeat_last"]),
        (AtSeconds([-1.0]), ["video0.mp4", "-1.0", "nearest"]),
    ],
    ids=["tolerance", "index past the end", "time past the end", "before the first frame"],
)
def test_frame_not_found_is_raised_by_the_position(rule: ClipRule, words: list[str]) -> None:
    plan = plan_fakes([10, 500], rule, shuffle=False)
    with pytest.raises(FrameNotFound) as caught:
        plan[0]
    assert (caught.value.source, caught.value.position, caught.value.stage) == ("video0.mp4", 0, "plan")
    assert all(word in str(caught.value) for word in words), str(caught.value)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.source, copy.position, str(copy)) == ("video0.mp4", 0, str(caught.value))


def test_iterating_does_not_take_a_missing_frame_for_the_end() -> None:
    with pytest.raises(FrameNotFound):
        list(plan_fakes([500, 3], Dense(9, policy="error"), shuffle=False))


def test_time_unavailable_names_the_file() -> None:
    plan = plan_clips(FakeCatalog([index_of([3, 2, 1])]), RuleOfOnesOwn(), seed=1)
    with pytest.raises(TimeUnavailable, match=r"video0\.mp4") as caught:
        plan[0]
    assert caught.value.source == "video0.mp4"
    by_index = plan_clips(FakeCatalog([index_of([-(2**63)] * 9)]), Dense(2), seed=1)
    assert np.isnan(by_index[0].pts_seconds).all()


@dataclass(frozen=True)
class RuleOfOnesOwn:
    """A rule by time that does not say so."""

    num_frames = 2

    def choose(self, timeline: Any, context: Any) -> Any:
        return Dense(2, fps=1).choose(timeline, context)


# --- form, columns, checkpoints, cost -----------------------------------------------------------------


def test_columns_travel_beside_the_clips() -> None:
    catalog = FakeCatalog(
        [steady_index(5)] * 3, columns={"label": ["dog", "cat", "dog"], "weight": [0.5, 1.5, 2.5], "other": [1, 2, 3]}
    )
    plan = plan_clips(catalog, Uniform(1), seed=1, clips_per_video=2, columns=["label", "weight"])
    for position in range(6):
        row = plan[position].row
        assert plan[position].source == f"video{row}.mp4" == plan.catalog[plan[position].row].source
        assert plan.columns_at(position) == {"label": [1, 0, 1][row], "weight": [0.5, 1.5, 2.5][row]}
        assert plan.columns_at(position)["label"].dtype == np.int64
    assert plan.classes == ["cat", "dog"]
    assert plan.columns == ("label", "weight")


def test_shapes_are_known_before_anything_is_decoded() -> None:
    assert plan_clips(catalog_of(2), Uniform(4), seed=1).clip_shape == (4, 3, 48, 64)
    plan = plan_clips(catalog_of(2), Rates([(1, 2), (2, 3)]), seed=1, size=(20, 30), crop=CenterCrop(40))
    assert (plan.frames_per_clip, plan.picture_shape) == (5, (3, 20, 30))
    assert plan[0].output.shape(48, 64) == (3, 20, 30)


def test_pictures_that_come_out_unequal_are_refused() -> None:
    mixed = FakeCatalog([steady_index(5)] * 3, sizes=[(48, 64), (48, 64), (64, 48)])
    for options in ({}, {"size": 32}, {"crop": None, "size": 16}):
        with pytest.raises(UsageError, match=r"video0\.mp4.* gives .* video2\.mp4.* gives .* size=\(height, width\)"):
            plan_clips(mixed, Uniform(2), seed=1, **options)
    for options in (
        {"size": (32, 32)},
        {"crop": CenterCrop(40)},
        {"crop": (0, 0, 40, 48)},
        {"crop": CenterCrop(40), "size": 8},
    ):
        plan_clips(mixed, Uniform(2), seed=1, **options)


def test_an_int_size_is_the_short_side() -> None:
    plan = plan_clips(FakeCatalog([steady_index(5)], sizes=[(1080, 1920)]), Uniform(2), seed=1, size=256)
    assert plan.picture_shape == (3, 256, int(256 * 1920 / 1080))
    assert plan[0].output.size == (256, 455)


def test_failed_rows_do_not_count_for_the_pictures() -> None:
    catalog = FakeCatalog([steady_index(5)] * 2, sizes=[(48, 64), (9, 9)], failed={1: ("CorruptMedia", "bad")})
    with pytest.warns(UserWarning, match="left out"):
        assert plan_clips(catalog, Uniform(2), seed=1).picture_shape == (3, 48, 64)


def test_a_crop_that_does_not_fit_names_the_file() -> None:
    catalog = FakeCatalog([steady_index(5)] * 2, sizes=[(480, 640), (100, 640)])
    for crop in (CenterCrop(128), RandomCrop(128, 600), (0, 0, 101, 10)):
        with pytest.raises(UsageError, match=r"video1\.mp4: crop: expected one that fits .* 100 x 640") as caught:
            plan_clips(catalog, Uniform(2), seed=1, crop=crop)
        is_box = isinstance(crop, tuple)
        assert ("size=ff.Letterbox(128, " in str(caught.value)) == (not is_box)
    for size in (ResizeCrop(128, (128, 128)), Letterbox(128, 128)):  # which the message names
        assert plan_clips(catalog, Uniform(2), seed=1, size=size).picture_shape == (3, 128, 128)


def test_unequal_results_of_a_size_name_the_files_with_their_own_sizes() -> None:
    catalog = FakeCatalog([steady_index(5)] * 2, sizes=[(48, 64), (30, 64)])
    says = r"video0\.mp4, of 48 x 64, gives 24 x 32 and .*video1\.mp4, of 30 x 64, gives 15 x 32"
    with pytest.raises(UsageError, match=f"{says} .*ResizeCrop.*Letterbox.*unequal=True"):
        plan_clips(catalog, Uniform(2), seed=1, size=LongSide(32))


def test_a_resize_and_crop_that_a_random_box_may_not_fill_is_refused_when_planning() -> None:
    crop, size = RandomResizedCrop(), ResizeCrop(30, (20, 40))
    catalog = FakeCatalog([steady_index(5)], sizes=[(48, 64)])
    request = DecodeRequest(source=str(clip_file("good.mp4")), indices=[0])
    for make in (
        lambda: plan_clips(catalog, Uniform(2), seed=1, crop=crop, size=size),
        lambda: plan_requests([request], crop=crop, size=size),
    ):
        with pytest.raises(UsageError, match=r"give size=\(20, 40\), .* or ff\.ResizeCrop\(40, \(20, 40\)\)"):
            make()


def test_a_picture_of_unknown_size_can_only_be_resized() -> None:
    catalog = FakeCatalog([steady_index(5)], sizes=[(-1, -1)])
    assert plan_clips(catalog, Uniform(2), seed=1, size=(8, 8)).picture_shape == (3, 8, 8)
    for options in ({}, {"size": 8}, {"crop": (0, 0, 4, 4)}):
        with pytest.raises(UsageError, match=r"video0\.mp4: .* not known"):
            plan_clips(catalog, Uniform(2), seed=1, **options)


def test_L13_a_state_is_small_json_and_fits_every_world_size() -> None:
    catalog = catalog_of(5)
    written = plan_clips(catalog, Dense(3), seed=2**64 - 1, epoch=3, rank=1, world_size=2, columns=()).state_dict()
    text = json.dumps(written)
    assert len(text) < 1000
    plan = plan_clips(catalog, Dense(3), seed=2**64 - 1, world_size=4, tail="drop").with_state(json.loads(text))
    assert (plan.epoch, plan.order.world_size, written["world_size"]) == (3, 4, 2)


def test_the_state_of_a_plan_with_a_long_rule_is_small_too() -> None:
    options: Any = {
        "seed": 2**64 - 1,
        "size": (224, 224),
        "crop": RandomResizedCrop(224),
        "within": ("a" * 99, "b" * 99),
    }
    catalog = FakeCatalog([steady_index(5)], columns={"a" * 99: [0.0], "b" * 99: [9.0]})
    plans = [plan_clips(catalog, AtIndices([*range(1000), last]), **options) for last in (0, 1)]
    text = json.dumps(plans[0].state_dict())
    assert len(text) < 700
    assert plans[0].with_state(json.loads(text)).epoch == 0
    with pytest.raises(UsageError, match=r"differ: rule \(.*\.\.\. \(hash .*, here: .*\)\)\."):
        plans[1].with_state(json.loads(text))


def variations() -> Iterator[EpochPlan]:
    catalog, rule = catalog_of(5), Dense(3)
    yield plan_clips(catalog, rule, seed=2)
    yield plan_clips(catalog, Dense(3, stride=2), seed=1)
    yield plan_clips(catalog_of(6), rule, seed=1)
    yield plan_clips(catalog, rule, seed=1, shuffle=False)
    yield plan_clips(catalog, rule, seed=1, clips_per_video=2)
    yield plan_clips(catalog, rule, seed=1, size=8)
    yield plan_clips(catalog, rule, seed=1, crop=RandomCrop(8))
    yield plan_clips(catalog, rule, seed=1, crop=CenterCrop(8))


def test_L13_the_state_of_another_plan_is_refused() -> None:
    states = [plan.state_dict() for plan in variations()]
    assert len({state["fingerprint"] for state in states}) == len(states)
    plan = plan_clips(catalog_of(5), Dense(3), seed=1)
    named = [
        r"differ: seed \(checkpoint: 2, here: 1\)\.",
        r"differ: rule \(checkpoint: Dense\(num_frames=3, stride=2.*, here: Dense\(.*stride=1.*\)\)\.",
        r"differ: number of clips \(checkpoint: 6, here: 5\); catalog \(other rows",
        r"differ: options \(checkpoint: shuffle=False, here: shuffle=True\)\.",
        r"differ: number of clips .*; options \(checkpoint: clips_per_video=2, here: clips_per_video=1\)\.",
        r"differ: options \(checkpoint: size=8, here: size=None\)\.",
        r"differ: options \(checkpoint: crop=RandomCrop\(.*\), here: crop=None\)\.",
        r"differ: options \(checkpoint: crop=CenterCrop\(.*\), here: crop=None\)\.",
    ]
    for state, expected in zip(states, named, strict=True):
        with pytest.raises(UsageError, match=f"another plan: these {expected}"):
            plan.with_state(state)
        old = {name: state[name] for name in ("version", "fingerprint", "seed", "epoch", "world_size")}
        with pytest.raises(UsageError, match="another plan"):
            plan.with_state(old)
    with pytest.raises(UsageError, match=r"its fingerprint is 0+, this plan's"):
        plan.with_state({**plan.state_dict(), "fingerprint": "0" * 32})
    with pytest.raises(UsageError, match="version"):
        plan.with_state({**plan.state_dict(), "version": 99})


def test_L13_long_options_of_a_state_are_cut_and_compared() -> None:
    options: dict[str, Any] = {
        "crop": RandomResizedCrop(8, scale=(0.123456789, 0.987654321), ratio=(0.1234567, 1.2345678))
    }
    options["within"] = ("start", "end_in_seconds_from_the_first_frame")
    columns = {name: [np.nan] * 3 for name in options["within"]}

    def plan_fakes(lengths: list[int], rule: ClipRule, **given: Any) -> EpochPlan:
        catalog: Any = FakeCatalog([steady_index(length) for length in lengths], columns=columns)
        return plan_clips(catalog, rule, seed=1, **given)

    plan = plan_fakes([9] * 3, Dense(2), **options)
    text = plan.state_dict()["options"]["crop"]
    assert len(text) <= 45
    assert "(hash " in text
    assert plan.with_state(plan.state_dict()).fingerprint == plan.fingerprint
    other = plan_fakes([9] * 3, Dense(2), clips_per_video=2, **options)
    with pytest.raises(UsageError, match=r"options \(checkpoint: clips_per_video=1, here: clips_per_video=2\)"):
        other.with_state(plan.state_dict())
    with pytest.raises(
        UsageError, match=r"options \(checkpoint: crop=RandomResizedC.*hash .*, here: crop=None, within=None\)"
    ):
        plan_fakes([9] * 3, Dense(2)).with_state(plan.state_dict())


@pytest.mark.parametrize(
    ("before", "now", "says"),
    [
        ({"size": Letterbox(640, fill=114)}, {"size": Letterbox(640, fill=115)}, "fill=.114.*here: .*fill=.115"),
        ({"horizontal_flip": 0.5}, {}, "checkpoint: horizontal_flip=0.5, here: horizontal_flip=0.0"),
        ({}, {"horizontal_flip": 0.5}, "checkpoint: horizontal_flip=0.0, here: horizontal_flip=0.5"),
        (
            {"crop": RandomResizedCrop(8, scale=(0.2, 1))},
            {"crop": RandomResizedCrop(8, scale=(0.3, 1))},
            r"scale=\(0\.2, .*here: .*scale=\(0\.3",
        ),
        (  # cut in the state
            {"size": Letterbox(640, fill=9), "crop": RandomResizedCrop(ratio=(1, 2), scale=(0.25, 0.75))},
            {"size": Letterbox(640, fill=9), "crop": RandomResizedCrop(ratio=(1, 3), scale=(0.25, 0.75))},
            r"here: .*ratio=\(1\.0, 3\.0\)",
        ),
        (  # whole in the state, where it would be cut here
            {"size": Letterbox(640, fill=114)},
            {
                "size": Letterbox(640, fill=114),
                "crop": RandomResizedCrop(scale=(0.123456789, 0.987654321), ratio=(1.23456789, 2)),
            },
            r"\(checkpoint: crop=None, here: crop=Random",
        ),
    ],
)
def test_L13_the_message_shows_how_long_options_differ(before: dict[str, Any], now: dict[str, Any], says: str) -> None:
    common = {"seed": 1, "horizontal_flip": 0.25} if "horizontal_flip" not in {**before, **now} else {"seed": 1}
    state = plan_clips(catalog_of(5), Dense(3), **{**common, **before}).state_dict()
    assert len(json.dumps(state)) < 600
    with pytest.raises(UsageError, match=f"differ: options .*{says}"):
        plan_clips(catalog_of(5), Dense(3), **{**common, **now}).with_state(state)


def test_transforms_draw_from_a_stream_of_their_own() -> None:
    plan = plan_clips(catalog_of(5), Dense(3), seed=1)
    first = plan.order.generator_at(plan.global_position(0)).integers(2**60)
    assert plan.order.generator_at(plan.global_position(0)).integers(2**60) == first
    draws = {
        int(p.order.generator_at(p.global_position(i)).integers(2**60))
        for p in (plan, plan.with_epoch(1))
        for i in range(5)
    }
    assert len(draws) == 10
    assert int(ClipContext(1, 0, plan.global_position(0)).generator.integers(2**60)) not in draws


def test_a_description_prices_what_must_be_decoded() -> None:
    description = plan_fakes([120] * 30, AtSeconds([11 / 25])).describe()
    assert (description.clips, description.frames_per_clip, description.excluded_rows) == (30, 1, 0)
    assert description.decoded_frames_per_delivered_frame == 12
    assert description.predicted_cpu_seconds > 0
    assert "decoded frames per delivered frame: 12.00" in str(description)
    shared = plan_fakes([120] * 30, AtSeconds([11 / 25]), clips_per_video=4, shuffle="videos").describe()
    assert shared.decoded_frames_per_delivered_frame == 3


@pytest.mark.parametrize(("codec", "more"), [("h264", 1.3e-7), ("av1", 5.8e-7), ("mpeg4", 3e-8)])
def test_a_description_prices_the_bytes_that_are_sent(codec: str, more: float) -> None:
    index = steady_index(120, gop=12)
    dense = replace(index, stream=replace(index.stream, codec=codec))
    packets = dense.packets
    denser = replace(dense, packets=replace(packets, size=packets.size + 10_000))
    plans = [plan_clips(FakeCatalog([each] * 30), AtSeconds([11 / 25]), seed=1) for each in (dense, denser)]
    first, other = (plan.describe().predicted_cpu_seconds for plan in plans)
    assert other - first == pytest.approx(30 * 12 * 10_000 * more)


def test_a_description_prices_pictures_as_files() -> None:
    index = steady_index(1)
    pictures = replace(index, stream=replace(index.stream, container="jpeg", codec="mjpeg", width=1000, height=1000))
    description = plan_clips(FakeCatalog([pictures] * 30), AtIndices([0]), seed=1).describe()
    assert description.predicted_cpu_seconds == pytest.approx(30 * (1.2e-3 + 1e-2))


def test_a_description_counts_clips_that_will_fail() -> None:
    description = plan_fakes([3, 300] * 5, Dense(10, policy="error")).describe()
    assert (description.sampled_clips, description.unusable_clips) == (10, 5)
    assert "clips that will fail: 5 of 10" in str(description)


def test_a_long_plan_is_described_from_a_sample() -> None:
    description = plan_clips(catalog_of(3, 5000), Dense(10), seed=1, clips_per_video=10**9).describe()
    assert description.clips == 3 * 10**9
    assert description.sampled_clips <= 300


class Frugal(FrameIndex):
    """Its whole-video columns must not be computed: the cost of a clip does not depend on the video's length."""

    @property
    def pts_seconds(self) -> Any:
        raise AssertionError("seconds of all frames")


@pytest.mark.parametrize("rule", PURE, ids=repr)
def test_no_clip_computes_a_column_of_all_frames(rule: ClipRule) -> None:
    index = steady_index(1000)
    frugal = Frugal(**{name: getattr(index, name) for name in FrameIndex.__dataclass_fields__})
    assert plan_clips(FakeCatalog([frugal]), rule, seed=1)[0].indices.size


def test_plans_warn_of_nothing_when_nothing_is_left_out() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = plan_clips(catalog_of(2), Uniform(2), seed=1)
    assert "2 clips" in repr(plan)


@pytest.mark.parametrize(
    ("rule", "crop", "is_random"),
    [
        (Uniform(4), None, False),
        (RandomSegments(4), None, True),
        (Dense(4, stride=1), None, True),
        (Dense(4, stride=1, start=0), None, False),
        (Rates([(5, 4)]), None, True),
        (Rates([(5, 4)], start=0), None, False),
        (AtIndices([0, 1]), None, False),
        (AtSeconds([0.0]), None, False),
        (EveryFrame(), None, False),
        (Uniform(4), CenterCrop(8, 8), False),
        (Uniform(4), RandomCrop(8, 8), True),
        (Uniform(4), RandomResizedCrop(8, 8), True),
    ],
)  # fmt: skip
def test_a_plan_knows_whether_frames_or_crops_are_drawn(rule: ClipRule, crop: Any, is_random: bool) -> None:
    assert plan_clips(catalog_of(3), rule, seed=0, crop=crop).clips.is_random is is_random


class Shorter(Uniform):
    """Says that it gives a frame more than it chooses."""

    def choose(self, timeline: Timeline, context: ClipContext) -> Any:
        return Uniform(self.num_frames - 1).choose(timeline, context)


def test_a_rule_that_chooses_another_number_of_frames_than_it_says_is_named() -> None:
    plan = plan_clips(catalog_of(3), Shorter(4), seed=0)
    with pytest.raises(UsageError, match=r"Shorter\(num_frames=4.*: expected `choose` to return .*=4 .*, got 3"):
        plan[0]


# --- a sample of a plan -------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [(45, 35), (1, 2, 600, 3), (9,) * 20], ids=str)
def test_a_sample_has_whole_sources_or_half_a_window_of_one(lengths: tuple[int, ...]) -> None:
    plan = order_by_catalog(plan_fakes(lengths, EveryFrame(), seed=0))
    ends = np.cumsum((0, *lengths)).tolist()
    windows = list(sample_windows(plan, 12, 10**9))
    assert len(windows) == 12
    for window in windows:
        row = plan[window.start].row
        assert window == range(ends[row], ends[row + 1]) or (lengths[row] == 600 and len(window) >= 256)
        assert {plan[position].row for position in window} == {row}
