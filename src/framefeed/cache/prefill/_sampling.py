"""Build a sample of a plan into a temporary folder beside a cache, and measure what that takes.

The sample is made of the tasks that ``build`` does for a few clips. Each is done once to store its frames, and decoded
once more without a cache; then all are read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, thread_time

import numpy as np

from framefeed._arrays import IntArray
from framefeed.cache._frame_cache import FrameCache
from framefeed.cache._keys import Form
from framefeed.cache._state import choose_codec
from framefeed.cache.codecs._codec import FrameCodec
from framefeed.cache.prefill._build import TASK_BYTES, FillCounts, Filler, make_slots
from framefeed.cache.prefill._demand import FillOptions, FillTask, FrameRun, make_tasks
from framefeed.cache.prefill._opening import choose_form, make_decoder
from framefeed.cache.store._format import ROW
from framefeed.decode import BaseDecoder, Decoder, PlaneLayout, adapt_decoder, make_output_layout
from framefeed.errors import CacheError, FrameNotFound, TimeUnavailable, UsageError
from framefeed.index import has_picture_files, plan_runs
from framefeed.parallel import find_shortage, make_shortage_error
from framefeed.plan import EpochPlan, count_planned, order_by_catalog, scatter

MAX_FRAMES = 512
"""Most frames that are stored, about."""
MAX_SECONDS = 5.0
"""Of filling and decoding; the tasks done until then are spread over the plan."""
MAX_BYTES = 48 << 20
"""Of the frames, before they are encoded."""
_NEIGHBOURS = 16
"""So many neighbouring clips of one frame are sampled together, as a loader decodes them in a batch."""
_MIN_BLOCKS = 4


@dataclass(slots=True)
class SampleCounts:
    """Counts and times of the sample, in one thread.

    Attributes:
        clips: Stored clips.
        failed: Clips that could not be decoded, or not be stored.
        error: The first reason why not.
        clip_frames: Frames of the stored clips, repeats included.
        decode_seconds: Time to decode the requested pixels without a cache.
        fill_seconds: Time to decode the frames as they are stored.
        pictures: Pictures that must be decoded for them.
        fill_cpu_seconds: CPU time of this thread in ``fill_seconds``.
        convert_seconds: Time to convert one frame that is stored as planes to the requested pixels.
    """

    clips: int = 0
    failed: int = 0
    error: str | None = None
    clip_frames: int = 0
    decode_seconds: float = 0.0
    fill_seconds: float = 0.0
    pictures: int = 0
    fill_cpu_seconds: float = 0.0
    convert_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PlanSample:
    """Measurements of a sample of a plan.

    Attributes:
        counts: Counts and times of decoding and storing.
        codec: Label of the codec that most frames were stored with; empty if none was stored.
        reason: Why this codec.
        frames: Different frames of the sample, those that failed included.
        runs: Runs of frames in which they are stored.
        stored_frames: Frames that were stored.
        stored_bytes: Their bytes.
        write_seconds: CPU time to store a frame: what filling takes beyond decoding, the median of the tasks.
        stream_bytes: Bytes of the files besides the frames and their rows.
        read_seconds: CPU time to read them all as a loader does.
        list_seconds: CPU time to plan a clip and to list its task.
        loader_pictures: Pictures that a loader decodes for a clip without a cache.
    """

    counts: SampleCounts
    codec: str = ""
    reason: str = ""
    frames: int = 0
    runs: int = 0
    stored_frames: int = 0
    stored_bytes: int = 0
    write_seconds: float = 0.0
    stream_bytes: int = 0
    read_seconds: float = 0.0
    list_seconds: float = 0.0
    loader_pictures: float = 0.0


def sample_plan(plan: EpochPlan, cache: FrameCache, inner: Decoder, epochs: int, clips: int) -> PlanSample:
    """Store and read about so many clips of a plan, spread over it; raise the errors of ``estimate``."""
    form = choose_form(plan, cache)
    make_decoder(plan, cache, inner, epochs)  # tells the cache what the plan needs
    counts, done = SampleCounts(), FillCounts()
    if not len(plan):
        return PlanSample(counts)
    num_frames, raw_bytes = count_planned(plan, form)
    max_frames = max(1, min(MAX_FRAMES, MAX_BYTES * num_frames // max(1, raw_bytes)))
    tasks, list_seconds = _list_tasks(plan, form, epochs, clips, max_frames)
    codec, reason = _choose_codec(plan, cache, form, tasks)
    num_clips, spent, stored, writing = 0, 0.0, list[FillTask](), list[float]()
    with _opening_scratch(cache, form, codec) as scratch:
        fill, decoder = Filler(plan, scratch, inner, epochs), adapt_decoder(inner)
        for task in tasks:
            begin, cpu_begin = perf_counter(), thread_time()
            result = fill(task)
            seconds, cpu_seconds = perf_counter() - begin, thread_time() - cpu_begin
            spent += seconds
            num_clips += task.num_clips + len(task.errors)
            counts.failed += len(task.errors) - (-task.num_clips * result.failed // max(1, task.num_frames))
            counts.clip_frames += 0 if result.failed else task.clip_frames
            done += result
            if result.stored:
                stored.append(task)
                counts.pictures += _count_pictures(plan, task.row, [run.ordinals for run in task.runs])
                decoding = _decode(plan, decoder, task, form)
                counts.fill_seconds += decoding[0]
                counts.fill_cpu_seconds += decoding[1]
                writing.append((cpu_seconds - decoding[1]) / task.num_frames)
            if spent + counts.fill_seconds > MAX_SECONDS or done.stored >= max_frames:
                break
        counts.clips = num_clips - counts.failed
        counts.error = next((f"{name}: {message}" for _, name, message in done.failures.values()), None)
        scratch.flush()
        if scratch.state.trouble is not None:
            raise _make_folder_error(scratch.state.trouble)
        info, reader = scratch.info(), scratch.decoder(inner, form)
        read_seconds = sum(_decode(plan, reader, task, "output")[1] for task in stored)
        if form == "planes" and stored:
            planes_seconds = sum(_decode(plan, reader, task, "planes")[1] for task in stored)
            counts.convert_seconds = max(0.0, read_seconds - planes_seconds) / info.num_frames
    counts.decode_seconds = counts.fill_seconds + counts.convert_seconds * info.num_frames
    return PlanSample(
        counts,
        codec=max(info.kinds.items(), key=lambda item: item[1][0])[0].codec if info.kinds else "",
        reason=reason,
        frames=done.stored + done.failed,
        runs=sum(len(task.runs) for task in stored),
        stored_frames=info.num_frames,
        stored_bytes=info.stored_bytes,
        write_seconds=max(0.0, median(writing or [0.0])),
        stream_bytes=info.bytes_on_disk - info.stored_bytes - ROW.itemsize * info.num_frames,
        read_seconds=read_seconds,
        list_seconds=list_seconds,
        loader_pictures=_count_loader_pictures(plan, clips),
    )


def _list_tasks(plan: EpochPlan, form: Form, epochs: int, clips: int, max_frames: int) -> tuple[list[FillTask], float]:
    """List the tasks of a build for about so many clips; return them, and the CPU time to list a clip."""
    num_all = len(plan) * epochs
    # A build does clips in the order of the catalog, so a task has neighbours in that order.
    ordered, positions = order_by_catalog(plan), np.concatenate(_choose_blocks(plan, epochs, clips, max_frames))
    is_whole = num_all <= len(positions) and num_all * (plan.frames_per_clip or 1) <= max_frames
    if is_whole:
        ordered, positions = plan, np.arange(num_all)
    begin = thread_time()
    tasks = list(make_tasks(ordered, epochs, FillOptions(form == "output", TASK_BYTES), positions))
    list_seconds = (thread_time() - begin) / len(positions)
    if not is_whole:
        most = max(1, max_frames // max(1, len(tasks)))
        tasks = [_cut(tasks[number], most) for number in scatter(len(tasks))]
    return tasks, list_seconds


def _choose_blocks(plan: EpochPlan, epochs: int, clips: int, max_frames: int) -> list[IntArray]:
    """Choose blocks of neighbouring positions in all epochs, as for ``make_tasks``, that lie far apart."""
    frames, total = plan.frames_per_clip or 1, len(plan) * epochs
    together = _NEIGHBOURS if frames == 1 else plan.options.clips_per_video
    length = max(1, min(together, total, max_frames // (clips * frames)))
    count = max(1, min(clips, max(_MIN_BLOCKS, max_frames // (length * frames)), total // length))
    firsts = [number * (total - length) // max(1, count - 1) for number in range(count)]
    return [np.arange(first, first + length) for first in firsts]


def _cut(task: FillTask, most: int) -> FillTask:
    """Reduce a task to some consecutive frames in its middle."""
    if task.num_frames <= most:
        return task
    first = (task.num_frames - most) // 2
    runs, begin = [], 0
    for run in task.runs:
        part = run.ordinals[max(0, first - begin) : max(0, first + most - begin)]
        runs += [FrameRun(part, run.output)] if len(part) else []
        begin += len(run)
    num_clips, clip_frames = (-(-count * most // task.num_frames) for count in (task.num_clips, task.clip_frames))
    return replace(task, runs=runs, num_clips=num_clips, clip_frames=clip_frames)


def _choose_codec(
    plan: EpochPlan, cache: FrameCache, form: Form, tasks: Sequence[FillTask]
) -> tuple[FrameCodec | None, str]:
    """Choose the codec as the cache will for the first frames; None if there are none that can be stored."""
    for task in tasks:
        for run in task.runs:
            index = plan.catalog.frame_index(task.row)
            stream = index.stream
            with suppress(UsageError):  # too large to be stored
                if form == "output":
                    layout = make_output_layout(run.output, *stream.displayed)
                elif has_picture_files(index):  # which are decoded to RGB, upright
                    height, width = stream.displayed
                    layout = PlaneLayout("rgb24", width, height)
                else:
                    layout = PlaneLayout(stream.pixel_format, stream.width, stream.height)
                return choose_codec(cache.options.codec, form, layout, cache.info(), cache.state.planned)
    return None, ""


def _decode(plan: EpochPlan, decoder: BaseDecoder, task: FillTask, form: Form) -> tuple[float, float]:
    """Decode the frames of a task; return the time and the CPU time of this thread."""
    source, index = plan.catalog.media_source(task.row), plan.catalog.frame_index(task.row)
    slots = make_slots(task.runs, index, form)
    begin, cpu_begin = perf_counter(), thread_time()
    decoder.decode(source, index, slots)
    return perf_counter() - begin, thread_time() - cpu_begin


def _count_pictures(plan: EpochPlan, row: int, ordinals: Sequence[IntArray]) -> int:
    return plan_runs(plan.catalog.frame_index(row), np.concatenate(ordinals)).num_decoded


def _count_loader_pictures(plan: EpochPlan, clips: int) -> float:
    """Count the pictures that a loader without a cache decodes for a clip."""
    num_clips = num_pictures = 0
    for block in _choose_blocks(plan, 1, clips, MAX_FRAMES):
        by_row: dict[int, list[IntArray]] = {}
        for position in block.tolist():
            with suppress(FrameNotFound, TimeUnavailable):
                ordinals = plan[position].storable
                by_row.setdefault(plan.row_at(position), []).append(ordinals)
        num_pictures += sum(_count_pictures(plan, row, clips_of_row) for row, clips_of_row in by_row.items())
        num_clips += len(block)
    return num_pictures / max(1, num_clips)


@contextmanager
def _opening_scratch(cache: FrameCache, form: Form, codec: FrameCodec | None) -> Iterator[FrameCache]:
    """Open a cache in a temporary folder on the disk of another, which is removed at the end."""
    beside = os.path.dirname(cache.path)
    while not os.path.exists(beside):
        beside = os.path.dirname(beside)
    if os.path.isdir(cache.path) and not os.access(beside, os.W_OK):
        beside = cache.path
    try:
        folder = TemporaryDirectory(prefix="framefeed-estimate-", dir=beside)
    except OSError as error:
        resource = find_shortage(error)
        if resource is not None:
            raise make_shortage_error(resource, beside, "estimate") from error
        raise _make_folder_error(str(error)) from error
    label = "raw" if codec is None else codec.label
    try:
        with FrameCache(folder.name, codec=label, form=form, strict=cache.options.strict) as scratch:
            yield scratch
    finally:
        try:
            folder.cleanup()
        except KeyboardInterrupt:
            folder.cleanup()  # Python does not try again, and would leave the rest of the folder.
            raise


def _make_folder_error(why: str) -> CacheError:
    return CacheError(
        f"a sample of the frames cannot be stored beside the cache: {why}: give the cache a folder in one that can be "
        "written, on a disk with 100 MB of free space, or build without an estimate"
    )
