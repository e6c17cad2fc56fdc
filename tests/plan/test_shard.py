"""L13, L14: what runs leave of an epoch, dealt to any number of ranks, against a brute-force dealer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.errors import UsageError
from framefeed.plan import EpochPlan
from framefeed.plan._rules import Dense
from framefeed.plan._shard import Delivery, Rest, Shard, load_deliveries
from tests.makers import plan_fakes
from tests.plan.dealing import Epoch

Run = tuple[int, Sequence[int]]
"""Number of ranks, and clips that each delivered, at most its share; one number for all."""

STEPS = st.integers(0, 9)
RUN = st.integers(1, 5).flatmap(
    lambda world: st.tuples(
        st.just(world), st.lists(STEPS, min_size=world, max_size=world) | st.lists(STEPS, min_size=1, max_size=1)
    )
)
RUNS = st.lists(RUN, max_size=3)


def deliver(epoch: Epoch, run: Run, tail: str) -> list[int]:
    """Deliver a run in the oracle; return the clips of each rank, cut to its share."""
    world_size, clips = run
    shares = epoch.deal(world_size, tail)
    each = list(clips) * (world_size if len(clips) == 1 else 1)
    taken = [share[:number] for share, number in zip(shares, each, strict=True)]
    epoch.deliver(taken)
    return [len(share) for share in taken]


def list_shares(rest: Rest, count: int, world_size: int, tail: str, unit: int) -> list[list[int]]:
    shards = [Shard(count, rank, world_size, tail, unit, rest) for rank in range(world_size)]  # type: ignore[arg-type]
    shares = [[shard.global_position(position) for position in range(len(shard))] for shard in shards]
    assert [shard.global_position(np.arange(len(shard))).tolist() for shard in shards] == shares
    return shares


def check_rest(units: int, unit: int, runs: Sequence[Run], world_size: int, tail: str) -> None:
    epoch, rest = Epoch(units * unit, unit), Rest(units * unit)
    for run in runs:
        rest = rest.without(Delivery(run[0], tuple(deliver(epoch, run, tail))), unit)
    assert len(rest) == len(epoch.remaining)
    assert rest.select(np.arange(len(rest))).tolist() == epoch.remaining
    expected = [[position for position, _ in share] for share in epoch.deal(world_size, tail)]
    assert list_shares(rest, units * unit, world_size, tail, unit) == expected


@given(st.integers(1, 20), st.integers(1, 3), RUNS, st.integers(1, 5), st.sampled_from(["pad", "drop"]))
def test_L13_the_rest_is_what_no_rank_delivered(
    units: int, unit: int, runs: list[Run], world_size: int, tail: str
) -> None:
    check_rest(units, unit, runs, world_size, tail)


@pytest.mark.parametrize("tail", ["pad", "drop"])
@pytest.mark.parametrize("unit", [1, 2, 3])
def test_L13_every_step_of_every_small_world_is_resumed_in_every_other(unit: int, tail: str) -> None:
    for units in (1, 4, 7):
        for before in (1, 2, 3):
            for clips in range(-(-units // before) * unit + 1):
                for after in (1, 2, 3, 4):
                    check_rest(units, unit, [(before, [clips])], after, tail)


def test_L14_ranks_have_equal_lengths_after_any_run() -> None:
    rest = Rest(23).without(Delivery(4, (3, 1, 0, 2)), 1)
    for world_size in range(1, 9):
        for tail in ("pad", "drop"):
            shares = list_shares(rest, 23, world_size, tail, 1)
            assert len({len(share) for share in shares}) == 1
            times = Counter(position for share in shares for position in share)
            own = set(times) & set(rest.select(np.arange(len(rest))).tolist())
            assert len(rest) - len(own) < (world_size if tail == "drop" else 1)


def test_L13_pads_count_as_nothing() -> None:
    # 3 positions over 2 ranks: rank 1 gets position 0 as a pad, which rank 0 has not delivered yet.
    rest = Rest(3).without(Delivery(2, (0, 2)), 1)
    assert rest.select(np.arange(len(rest))).tolist() == [0, 2]


# --- the same over plans ------------------------------------------------------------------------------


def plan_rank(videos: int, rank: int = 0, world_size: int = 1, unit: int = 1, tail: str = "pad") -> EpochPlan:
    options = {"shuffle": "videos" if unit > 1 else True, "clips_per_video": unit, "tail": tail}
    return plan_fakes([9] * videos, Dense(2), seed=4, rank=rank, world_size=world_size, **options)


def list_positions(plan: EpochPlan) -> list[int]:
    return plan.global_position(np.arange(len(plan))).tolist()


def resume(state: str, **options: int) -> EpochPlan:
    return plan_rank(**options).with_state(json.loads(state))  # type: ignore[arg-type]


@given(st.integers(1, 12), st.integers(1, 3), RUNS, st.integers(1, 4))
def test_L13_states_of_plans_keep_the_rest(videos: int, unit: int, runs: list[Run], world_size: int) -> None:
    epoch, state = Epoch(videos * unit, unit), json.dumps(plan_rank(videos, unit=unit).state_dict())
    for run in runs:
        clips = deliver(epoch, run, "pad")
        plan = resume(state, videos=videos, unit=unit, world_size=run[0]).without(clips)
        state = json.dumps(plan.state_dict())
    shares = [
        list_positions(resume(state, videos=videos, unit=unit, rank=rank, world_size=world_size))
        for rank in range(world_size)
    ]
    assert shares == [[position for position, _ in share] for share in epoch.deal(world_size)]


def test_L13_a_clip_of_the_rest_is_the_clip_of_its_global_position() -> None:
    whole = plan_rank(10, unit=3)
    for world_size in (1, 2, 3):
        rest = plan_rank(10, rank=world_size - 1, world_size=world_size, unit=3).without([4, 5], 2)
        for position in range(len(rest)):
            same = rest.global_position(position)
            assert rest[position] == whole[same]
            assert rest[position].row == whole[same].row
            assert (
                rest.order.generator_at(rest.global_position(position)).random()
                == whole.order.generator_at(same).random()
            )


def test_L13_the_next_epoch_is_whole() -> None:
    rest = plan_rank(10).without(4)
    assert (len(rest), len(rest.with_epoch(1)), len(rest.with_epoch(0))) == (6, 10, 6)


def test_L13_the_rest_is_restored_fast_at_any_position() -> None:
    count, unit = 10**9, 4
    for clips in (0, 1, 10**8 + 3, 10**8):
        rest = Rest(count * unit).without(Delivery(8, (clips,)), unit).without(Delivery(3, (clips // 9,)), unit)
        assert len(rest.before) <= 11 * unit
        assert len(Shard(count * unit, 3, 7, rest=rest, unit=unit)) > 0


def test_L13_states_stay_small_after_many_resumes() -> None:
    many = partial(plan_fakes, [9] * 4, Dense(2), clips_per_video=50_000)
    plan = many()
    for world_size in range(1, 60):
        plan = many(world_size=world_size).with_state(plan.state_dict()).without(100)
    assert len(json.dumps(plan.state_dict())) < 700
    unequal = many(world_size=1024).without([7] * 500 + [8] * 524)
    assert len(json.dumps(unequal.state_dict())) < 700
    assert len(unequal) == -(-(200_000 - 7 * 500 - 8 * 524) // 1024)


@pytest.mark.parametrize(
    "wrong",
    [
        3,
        "x",
        [3],
        [[2]],
        [[2, "x", 0]],
        [[0, 1, 0]],
        [[2, -1, 0]],
        [[2, [[1, 3]], 0]],
        [[2, [[1, 10**12]], 0]],
        [[2, [1, 2], 0]],
    ],
)
def test_L13_damaged_deliveries_are_refused(wrong: object) -> None:
    with pytest.raises(UsageError):
        load_deliveries(wrong)


def test_L13_a_number_for_each_rank_is_needed() -> None:
    with pytest.raises(UsageError, match="one for each of 3 ranks, got 2"):
        plan_rank(10, world_size=3).without([1, 2])


# --- the same law over dealers that are known to be wrong ---------------------------------------------


def count_pads(rest: Rest, delivery: Delivery, unit: int) -> Rest:
    """Wrong on purpose: what a rank got as a pad counts as delivered."""
    shards = [Shard(rest.count, rank, delivery.world_size, "pad", unit, rest) for rank in range(delivery.world_size)]
    clips = delivery.clips * (delivery.world_size if len(delivery.clips) == 1 else 1)
    gone = {shard.global_position(i) for shard, number in zip(shards, clips, strict=True) for i in range(number)}
    left = [each for each in rest.select(np.arange(len(rest))).tolist() if each not in gone]
    return Rest(rest.count, rest.count, np.array(left, dtype=np.int64))


def count_steps(rest: Rest, delivery: Delivery, unit: int) -> Rest:
    """Wrong on purpose: takes the most advanced rank for all."""
    return Rest(rest.count, min(rest.count, max(delivery.clips) * delivery.world_size))


@pytest.mark.parametrize("wrong", [count_pads, count_steps])
def test_L13_the_law_of_the_rest_catches(
    wrong: Callable[[Rest, Delivery, int], Rest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rest, "without", wrong)

    def law() -> None:
        for units in range(1, 8):
            check_rest(units, 1, [(2, [0, 3])], 3, "pad")

    with pytest.raises(AssertionError):
        law()
