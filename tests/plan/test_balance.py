"""Ranks balanced by predicted cost: the same samples, about equal cost at each step, and resumed anywhere."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed import index as index_door
from framefeed.index import plan_runs, predict_seconds
from framefeed.plan import EpochPlan, plan_clips
from framefeed.plan import _balance as balance
from framefeed.plan._balance import CostOrder, estimate_row_costs
from framefeed.plan._rules import ClipRule, Dense, EveryFrame, Rates, Uniform
from framefeed.plan._shard import Delivery, Rest, Shard
from tests.fakes import FakeCatalog, steady_index
from tests.makers import plan_over

VIDEOS = [(60, 12), (300, 150), (60, 60), (500, 250), (90, 1), (40, 5), (200, 25)]
"""(number of frames, distance of key frames) of each video."""


def catalog_of(videos: list[tuple[int, int]], sizes: Any = (48, 64)) -> FakeCatalog:
    count = len(videos)
    return FakeCatalog(
        [steady_index(frames, gop=gop) for frames, gop in videos],
        sizes=sizes,
        columns={
            "num_key_frames": [-(-frames // gop) for frames, gop in videos],
            "bytes": [frames * 1000 for frames, _ in videos],
            "average_fps": [25.0] * count,
            "codec": ["h264"] * count,
            "kind": ["video"] * count,
        },
    )


def plan_balanced(rank: int = 0, world_size: int = 1, **options: Any) -> EpochPlan:
    given: dict[str, Any] = {"seed": 3, "balance": "cost", "clips_per_video": 6, **options}
    return plan_over(catalog_of(VIDEOS), Dense(8), rank=rank, world_size=world_size, **given)


def list_shares(world_size: int, **options: Any) -> list[list[int]]:
    plans = [plan_balanced(rank, world_size, **options) for rank in range(world_size)]
    shares = [[plan.global_position(position) for position in range(len(plan))] for plan in plans]
    assert shares == [plan.global_position(np.arange(len(plan))).tolist() for plan in plans]
    return shares


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.integers(1, 4), st.integers(1, 3))
def test_an_order_deals_neighbours_by_cost_together(costs: list[float], world_size: int, rows: int) -> None:
    values = np.array(costs)
    order = CostOrder(lambda units: values[units], len(costs), world_size)
    order.block = rows * world_size
    dealt = order(np.arange(len(costs) + 3))
    assert [order(number) for number in range(len(costs) + 3)] == dealt.tolist()
    assert sorted(dealt.tolist()) == list(range(len(costs) + 3))
    whole = len(costs) // world_size * world_size
    assert dealt[whole:].tolist() == list(range(whole, len(costs) + 3))
    for first in range(0, whole, order.block):
        block = dealt[first : min(first + order.block, whole)]
        assert sorted(block.tolist()) == list(range(first, first + len(block)))
        spread = sum(np.ptp(values[row]) for row in block.reshape(-1, world_size))
        least = sum(np.ptp(row) for row in np.sort(values[block]).reshape(-1, world_size))
        assert spread == pytest.approx(least)


@pytest.mark.parametrize("shuffle", [True, False, "videos"])
@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
def test_L14_balanced_ranks_have_the_same_samples_and_equal_lengths(world_size: int, shuffle: Any) -> None:
    for tail in ("pad", "drop"):
        balanced = list_shares(world_size, shuffle=shuffle, tail=tail)
        plain = list_shares(world_size, shuffle=shuffle, tail=tail, balance=None)
        assert Counter(chain(*balanced)) == Counter(chain(*plain))
        assert [len(share) for share in balanced] == [len(share) for share in plain]
        assert balanced == plain if world_size == 1 else shuffle is not True or balanced != plain


def test_the_clip_of_a_global_position_is_the_same_when_balanced() -> None:
    whole = plan_balanced(balance=None)
    plan = plan_balanced(1, 3)
    assert plan.fingerprint == whole.fingerprint
    for position in range(len(plan)):
        assert plan[position] == whole[plan.global_position(position)]


def measure_waits(balance: str | None, rule: ClipRule, world_size: int) -> float:
    """Predicted cost of the slowest rank of each step over the mean, with the frames that are really planned."""
    catalog = catalog_of(VIDEOS * 4, sizes=[(48, 64), (480, 640)] * 14)
    options: dict[str, Any] = {"seed": 3, "world_size": world_size, "balance": balance, "size": (24, 32)}
    clips = 1 if isinstance(rule, EveryFrame) else 8
    costs = np.array(
        [
            predict_all(plan_clips(catalog, rule, rank=rank, clips_per_video=clips, tail="drop", **options))  # type: ignore[arg-type]
            for rank in range(world_size)
        ]
    )
    return float(costs.max(0).sum() / costs.mean(0).sum())


def predict_all(plan: EpochPlan) -> list[float]:
    costs = []
    for position in range(min(len(plan), 100)):
        index = plan.catalog.frame_index(plan[position].row)
        costs.append(predict_seconds(index, plan_runs(index, plan[position].indices)))
    return costs


RULES = [Dense(8), Dense(8, fps=5), Uniform(8), Rates([(1, 2), (2, 2)]), EveryFrame()]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: repr(rule)[:40])
def test_ranks_wait_less_when_balanced(rule: ClipRule) -> None:
    plain, balanced = (measure_waits(each, rule, 3) for each in (None, "cost"))
    assert balanced - 1 < 0.75 * (plain - 1)


def test_costs_follow_what_must_be_decoded() -> None:
    sizes = [(48, 64)] * 7
    costs = estimate_row_costs(catalog_of(VIDEOS, sizes), Uniform(8))  # type: ignore[arg-type]
    assert int(costs.argmax()) == 3
    assert int(costs.argmin()) == 4
    larger = estimate_row_costs(catalog_of(VIDEOS, [(480, 640)] * 7), Uniform(8))  # type: ignore[arg-type]
    assert (larger > costs).all()


def test_L13_states_of_balanced_runs_keep_their_meaning() -> None:
    """If this fails, states of earlier versions leave other clips: raise STATE_VERSION of plans, then the hash."""
    sizes = [(48, 64), (480, 640)] * 7
    constants = {name: value for name, value in sorted(vars(index_door).items()) if name.startswith("SECONDS_")}
    rows = [
        estimate_row_costs(catalog_of(VIDEOS * 2, sizes), rule).tolist()  # type: ignore[arg-type]
        for rule in RULES
    ]
    parts = (constants, rows, list_shares(3), balance._ROWS_OF_BLOCK)
    assert blake2b(repr(parts).encode(), digest_size=8).hexdigest() == "0c6c1179f3eaa700"


@pytest.mark.parametrize("shuffle", [True, "videos"])
@pytest.mark.parametrize("balance", [None, "cost"])
def test_a_description_shows_the_spread_of_cost_over_ranks(balance: str | None, shuffle: Any) -> None:
    plan = plan_balanced(0, 3, balance=balance, shuffle=shuffle, clips_per_video=20)
    waits = plan.describe().waits
    assert waits is not None
    assert 1 <= waits.balanced_step < waits.step + (shuffle == "videos")
    assert 1 <= waits.epoch <= waits.step
    assert f"slowest rank: {waits.step:.2f} times the mean in a step" in str(plan.describe())
    assert plan_balanced().describe().waits is None
    rest = plan.without([3, 1, 7])
    assert rest.describe().clips == len(rest)


# --- resumed ------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(1, 3), st.data())
def test_L13_the_rest_of_a_balanced_epoch_is_what_no_rank_delivered(
    costs: list[int], unit: int, data: st.DataObject
) -> None:
    values, count = np.array(costs, dtype=np.float64), len(costs) * unit

    def make_order(rest: Rest, world_size: int) -> CostOrder:
        order = CostOrder(lambda units: values[rest.select(units * unit) // unit], len(rest) // unit, world_size)
        order.block = 2 * world_size
        return order

    rest, remaining = Rest(count), list(range(count))
    for _ in range(3):
        world_size = data.draw(st.integers(1, 4))
        order = make_order(rest, world_size)
        shards = [Shard(count, rank, world_size, "pad", unit, rest, order) for rank in range(world_size)]
        equal = data.draw(st.booleans())
        steps = st.integers(0, min(5, len(shards[0])))
        clips = [data.draw(steps)] * world_size if equal else [data.draw(steps) for _ in shards]
        # A position of its own is one below the number of those that remain; a pad is not.
        own = {
            shard.global_position(position)
            for shard, number in zip(shards, clips, strict=True)
            for position in range(number)
            if order((position // unit) * world_size + shard.rank) * unit + position % unit < len(rest)
        }
        rest = rest.without(Delivery(world_size, tuple(clips), True), unit, order)
        remaining = [position for position in remaining if position not in own]
        assert rest.select(np.arange(len(rest))).tolist() == remaining


def test_blocks_are_ordered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balance, "_ROWS_OF_BLOCK", 4)
    asked: list[int] = []

    def costs(units: np.ndarray) -> np.ndarray:
        asked.append(int(units[0]))
        return units.astype(np.float64)

    order = CostOrder(costs, 10**12, 2)
    far = 10**11
    assert [order(far + number) for number in range(16)] == list(range(far, far + 16))
    assert asked == [far, far + 8]


def test_clips_that_cannot_be_planned_cost_nothing() -> None:
    catalog = catalog_of(VIDEOS)
    rule = Dense(100, policy="error")
    plan = plan_clips(catalog, rule, seed=3, clips_per_video=6, world_size=2, balance="cost")  # type: ignore[arg-type]
    described = plan.describe()
    assert described.unusable_clips > 0
    assert described.waits is not None
