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
from framefeed.plan import EpochPlan, Take, iterate_takes, order_by_catalog, sample_windows
from framefeed.request import OutputSpec

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
    """Runs of frames of one source, decoded and stored by one worker."""

    row: int  # of the source among those of the plan
    runs: list[FrameRun] = field(default_factory=list)  # no frame is in two tasks of a source
    clip_frames: int = 0  # of the clips that end with this task, repeats included
    errors: list[Exception] = field(default_factory=list)  # reasons why clips have no frames

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
    """Options for dividing a plan into tasks."""

    # Whether frames are stored as outputs: then a frame with two outputs is stored twice, and the pixels of a whole
    # task are in memory at once, so that ``max_bytes`` holds even if a GOP must be cut.
    by_output: bool
    max_bytes: int  # most bytes of a task's pixels


def make_tasks(plan: EpochPlan, epochs: int, options: FillOptions, most_clips: int | None = None) -> Iterator[FillTask]:
    """Yield tasks for the frames of this rank's clips, source by source in the order of the catalogs.

    Args:
        plan: The plan at its first epoch.
        epochs: Number of epochs.
        options: Size of the tasks.
        most_clips: Choose so many clips, spread over the plan in the order of the catalog; None for all.
    """
    plans = [plan.with_epoch(plan.epoch + number) for number in range(epochs)]
    # Epochs may differ in length.
    found = [each.clips_at(each.global_position(np.arange(len(each), dtype=np.int64))) for each in plans]
    starts = np.cumsum([0, *map(len, found)])
    rows = np.hstack([np.array(each.rows, dtype=np.int64) for each in found])  # of each take, and of each clip
    if most_clips is not None:
        order = np.argsort(rows[0], kind="stable")
        unit = 1 if plan.parts else plan.clips.list_plain()[0].options.clips_per_video
        together = _NEIGHBOURS if plan.frames_per_clip == 1 else unit
        chosen = order[choose_spread(len(order), most_clips, together)]
    else:
        chosen = np.arange(rows.shape[1])
    # Take k of clip c is k + c * K.
    numbers = (chosen[:, np.newaxis] * len(rows) + np.arange(len(rows))).ravel()
    flat = rows.T.ravel()
    numbers = numbers[np.argsort(flat[numbers], kind="stable")]
    bounds = np.flatnonzero(np.diff(flat[numbers], prepend=-1, append=-1)).tolist()
    for first, stop in pairwise(bounds):
        row = int(flat[numbers[first]])
        index = plan.clips.sources.frame_index(row)
        takes: list[Take] = []
        failed = FillTask(row)
        for number in numbers[first:stop].tolist():
            clip, take = divmod(number, len(rows))
            epoch = int(starts.searchsorted(clip, side="right")) - 1
            try:
                takes.append(list(iterate_takes(found[epoch].plan(clip - int(starts[epoch]))))[take])
            except (FrameNotFound, TimeUnavailable) as error:
                failed.errors.append(error)
        if failed.errors:
            yield failed
        yield from make_source_tasks(row, index, takes, options)


def choose_spread(total: int, count: int, together: int) -> IntArray:
    """Choose so many numbers below ``total``, ascending int64: blocks of about ``together`` neighbours, far apart."""
    numbers = np.arange(min(count, total))
    num_blocks = max(1, min(len(numbers), max(_MIN_BLOCKS, -(-len(numbers) // together))))
    blocks = numbers * num_blocks // max(1, len(numbers))
    return numbers + (total - len(numbers)) * blocks // max(1, num_blocks - 1)


def make_source_tasks(row: int, index: FrameIndex, takes: Sequence[Take], options: FillOptions) -> Iterator[FillTask]:
    """Yield tasks for all takes of one source, given by its number and index."""
    # Pictures are stored once for each output, or as planes once for each size at which they are decoded.
    seen: dict[OutputSpec | int, set[int]] = {}
    task, nbytes, last_start = FillTask(row), 0, -1
    # Neighbours in the file are decoded together, whichever epoch they are of.
    storable = [take for take in takes if len(take.storable)]
    for take in sorted(storable, key=lambda take: int(index.frame_start[take.storable].min())):
        frame_bytes = math.prod(take.output.shape(*index.stream.displayed))
        stored_as = take.output if options.by_output else find_reduction(index, take.output)
        seen_frames = seen.setdefault(stored_as, set())
        new = [ordinal for ordinal in dict.fromkeys(take.storable.tolist()) if ordinal not in seen_frames]
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
            task.append(part, take.output)
            nbytes += part_bytes
            last_start = int(starts.max())
        task.clip_frames += len(take.storable)
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
    num_takes = sum(len(form.takes) for form in plan.clips.forms.values())
    if len(plan) * num_takes * epochs <= PLANNED_CLIPS:
        return count_frames(plan, map(select, make_tasks(plan, epochs, options)))
    plans = [order_by_catalog(plan, number) for number in range(epochs)]
    windows = list(sample_windows(plans[0], _WINDOWS, PLANNED_CLIPS // epochs))
    share = len(plan) / sum(map(len, windows))
    tasks = (
        task
        for window in windows
        for row, takes in _group_by_source(plans, window)
        for task in make_source_tasks(row, plan.clips.sources.frame_index(row), takes, options)
    )
    num_frames, num_pictures = count_frames(plan, map(select, tasks))
    return round(num_frames * share), round(num_pictures * share)


def _group_by_source(plans: Sequence[EpochPlan], window: range) -> Iterator[tuple[int, list[Take]]]:
    """Plan the clips of some positions of each plan, and group their takes by the number of their source."""
    takes: dict[int, list[Take]] = {}
    for plan in plans:
        found = plan.clips_at(plan.global_position(np.array(window, dtype=np.int64)))
        rows = found.rows
        for slot, clip in found.plan_each():
            for number, take in enumerate(iterate_takes(clip)):
                takes.setdefault(rows[number][slot], []).append(take)
    yield from takes.items()


def count_frames(plan: EpochPlan, tasks: Iterable[FillTask]) -> tuple[int, int]:
    """Count the frames of tasks, and the pictures that must be decoded for them."""
    num_frames = num_pictures = 0
    for task in tasks:
        num_frames += task.num_frames
        if task.runs:
            ordinals = np.concatenate([run.ordinals for run in task.runs])
            num_pictures += plan_runs(plan.clips.sources.frame_index(task.row), ordinals).num_decoded
    return num_frames, num_pictures
