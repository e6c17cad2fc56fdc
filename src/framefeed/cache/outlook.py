"""Outlook: how many frames a plan wants, and how many pictures must be decoded for them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from framefeed.cache.wanted import Gathering, Group, gathered, grouped
from framefeed.errors import FrameNotFound, TimeUnavailable
from framefeed.plan.epoch import EpochPlan
from framefeed.plan.request import DecodeRequest
from framefeed.plan.runs import plan_runs

PLANNED_CLIPS = 4096
"""Plans up to here are gone through as a whole, which takes about a second; of others a sample is."""
_WINDOW = 512
"""Most neighbouring positions of one source that are looked at together."""
_WINDOWS = 64
_COMPARED = 32
"""Clips that are compared between two epochs."""
_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a plan wants of its sources.

    Attributes:
        clips: Of this rank, all epochs together.
        clip_frames: Frames of them, repeats included.
        frames: Distinct frames, each of which is stored once.
        pictures: That come out of the decoder for them.
        pieces: In which they are stored.
        varies: Whether further epochs want other frames.
        frames_at_most: Frames that all epochs together can want, or None if there is no end of them.
    """

    clips: int
    clip_frames: int
    frames: int
    pictures: int
    pieces: int
    varies: bool
    frames_at_most: int | None


@dataclass(slots=True)
class _Sums:
    clip_frames: int = 0
    frames: int = 0
    pictures: int = 0
    pieces: int = 0

    def add(self, plan: EpochPlan, group: Group) -> None:
        self.clip_frames += group.wanted
        self.frames += group.num_frames
        self.pieces += len(group.pieces)
        if group.pieces:
            ordinals = np.concatenate([piece.ordinals for piece in group.pieces])
            self.pictures += plan_runs(plan.catalog.frame_index(group.row), ordinals).num_decoded


def outlook(plan: EpochPlan, epochs: int, gathering: Gathering) -> Outlook:
    """Look at a plan, or at a sample of it where it is long.

    Args:
        plan: At the first epoch.
        epochs: How many epochs from there on.
        gathering: How its frames would be gathered.
    """
    sums, clips = _Sums(), len(plan) * epochs
    if clips <= PLANNED_CLIPS:
        for group in gathered(plan, epochs, gathering):
            sums.add(plan, group)
        share = 1.0
    else:
        positions = 0
        for row, requests, count in _windows(plan, epochs):
            positions += count
            for group in grouped(row, plan.catalog.frame_index(row), requests, gathering):
                sums.add(plan, group)
        share = clips / max(1, positions)
    return Outlook(
        clips=clips,
        clip_frames=round(sums.clip_frames * share),
        frames=round(sums.frames * share),
        pictures=round(sums.pictures * share),
        pieces=round(sums.pieces * share),
        varies=varies(plan, gathering.by_output),
        frames_at_most=_frames_at_most(plan, gathering),
    )


def varies(plan: EpochPlan, by_output: bool) -> bool:
    """Whether the next epoch wants other frames than this one.

    Args:
        plan: At this epoch.
        by_output: Whether outputs are stored, not whole pictures.
    """
    return _differs(plan, lambda request: (request.ordinals.tolist(), request.output if by_output else None))


def _frames_at_most(plan: EpochPlan, gathering: Gathering) -> int | None:
    if gathering.by_output and _varies_in_form(plan):
        return None
    return int(plan.catalog.num_frames[plan.catalog.usable_rows].sum())


def _unshuffled(plan: EpochPlan, epoch: int) -> EpochPlan:
    """The plan's clips in the order of the catalog, of all ranks: neighbours are of one source."""
    return replace(plan, options=replace(plan.options, shuffle=False, rank=0, world_size=1, epoch=epoch))


def _windows(plan: EpochPlan, epochs: int) -> Iterator[tuple[int, list[DecodeRequest], int]]:
    """Yield (row, clips of all epochs, number of positions) of neighbours, spread over the plan."""
    plans = [_unshuffled(plan, plan.epoch + number) for number in range(epochs)]
    first_plan, planned = plans[0], 0
    for number in scattered(_WINDOWS):
        place = (2 * number + 1) * len(first_plan) // (2 * _WINDOWS)
        row = first_plan.row_at(place)
        first = stop = place
        while first > max(0, place - _WINDOW // 2) and first_plan.row_at(first - 1) == row:
            first -= 1
        while stop < min(len(first_plan), first + _WINDOW) and first_plan.row_at(stop) == row:
            stop += 1
        yield row, _requests(plans, range(first, stop)), (stop - first) * epochs
        planned += (stop - first) * epochs
        if planned >= PLANNED_CLIPS:
            return


def scattered(count: int) -> list[int]:
    """Order the numbers below ``count`` so that each few that follow each other lie far apart."""
    return sorted(range(count), key=lambda number: number * _GOLDEN % 1)


def _requests(plans: Sequence[EpochPlan], positions: range) -> list[DecodeRequest]:
    found = []
    for each in plans:
        for position in positions:
            try:
                found.append(each[position])
            except (FrameNotFound, TimeUnavailable):
                continue
    return found


def _varies_in_form(plan: EpochPlan) -> bool:
    return _differs(plan, lambda request: request.output)


def _differs(plan: EpochPlan, fact: Callable[[DecodeRequest], object]) -> bool:
    """Whether a fact of the same clips differs between this epoch and the next."""
    now, then = (_unshuffled(plan, plan.epoch + number) for number in range(2))
    step = max(1, len(now) // _COMPARED)
    for position in range(0, len(now), step):
        one, other = (_requests([each], range(position, position + 1)) for each in (now, then))
        if [fact(request) for request in one] != [fact(request) for request in other]:
            return True
    return False
