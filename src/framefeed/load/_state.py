"""Save and restore the position of a loader: JSON that any number of workers, ranks and any batch size can load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from framefeed._arrays import IntArray
from framefeed._checks import check_integer, describe_value
from framefeed.errors import UsageError
from framefeed.load._options import LoaderOptions
from framefeed.plan import Balance, EpochPlan, Tail

STATE_VERSION = 2


@dataclass(frozen=True, slots=True)
class BatchRanges:
    """The batches of an iteration, as positions of this rank from ``first`` up to ``last``; a sequence of ranges."""

    first: int
    last: int
    size: int
    drop_last: bool

    def __len__(self) -> int:
        whole, more = divmod(self.last - self.first, self.size)
        return whole + (1 if more and not self.drop_last else 0)

    def __getitem__(self, number: int) -> range:
        number = range(len(self))[number]
        first = self.first + number * self.size
        return range(first, min(first + self.size, self.last))


@dataclass(frozen=True, slots=True, eq=False)
class StepRanges:
    """The same of a plan that says where batches begin: those from number ``first`` on."""

    bounds: IntArray  # positions at which batches begin, and behind the last one, [S + 1]
    first: int

    def __len__(self) -> int:
        return max(0, len(self.bounds) - 1 - self.first)

    def __getitem__(self, number: int) -> range:
        number = self.first + range(len(self))[number]
        return range(int(self.bounds[number]), int(self.bounds[number + 1]))


@dataclass(slots=True)
class BatchCursor:
    """The next batch of a loader."""

    plan: EpochPlan  # at the epoch, or of the rest that runs with other ranks left of it
    clips: int = 0  # clips of the plan before the next batch: delivered, or replaced by an error
    delivered: int = 0  # batches of the epoch before the next one, those of earlier runs included
    is_restored: bool = False  # whether the next iteration begins here, not at the beginning of the epoch
    end: int | None = None  # clips of the plan at which the iteration ends; None for all

    def list_batches(self, options: LoaderOptions) -> BatchRanges | StepRanges:
        """List the batches from here to the end of the epoch, or of the iteration."""
        bounds = self.plan.order.step_bounds
        if bounds is not None:
            return StepRanges(bounds, int(bounds.searchsorted(self.clips)))
        return BatchRanges(
            self.clips, len(self.plan) if self.end is None else self.end, options.batch_size, options.drop_last
        )

    def restart(self, plan: EpochPlan) -> BatchCursor:
        """Return a cursor for an iteration: from here if it was restored, else from the beginning of the epoch."""
        if self.is_restored:
            return BatchCursor(self.plan, self.clips, self.delivered, end=self.end)
        return BatchCursor(plan.with_epoch(self.plan.epoch))


def dump_cursor(cursor: BatchCursor, options: LoaderOptions) -> dict[str, Any]:
    """Make the state of a loader, for JSON."""
    is_finished = not len(cursor.list_batches(options))
    return {
        "version": STATE_VERSION,
        "plan": cursor.plan.state_dict(),
        "batch_size": options.batch_size,
        "delivered": cursor.delivered,
        # What ``drop_last`` left out counts as delivered, once the epoch is finished.
        "clips": len(cursor.plan) if is_finished else cursor.clips,
        "finished": is_finished,
    }


@dataclass(frozen=True, slots=True)
class _RankState:
    """The state of one rank.

    ``plan`` is the one that its ranks shared, dealt to the ranks of this loader. ``clips`` and ``delivered`` batches
    were delivered; ``is_finished`` says that its last batch of the epoch was.
    """

    plan: EpochPlan
    rank: int
    world_size: int
    clips: int
    delivered: int
    is_finished: bool
    balance: Balance | None
    tail: Tail

    @property
    def dealing(self) -> tuple[int, Balance | None]:
        """What decides which rank gets which clip of a plan."""
        return self.world_size, None if self.world_size == 1 else self.balance

    def is_just_after(self, other: _RankState) -> bool:
        """Whether the rank stands at the beginning of the epoch after that of another rank."""
        return self.plan.epoch == other.plan.epoch + 1 and not self.delivered and not self.plan.order.deliveries

    def finish(self, rank: int) -> _RankState:
        """Return the state of a rank that delivered all of its share of the same epoch, as that rank was dealt it."""
        order = replace(self.plan.order, rank=0, world_size=self.world_size, tail=self.tail)
        share = len(EpochPlan(order, self.plan.clips))
        return replace(self, rank=rank, clips=share, is_finished=True)


def load_cursor(
    state: Mapping[str, Any] | Sequence[Mapping[str, Any]], plan: EpochPlan, options: LoaderOptions
) -> BatchCursor:
    """Read the state of a loader, or of the loaders of all ranks."""
    ranks = [_load_rank(each, plan) for each in (state if isinstance(state, list | tuple) else [state])]
    if isinstance(state, list | tuple):
        ranks = _sort_ranks(ranks)
    first = ranks[0]
    delivered = max(rank.delivered for rank in ranks)
    if all(rank.is_finished for rank in ranks):
        return BatchCursor(first.plan, len(first.plan), delivered, is_restored=True)
    clips = [rank.clips for rank in ranks]
    here = plan.order.world_size, None if plan.order.world_size == 1 else plan.order.balance
    if len(set(clips)) == 1 and first.dealing == here:
        return BatchCursor(first.plan, min(clips[0], len(first.plan)), delivered, is_restored=True)
    rest = first.plan.without(clips[0] if len(clips) == 1 else clips, *first.dealing)
    return BatchCursor(rest, 0, delivered, is_restored=True)


def _load_rank(state: Any, plan: EpochPlan) -> _RankState:
    if not isinstance(state, Mapping) or state.get("version") != STATE_VERSION:
        raise UsageError(
            f"state: expected what loader.state_dict() returned (version {STATE_VERSION}), or a list of what it "
            f"returned on every rank, got {describe_value(state)}"
        )
    planned = state.get("plan")
    if not isinstance(planned, Mapping):
        raise UsageError("state: expected what loader.state_dict() returned, got a dict without 'plan'")
    check_integer("state['batch_size']", state.get("batch_size"), least=1)
    return _RankState(
        plan=plan.with_state(planned),
        rank=check_integer("state['rank']", planned.get("rank"), least=0),
        world_size=check_integer("state['world_size']", planned.get("world_size"), least=1),
        clips=check_integer("state['clips']", state.get("clips"), least=0),
        delivered=check_integer("state['delivered']", state.get("delivered"), least=0),
        is_finished=bool(state.get("finished")),
        balance=planned.get("balance"),
        tail=planned.get("tail", plan.order.tail),
    )


def _sort_ranks(ranks: Sequence[_RankState]) -> list[_RankState]:
    """Check that there is one state of each rank of one run, and sort them by rank."""
    if not ranks:
        raise UsageError("state: expected the state of every rank, got an empty list")
    earliest = min(ranks, key=lambda rank: rank.plan.epoch)
    ranks = [earliest.finish(rank.rank) if rank.is_just_after(earliest) else rank for rank in ranks]
    numbers = sorted(rank.rank for rank in ranks)
    if len(numbers) != earliest.world_size or numbers != list(range(len(numbers))):
        raise UsageError(
            f"state: expected one state of each of {earliest.world_size} ranks, got those of the ranks {numbers}"
        )
    if len({(rank.dealing, rank.plan.epoch, rank.plan.order.deliveries) for rank in ranks}) > 1:
        raise UsageError(
            "state: expected the states of all ranks of one run in one epoch, got epochs "
            f"{sorted({rank.plan.epoch for rank in ranks})}: save the states of all ranks after the same step"
        )
    return sorted(ranks, key=lambda rank: rank.rank)
