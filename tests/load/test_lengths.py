"""Clips of different numbers of frames in one plan: batches are lists of clips, each as it is alone."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from framefeed.cache import FrameCache
from framefeed.errors import FrameNotFound, LoadError, UsageError
from framefeed.index import Timeline
from framefeed.load import ClipBatch, ClipLoader
from framefeed.plan import (
    AtSeconds,
    CatalogClips,
    EpochPlan,
    Uniform,
    count_planned,
    mean_clip_bytes,
    mix_plans,
    plan_clips,
    plan_requests,
)
from framefeed.request import ClipContext, DecodeRequest, OutputSpec, RandomCrop
from framefeed.scanning import scan
from framefeed.testing import read_stamps
from tests.fakes import DamagedSources, FlatDecoder
from tests.makers import FRAMES, SIZE, VIDEOS, catalog, folder, plan_of

pytestmark = pytest.mark.usefixtures("kept_processes")

LENGTHS = [4, 9, 1, 6, 3, 12, 2]
WAYS = [{"workers": 0}, {"workers": 2}, {"workers": 2, "kind": "processes"}]


@dataclass(frozen=True)
class ByTime:
    """A rule as users write it: some frames a second of the whole video."""

    fps: float
    num_frames = None
    needs_times = True

    def choose(self, timeline: Timeline, context: ClipContext) -> Any:
        first, end = timeline.span_seconds
        return np.arange(0, end - first, 1 / self.fps)


@dataclass(frozen=True)
class RandomLength:
    """Any number of the first frames, also none."""

    least: int = 1
    num_frames = None
    is_random = True

    def choose(self, timeline: Timeline, context: ClipContext) -> Any:
        return np.arange(context.generator.integers(self.least, 6))


def list_requests(**options: Any) -> list[DecodeRequest]:
    paths = sorted(folder().rglob("*.mp4"))
    return [
        DecodeRequest(paths[number % VIDEOS], indices=range(length), **options) for number, length in enumerate(LENGTHS)
    ]


def plan_lengths(**options: Any) -> EpochPlan:
    options = {"unequal": True, "columns": {"number": list(range(len(LENGTHS)))}, "seed": 3, "shuffle": True, **options}
    return plan_requests(list_requests(), **options)


def plan_mixture() -> EpochPlan:
    parts = [(plan_of(RandomLength(), unequal=True, size=(24, 32)), 2), (plan_of(Uniform(4), size=(8, 8)), 1)]
    return mix_plans(parts, num_clips=20, seed=1, unequal=True)


PLANS = {
    "requests": plan_lengths,
    "sized": lambda: plan_requests(
        [
            DecodeRequest(each.source, indices=each.indices, output=OutputSpec(size=(8 * number + 8, 16)))
            for number, each in enumerate(list_requests())
        ],
        unequal=True,
    ),
    "rule": lambda: plan_of(RandomLength(), unequal=True, horizontal_flip=0.5, crop=RandomCrop(24, 24)),
    "by time": lambda: plan_of(ByTime(2.5), unequal=True),
    "mixture": plan_mixture,
    "mixture of mixtures": lambda: mix_plans([(plan_mixture(), 1), (plan_of(Uniform(2)), 3)], num_clips=9, seed=0,
                                             unequal=True),
    "streams of a rule": lambda: plan_clips(
        None, ByTime(2.5), streams={"one": catalog(), "two": catalog()}, on="fingerprint", seed=0, unequal=True
    ),
    "dealt by cost": lambda: plan_of(RandomLength(), unequal=True, balance="cost", world_size=2, rank=1),
    "streams": lambda: plan_requests(
        [{"left": each, "right": DecodeRequest(each.source, indices=[5, 6])} for each in list_requests()], unequal=True
    ),
}  # fmt: skip


def take_clips(batches: list[ClipBatch]) -> Iterator[tuple[Any, ...]]:
    """Take the clips of batches apart: pixels, times and valid of each, of several streams by name."""
    for batch in batches:
        for slot in range(len(batch)):
            each = [batch.data, batch.pts_seconds, batch.valid]
            if isinstance(batch.data, dict):
                yield tuple({name: part[name][slot] for name in part} for part in each)
            else:
                yield tuple(part[slot] for part in each)


def assert_same(clips: list[tuple[Any, ...]], others: list[tuple[Any, ...]]) -> None:
    assert len(clips) == len(others)
    for one, other in zip(clips, others, strict=True):
        for mine, theirs in zip(one, other, strict=True):
            np.testing.assert_equal(mine, theirs)


def load_alone(plan: EpochPlan) -> list[tuple[Any, ...]]:
    with ClipLoader(plan, batch_size=1, workers=0) as loader:
        return list(take_clips(list(loader)))


@pytest.mark.parametrize("name", PLANS)
def test_a_clip_is_what_it_is_alone_for_any_workers(name: str) -> None:
    plan = PLANS[name]()
    alone = load_alone(plan)
    for options in WAYS:
        with ClipLoader(plan, batch_size=3, **options) as loader:
            batches = list(loader)
        assert all(batch.ok.all() for batch in batches)
        assert_same(list(take_clips(batches)), alone)
    if name in ("requests", "rule", "by time", "dealt by cost"):
        assert all(isinstance(part, list) for batch in batches for part in (batch.data, batch.pts_seconds, batch.valid))
    if name == "requests":
        for position, (clip, times, valid) in enumerate(alone):
            assert read_stamps(clip) == plan[position].indices.tolist()
            assert times.tolist() == plan[position].pts_seconds.tolist()
            assert valid.all()


@pytest.mark.parametrize("name", ["requests", "rule", "mixture"])
def test_ranks_rests_and_pickles_give_the_same_clips(name: str) -> None:
    plan = pickle.loads(pickle.dumps(PLANS[name]()))
    alone = load_alone(plan)
    with ClipLoader(plan, batch_size=2, workers=2) as loader:
        first = next(iter(loader))
        state = loader.state_dict()
    rests = []
    for rank in range(2):
        part = EpochPlan(replace(plan.order, rank=rank, world_size=2), plan.clips)
        with ClipLoader(part, batch_size=2) as loader:
            loader.load_state_dict(state)
            rests.append(list(take_clips(list(loader))))
    assert_same(list(take_clips([first])), alone[:2])
    dealt = [clip for pair in zip(*rests, strict=True) for clip in pair]
    assert_same(dealt[: len(alone) - 2], alone[2:])


def test_a_cache_gives_the_same_clips(tmp_path: Path) -> None:
    plan = plan_lengths()
    alone = load_alone(plan)
    cache = FrameCache(tmp_path / "cache", max_bytes="100MB")
    for _ in range(2):
        with ClipLoader(plan, batch_size=3, cache=cache) as loader:
            assert_same(list(take_clips(list(loader))), alone)


def flatten(clip: Any, generator: np.random.Generator) -> Any:
    return clip.reshape(-1)[: 100 * len(clip)]


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_results_of_a_transform_may_differ(options: Any) -> None:
    plan = plan_lengths()
    with ClipLoader(plan, batch_size=7, transform=flatten, **options) as loader:
        (batch,) = loader
    assert [each.shape for each in batch.data] == [(100 * len(plan[position]),) for position in range(len(plan))]
    with ClipLoader(plan, batch_size=7, dtype="float32", **options) as loader:
        (batch,) = loader
    for position, clip in enumerate(batch.data):
        assert clip.dtype == np.float32
        assert clip.shape == (len(plan[position]), 3, *SIZE)


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_a_clip_that_fails_has_zeros_of_its_own_length_or_another_clip(options: Any) -> None:
    plan = plan_lengths(shuffle=False)
    backend = FlatDecoder(DamagedSources(str(plan[5].source)))
    with ClipLoader(plan, batch_size=7, on_error="skip", backend=backend, **options) as loader:
        (batch,) = loader
    assert batch.ok.tolist() == [number != 5 for number in range(7)]
    assert batch.data[5].shape[0] == len(batch.valid[5]) == len(batch.pts_seconds[5]) == LENGTHS[5]
    assert not batch.data[5].any()
    assert not batch.valid[5].any()
    assert np.isnan(batch.pts_seconds[5]).all()
    with ClipLoader(plan, batch_size=7, on_error="substitute", backend=backend, **options) as loader:
        (batch,) = loader
    own = int(batch["number"][5])
    assert batch.ok.all()
    assert own != 5
    assert batch.data[5][:, 0, 0, 0].tolist() == list(range(LENGTHS[own]))
    assert batch.pts_seconds[5].tolist() == plan[own].pts_seconds.tolist()
    assert batch.valid[5].all()
    chosen = plan_of(RandomLength(0), unequal=True, clips_per_video=4)
    with ClipLoader(chosen, batch_size=24, on_error="skip", **options) as loader:
        (batch,) = loader
    assert not batch.ok.all()
    for position, (clip, is_ok) in enumerate(zip(batch.data, batch.ok.tolist(), strict=True)):
        if is_ok:
            assert len(clip) == len(chosen[position])
        else:
            assert clip.shape == (1, 3, *SIZE)
            assert not clip.any()
            with pytest.raises(FrameNotFound, match=r"RandomLength.* chose no frames"):
                chosen[position]


def test_frames_named_by_a_column_may_be_lists_of_any_length(tmp_path: Path) -> None:
    rows = [
        (str(path), list(range(length))) for path, length in zip(sorted(folder().rglob("*.mp4")), LENGTHS, strict=False)
    ]
    pq.write_table(
        pa.table({"path": [path for path, _ in rows], "frames": [frames for _, frames in rows]}),
        tmp_path / "list.parquet",
    )
    scanned = scan(tmp_path / "list.parquet")
    with pytest.raises(UsageError, match="give unequal=True"):
        plan_clips(scanned, at="frames", seed=0)
    plan = plan_clips(scanned, at="frames", seed=0, unequal=True)
    with ClipLoader(pickle.loads(pickle.dumps(plan)), batch_size=6) as loader:
        (batch,) = loader
    assert sorted(read_stamps(clip) for clip in batch.data) == sorted(frames for _, frames in rows)


def test_clips_of_one_length_each_need_no_flag() -> None:
    with ClipLoader(plan_of(ByTime(2.5)), batch_size=12) as loader:  # all videos are of one length
        (batch,) = loader
    assert batch.data.shape[:2] == batch.valid.shape == (12, 5)


def test_lengths_that_differ_are_named_without_the_flag() -> None:
    message = "position 0 of the plan has 4 and position 1 has 9: plan with unequal=True"
    with (
        ClipLoader(plan_lengths(unequal=False, shuffle=False), batch_size=2) as loader,
        pytest.raises(UsageError, match=message),
    ):
        next(iter(loader))
    with pytest.raises(UsageError, match="unequal: expected True or False"):
        plan_lengths(unequal="yes")
    with pytest.raises(UsageError, match="or give mix_plans unequal=True"):
        mix_plans([(plan_lengths(), 1)], num_clips=3, seed=0)
    with pytest.raises(UsageError, match=r"numbers of frames.*or give unequal=True"):
        mix_plans([(plan_of(Uniform(2)), 1), (plan_of(Uniform(3)), 1)], num_clips=3, seed=0)


class Unsteady(RandomLength):
    """Chooses a frame more each time."""

    asked = iter(range(1, 10**6))

    def choose(self, timeline: Timeline, context: ClipContext) -> Any:
        return np.arange(next(self.asked))


class Growing(Unsteady):
    """Gives more frames in a worker than in the process that asks."""

    def choose(self, timeline: Timeline, context: ClipContext) -> Any:
        return np.arange(3 if os.getpid() == PARENT else 5)


PARENT = int(os.environ.setdefault("FRAMEFEED_TEST_PARENT", str(os.getpid())))


@pytest.mark.parametrize("rule", [Unsteady, Growing])
def test_a_rule_that_chooses_another_number_in_a_worker_is_named(rule: Any) -> None:
    plan = plan_of(rule(), unequal=True, clips_per_video=1)
    loader = ClipLoader(plan, batch_size=6, workers=2, kind="processes")
    with loader, pytest.raises(UsageError, match=r"chose \d frames, and \d when it was asked again"):
        next(iter(loader))


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ("frames", "to return frame numbers"),
        ([[1], [2]], "to return frame numbers"),
        ([0.0, np.nan], "finite seconds"),
        (None, "to return frame numbers"),
        ([True], "to return frame numbers"),
    ],
)
def test_a_rule_that_chooses_something_else_is_named(chosen: Any, message: str) -> None:
    class Wrong(RandomLength):
        def choose(self, timeline: Timeline, context: ClipContext) -> Any:
            return chosen

    with pytest.raises(UsageError, match=message):
        plan_of(Wrong())[0]


class Raising(RandomLength):
    """Fails for some clips, as code of users does."""

    def choose(self, timeline: Timeline, context: ClipContext) -> Any:
        return np.arange({0: 3}[context.number % 2])


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_what_a_rule_raises_is_the_error_of_its_clip(options: Any) -> None:
    plan = plan_of(Raising(), unequal=True)
    with ClipLoader(plan, batch_size=12, on_error="skip", **options) as loader:
        (batch,) = loader
    assert batch.ok.sum() == 6
    assert {type(error).__name__ for error in batch.errors} == {"LoadError", "NoneType"}
    with (
        ClipLoader(plan, batch_size=12, **options) as loader,
        pytest.raises(LoadError, match=r"mp4: plan failed.*KeyError"),
    ):
        next(iter(loader))


def test_a_rule_that_cannot_be_planned_is_refused() -> None:
    class Nameless:
        num_frames = 2

        def choose(self, timeline: Timeline, context: ClipContext) -> Any:
            return [0, 1]

    with pytest.raises(UsageError, match="Nameless needs a repr that tells it from other rules"):
        plan_of(Nameless())
    with pytest.raises(UsageError, match="with `choose` and `num_frames`"):
        plan_of(object())  # type: ignore[arg-type]
    too_many = DecodeRequest(list_requests()[0].source, indices=[0] * 100_001)
    with pytest.raises(UsageError, match="asks for 100,001 frames: a clip has at most 100,000"):
        plan_requests([too_many])
    with pytest.raises(UsageError, match="a clip has at most 100,000 frames, and `choose` returned 100,001"):
        plan_of(Endless())[0]


class Endless(RandomLength):
    def choose(self, timeline: Timeline, context: ClipContext) -> Any:
        return np.zeros(100_001, int)


def test_numbers_and_seconds_of_a_rule_are_those_of_the_rules_for_them() -> None:
    class Numbers(RandomLength):
        def choose(self, timeline: Timeline, context: ClipContext) -> Any:
            return [-1, 0, 3]

    class Past(Numbers):
        policy = "wrap"

        def choose(self, timeline: Timeline, context: ClipContext) -> Any:
            return [2, FRAMES, FRAMES + 7]

    assert plan_of(Numbers())[0].indices.tolist() == [FRAMES - 1, 0, 3]
    assert plan_of(Past())[0].indices.tolist() == [2, 2, 2]
    assert plan_of(Past())[0].valid.tolist() == [True, False, False]


def test_bytes_of_a_clip_are_those_of_a_sample() -> None:
    pixels = 3 * SIZE[0] * SIZE[1]
    assert mean_clip_bytes(plan_lengths()) == int(pixels * sum(LENGTHS) / len(LENGTHS))
    assert mean_clip_bytes(plan_of(ByTime(2.5), unequal=True)) == 5 * pixels
    assert mean_clip_bytes(plan_of(Uniform(4))) == 4 * pixels
    assert catalog() is plan_of().catalog


# --- what plans know of clips without planning them ---------------------------------------------------


class Wrapping(RandomLength):
    policy = "wrap"

    def choose(self, timeline: Timeline, context: ClipContext) -> Any:
        return [2, FRAMES, FRAMES + 7]


class Strict(Wrapping):
    policy = "error"


def test_the_policy_of_a_rule_says_what_replaces_frames_past_the_end() -> None:
    assert plan_of(Wrapping())[0].indices.tolist() == [2, 2, 2]
    with pytest.raises(FrameNotFound, match="policy is 'error'"):
        plan_of(Strict())[0]


def test_arrays_of_a_clip_cannot_be_written_to() -> None:
    for rule in (AtSeconds([0.1, 0.5]), Uniform(2)):
        clip = plan_of(rule)[0]
        for name in ("indices", "pts_seconds", "seconds", "valid", "segment", "pick_error_seconds"):
            assert not getattr(clip, name).flags.writeable


def test_costs_of_lists_and_whole_videos_follow_their_lengths(tmp_path: Path) -> None:
    paths = sorted(map(str, folder().rglob("*.mp4")))[:4]
    table = pa.table({"path": paths, "frames": [None, [*range(20)], [0], [0, 1]]})
    pq.write_table(table, tmp_path / "list.parquet")
    with pytest.warns(UserWarning, match="1 of 4 rows are left out"):
        own = plan_clips(scan(tmp_path / "list.parquet"), at="frames", seed=0, unequal=True)
    rows = own.clips.layout.find_rows(np.arange(3)) if isinstance(own.clips, CatalogClips) else np.empty(0, int)
    costs = own.clips.predict_costs(np.arange(3))
    assert rows[costs.argsort()].tolist() == [2, 3, 1]
    whole, one = (plan_of(rule, unequal=True).clips.predict_costs(np.arange(2)) for rule in (ByTime(2.5), Uniform(1)))
    assert (whole > 1.5 * one).all()


def test_an_unequal_mixture_knows_what_its_parts_have_in_common() -> None:
    small, large = (plan_of(RandomLength(), unequal=True, size=size, seed=size[0]) for size in ((16, 24), (32, 24)))
    mix = mix_plans([(small, 1), (large, 1)], num_clips=6, seed=0, unequal=True)
    for each in (mix, pickle.loads(pickle.dumps(mix))):
        form = each.clips.forms[""]
        assert (form.unequal, form.num_frames, form.picture) == (True, None, None)
    with ClipLoader(mix, batch_size=3) as loader:
        assert loader.describe_batches(unequal=True).arrays["data"].shape == (None, None, 3, None, None)
    alike = mix_plans([(small, 1), (plan_of(Uniform(2), size=(16, 24)), 1)], num_clips=6, seed=0, unequal=True)
    again = pickle.loads(pickle.dumps(alike)).clips.forms[""]
    assert (again.unequal, again.num_frames, again.picture) == (True, None, (16, 24))


def test_shapes_of_requests_with_forms_of_their_own() -> None:
    plan = PLANS["sized"]()
    found = plan.clips_at(np.arange(len(plan)))
    (shapes,) = found.find_shapes()
    assert shapes == [(length, 3, 8 * number + 8, 16) for number, length in enumerate(LENGTHS)]


def test_bytes_of_streams_are_the_sum_of_theirs_and_frames_of_a_rule_at_most_those_of_the_video() -> None:
    both = PLANS["streams"]()
    assert mean_clip_bytes(both) == sum(mean_clip_bytes(each) for each in both.streams.values())
    assert count_planned(plan_of(ByTime(2.5), unequal=True, clips_per_video=1), "output")[0] == VIDEOS * FRAMES


def test_substitutes_that_all_fail_leave_the_length_of_the_clip() -> None:
    plan = plan_lengths(shuffle=False)
    backend = FlatDecoder(DamagedSources(*(str(plan[position].source) for position in range(len(plan)))))
    with ClipLoader(plan, batch_size=7, on_error="substitute", backend=backend) as loader:
        (batch,) = loader
    assert not batch.ok.any()
    for slot, length in enumerate(LENGTHS):
        parts = (batch.data, batch.pts_seconds, batch.seconds, batch.valid)
        assert [len(part[slot]) for part in parts] == [length] * 4
