"""Count the frames that a plan needs, and divide them into tasks so that each GOP is decoded once. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from framefeed._arrays import IntArray
from framefeed.decode import find_reduction
from framefeed.errors import FrameNotFound, TimeUnavailable
from framefeed.index import FrameIndex, plan_runs
from framefeed.plan import EpochPlan, flatten_streams, list_requests, order_by_catalog, sample_windows
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

TASK_BYTES = 256 << 20
"""Pixels that one worker decodes together."""

_NEIGHBOURS = 16
"""Of clips of one frame, so many neighbours are chosen together, as a build of all decodes them."""
_MIN_BLOCKS = 4


@dataclass(frozen=True, slots=True, eq=False)
class FrameRun:
    """Frames that are stored side by side, each once, int64 [N]: those of one clip, or of a few short ones."""

    ordinals: IntArray
    output: OutputSpec

    def __len__(self) -> int:
        return len(self.ordinals)


@dataclass(slots=True, eq=False)
class FillTask:
    """Runs of frames of one source, decoded and stored by one worker.

    Attributes:
        row: Catalog row of the source.
        runs: Frames to decode; no frame is in two tasks of a source.
        clip_frames: Frames of the clips that end with this task, repeats included.
        errors: Reasons why clips have no frames.
    """

    row: int
    runs: list[FrameRun] = field(default_factory=list)
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


def make_tasks(plan: EpochPlan, epochs: int, options: FillOptions, most_clips: int | None = None) -> Iterator[FillTask]:
    """Yield tasks for the frames of this rank's clips, source by source in the order of the catalog.

    Args:
        plan: The plan at its first epoch; of several streams, flattened.
        epochs: Number of epochs.
        options: Size of the tasks.
        most_clips: Choose so many clips, spread over the plan in the order of the catalog; None for all.
    """
    plans = [plan.with_epoch(plan.epoch + number) for number in range(epochs)]
    pairs = [divmod(number, len(plan)) for number in range(len(plan) * epochs)]
    rows = np.fromiter((plans[epoch].row_at(position) for epoch, position in pairs), np.int64, len(pairs))
    order = np.argsort(rows, kind="stable")
    if most_clips is not None:
        streams = np.arange(max(1, len(plan.streams)))
        clips = order[order % len(streams) == 0]
        together = _NEIGHBOURS if plan.frames_per_clip == 1 else plan.options.clips_per_video
        chosen = (clips[choose_spread(len(clips), most_clips, together)][:, None] + streams).ravel()
        order = chosen[np.argsort(rows[chosen], kind="stable")]
    bounds = np.flatnonzero(np.diff(rows[order], prepend=-1, append=-1)).tolist()
    for first, stop in pairwise(bounds):
        row = int(rows[order[first]])
        index = plan.catalog.frame_index(row)
        clips_of_row: list[DecodeRequest] = []
        failed = FillTask(row)
        for epoch, position in [pairs[i] for i in order[first:stop].tolist()]:
            try:
                clips_of_row.append(plans[epoch][position])
            except (FrameNotFound, TimeUnavailable) as error:
                failed.errors.append(error)
        if failed.errors:
            yield failed
        yield from make_source_tasks(row, index, clips_of_row, options)


def choose_spread(total: int, count: int, together: int) -> IntArray:
    """Choose so many numbers below ``total``, ascending int64: blocks of about ``together`` neighbours, far apart."""
    numbers = np.arange(min(count, total))
    num_blocks = max(1, min(len(numbers), max(_MIN_BLOCKS, -(-len(numbers) // together))))
    blocks = numbers * num_blocks // max(1, len(numbers))
    return numbers + (total - len(numbers)) * blocks // max(1, num_blocks - 1)


def make_source_tasks(
    row: int, index: FrameIndex, clips: Sequence[DecodeRequest], options: FillOptions
) -> Iterator[FillTask]:
    """Yield tasks for all clips of one source, given by its catalog row and index."""
    # Pictures are stored once for each output, or as planes once for each size at which they are decoded.
    seen: dict[OutputSpec | int, set[int]] = {}
    task, nbytes, last_start = FillTask(row), 0, -1
    # Neighbours in the file are decoded together, whichever epoch they are of.
    storable = [clip for clip in clips if len(clip.storable)]
    for clip in sorted(storable, key=lambda clip: int(index.frame_start[clip.storable].min())):
        frame_bytes = math.prod(clip.output.shape(*index.stream.displayed))
        stored_as = clip.output if options.by_output else find_reduction(index, clip.output)
        seen_frames = seen.setdefault(stored_as, set())
        new = [ordinal for ordinal in dict.fromkeys(clip.storable.tolist()) if ordinal not in seen_frames]
        seen_frames.update(new)
        most_frames = max(1, options.max_bytes // frame_bytes)
        for part in _cut_long_clip(index, np.array(new, dtype=np.int64), most_frames, options.by_output):
            starts = index.frame_start[part]
            part_bytes = len(part) * frame_bytes
            # A task that would cut a GOP may become larger, unless its pixels are in memory at once.
            times = _MAX_GROUPS_JOINED if starts.min() <= last_start else 1
            most_bytes = options.max_bytes * (1 if options.by_output else times)
            is_full = task.num_frames + len(part) > times * GROUP_FRAMES or nbytes + part_bytes > most_bytes
            if task.runs and is_full:
                yield task
                task, nbytes = FillTask(row), 0
            task.append(part, clip.output)
            nbytes += part_bytes
            last_start = int(starts.max())
        task.clip_frames += len(clip.storable)
    if task.clip_frames:
        yield task


def _cut_long_clip(index: FrameIndex, ordinals: IntArray, most_frames: int, by_output: bool) -> Iterator[IntArray]:
    """Cut the frames of a clip into parts, between two GOPs if possible.

    With ``by_output``, no part has more than ``most_frames``, whose pixels fit into memory; else parts end only between
    GOPs.
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


def count_demand(
    plan: EpochPlan, epochs: int, options: FillOptions, select: Callable[[FillTask], FillTask] = lambda task: task
) -> tuple[int, int]:
    """Count frames of a plan from its first epoch on as ``count_frames`` does; of a long plan, by a sample."""
    plan = flatten_streams(plan)
    if len(plan) * epochs <= PLANNED_CLIPS:
        return count_frames(plan, map(select, make_tasks(plan, epochs, options)))
    plans = [order_by_catalog(plan, number) for number in range(epochs)]
    windows = list(sample_windows(plans[0], _WINDOWS, PLANNED_CLIPS // epochs))
    share = len(plan) / sum(map(len, windows))
    rows = [plans[0].row_at(window.start) for window in windows]
    tasks = (
        task
        for row, window in zip(rows, windows, strict=True)
        for task in make_source_tasks(row, plan.catalog.frame_index(row), list_requests(plans, window), options)
    )
    num_frames, num_pictures = count_frames(plan, map(select, tasks))
    return round(num_frames * share), round(num_pictures * share)


def count_frames(plan: EpochPlan, tasks: Iterable[FillTask]) -> tuple[int, int]:
    """Count the frames of tasks, and the pictures that must be decoded for them."""
    num_frames = num_pictures = 0
    for task in tasks:
        num_frames += task.num_frames
        if task.runs:
            ordinals = np.concatenate([run.ordinals for run in task.runs])
            num_pictures += plan_runs(plan.catalog.frame_index(task.row), ordinals).num_decoded
    return num_frames, num_pictures
