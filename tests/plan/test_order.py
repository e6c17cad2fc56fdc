from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import sqrt

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from framefeed.errors import UsageError
from framefeed.plan._order import Permutation, make_permutation
from framefeed.plan._shard import Shard
from framefeed.request import hash_words
from tests.lengths import either

WORDS = st.integers(0, 2**64 - 1)
Permute = Callable[[int], int]


def check_bijective(permute: Permute, size: int) -> None:
    assert sorted(permute(position) for position in range(size)) == list(range(size))


@given(st.integers(1, 3000), WORDS, st.integers(0, 1000))
@example(1, 0, 0)
@example(2, 0, 0)
@example(2**12 + 1, 3, 1)
def test_every_size_is_permuted_bijectively(size: int, seed: int, epoch: int) -> None:
    check_bijective(make_permutation(size, seed, epoch), size)


def test_small_sizes_are_permuted_bijectively() -> None:
    for size in range(1, 130):
        check_bijective(make_permutation(size, 5, 2), size)


@given(st.integers(1, 2**61), WORDS, st.integers(0, 2**40), st.data())
def test_arrays_are_mapped_as_single_positions_are(size: int, seed: int, epoch: int, data: st.DataObject) -> None:
    permute = make_permutation(size, seed, epoch)
    positions = data.draw(st.lists(st.integers(0, size - 1), max_size=20))
    mapped = permute(np.array(positions, dtype=np.int64))
    assert mapped.tolist() == [permute(position) for position in positions]
    assert all(0 <= value < size for value in mapped.tolist())


def test_a_large_array_is_a_permutation() -> None:
    size = 200_003
    mapped = make_permutation(size, 1, 0)(np.arange(size, dtype=np.int64))
    assert np.array_equal(np.sort(mapped), np.arange(size))
    assert abs(np.corrcoef(mapped, np.arange(size))[0, 1]) < 0.01


def test_the_order_is_the_same_on_every_machine() -> None:
    assert [make_permutation(10, 0, 0)(position) for position in range(10)] == [9, 3, 2, 5, 8, 0, 6, 1, 7, 4]
    assert make_permutation(10**15, 2**64 - 1, 7)(123_456_789) == 458_049_506_038_650


def test_seeds_and_epochs_differ() -> None:
    orders = {
        tuple(make_permutation(50, seed, epoch)(np.arange(50)).tolist()) for seed in range(20) for epoch in range(20)
    }
    assert len(orders) == 400


def chi_square_excess(counts: Counter[tuple[int, ...]], cells: int, draws: int) -> float:
    """Distance from uniform in standard deviations of chi-square."""
    mean = draws / cells
    chi_square = sum((count - mean) ** 2 / mean for count in counts.values()) + (cells - len(counts)) * mean
    return (chi_square - (cells - 1)) / sqrt(2 * (cells - 1))


@pytest.mark.long
@pytest.mark.parametrize(("size", "orders"), [(2, 2), (3, 6), (4, 24), (5, 120), (6, 720)])
def test_all_orders_of_a_few_are_equally_frequent(size: int, orders: int) -> None:
    draws = either(short=max(600, 5 * orders), long=7200)
    counts = Counter(tuple(make_permutation(size, seed, 0)(np.arange(size)).tolist()) for seed in range(draws))
    assert chi_square_excess(counts, orders, draws) < 4


@pytest.mark.long
@pytest.mark.parametrize("size", [7, 10, 33])
def test_any_two_neighbours_go_anywhere(size: int) -> None:
    draws = either(short=max(600, 3 * size * size), long=8000)
    counts = Counter(tuple(make_permutation(size, 11, epoch)(np.array([3, 4])).tolist()) for epoch in range(draws))
    assert chi_square_excess(counts, size * (size - 1), draws) < 4


# --- shards -------------------------------------------------------------------------------------------

Deal = Callable[[Shard], list[int]]


def list_positions(shard: Shard) -> list[int]:
    return [shard.global_position(position) for position in range(len(shard))]


def check_shards(deal: Deal, units: int, world_size: int, tail: str, unit: int) -> None:
    """L14: every rank has the same length; drop: each position at most once; pad: each at least once."""
    shares = [deal(Shard(units * unit, rank, world_size, tail, unit)) for rank in range(world_size)]
    times = Counter(position for share in shares for position in share)
    assert len({len(share) for share in shares}) == 1
    assert set(times) <= set(range(units * unit))
    if tail == "drop":
        assert set(times.values()) <= {1}
        assert units * unit - len(times) < world_size * unit
    else:
        assert len(times) == units * unit
        assert sum(times.values()) - units * unit < world_size * unit


@pytest.mark.parametrize("tail", ["pad", "drop"])
@pytest.mark.parametrize("world_size", range(1, 9))
def test_L14_ranks_have_equal_lengths_and_cover_everything(world_size: int, tail: str) -> None:
    for units in range(1, 51):
        for unit in (1, 3):
            check_shards(list_positions, units, world_size, tail, unit)


@given(st.integers(1, 50), st.integers(1, 8), st.sampled_from(["pad", "drop"]), st.integers(1, 4), st.data())
def test_global_positions_are_those_of_the_formulas(
    units: int, world_size: int, tail: str, unit: int, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(0, world_size - 1))
    shard = Shard(units * unit, rank, world_size, tail, unit)
    formula = [(((i // unit) * world_size + rank) * unit + i % unit) % (units * unit) for i in range(len(shard))]
    assert list_positions(shard) == formula
    assert shard.global_position(np.arange(len(shard))).tolist() == formula


def test_the_tail_begins_again_at_position_0() -> None:
    assert [list_positions(Shard(5, rank, 3)) for rank in range(3)] == [[0, 3], [1, 4], [2, 0]]
    assert [list_positions(Shard(1, rank, 4)) for rank in range(4)] == [[0], [0], [0], [0]]
    assert [list_positions(Shard(3, rank, 2, "drop")) for rank in range(2)] == [[0], [1]]
    assert [list_positions(Shard(6, rank, 2, "pad", 2)) for rank in range(2)] == [[0, 1, 4, 5], [2, 3, 0, 1]]


@pytest.mark.parametrize(("rank", "world_size", "name"), [(1, 1, "rank"), (-1, 2, "rank"), (0, 0, "world_size")])
def test_a_rank_outside_of_the_world_is_refused(rank: int, world_size: int, name: str) -> None:
    with pytest.raises(UsageError, match=f"^{name}: expected "):
        Shard(10, rank, world_size)


# --- the same laws over variants that are known to be wrong -------------------------------------------


def permute_without_walk(size: int) -> Permute:
    right = make_permutation(size, 1, 0)
    wide = Permutation(right.left_size * right.right_size, right.left_size, right.right_size, right.keys)
    return lambda position: wide(position) % size


def permute_by_hash(size: int) -> Permute:
    return lambda position: hash_words(position) % size


@pytest.mark.parametrize("wrong", [permute_without_walk, permute_by_hash])
def test_the_law_of_bijections_catches(wrong: Callable[[int], Permute]) -> None:
    def law() -> None:
        for size in range(1, 50):
            check_bijective(wrong(size), size)

    with pytest.raises(AssertionError):
        law()


def deal_blocks(shard: Shard) -> list[int]:
    share = -(-shard.count // shard.world_size)
    return list(range(shard.rank * share, min(shard.count, (shard.rank + 1) * share)))


def deal_unevenly(shard: Shard) -> list[int]:
    return list(range(shard.rank, shard.count, shard.world_size))


def pad_with_last(shard: Shard) -> list[int]:
    return [min(shard.count - 1, i * shard.world_size) for i in range(len(shard))]


@pytest.mark.parametrize("wrong", [deal_blocks, deal_unevenly, pad_with_last])
@pytest.mark.parametrize("tail", ["pad", "drop"])
def test_the_law_of_shards_catches(wrong: Deal, tail: str) -> None:
    def law() -> None:
        for units in range(1, 20):
            for world_size in range(1, 5):
                check_shards(wrong, units, world_size, tail, 1)

    with pytest.raises(AssertionError):
        law()
