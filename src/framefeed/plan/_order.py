"""Map positions to clips: shuffle, deal to ranks, leave out what was delivered; no list of positions.

The permutation is a Feistel network over pairs (left, right) of numbers below about sqrt(n), applied until the result
is below n (Black and Rogaway: Ciphers with arbitrary finite domains, 2002). There are fewer than n + sqrt(n) pairs, so
that one application is nearly always enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from math import isqrt
from typing import Any, Literal, get_args, overload

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from framefeed._arrays import FloatArray, IntArray
from framefeed._cached import cached_property
from framefeed._checks import MAX_INT64, check_choice, check_integer, check_position, expected
from framefeed.errors import UsageError
from framefeed.plan._balance import CostOrder
from framefeed.plan._shard import MOST_RANKS, Delivery, Rest, Shard, StepTail
from framefeed.request import ORDER, SUBSTITUTES, WORD, check_seed, generator_at, hash_words

Shuffle = bool | Literal["videos"]
Balance = Literal["cost"]
Predict = Callable[[IntArray], FloatArray]
"""Predicts the CPU seconds of clips by their numbers, float64 [N]."""

MOST_POSITIONS = (1 << 62) - 1
_ROUNDS = 16
"""With 16, all orders of 2 to 6 positions are equally frequent; for large sets 8 would be enough."""
_FEW = 12
"""Up to so many positions, Python shuffles faster than NumPy."""
_FIRST = 0xFF51AFD7ED558CCD
_SECOND = 0xC4CEB9FE1A85EC53
"""Multipliers of MurmurHash3's 64-bit finalizer (Appleby)."""


@dataclass(frozen=True, slots=True)
class Permutation:
    """A keyed bijection of the integers below ``size`` onto themselves."""

    size: int
    left_size: int  # values of the left half, about sqrt(size)
    right_size: int  # values of the right half: left_size * right_size >= size
    keys: tuple[int, ...]  # one 64-bit number for each round

    @overload
    def __call__(self, position: int) -> int: ...
    @overload
    def __call__(self, position: IntArray) -> IntArray: ...
    def __call__(self, position: int | IntArray) -> int | IntArray:
        """Map one position, or an array of them, each in [0, size)."""
        return self._map_many(position) if isinstance(position, np.ndarray) else self._map_one(int(position))

    def _map_one(self, position: int) -> int:
        while True:
            position = self._encrypt(position)
            if position < self.size:
                return position

    def _encrypt(self, position: int) -> int:
        left_size, right_size = self.left_size, self.right_size
        left, right = divmod(position, right_size)
        keys = iter(self.keys)
        for key in keys:
            word = (right ^ key) * _FIRST & WORD
            word = (word ^ word >> 32) * _SECOND & WORD
            left = (left + ((word >> 32) * left_size >> 32)) % left_size
            word = (left ^ next(keys)) * _FIRST & WORD
            word = (word ^ word >> 32) * _SECOND & WORD
            right = (right + ((word >> 32) * right_size >> 32)) % right_size
        return left * right_size + right

    def _map_many(self, positions: IntArray) -> IntArray:
        # The same as `_map_one`, for arrays.
        values = self._encrypt_many(positions.astype(np.uint64))
        while len(outside := np.flatnonzero(values >= self.size)):
            values[outside] = self._encrypt_many(values[outside])
        return values.astype(np.int64)

    def _encrypt_many(self, positions: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        left_size, right_size = np.uint64(self.left_size), np.uint64(self.right_size)
        left, right = positions // right_size, positions % right_size
        for odd, even in zip(self.keys[::2], self.keys[1::2], strict=True):
            left = (left + _scatter(right, odd, left_size)) % left_size
            right = (right + _scatter(left, even, right_size)) % right_size
        values: npt.NDArray[np.uint64] = left * right_size + right
        return values


def _scatter(values: npt.NDArray[np.uint64], key: int, below: np.uint64) -> npt.NDArray[np.uint64]:
    half = np.uint64(32)
    words = (values ^ np.uint64(key)) * np.uint64(_FIRST)
    words = (words ^ words >> half) * np.uint64(_SECOND)
    scaled: npt.NDArray[np.uint64] = (words >> half) * below >> half
    return scaled


@lru_cache(maxsize=512)
def make_permutation(size: int, seed: int, epoch: int) -> Permutation:
    """Make the permutation of [0, size) that belongs to (seed, epoch); size up to `MOST_POSITIONS`."""
    if not 1 <= size <= MOST_POSITIONS:
        raise UsageError(f"a permutation needs from 1 to 2**62 - 1 positions, not {size}")
    right_size = isqrt(size - 1) + 1
    keys = tuple(hash_words(seed, epoch, ORDER, number) for number in range(_ROUNDS))
    return Permutation(size, -(-size // right_size), right_size, keys)


@dataclass(frozen=True)
class Order:
    """Which clip is at which position of an epoch: integers alone, a pure function of the attributes.

    Clips have numbers from 0 to ``count`` - 1. A global position is one of the whole epoch; the shuffle says which clip
    it has. The ranks are dealt the global positions that earlier runs did not deliver.

    Attributes:
        count: Clips of an epoch, a multiple of ``unit``.
        seed: Decides the shuffle.
        shuffle: True, False, or "videos", which shuffles units.
        epoch: Number of the epoch, from 0.
        rank: Number of this rank, from 0.
        world_size: Number of ranks.
        tail: As in ``plan_clips``.
        balance: "cost" or None, as in ``plan_clips``.
        unit: Consecutive positions that stay together on a rank: the clips of a video, or 1.
        deliveries: What earlier runs delivered of this epoch.
    """

    count: int
    seed: int
    shuffle: Shuffle = True
    epoch: int = 0
    rank: int = 0
    world_size: int = 1
    tail: StepTail = "pad"
    balance: Balance | None = None
    unit: int = 1
    deliveries: tuple[Delivery, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", check_seed(self.seed))
        if self.shuffle not in (True, False, "videos"):
            raise expected("shuffle", "True, False or 'videos'", self.shuffle)
        object.__setattr__(self, "shuffle", "videos" if self.shuffle == "videos" else bool(self.shuffle))
        for name, most in (("epoch", MAX_INT64), ("rank", MOST_RANKS), ("world_size", MOST_RANKS)):
            object.__setattr__(self, name, check_integer(name, getattr(self, name), 0, most))
        check_choice("balance", self.balance, (None, *get_args(Balance)))
        self._check_ranks()

    def _check_ranks(self) -> None:
        Shard(0, self.rank, self.world_size, self.tail)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), tuple(getattr(self, each.name) for each in fields(self)))

    @property
    def identity(self) -> tuple[Any, ...]:
        """What determines the clip at a global position, except the epoch, the ranks, and what they delivered."""
        return (self.count, self.seed, self.shuffle, self.unit)

    @property
    def num_clips(self) -> int:
        """Number of clips that have a number."""
        return self.count

    @property
    def step_bounds(self) -> IntArray | None:
        """Positions of this rank at which batches begin, and behind the last one; None if a loader chooses them."""
        return None

    @property
    def step_sizes(self) -> tuple[int, ...] | None:
        """Clips of a step of each bucket, on all ranks together; None if a loader chooses the batches."""
        return None

    def deal(self, predict: Predict) -> Shard:
        """Deal the positions to the ranks; ``predict`` gives the cost of clips, where they are dealt by cost."""
        rest = self.find_rest(predict)
        order = self._order_by_cost(rest, self.world_size, predict) if self.balance and self.world_size > 1 else None
        dealt = rest if self.deliveries else None
        return Shard(self.count, self.rank, self.world_size, self.tail, self.unit, dealt, order)

    def find_rest(self, predict: Predict) -> Rest:
        """Find the global positions that earlier runs did not deliver."""
        rest = Rest(self.count)
        for delivery in self.deliveries:
            rest = self._remove(rest, delivery, predict)
        return rest

    def _remove(self, rest: Rest, delivery: Delivery, predict: Predict) -> Rest:
        order = self._order_by_cost(rest, delivery.world_size, predict) if delivery.is_balanced else None
        return rest.without(delivery, self.unit, order)

    def _order_by_cost(self, rest: Rest, world_size: int, predict: Predict) -> CostOrder:
        """Make the order in which the units of a rest are dealt by cost."""
        unit = self.unit

        def predict_units(units: IntArray) -> FloatArray:
            return predict(self.find_clips(rest.select(units * unit)))

        return CostOrder(predict_units, len(rest) // unit, world_size)

    def find_clips(self, global_positions: IntArray) -> IntArray:
        """Find the numbers of the clips at some global positions, int64 [N]."""
        permutation = self._permutation
        if permutation is None:
            return global_positions
        if len(global_positions) <= _FEW:
            return np.array([self.find_clip(position) for position in global_positions.tolist()], dtype=np.int64)
        if self.unit == 1:
            return permutation(global_positions)
        number, offset = np.divmod(global_positions, self.unit)
        return permutation(number) * self.unit + offset

    def find_clip(self, global_position: int) -> int:
        """Find the number of the clip at one global position."""
        permutation = self._permutation
        if permutation is None:
            return global_position
        if self.unit == 1:
            return permutation(global_position)
        number, offset = divmod(global_position, self.unit)
        return permutation(number) * self.unit + offset

    @cached_property
    def _permutation(self) -> Permutation | None:
        if self.shuffle is False or not self.count:
            return None
        return make_permutation(self.count // self.unit, self.seed, self.epoch)

    def with_epoch(self, epoch: int) -> Order:
        """Return the order of another epoch, of which nothing is delivered."""
        return replace(self, epoch=epoch, deliveries=())

    @property
    def whole(self) -> Order:
        """The order of the whole epoch on one rank, whose positions are the global ones."""
        return replace(self, rank=0, world_size=1, balance=None, deliveries=())

    def without(
        self, clips: int | Sequence[int], world_size: int | None, balance: Balance | None, predict: Predict
    ) -> Order:
        """Return the order of what the ranks of a run, or of this order, have not delivered yet."""
        each = tuple(clips) if isinstance(clips, list | tuple | np.ndarray) else (clips,)
        check_choice("balance", balance, (None, *get_args(Balance)))
        if world_size is None:
            world_size, balance = self.world_size, self.balance
        delivery = Delivery(world_size, each, balance is not None and world_size > 1)
        rest = self._remove(self.find_rest(predict), delivery, predict)
        # One rank that delivered the beginning leaves the same rest; so a state stays small after many resumes.
        deliveries = (Delivery(1, (rest.start,)),) if rest.is_tail else (*self.deliveries, delivery)
        return replace(self, deliveries=deliveries)

    def generator_at(self, global_position: int) -> Generator:
        """Make the random generator that a transform gets at a global position; it differs in every epoch."""
        return generator_at(self.seed, self.epoch, global_position)

    def choose_substitute(self, position: int, number: int) -> int:
        """Choose the clip for the place of one that fails, a function of seed, epoch, position and number alone.

        Args:
            position: Global position of the clip that fails.
            number: Number of the try, from 0.

        Returns:
            A global position; those of ``count`` - 1 numbers are all others of the epoch.
        """
        others = self.count - 1
        position = check_position("position", position, others + 1, "plan")
        number = check_integer("number", number, least=0)
        if not others:
            return position
        permute = make_permutation(others, hash_words(self.seed, SUBSTITUTES, position), self.epoch)
        return (position + 1 + permute(number % others)) % (others + 1)
