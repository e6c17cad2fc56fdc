"""Count the frames that a plan needs, and divide them into tasks so that each GOP is decoded once. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise

import numpy as np

from framefeed._arrays import IntArray
from framefeed.decode import find_reduction
from framefeed.errors import FrameNotFound, TimeUnavailable
from framefeed.index import FrameIndex, plan_runs
from framefeed.plan import EpochPlan, estimate_reuse, list_requests, order_by_catalog, sample_windows
from framefeed.request import DecodeRequest, OutputSpec

JOINED_FRAMES = 16
"""Short runs are joined up to this length, because each run has a directory of its own on disk."""

GROUP_FRAMES = 256
"""Frames of a task, about: so several threads can work on one long video, and progress is shown."""
_MAX_GROUPS_JOINED = 4
"""Clips that share GOPs one after the other would else make a long video one task, for one thread."""

PLANNED_CLIPS = 4096
"""Plans up to this length are counted completely, in about a second; longer ones are sampled."""
_WINDOWS = 64


@dataclass(frozen=True, slots=True, eq=False)
class FrameRun:
    """Frames that are stored side by side: those of one clip, or of a few short ones.

    Attributes:
        ordinals: Each once, int64 [N].
        output: Size, crop and dimension order of their pixels.
    """

    ordinals: IntArray
    output: OutputSpec

    def __len__(self) -> int:
        return len(self.ordinals)


@dataclass(slots=True, eq=False)
class FillTask:
    """Runs of frames of one source, decoded and stored by one worker.

    Attributes:
        number: Number of the task in the plan; the same in every process, whatever the cache holds.
        row: Catalog row of the source.
        runs: Frames to decode; no frame is in two tasks of a source.
        num_clips: Clips that begin with this task.
        clip_frames: Frames of the clips that end with this task, repeats included.
        errors: Reasons why clips have no frames.
    """

    number: int
    row: int
    runs: list[FrameRun] = field(default_factory=list)
    num_clips: int = 0
    clip_frames: int = 0
    errors: list[Exception] = field(default_factory=list)

    @property
    def num_frames(self) -> int:
        """Distinct frames."""
        return sum(map(len, self.runs))

    def append(self, ordinals: IntArray, output: OutputSpec) -> None:
        """Add frames to the last run if it is short and has the same output, else as a run of their own."""
        if self.runs and self.runs[-1].output == output and len(self.runs[-1]) < JOINED_FRAMES:
            ordinals = np.concatenate([self.runs.pop().ordinals, ordinals])
        self.runs.append(FrameRun(ordinals, output))


@dataclass(frozen=True, slots=True)
class FillOptions:
    """Options for dividing a plan into tasks.

    Attributes:
        by_output: Whether frames are stored as outputs: then a frame with two outputs is stored twice, and the pixels
            of a whole task are in memory at once, so that ``max_bytes`` holds even if a GOP must be cut.
        max_bytes: Most bytes of a task's pixels.
    """

    by_output: bool
    max_bytes: int


def make_tasks(
    plan: EpochPlan, epochs: int, options: FillOptions, positions: IntArray | None = None
) -> Iterator[FillTask]:
    """Yield tasks for the frames of this rank's clips, source by source in the order of the catalog.

    Args:
        plan: The plan at its first epoch.
        epochs: Number of epochs.
        options: Size of the tasks.
        positions: Only these clips: ``len(plan)`` times the number of the epoch, from 0 on, plus position; None for
            all.
    """
    plans = [plan.with_epoch(plan.epoch + number) for number in range(epochs)]
    if positions is None:
        positions = np.arange(len(plan) * epochs)
    pairs = list(zip(*(part.tolist() for part in np.divmod(positions, max(1, len(plan)))), strict=True))
    rows = np.fromiter((plans[epoch].row_at(position) for epoch, position in pairs), np.int64, len(pairs))
    order = np.argsort(rows, kind="stable")
    bounds = np.flatnonzero(np.diff(rows[order], prepend=-1, append=-1)).tolist()
    numbers = count()
    for first, stop in pairwise(bounds):
        row = int(rows[order[first]])
        index = plan.catalog.frame_index(row)
        clips: list[DecodeRequest] = []
        failed = FillTask(-1, row)
        for epoch, position in [pairs[i] for i in order[first:stop].tolist()]:
            try:
                clips.append(plans[epoch][position])
            except (FrameNotFound, TimeUnavailable) as error:
                failed.errors.append(error)
        if failed.errors:
            failed.number = next(numbers)
            yield failed
        for task in make_source_tasks(row, index, clips, options):
            task.number = next(numbers)
            yield task


def make_source_tasks(
    row: int, index: FrameIndex, clips: Sequence[DecodeRequest], options: FillOptions
) -> Iterator[FillTask]:
    """Yield tasks for all clips of one source, given by its catalog row and index; they are not numbered yet."""
    # Pictures are stored once for each output, or as planes once for each size at which they are decoded.
    seen: dict[OutputSpec | int, set[int]] = {}
    task, nbytes, last_start = FillTask(-1, row), 0, -1
    # Neighbours in the file are decoded together, whichever epoch they are of.
    storable = [clip for clip in clips if len(clip.storable)]
    for clip in sorted(storable, key=lambda clip: int(index.frame_start[clip.storable].min())):
        frame_bytes = math.prod(clip.output.shape(*index.stream.displayed))
        stored_as = clip.output if options.by_output else find_reduction(index, clip.output)
        seen_frames = seen.setdefault(stored_as, set())
        new = [ordinal for ordinal in dict.fromkeys(clip.storable.tolist()) if ordinal not in seen_frames]
        seen_frames.update(new)
        most_frames = max(1, options.max_bytes // frame_bytes)
        is_counted = False
        for part in _cut_long_clip(index, np.array(new, dtype=np.int64), most_frames, options.by_output):
            starts = index.frame_start[part]
            part_bytes = len(part) * frame_bytes
            # A task that would cut a GOP may become larger, unless its pixels are in memory at once.
            times = _MAX_GROUPS_JOINED if starts.min() <= last_start else 1
            most_bytes = options.max_bytes * (1 if options.by_output else times)
            is_full = task.num_frames + len(part) > times * GROUP_FRAMES or nbytes + part_bytes > most_bytes
            if task.runs and is_full:
                yield task
                task, nbytes = FillTask(-1, row), 0
            task.append(part, clip.output)
            task.num_clips += not is_counted
            is_counted = True
            nbytes += part_bytes
            last_start = int(starts.max())
        task.num_clips += not is_counted
        task.clip_frames += len(clip.storable)
    if task.clip_frames:
        yield task


def _cut_long_clip(index: FrameIndex, ordinals: IntArray, most_frames: int, by_output: bool) -> Iterator[IntArray]:
    """Cut the frames of a clip into parts, between two GOPs if possible.

    Args:
        index: Index of the source.
        ordinals: Frames of the clip.
        most_frames: Frames whose pixels fit into memory.
        by_output: Whether no part may be larger than that; else parts end only between GOPs.
    """
    limit = min(most_frames, GROUP_FRAMES)
    if len(ordinals) > limit:
        ordinals = ordinals[np.argsort(index.frame_packet[ordinals], kind="stable")]
    starts = index.frame_start[ordinals]
    first = 0
    while first < len(ordinals):
        stop = first + limit
        if stop < len(ordinals):
            ends = np.flatnonzero(np.diff(starts[first:], append=-1)) + first + 1
            early_ends = ends[ends <= stop]
            if len(early_ends):
                stop = int(early_ends[-1])
            else:
                stop = min(int(ends[0]), first + most_frames) if by_output else int(ends[0])
        yield ordinals[first:stop]
        first = stop


@dataclass(frozen=True, slots=True)
class PlanDemand:
    """Counts of the frames that a plan needs.

    Attributes:
        clips: Clips of this rank, all epochs together.
        clip_frames: Frames of these clips, repeats included.
        frames: Distinct frames, each of which is stored once.
        pictures: Pictures that must be decoded for them, counted by ``plan_runs``.
        pieces: Runs of frames in which they are stored.
        varies: Whether other epochs need other frames.
        frames_at_most: Frames that all epochs together can need, or None if there is no limit.
    """

    clips: int
    clip_frames: int
    frames: int
    pictures: int
    pieces: int
    varies: bool
    frames_at_most: int | None


def count_demand(plan: EpochPlan, epochs: int, options: FillOptions) -> PlanDemand:
    """Count the frames of a plan from its first epoch on, or estimate them from a sample of a long plan."""
    clip_frames = frames = pictures = num_runs = 0
    num_clips, share = len(plan) * epochs, 1.0
    if num_clips <= PLANNED_CLIPS:
        tasks = make_tasks(plan, epochs, options)
    else:
        plans = [order_by_catalog(plan, number) for number in range(epochs)]
        windows = list(sample_windows(plans[0], _WINDOWS, PLANNED_CLIPS // epochs))
        share = len(plan) / sum(map(len, windows))
        rows = [plans[0].row_at(window.start) for window in windows]
        tasks = (
            task
            for row, window in zip(rows, windows, strict=True)
            for task in make_source_tasks(row, plan.catalog.frame_index(row), list_requests(plans, window), options)
        )
    for task in tasks:
        clip_frames += task.clip_frames
        frames += task.num_frames
        num_runs += len(task.runs)
        if task.runs:
            ordinals = np.concatenate([run.ordinals for run in task.runs])
            pictures += plan_runs(plan.catalog.frame_index(task.row), ordinals).num_decoded
    is_endless = options.by_output and getattr(plan.options.crop, "is_random", False)
    return PlanDemand(
        clips=num_clips,
        clip_frames=round(clip_frames * share),
        frames=round(frames * share),
        pictures=round(pictures * share),
        pieces=round(num_runs * share),
        varies=estimate_reuse(plan, options.by_output) < 1,
        frames_at_most=None if is_endless else int(plan.catalog.num_frames[plan.catalog.plannable_rows].sum()),
    )
