"""Find clips at global positions together, and plan them one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from framefeed._arrays import IntArray
from framefeed.errors import FrameNotFound, TimeUnavailable
from framefeed.plan._clips import Clips, ClipsAt, Draws, Shape
from framefeed.plan._order import Order
from framefeed.plan._planned import PlannedClip


def plan_clip(at: ClipsAt, slot: int, position: int) -> PlannedClip:
    """Plan one of some clips; an error names the source and the global position of the clip."""
    try:
        return at.make(slot)
    except (FrameNotFound, TimeUnavailable) as error:
        name = error.source or at.name_source(slot)
        raise type(error)(
            f"{error if error.source else f'{name}: {error}'} (plan position {position})",
            source=name,
            position=position,
            stage="plan",
        ) from error


@dataclass(slots=True, eq=False, repr=False)
class PlannedClips:
    """The clips at some global positions of a plan, found together; each is planned when it is asked for."""

    positions: IntArray  # global ones, [N]
    numbers: IntArray  # of the clips, [N]
    _at: ClipsAt
    _slots: range

    @classmethod
    def find(cls, order: Order, clips: Clips, positions: IntArray) -> PlannedClips:
        """Find the clips at some global positions of an order, int64 [N]."""
        numbers = order.find_clips(positions)
        at = clips.at(numbers, Draws(order.seed, order.epoch, positions.tolist()))
        return cls(positions, numbers, at, range(len(positions)))

    def __getitem__(self, some: slice) -> PlannedClips:
        """Return some of the clips that follow one another, which were found with the others."""
        return PlannedClips(self.positions[some], self.numbers[some], self._at, self._slots[some])

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def rows(self) -> Sequence[Sequence[int]]:
        """Number of the source of each take among the sources of the plan: a list of N for each take of a clip."""
        start, stop = self._slots.start, self._slots.stop
        return [of_take[start:stop] for of_take in self._at.rows]

    def find_shapes(self) -> list[list[Shape]]:
        """Find the shapes of the clips without planning them: a list of N for each part, in the order of the forms."""
        return self._at.find_shapes(slice(self._slots.start, self._slots.stop))

    def plan(self, slot: int) -> PlannedClip:
        """Plan one of the clips, below N, with the errors of ``plan[position]``."""
        return plan_clip(self._at, self._slots[slot], int(self.positions[slot]))

    def plan_each(self) -> Iterator[tuple[int, PlannedClip]]:
        """Plan the clips, each with its number among these, without those that cannot be planned."""
        for slot in range(len(self)):
            with suppress(FrameNotFound, TimeUnavailable):
                yield slot, self.plan(slot)

    def list_keys(self) -> list[str]:
        """List `PlannedClip.key` of each clip."""
        return [self.plan(slot).key for slot in range(len(self))]

    def read_columns(self) -> dict[str, Any]:
        """Read the columns of the clips as batches have them, [N] or [N, ...] each; those of text are lists of N."""
        return self._at.read_columns(slice(self._slots.start, self._slots.stop))

    def name_rows(self) -> IntArray:
        """Number the row of each clip as batches do: in the user's own catalog or table, int64 [N]."""
        return self._at.name_rows(slice(self._slots.start, self._slots.stop))
