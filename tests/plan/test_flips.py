"""A flip of clips: drawn apart from everything else, by seed, epoch and global position alone."""

from __future__ import annotations

import json
import pickle
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.errors import UsageError
from framefeed.plan import Dense, EpochPlan, RandomSegments, Uniform, count_planned
from framefeed.plan._plan_requests import plan_requests
from framefeed.plan._storing import explain_little_reuse
from framefeed.request import DecodeRequest, Letterbox, RandomResizedCrop, is_flipped
from tests.corpus import corpus_file
from tests.makers import plan_fakes


def plan_forty(rows: int = 40, **options: Any) -> EpochPlan:
    lengths = [30 + row % 7 for row in range(rows)]
    return plan_fakes(lengths, **{"rule": RandomSegments(2), "seed": 3, **options})


def flips(plan: EpochPlan) -> dict[int, bool]:
    return {plan.global_position(position): plan[position].flipped for position in range(len(plan))}


# --- which clips ------------------------------------------------------------------------------------


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_L11_as_many_clips_are_flipped_as_the_probability_says(probability: float) -> None:
    count, positions = 0, 20_000
    for seed, epoch in ((0, 0), (0, 1), (1, 0), (2**64 - 1, 9)):
        found = sum(is_flipped(seed, epoch, position, probability) for position in range(positions))
        assert abs(found - probability * positions) <= 4 * sqrt(probability * (1 - probability) * positions)
        count += found
    assert (count == 4 * positions) == (probability == 1)


def test_L11_flips_of_neighbours_epochs_and_seeds_are_independent() -> None:
    def draw(seed: int, epoch: int, count: int = 8000) -> np.ndarray:
        return np.array([is_flipped(seed, epoch, position, 0.5) for position in range(count)])

    drawn = draw(5, 0)
    for other in (np.roll(drawn, 1), np.roll(drawn, 2), draw(5, 1), draw(6, 0), draw(5, 2)):
        assert abs(np.mean(drawn == other) - 0.5) < 4 * 0.5 / sqrt(len(drawn))


@given(st.integers(0, 2**64 - 1), st.integers(0, 99), st.integers(0, 10**9), st.floats(0, 1), st.floats(0, 1))
def test_a_clip_that_is_flipped_is_flipped_with_every_larger_probability(
    seed: int, epoch: int, position: int, one: float, other: float
) -> None:
    assert is_flipped(seed, epoch, position, min(one, other)) <= is_flipped(seed, epoch, position, max(one, other))


@pytest.mark.parametrize("shuffle", [True, False, "videos"])
def test_L11_frames_crops_and_transforms_are_those_of_the_plan_without_a_flip(shuffle: Any) -> None:
    options = {"crop": RandomResizedCrop(8), "shuffle": shuffle, "clips_per_video": 2, "epoch": 4}
    plain, plan = plan_forty(**options), plan_forty(**options, horizontal_flip=0.5)
    assert len({request.flipped for request in plan}) == 2
    for position, (before, request) in enumerate(zip(plain, plan, strict=True)):
        assert not before.flipped
        assert (before == request) is not request.flipped
        assert before.output == request.output
        assert before.indices.tolist() == request.indices.tolist()
        assert (
            plain.order.generator_at(plain.global_position(position)).random()
            == plan.order.generator_at(plan.global_position(position)).random()
        )


@pytest.mark.parametrize("options", [{}, {"shuffle": "videos", "clips_per_video": 2}])
def test_a_flip_follows_the_global_position_over_ranks_rests_and_pickles(options: dict[str, Any]) -> None:
    whole = plan_forty(horizontal_flip=0.5, epoch=2, **options)
    expected = flips(whole)
    for rank in range(3):
        plan = plan_forty(horizontal_flip=0.5, epoch=2, rank=rank, world_size=3, **options)
        found = flips(plan)
        assert found == {position: expected[position] for position in found}
        rest = plan.without(4)
        assert flips(rest) == {position: expected[position] for position in flips(rest)}
        assert flips(pickle.loads(pickle.dumps(plan))) == found
        assert flips(plan.whole) == expected
    assert flips(whole.with_epoch(3)) != expected
    assert flips(whole.with_epoch(3).with_epoch(2)) == expected


# --- a part of the plan -----------------------------------------------------------------------------


def test_L13_a_state_says_the_flip_of_a_plan_that_has_one() -> None:
    plain, plan = plan_forty(size=8), plan_forty(size=8, horizontal_flip=0.5)
    assert plan_forty(size=8, horizontal_flip=0).state_dict() == plain.state_dict()
    assert "flip" not in json.dumps(plain.state_dict())
    assert len({plan_forty(size=8, horizontal_flip=each).fingerprint for each in (0, 0.25, 0.5, 1)}) == 4
    with pytest.raises(UsageError, match=r"options \(checkpoint: horizontal_flip=0.5, here: horizontal_flip=0.0\)"):
        plain.with_state(plan.state_dict())
    assert plan.with_state(json.loads(json.dumps(plan.state_dict()))).epoch == 0
    assert "horizontal_flip=0.5" in repr(plan)
    assert "flip" not in repr(plain)


def test_a_flip_makes_epochs_differ_but_not_what_a_cache_holds() -> None:
    plain, plan = plan_forty(rule=Uniform(2)), plan_forty(rule=Uniform(2), horizontal_flip=0.5)
    assert (plain.clips.is_random, plan.clips.is_random, plan.clips.draws_frames) == (False, True, False)
    assert not plan_forty(rule=Uniform(2), horizontal_flip=1).clips.is_random
    assert plan_forty(rule=Dense(2)).clips.draws_frames
    for form in ("output", "planes"):
        assert count_planned(plan, form, 3) == count_planned(plain, form, 3)
        assert explain_little_reuse(plan, form) is None


def test_requests_are_flipped_too() -> None:
    requests = [DecodeRequest(corpus_file("base.mp4"), [number]) for number in range(40)]
    plan = plan_requests(requests, horizontal_flip=0.5, seed=3)
    assert flips(plan) == {position: is_flipped(3, 0, position, 0.5) for position in range(40)}
    flipped = next(request for request in plan if request.flipped)
    assert pickle.loads(pickle.dumps(flipped)) == flipped
    assert repr(flipped).endswith(", flipped)")
    said = r"request 0 .*flipped and placement are .* a plan made: give horizontal_flip=1\.0, or size=ff\.Letterbox"
    for clip in (flipped, plan_requests(requests, size=Letterbox(20))[0]):
        with pytest.raises(UsageError, match=said):
            plan_requests([clip])


def test_a_border_is_a_part_of_the_plan() -> None:
    requests = [DecodeRequest(corpus_file("base.mp4"), [number]) for number in range(9)]
    plan = plan_requests(requests, size=Letterbox(20, 42, fill=3), horizontal_flip=0.5, seed=3)
    assert {request.box for request in plan} == {(0, 7, 20, 27), (0, 8, 20, 27)}
    for request in plan:
        assert pickle.loads(pickle.dumps(request)) == request
        assert request.output.size == (20, 27)
    assert plan.clip_shape == (1, 3, 20, 42)
    prints = {plan_forty(size=Letterbox(8, fill=fill)).fingerprint for fill in (0, 1)}
    assert len({*prints, plan_forty(size=8).fingerprint}) == 3
    travelled = pickle.loads(pickle.dumps(plan))
    assert [travelled[position] for position in range(9)] == list(plan)
    assert (
        plan_forty(size=Letterbox(8)).state_dict()["options"]["size"] == "Letterbox(height=8, width=8, fill=(0, 0, 0))"
    )


def test_a_probability_may_have_any_type_of_numbers() -> None:
    assert flips(plan_forty(horizontal_flip=np.float32(1))) == flips(plan_forty(horizontal_flip=1))
