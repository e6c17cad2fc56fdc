"""Order the steps of a plan of buckets: at each step all ranks have clips of one bucket.

Rules:
    - A bucket has a stream: its clips in the order of a permutation and, where an epoch has more than one pass over
      them, of further ones. A step takes the next clips of one stream; so what is delivered of a bucket is a prefix.
    - Which bucket a step has is drawn from the steps that all buckets have in the epoch.
    - Global positions count the clips of all steps, those of earlier runs of the epoch first. Random draws of a clip
      depend on its position, never on ranks.
    - If the clips of a step do not depend on the number of ranks, the steps do not. Otherwise, each run with another
      number of ranks deals what is left of each stream anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import floor
from typing import Any, overload

import numpy as np

from framefeed._arrays import IntArray
from framefeed._cached import cached_property
from framefeed._checks import check_choice, check_integer, check_position
from framefeed.errors import UsageError
from framefeed.plan._order import MOST_POSITIONS, Balance, Order, Predict, make_permutation
from framefeed.plan._shard import Delivery
from framefeed.request import BUCKETS, SUBSTITUTES, hash_words

_MOST_STEPS = 1 << 27
"""Steps of an epoch: 32 bytes each."""
_PASS_BITS = 50
"""Of the number of a clip in its bucket's stream, up to the end of an epoch; so of that of a pass over its clips."""


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The steps of an epoch, one after the other: S steps."""

    buckets: IntArray  # bucket of each step, [S]
    firsts: IntArray  # how many clips of the bucket's stream come before, [S]
    starts: IntArray  # global position of the first clip of each step, and behind the last one, [S + 1]

    @classmethod
    def of(cls, *arrays: IntArray) -> Steps:
        """Make steps of arrays that several orders share, and so cannot be written to."""
        for array in arrays:
            array.setflags(write=False)
        return cls(*arrays)

    def __len__(self) -> int:
        return len(self.buckets)

    def find(self, global_positions: IntArray) -> tuple[IntArray, IntArray]:
        """Find the bucket of each position, and its number in the bucket's stream, int64 [N] each."""
        steps = self.starts.searchsorted(global_positions, side="right") - 1
        return self.buckets[steps], self.firsts[steps] + global_positions - self.starts[steps]

    def cut(self, count: int) -> Steps:
        """Return the first steps."""
        return Steps(self.buckets[:count], self.firsts[:count], self.starts[: count + 1])

    def join(self, other: Steps) -> Steps:
        """Return these steps and those of the next run."""
        pairs = [(self.buckets, other.buckets), (self.firsts, other.firsts), (self.starts, other.starts[1:])]
        return Steps(*map(np.concatenate, pairs))


@dataclass(frozen=True)
class BucketOrder(Order):
    """Which clip is at which position of an epoch of steps; clips are numbered bucket by bucket.

    Attributes:
        counts: Clips of each bucket.
        sizes: Clips of a step of each bucket: of all ranks, or of each rank.
        is_global: Whether they are of all ranks.
        accumulate: Steps in a row that have one bucket.
        weights: Passes over the clips of each bucket in an epoch.
        dealt_to: Ranks that share a step, where positions are those of all ranks; None for ``world_size``.
        has_steps: Whether a loader takes a step as a batch.
    """

    counts: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    is_global: bool = True
    accumulate: int = 1
    weights: tuple[Fraction, ...] = ()
    dealt_to: int | None = None
    has_steps: bool = True

    def _check_ranks(self) -> None:
        if not self.rank < self.world_size:
            raise UsageError(f"rank: expected 0 to world_size - 1 (world_size={self.world_size}), got {self.rank}")
        check_choice("tail", self.tail, ("pad", "drop", "stream"))
        object.__setattr__(self, "accumulate", check_integer("accumulate", self.accumulate, 1, _MOST_STEPS))
        for size in self.sizes if self.is_global else ():
            if size % self.world_size:
                raise UsageError(
                    f"global_batch: expected a multiple of world_size={self.world_size}, got {size}: every rank has as "
                    "many clips of a step"
                )
        object.__setattr__(self, "count", int(self._steps.starts[-1]))

    @property
    def identity(self) -> tuple[Any, ...]:
        own = (self.counts, self.sizes, self.is_global, self.accumulate, self.weights)
        return (self.seed, self.tail, *own)

    @property
    def num_clips(self) -> int:
        return sum(self.counts)

    # --- steps ----------------------------------------------------------------------------------------

    @cached_property
    def _lengths(self) -> tuple[int, ...]:
        """Clips of each bucket's stream that an epoch has, but for those that fill, or do not fill, a last step."""
        return tuple(
            floor(weight * count + Fraction(1, 2)) for weight, count in zip(self.weights, self.counts, strict=True)
        )

    def _deal_anew(self, begun: tuple[int, ...], start: int, world_size: int, run: int) -> Steps:
        """Make the steps of a run, with what earlier runs of the epoch delivered of each bucket."""
        sizes = tuple(size if self.is_global else size * world_size for size in self.sizes)
        ends = self._lengths
        if self.tail == "stream":
            ends = tuple(
                floor((self.epoch + 1) * weight * count)
                for weight, count in zip(self.weights, self.counts, strict=True)
            )
            if not run:
                begun = tuple(
                    floor(self.epoch * weight * count) // size // self.accumulate * self.accumulate * size
                    for weight, count, size in zip(self.weights, self.counts, sizes, strict=True)
                )
        return _make_steps(
            sizes,
            begun,
            ends,
            start,
            self.accumulate,
            self.tail == "pad",
            self.epoch,
            hash_words(self.seed, BUCKETS, run),
        )

    @cached_property
    def _dealt(self) -> tuple[Steps, int]:
        """The steps of all runs of the epoch, and how many of them come before the first position of this rank."""
        steps, delivered = self._deal_all()
        return steps, delivered if self.dealt_to is None else 0

    def _deal_all(self) -> tuple[Steps, int]:
        """Make the steps of all runs of the epoch, and count those that earlier runs delivered."""
        done: Steps | None = None
        begun, run = (0,) * len(self.counts), 0
        for run, delivery in enumerate(self.deliveries, start=1):
            steps = self._deal_anew(begun, 0 if done is None else int(done.starts[-1]), delivery.world_size, run - 1)
            clips = int(steps.starts[0]) + delivery.clips[0] * delivery.world_size
            number = int(steps.starts.searchsorted(clips))
            if number > len(steps) or steps.starts[number] != clips:
                raise UsageError(
                    f"state: {delivery.clips[0]} clips of each of {delivery.world_size} ranks are no whole steps of "
                    "this plan: save states between batches"
                )
            if self.is_global:  # the same steps go on
                return steps, number
            if self.tail == "stream" and delivery.world_size != self._num_ranks:
                raise UsageError(
                    f"tail='stream' without global_batch=: an epoch that began with {delivery.world_size} ranks cannot "
                    f"go on with {self._num_ranks}, because later epochs would leave out clips: give global_batch="
                )
            steps = steps.cut(number)
            begun = self._count_begun(begun, steps)
            done = steps if done is None else done.join(steps)
        steps = self._deal_anew(begun, 0 if done is None else int(done.starts[-1]), self._num_ranks, run)
        return (steps, 0) if done is None else (done.join(steps), len(done))

    def _count_begun(self, begun: tuple[int, ...], steps: Steps) -> tuple[int, ...]:
        """Count the clips of each bucket's stream up to the end of some steps."""
        counts = np.array(begun, dtype=np.int64)
        np.maximum.at(counts, steps.buckets, steps.firsts + np.diff(steps.starts))
        return tuple(counts.tolist())

    @property
    def _num_ranks(self) -> int:
        return self.world_size if self.dealt_to is None else self.dealt_to

    @property
    def _steps(self) -> Steps:
        return self._dealt[0]

    @property
    def step_bounds(self) -> IntArray | None:
        return self._bounds if self.has_steps else None

    @cached_property
    def _bounds(self) -> IntArray:
        steps, delivered = self._dealt
        bounds: IntArray = (steps.starts[delivered:] - steps.starts[delivered]) // self.world_size
        return bounds

    @cached_property
    def step_buckets(self) -> IntArray:
        """Bucket of each batch of this rank, int64 [S]."""
        steps, delivered = self._dealt
        return steps.buckets[delivered:]

    @property
    def step_sizes(self) -> tuple[int, ...] | None:
        return self.global_sizes if self.has_steps else None

    @property
    def global_sizes(self) -> tuple[int, ...]:
        """Clips of a step of each bucket on all ranks together."""
        return tuple(size if self.is_global else size * self._num_ranks for size in self.sizes)

    def count_steps(self) -> IntArray:
        """Count the steps of each bucket that earlier runs did not deliver, int64 [K]."""
        return np.bincount(self.step_buckets, minlength=len(self.counts)).astype(np.int64)

    def count_delivered(self) -> IntArray:
        """Count the clips of each bucket that earlier runs delivered, int64 [K]."""
        steps, delivered = self._dealt
        done = steps.cut(delivered)
        counts = np.zeros(len(self.counts), np.int64)
        np.add.at(counts, done.buckets, np.diff(done.starts))
        return counts

    # --- as `Order` has them --------------------------------------------------------------------------

    def deal(self, predict: Predict) -> BucketShard:  # type: ignore[override]
        steps, delivered = self._dealt
        return BucketShard(steps.starts[delivered:], self._bounds, self.rank, self.world_size)

    def find_clips(self, global_positions: IntArray) -> IntArray:
        buckets, numbers = self._steps.find(global_positions)
        clips = np.empty(len(global_positions), np.int64)
        counts = np.array(self.counts, dtype=np.int64)[buckets]
        if self.tail != "stream":
            lengths = np.array(self._lengths, dtype=np.int64)[buckets]
            numbers = np.where(numbers < lengths, numbers, (numbers - lengths) % lengths)
        passes, numbers = np.divmod(numbers, counts)
        keys = buckets << _PASS_BITS | passes
        for key in np.unique(keys).tolist():
            own = keys == key
            bucket, number = key >> _PASS_BITS, key & ((1 << _PASS_BITS) - 1)
            clips[own] = self._offsets[bucket] + self._permute(bucket, number)(numbers[own])
        return clips

    def find_clip(self, global_position: int) -> int:
        return int(self.find_clips(np.array([global_position], dtype=np.int64))[0])

    def _permute(self, bucket: int, number: int) -> Any:
        """Make the permutation of a bucket's clips in one pass of its stream."""
        if self.tail == "stream":  # which goes on in the next epoch
            return make_permutation(self.counts[bucket], hash_words(self.seed, BUCKETS, bucket), number)
        return make_permutation(self.counts[bucket], hash_words(self.seed, BUCKETS, bucket, number), self.epoch)

    @cached_property
    def _offsets(self) -> list[int]:
        """Number of the first clip of each bucket."""
        return [0, *np.cumsum(self.counts).tolist()]

    @property
    def whole(self) -> BucketOrder:
        if self.is_global:
            return replace(self, rank=0, world_size=1, deliveries=())
        return replace(self, rank=0, world_size=1, dealt_to=self._num_ranks)

    def without(
        self, clips: int | Sequence[int], world_size: int | None, balance: Balance | None, predict: Predict
    ) -> BucketOrder:
        each = set(clips if isinstance(clips, list | tuple | np.ndarray) else (clips,))
        if len(each) > 1:
            raise UsageError(
                f"state: expected the ranks at one step, got {sorted(each)} clips of them: save the states of all "
                "ranks after the same batch"
            )
        delivery = Delivery(self.world_size if world_size is None else world_size, tuple(each))
        if self.is_global:
            steps, delivered = self._dealt
            total = int(steps.starts[delivered]) + delivery.clips[0] * delivery.world_size
            return replace(self, deliveries=(Delivery(1, (total,)),))
        return replace(self, deliveries=(*self.deliveries, delivery))

    def choose_substitute(self, position: int, number: int) -> int:
        """Choose the clip for the place of one that fails, of the same bucket; see `Order`."""
        steps = self._steps
        position = check_position("position", position, self.count, "plan")
        step = int(steps.starts.searchsorted(position, side="right")) - 1
        own = np.flatnonzero(steps.buckets == steps.buckets[step])
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.diff(steps.starts)[own])])
        others = int(before[-1]) - 1
        if not others:
            return position
        at = int(before[own.searchsorted(step)]) + position - int(steps.starts[step])
        permute = make_permutation(others, hash_words(self.seed, SUBSTITUTES, position), self.epoch)
        chosen = (at + 1 + permute(check_integer("number", number, least=0) % others)) % (others + 1)
        group = int(before.searchsorted(chosen, side="right")) - 1
        return int(steps.starts[own[group]]) + chosen - int(before[group])


@dataclass(frozen=True, slots=True, eq=False)
class BucketShard:
    """One rank's share of some steps: of each step every ``world_size``-th clip."""

    starts: IntArray  # global position of each step's first clip, and behind the last, [S + 1]
    bounds: IntArray  # the same in positions of the rank
    rank: int
    world_size: int

    def __len__(self) -> int:
        return int(self.bounds[-1])

    @overload
    def global_position(self, position: int) -> int: ...
    @overload
    def global_position(self, position: IntArray) -> IntArray: ...
    def global_position(self, position: int | IntArray) -> int | IntArray:
        """Map this rank's position, or an array of them, to the global one."""
        step = self.bounds.searchsorted(position, side="right") - 1
        found: Any = self.starts[step] + (position - self.bounds[step]) * self.world_size + self.rank
        return found if isinstance(position, np.ndarray) else int(found)


@lru_cache(maxsize=4)  # a table has 24 bytes a step
def _make_steps(
    sizes: tuple[int, ...],
    begun: tuple[int, ...],
    ends: tuple[int, ...],
    start: int,
    accumulate: int,
    is_padded: bool,
    epoch: int,
    key: int,
) -> Steps:
    """Make the steps in which each bucket's stream goes from ``begun`` to ``ends``, in a random order."""
    blocks = [size * accumulate for size in sizes]
    lengths = [max(0, end - first) for end, first in zip(ends, begun, strict=True)]
    numbers = [-(-left // block) if is_padded else left // block for left, block in zip(lengths, blocks, strict=True)]
    # Of a bucket without steps, too.
    positions = start + sum(max(1, number) * block for number, block in zip(numbers, blocks, strict=True))
    most = max((*ends, *begun), default=0)
    if sum(numbers) * accumulate > _MOST_STEPS or most >> _PASS_BITS:
        raise UsageError(
            f"expected at most {_MOST_STEPS:,} steps, and 2**{_PASS_BITS} clips of a bucket in all epochs, got "
            f"{sum(numbers) * accumulate:,} steps up to clip {most:,}: give smaller weights=, repeats=, accumulate= or "
            "epoch=, or more clips of a step"
        )
    if positions > MOST_POSITIONS:
        raise UsageError(f"an epoch of {positions:,} clips is too long: give fewer clips of a step")
    size, first = np.array(sizes, dtype=np.int64), np.array(begun, dtype=np.int64)
    counts = np.array(numbers, dtype=np.int64)
    total = sum(numbers)
    if not total:
        none = np.empty(0, np.int64)
        return Steps.of(none, none, np.array([start], dtype=np.int64))
    drawn = make_permutation(total, key, epoch)(np.arange(total, dtype=np.int64))
    buckets = np.repeat(np.cumsum(counts).searchsorted(drawn, side="right").astype(np.int64), accumulate)
    # How many steps of the same bucket come before.
    by_bucket = np.argsort(buckets, kind="stable")
    before = np.empty(len(buckets), np.int64)
    ends_of = np.cumsum(counts * accumulate)
    before[by_bucket] = np.arange(len(buckets)) - (ends_of - counts * accumulate)[buckets[by_bucket]]
    starts = start + np.concatenate([np.zeros(1, np.int64), np.cumsum(size[buckets])])
    return Steps.of(buckets, first[buckets] + before * size[buckets], starts)
