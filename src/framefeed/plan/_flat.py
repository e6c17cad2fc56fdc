"""The streams of a plan one after the other, for what decodes each clip of each source alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, SupportsIndex

from framefeed._checks import check_integer
from framefeed.plan._epoch import EpochPlan


@dataclass(frozen=True, eq=False)
class FlatPlan(EpochPlan):
    """A plan of several streams whose position p * S + s is stream s of clip p of ``inner``."""

    inner: EpochPlan | None = None

    @property
    def _clips(self) -> EpochPlan:
        assert self.inner is not None
        return self.inner

    @property
    def streams(self) -> Any:
        """The plan of each stream by its name."""
        return self._clips.streams

    @property
    def frames_per_clip(self) -> int | None:
        """T, if that of all streams is the same."""
        lengths = {part.frames_per_clip for part in self.streams.values()}
        return lengths.pop() if len(lengths) == 1 else None

    def __len__(self) -> int:
        return len(self._clips) * len(self.streams)

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return [self[each] for each in range(*position.indices(len(self)))]
        clip, stream = divmod(check_integer("position", position), len(self.streams))
        requests: Any = self._clips[clip]
        return requests[list(self.streams)[stream]]

    def row_at(self, position: SupportsIndex) -> int:
        """Number of the row of a position, among the rows of all catalogs."""
        clip, stream = divmod(int(position), len(self.streams))
        return self._clips.rows_at(clip)[stream]

    def global_position(self, position: Any) -> Any:
        """Return the position counted over all ranks."""
        clip, stream = divmod(position, len(self.streams))
        return self._clips.global_position(clip) * len(self.streams) + stream

    def with_epoch(self, epoch: int) -> EpochPlan:
        """Return the same plan at another epoch."""
        return flatten_streams(self._clips.with_epoch(epoch))

    @property
    def whole(self) -> EpochPlan:
        """The plan of the whole epoch on one rank."""
        return flatten_streams(self._clips.whole)


def flatten_streams(plan: EpochPlan) -> EpochPlan:
    """Return a plan whose clips have one stream each: of several streams, one after the other."""
    if not plan.streams or isinstance(plan, FlatPlan):
        return plan
    return FlatPlan(plan.catalog, plan.rule, plan.options, plan.tables, plan.deliveries, plan)
