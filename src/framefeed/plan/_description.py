"""Describe a plan: estimate its cost from a sample of its clips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from framefeed._arrays import BoolArray, FloatArray, IntArray
from framefeed._units import format_seconds
from framefeed.index import DecodeRuns, FrameIndex, plan_runs, predict_seconds
from framefeed.plan._clips import CatalogClips, Clips
from framefeed.plan._found import PlannedClips
from framefeed.plan._order import Order
from framefeed.plan._planned import PlannedClip, iterate_takes
from framefeed.plan._shard import Shard

_LEAST_STEPS = 4
_SAMPLED_POSITIONS = 4096
"""Positions of each rank whose cost is estimated."""
SAMPLED_CLIPS = 200
"""Gives shares to a few per cent in well under a second."""


@dataclass(frozen=True, slots=True)
class PlanDescription:
    """Estimated cost of an epoch; ``str()`` gives it as text.

    Attributes:
        clips: Number of positions of this rank.
        frames_per_clip: T; None if clips or streams differ in it.
        decoded_frames_per_delivered_frame: 1 is best; long GOPs and short clips cost more.
        predicted_cpu_seconds: CPU seconds of one core to decode and resize all clips of this rank in one epoch. Most
            files take half to twice that; other machines are faster or slower.
        excluded_rows: Number of rows that are not planned.
        sampled_clips: Number of clips on which the estimate is based.
        unusable_clips: How many of the sampled clips raise an error (tolerance, policy, no timestamps).
        sampled_frames: Number of frames of the sampled clips.
        damaged_frames: How many of these frames the index knows as damaged, see ``on_damaged``.
        past_end_frames: How many of these frames replace frames past the end, see ``policy``.
        repeated_frames: How many of these frames are the one before in the clip again.
        waits: How unequal the ranks are; None for one rank.
        short_videos: Number of planned videos that are shorter than the rule's clips.
        buckets: Clips and steps of each bucket, and the rows that have none; None for plans without buckets.
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
    past_end_frames: int = 0
    repeated_frames: int = 0
    waits: Waits | None = None
    short_videos: int = 0
    buckets: Any = None

    def __str__(self) -> str:
        frames = f"frames of each: {self.frames_per_clip}"
        if self.frames_per_clip is None:
            mean = self.sampled_frames / max(1, self.sampled_clips - self.unusable_clips)
            frames = f"frames of each: {mean:.1f} on average"
        lines = [
            f"clips: {self.clips}; {frames}",
            f"decoded frames per delivered frame: {self.decoded_frames_per_delivered_frame:.2f}",
            f"predicted CPU time: {format_seconds(self.predicted_cpu_seconds)} (one core; half to twice that for most "
            "files)",
            f"excluded rows: {self.excluded_rows}",
        ]
        if self.short_videos:
            lines.append(f"videos shorter than a clip: {self.short_videos} (frames repeat there, by the rule's policy)")
        if self.unusable_clips:
            lines.append(f"clips that will fail: {self.unusable_clips} of {self.sampled_clips} sampled")
        if self.damaged_frames:
            lines.append(f"damaged frames: {self.damaged_frames} of {self.sampled_frames} sampled (see on_damaged)")
        if self.past_end_frames:
            lines.append(
                f"frames past the end of the video: {self.past_end_frames} of {self.sampled_frames} sampled (valid is "
                "False there, by the rule's policy)"
            )
        if self.repeated_frames:
            lines.append(f"frames that repeat the one before: {self.repeated_frames} of {self.sampled_frames} sampled")
        lines += [str(each) for each in (self.waits, self.buckets) if each is not None]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Waits:
    """Predicted cost of the most expensive rank, divided by the mean of all ranks; 1 is best."""

    epoch: float  # for whole epochs
    # For single steps, in which each rank decodes one clip, or one video with ``shuffle="videos"``, and waits for the
    # others; as clips are dealt without balance, and with ``balance="cost"``.
    step: float
    balanced_step: float

    def __str__(self) -> str:
        return (
            f"slowest rank: {self.step:.2f} times the mean in a step ({self.balanced_step:.2f} with balance='cost'), "
            f"{self.epoch:.2f} times in the epoch"
        )


def describe_clips(
    order: Order, clips: Clips, shard: Shard, frames_per_clip: int | None, waits: Waits | None, short_videos: int
) -> PlanDescription:
    """Estimate the cost of a rank's clips; those of a unit are of one video, and decoded together."""
    # Whole units at equal distances, so that clips that are decoded together are sampled together.
    unit = order.unit
    num_units = len(shard) // unit
    num_sampled = min(num_units, max(1, SAMPLED_CLIPS // unit))
    firsts = [number * num_units // num_sampled * unit for number in range(num_sampled)]
    groups = [range(first, first + min(unit, SAMPLED_CLIPS)) for first in firsts]
    num_clips = delivered = decoded = damaged = past_end = repeated = 0
    seconds = 0.0
    for positions in groups:
        global_positions = shard.global_position(np.array(positions, dtype=np.int64))
        planned, runs = _plan_together(order, clips, global_positions)
        num_clips += len(planned)
        decoded += sum(each.num_decoded for _, each in runs)
        seconds += sum(predict_seconds(index, each) for index, each in runs)
        for take in [take for clip in planned for take in iterate_takes(clip)]:
            delivered += len(take)
            damaged += _count_true(take.damaged)
            past_end += len(take) - _count_true(take.valid) - _count_true(take.skipped)
            repeated += _count_true(take.valid[1:] & (take.indices[1:] == take.indices[:-1]))
    sampled = sum(map(len, groups))
    return PlanDescription(
        clips=len(shard),
        frames_per_clip=frames_per_clip,
        decoded_frames_per_delivered_frame=decoded / max(1, delivered),
        predicted_cpu_seconds=seconds / max(1, num_clips) * len(shard),
        excluded_rows=len(clips.excluded),
        sampled_clips=sampled,
        unusable_clips=sampled - num_clips,
        sampled_frames=delivered,
        damaged_frames=damaged,
        past_end_frames=past_end,
        repeated_frames=repeated,
        waits=waits,
        short_videos=short_videos,
    )


def _plan_together(
    order: Order, clips: Clips, global_positions: IntArray
) -> tuple[list[PlannedClip], list[tuple[FrameIndex, DecodeRuns]]]:
    """Plan clips, of which the takes of one number are decoded together if they are of one source.

    Give the clips that can be planned, and the runs of each source and take.
    """
    found = PlannedClips.find(order, clips, global_positions)
    rows = found.rows
    planned: list[PlannedClip] = []
    frames: dict[tuple[int, int], list[IntArray]] = {}
    for slot, clip in found.plan_each():  # a clip that raises an error costs nothing
        planned.append(clip)
        for number, take in enumerate(iterate_takes(clip)):
            frames.setdefault((number, rows[number][slot]), []).append(take.decoded)
    indexes = {row: clips.sources.frame_index(row) for _, row in frames}
    return planned, [(indexes[row], plan_runs(indexes[row], np.concatenate(each))) for (_, row), each in frames.items()]


def predict_steps(order: Order, clips: Clips, shards: Sequence[Shard]) -> FloatArray:
    """Predict the CPU seconds of some steps on every rank, float64 [S, ranks], whose shards are given."""
    unit = shards[0].unit
    num_units = len(shards[0]) // unit
    num_sampled = min(num_units, max(_LEAST_STEPS, SAMPLED_CLIPS // (unit * len(shards))))
    seconds = np.zeros((num_sampled, len(shards)))
    for step in range(num_sampled):
        first = step * num_units // num_sampled * unit
        for rank, shard in enumerate(shards):
            positions = shard.global_position(np.arange(first, first + min(unit, SAMPLED_CLIPS), dtype=np.int64))
            _, runs = _plan_together(order, clips, positions)
            seconds[step, rank] = sum(predict_seconds(index, each) for index, each in runs)
    return seconds


def measure_waits(order: Order, clips: CatalogClips, own: Shard, plain: Shard, balanced: Shard) -> Waits:
    """Measure how unequal ranks are: ``own`` deals as the plan, ``plain`` without balance, ``balanced`` with it."""

    def predict(positions: IntArray) -> FloatArray:
        return clips.predict_costs(order.find_clips(positions))

    numbers = np.unique(np.linspace(0, len(own) - 1, _SAMPLED_POSITIONS).astype(np.int64))
    ranks = range(own.world_size)
    epoch = np.array([predict(replace(own, rank=rank).global_position(numbers)).sum() for rank in ranks])
    steps = [predict_steps(order, clips, [replace(shard, rank=rank) for rank in ranks]) for shard in (plain, balanced)]
    step, balanced_step = (float(each.max(1).sum() / max(1e-12, each.mean(1).sum())) for each in steps)
    return Waits(float(epoch.max() / max(1e-12, epoch.mean())), step, balanced_step)


def _count_true(mask: BoolArray | None) -> int:
    return 0 if mask is None else int(np.count_nonzero(mask))
