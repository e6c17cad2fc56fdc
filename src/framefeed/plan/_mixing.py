"""Say which part of a mixture has each position, so that at every position each part has had its share.

The positions of a part are those of a task of its weight in a proportionate fair schedule (Baruah, Cohen, Plaxton,
Varvel: Proportionate progress, 1996): its j-th clip, from 0, lies between j / w and (j + 1) / w, rounded outwards, so
that after n positions it has had n * w clips within one. On one machine the earliest deadline among those that may be
taken gives such a schedule (Liu and Layland, 1973). With weights p / D it repeats after D positions.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import lcm
from numbers import Integral
from typing import Any

import numpy as np

from framefeed._arrays import BoolArray, IntArray
from framefeed.request import MIXING, hash_numbers, hash_words

_MOST_STEPS = 1 << 20
"""Positions of a period; two arrays of int64 hold each."""
_MOST_SHARES = 1 << 42
"""Length of a longer period, of which only the beginning is listed: its product with a position is an int64."""


def make_exact(weight: Any) -> Fraction:
    """Make a finite weight exact; a decimal fraction means what is written: 0.7 is 7/10."""
    is_whole = isinstance(weight, Integral)
    return Fraction(weight if isinstance(weight, Fraction) else int(weight) if is_whole else str(float(weight)))


@dataclass(frozen=True, slots=True, eq=False)
class MixSequence:
    """The parts of the positions of an epoch, in memory that does not grow with them."""

    parts: IntArray  # part of each position of a period, [P]
    numbers: IntArray  # how many clips the part has had in the period before, [P]
    shares: IntArray  # clips of each part in a period, [K]
    may_swap: BoolArray  # whether the two positions 2 m and 2 m + 1 may change their places, [P // 2]
    num_clips: int  # positions of an epoch
    key: int  # decides which of these are swapped
    totals: IntArray  # clips of each part in an epoch, [K]

    @classmethod
    def of(cls, weights: Sequence[Fraction], num_clips: int, seed: int, epoch: int) -> MixSequence:
        """Make the sequence of an epoch, for weights above 0; its period is that of all epochs."""
        return replace(_make_sequence(tuple(weights), num_clips, seed), key=hash_words(seed, epoch, MIXING))

    def locate(self, positions: IntArray) -> tuple[IntArray, IntArray]:
        """Find the part of each position, and which of its clips of this epoch it is, int64 [N] each."""
        rounds, offsets = np.divmod(positions, len(self.parts))
        others = offsets ^ 1
        is_pair = (others < len(self.parts)) & ((positions ^ 1) < self.num_clips)
        pairs = np.minimum(offsets >> 1, len(self.may_swap) - 1)
        is_swapped = is_pair & (self.may_swap[pairs] if len(self.may_swap) else False)
        is_swapped &= (hash_numbers(self.key, positions >> 1) >> np.uint64(63)).astype(np.bool_)
        taken = np.where(is_swapped, others, offsets)
        parts = self.parts[taken]
        return parts, rounds * self.shares[parts] + self.numbers[taken]


@lru_cache(maxsize=4)
def _make_sequence(weights: tuple[Fraction, ...], num_clips: int, seed: int) -> MixSequence:
    """Compute the period of a sequence, without the key of an epoch."""
    shares, period = _find_shares(weights, num_clips)
    order = sorted(range(len(shares)), key=lambda part: hash_words(seed, MIXING, part))
    steps = min(period * (1 + period % 2), num_clips)
    parts = np.array(_schedule(shares, period, steps, order), dtype=np.int64)
    numbers = np.empty(steps, np.int64)
    for part in range(len(shares)):
        own = parts == part
        numbers[own] = np.arange(np.count_nonzero(own))
    counts = np.bincount(parts, minlength=len(shares))
    rounds, rest = divmod(num_clips, steps)
    totals = rounds * counts + np.bincount(parts[:rest], minlength=len(shares))
    may_swap = _find_swaps(parts, numbers, shares, period)
    return MixSequence(parts, numbers, counts, may_swap, num_clips, key=0, totals=totals)


def _find_shares(weights: Sequence[Fraction], num_clips: int) -> tuple[list[int], int]:
    """Find the clips of each part in a period, and its length; of odd weights rounded, as finely as may be."""
    whole = sum(weights)
    ratios = [weight / whole for weight in weights]
    period = lcm(*(ratio.denominator for ratio in ratios))
    most = _MOST_STEPS if num_clips > _MOST_STEPS else _MOST_SHARES
    if period > most:
        # The largest remainders are rounded up, so that the shares fill the period, and each part has one at least.
        exact = [ratio * (most - len(ratios)) for ratio in ratios]
        shares = [1 + int(each) for each in exact]
        by_rest = sorted(range(len(exact)), key=lambda part: int(exact[part]) - exact[part])
        for part in by_rest[: most - sum(shares)]:
            shares[part] += 1
        return shares, most
    return [int(ratio * period) for ratio in ratios], period


def _schedule(shares: Sequence[int], period: int, steps: int, order: Sequence[int]) -> list[int]:
    """Choose the part of each of some positions: of the clips that may be taken, the one with the earliest deadline."""
    rank = {part: number for number, part in enumerate(order)}
    waiting = [(0, part) for part in range(len(shares))]
    ready: list[tuple[int, int, int]] = []
    taken, parts = [0] * len(shares), list[int]()
    for position in range(steps):
        while waiting and waiting[0][0] <= position:
            part = heapq.heappop(waiting)[1]
            heapq.heappush(ready, (-(-(taken[part] + 1) * period // shares[part]), rank[part], part))
        part = heapq.heappop(ready)[2]
        parts.append(part)
        taken[part] += 1
        heapq.heappush(waiting, (taken[part] * period // shares[part], part))
    return parts


def _find_swaps(parts: IntArray, numbers: IntArray, shares: Sequence[int], period: int) -> BoolArray:
    """Find the pairs of positions that may change their places: each part still has its share within one."""
    count = len(parts) // 2
    first, second = parts[: 2 * count : 2], parts[1 : 2 * count : 2]
    had_first, had_second = numbers[: 2 * count : 2], numbers[1 : 2 * count : 2]
    share = np.array(shares, dtype=np.int64)
    after = 2 * np.arange(count, dtype=np.int64) + 1  # positions, with the second part's clip among them
    has_enough = after * share[first] - had_first * period <= period
    has_not_too_many = (had_second + 1) * period - after * share[second] <= period
    may_swap: BoolArray = (first != second) & has_enough & has_not_too_many
    return may_swap
