"""The state of a loader: which batch of which epoch comes next, as plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from framefeed._checks import shown
from framefeed.errors import UsageError
from framefeed.load.options import LoaderOptions
from framefeed.plan.epoch import EpochPlan

STATE_VERSION = 1


@dataclass(slots=True)
class Cursor:
    """A place in the sequence of batches.

    Attributes:
        epoch: Number of the epoch.
        delivered: Batches of it that were delivered, or passed over because of an error; the next one's number.
        is_restored: Whether the next iteration begins here rather than at the beginning of the epoch.
    """

    epoch: int
    delivered: int = 0
    is_restored: bool = False


def num_batches(plan: EpochPlan, options: LoaderOptions) -> int:
    """Batches of an epoch."""
    whole, rest = divmod(len(plan), options.batch_size)
    return whole + (1 if rest and not options.drop_last else 0)


def state_at(cursor: Cursor, plan: EpochPlan, options: LoaderOptions) -> dict[str, Any]:
    """Write down a place, with what is needed to find it again with another batch size or number of ranks."""
    return {
        "version": STATE_VERSION,
        "plan": plan.with_epoch(cursor.epoch).state_dict(),
        "batch_size": options.batch_size,
        "delivered": cursor.delivered,
    }


def cursor_of(state: Mapping[str, Any], plan: EpochPlan, options: LoaderOptions) -> Cursor:
    """Find the place of a state that this loader, or one like it, wrote.

    Raises:
        UsageError: It is no such state, it belongs to another plan, or it lies within a batch of this loader.
    """
    if not isinstance(state, Mapping) or state.get("version") != STATE_VERSION:
        raise UsageError(
            f"state: expected what loader.state_dict() returned (version {STATE_VERSION}), got {shown(state)}"
        )
    planned = state.get("plan")
    if not isinstance(planned, Mapping):
        raise UsageError("state: expected what loader.state_dict() returned, got a dict without 'plan'")
    batch_size, delivered = _number(state, "batch_size", 1), _number(state, "delivered", 0)
    restored = plan.with_state(planned)
    world_size = _number(planned, "world_size", 1)
    if (batch_size, world_size) != (options.batch_size, plan.world_size):
        delivered = _converted(delivered, (batch_size, world_size), plan, options)
    return Cursor(restored.epoch, min(delivered, num_batches(plan, options)), is_restored=True)


def _number(state: Mapping[str, Any], name: str, least: int) -> int:
    number = state.get(name)
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise UsageError(f"state[{name!r}]: expected an integer of at least {least}, got {shown(number)}")
    return number


def _converted(delivered: int, shape: tuple[int, int], plan: EpochPlan, options: LoaderOptions) -> int:
    """Count the batches of all ranks in batches of this loader: both cover the same global positions."""
    batch_size, world_size = shape
    clips, step = delivered * batch_size * world_size, options.batch_size * plan.world_size
    if clips >= len(plan) * plan.world_size:
        return num_batches(plan, options)
    unit = plan.options.clips_per_video if plan.options.shuffle == "videos" else 1
    regrouped = world_size != plan.world_size and (clips // world_size % unit or clips // plan.world_size % unit)
    if clips % step or regrouped:
        before = f"{delivered} batch{'' if delivered == 1 else 'es'} of {batch_size}"
        now, same = f"batch_size={options.batch_size}", ""
        if (world_size, plan.world_size) != (1, 1):
            before += f" on {'1 rank' if world_size == 1 else f'each of {world_size} ranks'}"
            now += f" and world_size={plan.world_size}"
            same = f" and world_size={world_size}"
        raise UsageError(
            f"state: {clips} clips were delivered ({before}); with {now} no batch begins there: resume with "
            f"batch_size={batch_size}{same}"
        )
    return clips // step
