"""Deal an epoch, or the rest that earlier runs left of it, to any number of ranks.

Rules:
    - The positions that remain are dealt in ascending order, as a whole epoch is dealt: unit by unit, one to each rank.
    - A position is delivered if a rank delivered it as its own. Positions that a rank got as pads count as nothing.
    - Pads are global positions from 0 on, of the whole epoch.
    - The clip at a global position, and its random draws, never depend on ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal, overload

import numpy as np

from framefeed._arrays import IntArray
from framefeed._checks import check_choice, check_integer, expected
from framefeed.errors import UsageError
from framefeed.plan._balance import CostOrder

Tail = Literal["pad", "drop"]
StepTail = Literal["pad", "drop", "stream"]
"""Of plans of buckets, which are dealt by steps and not by a `Shard`."""

MOST_RANKS = 1 << 20
"""Ranks of a run, and so of a plan: more than any cluster has."""
_MOST_APART = 1 << 27
"""Clips from the first to the last that are looked at one by one: 32 bytes each."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the ranks of one run delivered of an epoch, or of the rest that earlier runs left."""

    world_size: int
    clips: tuple[int, ...]  # that each rank delivered; one number if all delivered as many
    is_balanced: bool = False  # clips were dealt by cost

    def __post_init__(self) -> None:
        check_integer("world_size", self.world_size, least=1, most=MOST_RANKS)
        if len(self.clips) not in (1, self.world_size):
            raise UsageError(
                f"expected one number of delivered clips, or one for each of {self.world_size} ranks, got "
                f"{len(self.clips)}"
            )
        clips = tuple(check_integer("delivered clips", number, least=0) for number in self.clips)
        object.__setattr__(self, "clips", clips[:1] if len(set(clips)) == 1 else clips)

    def dump(self) -> list[Any]:
        """Write it for JSON: ``[world_size, clips, is_balanced]``; unequal clips as ``[[clips, ranks], ...]``."""
        runs = [[clips, len(list(ranks))] for clips, ranks in groupby(self.clips)]
        return [self.world_size, self.clips[0] if len(self.clips) == 1 else runs, int(self.is_balanced)]

    @classmethod
    def load(cls, dumped: Any) -> Delivery:
        """Read what ``dump`` wrote; UsageError if it is something else."""
        try:
            world_size, clips, is_balanced = dumped
            runs = [(clips, 1)] if isinstance(clips, int) else [(number, ranks) for number, ranks in clips]
            if sum(ranks for _, ranks in runs) > max(1, world_size):
                raise ValueError
            unequal = tuple(number for number, ranks in runs for _ in range(ranks))
        except (TypeError, ValueError):
            raise expected("state", "deliveries as [world_size, clips, is_balanced]", dumped) from None
        return cls(world_size, unequal, bool(is_balanced))


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """The global positions of an epoch that remain, ascending: some before ``start``, and all from there on."""

    count: int  # global positions of the epoch
    start: int = 0
    before: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.before) + self.count - self.start

    @property
    def is_tail(self) -> bool:
        """Whether what remains is the end of the epoch, without gaps."""
        return not len(self.before)

    def select_one(self, number: int) -> int:
        """Return the remaining position of a number."""
        before = len(self.before)
        return int(self.before[number]) if number < before else self.start + number - before

    def select(self, numbers: IntArray) -> IntArray:
        """Return the remaining positions of some numbers."""
        before = len(self.before)
        later = self.start + numbers - before
        if not before:
            return later
        return np.where(numbers < before, self.before[np.minimum(numbers, before - 1)], later)

    def without(self, delivery: Delivery, unit: int, order: CostOrder | None = None) -> Rest:
        """Remove what the ranks of a run delivered.

        Units of ``unit`` positions stayed together on a rank, and were dealt in ``order``; None for ascending.
        """
        row = delivery.world_size * unit
        block = row if order is None else order.block * unit
        # A rank that delivered more than all delivered all.
        clips = np.minimum(delivery.clips, len(self) + block)
        # All blocks before `first` are delivered, and none from `last` on.
        first = int(clips.min()) // unit * row // block * block
        last = -(-(-(-int(clips.max()) // unit) * row) // block) * block
        if last - first > _MOST_APART:
            raise UsageError(
                f"state: the ranks are too far apart: one delivered {clips.min()} clips, another {clips.max()}"
            )
        dealt = np.arange(first, max(first, last), dtype=np.int64)
        own = dealt // row * unit + dealt % unit
        remaining = dealt[own >= clips[dealt // unit % delivery.world_size if len(clips) > 1 else 0]]
        if order is not None:
            remaining = np.sort(order(remaining // unit) * unit + remaining % unit)
        remaining = remaining[remaining < len(self)]
        last = min(last, len(self))
        kept = np.concatenate([self.select(remaining), self.before[last:]])
        return Rest(self.count, self.start + max(0, last - len(self.before)), kept)


@dataclass(frozen=True, slots=True)
class Shard:
    """One rank's share of ``count`` global positions, in units of ``unit`` consecutive positions.

    Example: 5 units of 1 over 2 ranks are 0 2 4 and 1 3 0 with tail="pad", 0 2 and 1 3 with tail="drop": every rank
    has the same length; otherwise a collective operation of the training would never return.
    """

    count: int  # a multiple of unit
    rank: int = 0
    world_size: int = 1
    tail: StepTail = (
        "pad"  # if units do not divide evenly: "pad" goes on at global position 0, "drop" leaves out the rest
    )
    unit: int = 1  # positions that stay together on a rank: the clips of a video, or 1
    rest: Rest | None = None  # the positions that are dealt; None for all
    order: CostOrder | None = None  # in which units are dealt; None for ascending

    def __post_init__(self) -> None:
        if self.world_size < 1:
            raise expected("world_size", "an integer of at least 1", self.world_size)
        if not 0 <= self.rank < self.world_size:
            raise UsageError(f"rank: expected 0 to world_size - 1 (world_size={self.world_size}), got {self.rank}")
        check_choice("tail", self.tail, ("pad", "drop"))

    def __len__(self) -> int:
        rows, more = divmod(self._num_dealt, self.unit * self.world_size)
        # Of the last row, as much as its first rank has, or as its last rank has.
        last = max(0, more - self.unit * (self.world_size - 1)) if self.tail == "drop" else min(self.unit, more)
        return rows * self.unit + last

    @property
    def _num_dealt(self) -> int:
        return self.count if self.rest is None else len(self.rest)

    @overload
    def global_position(self, position: int) -> int: ...
    @overload
    def global_position(self, position: IntArray) -> IntArray: ...
    def global_position(self, position: int | IntArray) -> int | IntArray:
        """Map this rank's position, or an array of them, to the global one (docs/reference.md, plan_clips)."""
        unit, dealt = self.unit, self._num_dealt
        number = position // unit * self.world_size + self.rank
        if self.order is not None:
            number = self.order(number)
        number = number * unit + position % unit
        if isinstance(number, np.ndarray):
            pads = (number - dealt) % max(1, self.count)
            return np.where(number < dealt, number if self.rest is None else self.rest.select(number), pads)
        if number >= dealt:
            return (number - dealt) % self.count
        return number if self.rest is None else self.rest.select_one(number)


def load_deliveries(dumped: Any) -> tuple[Delivery, ...]:
    """Read the deliveries of a state; UsageError if they are something else."""
    if not isinstance(dumped, Sequence) or isinstance(dumped, str):
        raise expected("state['deliveries']", "a list", dumped)
    return tuple(map(Delivery.load, dumped))
