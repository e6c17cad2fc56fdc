"""Mix plans of buckets by weight: each step is of one bucket of one plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from framefeed._arrays import IntArray
from framefeed._cached import cached_property
from framefeed.errors import UsageError
from framefeed.plan._bucket_clips import BucketClips, BucketTable
from framefeed.plan._bucket_order import BucketOrder
from framefeed.plan._buckets import Bucket
from framefeed.plan._clips import Draws, PartForm
from framefeed.plan._mixed_clips import MixedClips, MixedClipsAt
from framefeed.plan._order import Order
from framefeed.plan._plan import EpochPlan
from framefeed.plan._shard import StepTail


@dataclass(frozen=True, eq=False)
class MixedBuckets(MixedClips):
    """The clips of plans of buckets, numbered plan by plan."""

    @property
    def count(self) -> int:
        return int(self._offsets[-1])

    @cached_property
    def _offsets(self) -> IntArray:
        return np.cumsum([0, *(clips.count for clips in self.inner)], dtype=np.int64)

    @property
    def forms(self) -> Mapping[str, PartForm]:
        return {"": replace(self.inner[0].forms[""], unequal=self.unequal)}

    @cached_property
    def buckets(self) -> tuple[Bucket, ...]:
        return () if self.unequal else tuple(bucket for clips in self.inner for bucket in clips.buckets)

    def without_buckets(self) -> MixedBuckets:
        return replace(self, unequal=True)

    def count_buckets(self, order: Order) -> BucketTable:
        """Count clips and steps of each bucket of each part."""
        assert isinstance(order, BucketOrder)
        return BucketTable.of(order, [clips for clips in self.inner if isinstance(clips, BucketClips)])

    def at(self, clips: IntArray, draws: Draws) -> MixedClipsAt:
        parts = self._offsets.searchsorted(clips, side="right") - 1
        numbers, positions, found = clips - self._offsets[parts], np.array(draws.positions, dtype=np.int64), []
        for part in np.unique(parts).tolist():
            slots = np.flatnonzero(parts == part)
            own = Draws(draws.seed, draws.epoch, positions[slots].tolist())
            found.append((slots, part, self.inner[part].at(numbers[slots], own)))
        return MixedClipsAt(self, parts, found, draws)


def make_bucket_order(
    plans: Sequence[EpochPlan], weights: Sequence[Fraction], count: int, seed: int, tail: StepTail, **ranks: Any
) -> BucketOrder:
    """Make the order of steps in which each plan has its share of ``count`` clips, spread over its buckets."""
    orders = [plan.order for plan in plans if isinstance(plan.order, BucketOrder)]
    passes = list[Fraction]()
    for number, (order, weight) in enumerate(zip(orders, weights, strict=True)):
        if (order.is_global, order.accumulate) != (orders[0].is_global, orders[0].accumulate):
            raise UsageError(
                f"parts[0] and parts[{number}] differ in accumulate=, or one has global_batch= and the other not: "
                "plan all parts alike"
            )
        clips = sum(each * passed for each, passed in zip(order.counts, order.weights, strict=True))
        passes += [weight / sum(weights) * count / clips * each for each in order.weights]
    order = BucketOrder(
        0, seed, tail=tail, counts=sum((each.counts for each in orders), ()), weights=tuple(passes),
        sizes=sum((each.sizes for each in orders), ()), is_global=orders[0].is_global,
        accumulate=orders[0].accumulate,
    )  # fmt: skip
    return replace(order, **ranks)
