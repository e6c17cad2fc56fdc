"""What a plan will cost, estimated from a sample of its clips."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from framefeed.errors import FrameNotFound, TimeUnavailable, UsageError
from framefeed.index.catalog import Catalog
from framefeed.index.frame_index import IntArray
from framefeed.plan.request import DecodeRequest
from framefeed.plan.runs import plan_runs

SAMPLED_CLIPS = 200
"""Enough for a share of a few per cent, and done in well under a second."""

SECONDS_PER_DECODED_PIXEL = 1.7e-9
"""H.264 at 720p, one thread: 750 pictures decoded and 192 delivered in 1.25 s (two x86-64 cores)."""
SECONDS_PER_DELIVERED_PIXEL = 0.42e-9
"""One swscale pass from 720p to 224 x 224: 0.38 ms a frame (the same machine)."""
SECONDS_PER_RUN = 1.2e-3
"""A new codec context to its first key frame (the same machine)."""


@dataclass(frozen=True, slots=True)
class PlanDescription:
    """A plan in numbers; ``str()`` says it in words.

    Attributes:
        clips: Positions of this rank.
        frames_per_clip: T; None where the requests differ.
        decoded_frames_per_delivered_frame: 1 would be perfect; long GOPs and short clips cost more.
        predicted_cpu_seconds: Of decoding and converting all of this rank's clips of one epoch, on one core.
        excluded_rows: Rows that failed, and so are not planned.
        sampled_clips: What the estimates stand on.
        unusable_clips: Of the sampled clips those that raise an error (tolerance, policy, no timestamps).
        sampled_frames: Frames of the sampled clips.
        damaged_frames: Of these frames those that the index knows never to come undamaged, see ``on_damaged``.
    """

    clips: int
    frames_per_clip: int | None
    decoded_frames_per_delivered_frame: float
    predicted_cpu_seconds: float
    excluded_rows: int
    sampled_clips: int
    unusable_clips: int
    sampled_frames: int = 0
    damaged_frames: int = 0

    def __str__(self) -> str:
        frames = "frames as requested" if self.frames_per_clip is None else f"{self.frames_per_clip} frames"
        lines = [
            f"clips: {self.clips} of {frames}",
            f"decoded frames per delivered frame: {self.decoded_frames_per_delivered_frame:.2f}",
            f"predicted CPU seconds: {self.predicted_cpu_seconds:.1f} (rough, one core, decoding and resizing)",
            f"excluded rows: {self.excluded_rows}",
        ]
        if self.unusable_clips:
            lines.append(f"clips that will fail: {self.unusable_clips} of {self.sampled_clips} sampled")
        if self.damaged_frames:
            lines.append(f"damaged frames: {self.damaged_frames} of {self.sampled_frames} sampled (see on_damaged)")
        return "\n".join(lines)


class Plan(Protocol):
    """What a description asks of a plan."""

    @property
    def catalog(self) -> Catalog:
        """Where the media and their frames are."""

    @property
    def excluded(self) -> Sequence[object]:
        """Rows that are not planned."""

    @property
    def num_frames_per_clip(self) -> int:
        """T; UsageError where the requests differ."""

    def __len__(self) -> int: ...

    def __getitem__(self, position: int) -> DecodeRequest: ...

    def row_at(self, position: int) -> int:
        """Row of the catalog that a position's clip comes from."""


def described(plan: Plan, unit: int) -> PlanDescription:
    """Estimate what a plan costs.

    Args:
        plan: What to describe.
        unit: Positions that lie together, are of one video and so are decoded together.
    """
    cost = _Cost()
    groups = _sampled_groups(len(plan), unit)
    for positions in groups:
        cost.add(plan, positions)
    try:
        length: int | None = plan.num_frames_per_clip
    except UsageError:
        length = None
    sampled = sum(map(len, groups))
    return PlanDescription(
        clips=len(plan),
        frames_per_clip=length,
        decoded_frames_per_delivered_frame=cost.decoded / max(1, cost.delivered),
        predicted_cpu_seconds=cost.seconds / max(1, cost.clips) * len(plan),
        excluded_rows=len(plan.excluded),
        sampled_clips=sampled,
        unusable_clips=sampled - cost.clips,
        sampled_frames=cost.delivered,
        damaged_frames=cost.damaged,
    )


def _sampled_groups(count: int, unit: int) -> list[range]:
    groups = count // unit
    sampled = min(groups, max(1, SAMPLED_CLIPS // unit))
    firsts = [number * groups // sampled * unit for number in range(sampled)]
    return [range(first, first + min(unit, SAMPLED_CLIPS)) for first in firsts]


@dataclass(slots=True)
class _Cost:
    """Adds up what sampled clips cost."""

    clips: int = 0
    delivered: int = 0
    decoded: int = 0
    damaged: int = 0
    seconds: float = 0.0

    def add(self, plan: Plan, positions: Sequence[int]) -> None:
        """Add clips of one source that are decoded together; a clip that raises an error costs nothing."""
        clips: list[DecodeRequest] = []
        for position in positions:
            with suppress(FrameNotFound, TimeUnavailable):
                clips.append(plan[position])
        if not clips:
            return
        row = plan.row_at(positions[0])
        wanted = np.concatenate([_decoded(clip) for clip in clips])
        runs = plan_runs(plan.catalog.frame_index(row), wanted)
        self.clips += len(clips)
        self.delivered += sum(map(len, clips))
        self.damaged += sum(int(np.count_nonzero(clip.damaged)) for clip in clips if clip.damaged is not None)
        self.decoded += runs.num_decoded
        pixels = max(0, int(plan.catalog.heights[row])) * max(0, int(plan.catalog.widths[row]))
        work = runs.num_decoded * SECONDS_PER_DECODED_PIXEL + len(runs.ordinals) * SECONDS_PER_DELIVERED_PIXEL
        self.seconds += work * pixels + runs.num_runs * SECONDS_PER_RUN


def _decoded(clip: DecodeRequest) -> IntArray:
    return clip.ordinals if clip.skipped is None else clip.ordinals[~clip.skipped]
