"""Steps of buckets: all ranks have one bucket, and what is delivered is a prefix, over any history of ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framefeed.errors import UsageError
from framefeed.plan._bucket_order import BucketOrder

COUNTS = (41, 7, 96, 12, 25)


def make_order(counts: Sequence[int] = COUNTS, sizes: Sequence[int] | int = 12, **options: Any) -> BucketOrder:
    sizes = (sizes,) * len(counts) if isinstance(sizes, int) else tuple(sizes)
    weights = options.pop("weights", None) or (Fraction(1),) * len(counts)
    return BucketOrder(0, 3, counts=tuple(counts), sizes=sizes, weights=weights, **options)


def list_steps(order: BucketOrder) -> list[tuple[int, list[int]]]:
    """Bucket and clips of each batch of a rank."""
    shard, bounds = order.deal(None), order.step_bounds  # type: ignore[arg-type]
    clips = order.find_clips(shard.global_position(np.arange(len(shard), dtype=np.int64))).tolist()
    steps = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    return [(bucket, clips[first:last]) for bucket, (first, last) in zip(order.step_buckets, steps, strict=True)]


def join_ranks(order: BucketOrder, world_size: int) -> list[tuple[int, list[int]]]:
    """Bucket and clips of each step on all ranks, which are in step."""
    ranks = [list_steps(replace(order, rank=rank, world_size=world_size)) for rank in range(world_size)]
    joined = []
    for parts in zip(*ranks, strict=True):
        assert len({bucket for bucket, _ in parts}) == 1
        assert len({len(clips) for _, clips in parts}) == 1
        joined.append((int(parts[0][0]), sorted(clip for _, clips in parts for clip in clips)))
    return joined


def bucket_of(clip: int, counts: Sequence[int]) -> int:
    return int(np.searchsorted(np.cumsum(counts), clip, side="right"))


@pytest.mark.parametrize("tail", ["pad", "drop", "stream"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_any_number_of_ranks_has_the_same_steps_with_one_global_batch(tail: Any, accumulate: int) -> None:
    order = make_order(sizes=24, tail=tail, accumulate=accumulate, counts=(141, 77, 196, 50, 125), epoch=1)
    steps = join_ranks(order, 1)
    for world_size in (8, 6, 3, 2):
        assert join_ranks(order, world_size) == steps
    for bucket, clips in steps:
        assert {bucket_of(clip, order.counts) for clip in clips} == {bucket}
    assert len(steps) % accumulate == 0
    groups = [steps[first : first + accumulate] for first in range(0, len(steps), accumulate)]
    assert all(len({bucket for bucket, _ in group}) == 1 for group in groups)


@pytest.mark.parametrize("tail", ["pad", "drop"])
def test_an_epoch_has_every_clip_once_but_for_the_repeats_or_the_rest(tail: Any) -> None:
    steps = list_steps(make_order(tail=tail))
    times = Counter(clip for _, clips in steps for clip in clips)
    for bucket, count in enumerate(COUNTS):
        first = sum(COUNTS[:bucket])
        own = [times[clip] for clip in range(first, first + count)]
        more = -count % 12 if tail == "pad" else -(count % 12)
        assert sum(own) == count + more
        if tail == "drop":
            assert max(own) <= 1
        else:
            assert min(own) >= 1
            assert max(own) <= 1 + -(-max(0, more) // count)
    other = list_steps(replace(make_order(tail=tail), epoch=1))
    assert other != steps
    assert Counter(bucket for bucket, _ in other) == Counter(bucket for bucket, _ in steps)


@pytest.mark.parametrize("weights", [None, (Fraction(1), Fraction(5, 2), Fraction(1, 3), Fraction(1), Fraction(2))])
def test_a_stream_gives_each_clip_of_a_bucket_as_often_within_one(weights: Any) -> None:
    times: Counter[int] = Counter()
    steps = [0] * len(COUNTS)
    for epoch in range(7):
        for bucket, clips in list_steps(make_order(tail="stream", epoch=epoch, weights=weights)):
            times.update(clips)
            steps[bucket] += 1
            first = sum(COUNTS[:bucket])
            own = [times[clip] for clip in range(first, first + COUNTS[bucket])]
            assert max(own) - min(own) <= 1
    for bucket, count in enumerate(COUNTS):
        weight = Fraction(1) if weights is None else weights[bucket]
        assert steps[bucket] == 7 * weight * count // 12


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=6),
    sizes=st.lists(st.integers(1, 5), min_size=6, max_size=6),
    runs=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 6)), max_size=5),
    last=st.integers(1, 5),
    tail=st.sampled_from(["pad", "drop"]),
    accumulate=st.integers(1, 3),
)
def test_over_any_history_of_ranks_no_clip_comes_twice_and_none_is_left_out_but_the_rest(
    counts: list[int], sizes: list[int], runs: list[tuple[int, int]], last: int, tail: Any, accumulate: int
) -> None:
    sizes = sizes[: len(counts)]
    order = make_order(counts, sizes, tail=tail, is_global=False, accumulate=accumulate)
    times: Counter[int] = Counter()
    positions: list[int] = []
    for world_size, most in (*runs, (last, 10_000)):
        order = replace(order, world_size=world_size)
        steps = join_ranks(order, world_size)[:most]
        times.update(clip for _, clips in steps for clip in clips)
        bounds = order.step_bounds
        whole = order.whole
        for rank in range(world_size):
            shard = replace(order, rank=rank).deal(None)  # type: ignore[arg-type]
            own = shard.global_position(np.arange(bounds[len(steps)], dtype=np.int64))
            positions += own.tolist()
            np.testing.assert_array_equal(whole.find_clips(own), replace(order, rank=rank).find_clips(own))
        order = order.without(int(bounds[len(steps)]), world_size, None, None)  # type: ignore[arg-type]
    assert sorted(positions) == list(range(len(positions)))
    for bucket, count in enumerate(counts):
        first = sum(counts[:bucket])
        own = [times[clip] for clip in range(first, first + count)]
        if tail == "pad":
            assert min(own) >= 1
            surplus = sum(own) - count
            assert surplus < sizes[bucket] * max(5, last) * accumulate
        else:
            assert max(own) <= 1
            assert count - sum(own) < sizes[bucket] * last * accumulate


@pytest.mark.parametrize("tail", ["pad", "drop", "stream"])
def test_a_run_goes_on_after_any_step_with_any_ranks_and_one_global_batch(tail: Any) -> None:
    order = make_order(tail=tail, epoch=2)
    steps = join_ranks(order, 1)
    for done in range(len(steps) + 1):
        for before, after in ((6, 4), (1, 12), (3, 3)):
            rest = replace(order, world_size=before)
            rest = rest.without(int(rest.step_bounds[done]), before, None, None)  # type: ignore[arg-type]
            assert join_ranks(rest, after) == steps[done:]
            if done + 2 <= len(steps):
                again = replace(rest, world_size=after)
                again = again.without(int(again.step_bounds[2]), after, None, None)  # type: ignore[arg-type]
                assert join_ranks(again, 2) == steps[done + 2 :]
                assert len(again.deliveries) == 1


@pytest.mark.parametrize("is_global", [True, False])
def test_positions_of_the_whole_of_a_rest_are_the_global_ones(is_global: bool) -> None:
    order = make_order(sizes=4, is_global=is_global, world_size=2)
    rest = order.without(int(order.step_bounds[3]), 2, None, None)  # type: ignore[arg-type]
    shard = rest.whole.deal(None)  # type: ignore[arg-type]
    every = np.arange(rest.count, dtype=np.int64)
    assert shard.global_position(every).tolist() == every.tolist()
    assert len(shard) == rest.count == order.count
    assert sum(rest.count_delivered()) + sum(rest.count_steps() * rest.step_sizes) == rest.count
    assert not rest.whole.count_delivered().any()
    assert len(rest.whole.step_buckets) == len(order.step_buckets)


def test_a_stream_with_steps_in_a_row_leaves_out_nothing() -> None:
    times: Counter[int] = Counter()
    for epoch in range(8):
        times.update(
            clip for _, clips in list_steps(make_order(tail="stream", epoch=epoch, accumulate=2)) for clip in clips
        )
        for bucket, count in enumerate(COUNTS):
            own = [times[clip] for clip in range(sum(COUNTS[:bucket]), sum(COUNTS[: bucket + 1]))]
            assert max(own) - min(own) <= 1
            assert sum(own) == (epoch + 1) * count // 24 * 24


def test_passes_and_epochs_have_orders_of_their_own() -> None:
    twice = list_steps(make_order((60,), 60, weights=(Fraction(2),)))
    assert sorted(twice[0][1]) == sorted(twice[1][1])
    assert twice[0][1] != twice[1][1]
    first, second = (make_order(sizes=2, epoch=epoch).step_buckets.tolist() for epoch in (0, 1))
    assert sorted(first) == sorted(second)
    assert first != second
    assert [make_order((count,), 1, weights=(Fraction(1, 2),)).count for count in (1, 4, 5)] == [1, 2, 3]


def test_orders_that_are_too_long_are_errors_before_they_take_memory() -> None:
    for options in (
        {"accumulate": 1 << 26},
        {"weights": (Fraction(1 << 40),) * len(COUNTS)},
        {"tail": "stream", "epoch": 1 << 60},
    ):
        with pytest.raises(UsageError, match="expected at most 134,217,728 steps"):
            make_order(**options)
    for sizes in (1 << 61, 1 << 62):
        with pytest.raises(UsageError, match="too long"):
            make_order(sizes=sizes, is_global=False, world_size=2)
    late = make_order(tail="stream", epoch=1 << 42)
    assert len({clip for _, clips in list_steps(late) for clip in clips}) > 100


def test_substitutes_are_other_clips_of_the_same_bucket() -> None:
    order = make_order()
    buckets = order._steps.find(np.arange(order.count, dtype=np.int64))[0]
    for position in (0, 17, order.count - 1):
        own = np.flatnonzero(buckets == buckets[position]).tolist()
        chosen = [order.choose_substitute(position, number) for number in range(len(own) - 1)]
        assert sorted([*chosen, position]) == own
        assert order.choose_substitute(position, len(chosen)) == chosen[0]
    assert make_order((1,), 1).choose_substitute(0, 3) == 0


def test_wrong_ranks_and_states_are_errors_that_say_what_to_do() -> None:
    with pytest.raises(UsageError, match="global_batch: expected a multiple of world_size=5, got 12"):
        make_order(world_size=5)
    with pytest.raises(UsageError, match="rank: expected 0 to world_size - 1"):
        make_order(rank=2, world_size=2)
    with pytest.raises(UsageError, match="tail"):
        make_order(tail="wrap")
    order = make_order(world_size=2)
    with pytest.raises(UsageError, match="save the states of all ranks after the same batch"):
        order.without([6, 12], 2, None, None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no whole steps"):
        order.without(5, 2, None, None)  # type: ignore[arg-type]
    stream = make_order(tail="stream", is_global=False, sizes=4, world_size=2)
    with pytest.raises(UsageError, match="give global_batch="):
        stream.without(4, 3, None, None)  # type: ignore[arg-type]


def test_the_order_of_buckets_is_drawn_in_their_shares() -> None:
    order = make_order(counts=(3000, 1000, 6000), sizes=10)
    buckets = order.step_buckets
    for first in range(0, 1000, 200):
        shares = np.bincount(buckets[first : first + 200], minlength=3) / 200
        assert np.abs(shares - [0.3, 0.1, 0.6]).max() < 0.15
    assert np.bincount(buckets).tolist() == [300, 100, 600]
