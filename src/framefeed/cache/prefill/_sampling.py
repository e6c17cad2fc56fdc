"""Build a sample of a plan into a cache in a temporary folder, and measure what that takes.

The sample is made of the tasks that ``build`` does for a few clips. They are done once to decode the frames, which are
held in memory, and once more with each codec: its bytes are counted, and its storing and reading are timed alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from time import perf_counter, thread_time
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed._arrays import IntArray
from framefeed.cache._choosing import SAMPLES
from framefeed.cache._demand import FillOptions, FillTask, FrameRun, make_tasks, order_by_catalog, scatter
from framefeed.cache._frame_cache import FrameCache
from framefeed.cache._keys import Form
from framefeed.cache._planned import count_frame_bytes
from framefeed.cache.codecs._auto import CodecFigures, measure_codec
from framefeed.cache.codecs._codec import FrameCodec
from framefeed.cache.prefill._build import TASK_BYTES, FillCounts, Filler, make_slots
from framefeed.cache.store._format import ROW
from framefeed.decode import (
    BaseDecoder,
    ClipSlot,
    DecodeCounts,
    Decoder,
    DecodeReport,
    Pixels,
    PlaneLayout,
    adapt_decoder,
    copy_planes,
    describe_layout,
    make_output_layout,
    rebuild_picture,
)
from framefeed.errors import CacheError, FramefeedError, FrameNotFound, TimeUnavailable, UsageError
from framefeed.index import FrameIndex, plan_runs
from framefeed.media import MediaSource
from framefeed.parallel import find_shortage, make_shortage_error
from framefeed.plan import EpochPlan
from framefeed.request import OutputSpec

MAX_FRAMES = 512
"""Most frames that are decoded, about."""
MAX_SECONDS = 5.0
"""Of decoding; the clips decoded until then are spread over the plan."""
MAX_BYTES = 48 << 20
"""Of the frames, before they are encoded: in memory, and at most about as much in the temporary folder."""
_NEIGHBOURS = 16
"""So many neighbouring clips of one frame are sampled together, as a loader decodes them in a batch."""
_MIN_BLOCKS = 4
_ROUNDS = 2


@dataclass(slots=True)
class SampleCounts:
    """Counts and times of decoding the sample, in one thread.

    Attributes:
        clips: Decoded clips.
        failed: Clips that could not be decoded, or not be stored.
        error: The first reason why not.
        clip_frames: Frames of the decoded clips, repeats included.
        decode_seconds: Time to decode the requested pixels, as a loader does.
        fill_seconds: Time to decode the frames as they are stored.
        pictures: Pictures decoded in ``fill_seconds``.
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
class CodecSample:
    """The sample stored with one codec.

    Attributes:
        figures: Bytes and CPU time of its frames; reading is without the conversion of planes.
        alone: The same of a few frames without a cache, as codec="auto" measures them.
        stream_bytes: Bytes of the files besides the frames and their rows.
    """

    figures: CodecFigures
    alone: CodecFigures
    stream_bytes: int = 0


@dataclass(frozen=True, slots=True)
class PlanSample:
    """Measurements of a sample of a plan.

    Attributes:
        counts: Counts and times of decoding.
        frames: Different frames of the sample, those that failed included.
        runs: Runs of frames in which they are stored.
        list_seconds: Time to plan a clip and to list its task.
        loader_pictures: Pictures that a loader decodes for a clip without a cache.
    """

    counts: SampleCounts
    frames: int = 0
    runs: int = 0
    list_seconds: float = 0.0
    loader_pictures: float = 0.0


class _FrameHolder(BaseDecoder):
    """Decode each frame once with another decoder, and hold it.

    Args:
        inner: The other decoder.

    Attributes:
        seconds: Time that the other decoder took.
        cpu_seconds: CPU time of it.
        own_cpu_seconds: CPU time of all calls, of those for held frames too.
        pictures: Pictures that it decoded.
        samples: The held frames, in the order in which they were decoded.
    """

    def __init__(self, inner: Decoder) -> None:
        self._inner = adapt_decoder(inner)
        self.name = inner.name
        self.seconds = self.cpu_seconds = self.own_cpu_seconds = 0.0
        self.pictures = 0
        self.samples: list[tuple[PlaneLayout, Pixels]] = []
        self._pixels: dict[object, dict[tuple[OutputSpec, int], Pixels]] = {}
        self._pictures: dict[object, dict[int, Any]] = {}

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Decode clips, or copy them if all their frames are held; see ``Decoder.decode``."""
        begin = thread_time()
        held = self._pixels.setdefault((source.name, index.identity, index.stream), {})
        keys = [[(slot.output, ordinal) for ordinal in slot.indices.tolist()] for slot in slots]
        new = [i for i, frames in enumerate(keys) if not held.keys() >= set(frames)]
        for i in set(range(len(slots))).difference(new):
            for out, key in zip(slots[i].out, keys[i], strict=True):
                out[:] = held[key]
        errors: list[FramefeedError | None] = [None] * len(slots)
        if new:
            with self._timing():
                report = self._inner.decode(source, index, [slots[i] for i in new])
            self.pictures += report.counts.frames_decoded
            for i, error in zip(new, report.errors, strict=True):
                errors[i] = error
                if error is None:
                    clip, layout = slots[i].out.copy(), make_output_layout(slots[i].output, *index.stream.displayed)
                    held |= zip(keys[i], clip, strict=True)
                    self.samples += [(layout, frame.reshape(-1)) for frame in clip]
        self.own_cpu_seconds += thread_time() - begin
        return DecodeReport(errors)

    def iter_native(
        self,
        source: MediaSource,
        index: FrameIndex,
        ordinals: npt.ArrayLike | range,
        counts: DecodeCounts | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Decode all pictures that are not held, then yield all; see ``BaseDecoder.iter_native``."""
        begin = thread_time()
        held = self._pictures.setdefault((source.name, index.identity, index.stream), {})
        numbers = np.unique(np.asarray(ordinals, np.int64)).tolist()
        new = [number for number in numbers if number not in held]
        if new:
            held |= dict.fromkeys(new)
            own = DecodeCounts()
            decoded = self._inner.iter_native(source, index, new, own)
            while (numbered := self._take_next(decoded)) is not None:
                # A picture is valid until the next one is requested.
                held[numbered[0]] = self._copy_picture(numbered[1])
            self.pictures += own.frames_decoded
        self.own_cpu_seconds += thread_time() - begin
        yield from ((number, held[number]) for number in numbers if held[number] is not None)

    def can_iter_native(self, index: FrameIndex) -> bool:
        """Whether the other decoder can."""
        return self._inner.can_iter_native(index)

    def recipe(self, index: FrameIndex) -> str:
        """Return the recipe of the other decoder."""
        return self._inner.recipe(index)

    def _copy_picture(self, picture: Any) -> Any:
        try:
            layout = describe_layout(picture)
        except UsageError:  # too large to be stored
            return picture
        planes = np.empty(layout.nbytes, dtype=np.uint8)
        copy_planes(picture, planes)
        self.samples.append((layout, planes))
        return rebuild_picture(layout, planes)

    def _take_next(self, decoded: Iterator[tuple[int, Any]]) -> tuple[int, Any] | None:
        with self._timing():
            return next(decoded, None)

    @contextmanager
    def _timing(self) -> Iterator[None]:
        begin, cpu_begin = perf_counter(), thread_time()
        yield
        self.seconds += perf_counter() - begin
        self.cpu_seconds += thread_time() - cpu_begin


class Sampler:
    """Builds a sample of a plan.

    Args:
        plan: The plan at its first epoch.
        cache: The cache that would be filled.
        inner: Decodes the frames.
        epochs: Number of epochs.

    Attributes:
        layout: Layout of the first stored frames, or None if there are none.
        sample: The measurements, without those of codecs.
    """

    def __init__(self, plan: EpochPlan, cache: FrameCache, inner: Decoder, epochs: int) -> None:
        self._plan = plan
        self._epochs = epochs
        self._form = cache.form_for(plan)
        self._strict = cache.options.strict
        self._holder = _FrameHolder(inner)
        self._tasks: list[FillTask] = []
        self._num_listed = 0
        self._list_seconds = 0.0
        self.layout: PlaneLayout | None = None
        self.sample = PlanSample(SampleCounts())

    def decode_clips(self, clips: int) -> None:
        """Decode about so many clips, or groups of neighbours, spread over the plan.

        Raises:
            UsageError: The decoder cannot give frames in the form to be stored.
            CacheError: There is no folder for temporary files, or it cannot be used.
            ResourceExhausted: A resource ran out.
        """
        # A build does clips in the order of the catalog, so a task has neighbours in that order.
        plan = order_by_catalog(self._plan)
        blocks = _choose_blocks(plan, self._epochs, clips)
        rows = [plan.row_at(int(block[0]) % len(plan)) for block in blocks]
        frame_bytes = sum(count_frame_bytes(plan, self._form, row) for row in rows) / len(rows)
        max_frames = max(1, min(MAX_FRAMES, int(MAX_BYTES / frame_bytes)))
        num_all = len(self._plan) * self._epochs
        is_whole = num_all <= clips * len(blocks[0]) and num_all * (plan.frames_per_clip or 1) <= max_frames
        if is_whole:
            plan, blocks = self._plan, [np.arange(num_all)]
        counts, done = SampleCounts(), FillCounts()
        num_clips = num_runs = 0
        with self._opening("raw") as (scratch, fill):
            for task in self._make_tasks(plan, blocks, max_frames):
                result = fill(task)
                num_runs += len(task.runs)
                num_clips += task.num_clips + len(task.errors)
                counts.failed += len(task.errors) - (-task.num_clips * result.failed // max(1, task.num_frames))
                counts.clip_frames += 0 if result.failed else task.clip_frames
                done += result
                if result.stored:
                    self._tasks.append(task)
                if self._holder.seconds > MAX_SECONDS or done.stored >= max_frames:
                    break
            if not is_whole:
                self._tasks = _join(self._tasks, by_output=self._form == "output")
            counts.fill_seconds, counts.fill_cpu_seconds = self._holder.seconds, self._holder.cpu_seconds
            counts.pictures = self._holder.pictures
            scratch.flush()
            _check_writable(scratch)
            for kind in scratch.info().kinds:
                self.layout = self.layout or PlaneLayout.parse(kind.layout)
            if self._form == "planes" and self._tasks:
                seconds = self._read(scratch, "output") - self._read(scratch, "planes")
                counts.convert_seconds = max(0.0, seconds) / sum(task.num_frames for task in self._tasks)
        for _, name, message in done.failures.values():
            counts.error = counts.error or f"{name}: {message}"
        counts.clips = num_clips - counts.failed
        counts.decode_seconds = counts.fill_seconds + counts.convert_seconds * done.stored
        self.sample = PlanSample(
            counts,
            frames=done.stored + done.failed,
            runs=num_runs,
            list_seconds=self._list_seconds / max(1, self._num_listed),
            loader_pictures=self._count_loader_pictures(clips),
        )

    def _make_tasks(self, plan: EpochPlan, blocks: Sequence[IntArray], max_frames: int) -> Iterator[FillTask]:
        """Make the tasks of some blocks as a build does; those of several blocks are cut to frames of equal number."""
        options = FillOptions(self._form == "output", TASK_BYTES)
        for number, block in zip(scatter(len(blocks)), blocks, strict=True):
            begin = thread_time()
            tasks = list(make_tasks(plan, self._epochs, options, block))
            self._list_seconds += thread_time() - begin
            self._num_listed += len(block)
            if len(blocks) > 1:
                tasks = [task for task in tasks if task.num_clips or task.errors]
                most = max(1, max_frames // (len(blocks) * max(1, len(tasks))))
                tasks = [_cut(task, most, number / len(blocks)) for task in tasks]
            yield from tasks

    def measure(self, codec: FrameCodec) -> CodecSample:
        """Store the decoded clips with a codec, and read them.

        Raises:
            CacheError: The folder for temporary files cannot be used.
            ResourceExhausted: A resource ran out.
        """
        with self._opening(codec.label) as (scratch, fill):
            write_seconds = -self._count_own_seconds()
            for task in self._tasks:
                fill(task)
            scratch.flush()
            write_seconds += self._count_own_seconds()
            _check_writable(scratch)
            info = scratch.info()
            read_seconds = self._read(scratch, self._form)
        figures = CodecFigures(
            codec=codec.label,
            is_exact=codec.is_exact,
            num_frames=info.num_frames,
            raw_bytes=info.raw_bytes,
            stored_bytes=info.stored_bytes,
            write_seconds=write_seconds,
            read_seconds=read_seconds,
        )
        samples = [sample for sample in self._holder.samples if sample[0] == self.layout]
        alone = measure_codec(codec, [samples[i * len(samples) // SAMPLES] for i in range(min(SAMPLES, len(samples)))])
        stream_bytes = info.bytes_on_disk - info.stored_bytes - ROW.itemsize * info.num_frames
        return CodecSample(figures, alone, stream_bytes)

    @contextmanager
    def _opening(self, codec: str) -> Iterator[tuple[FrameCache, Filler]]:
        """Open a cache in a temporary folder, which is removed at the end."""
        try:
            folder = TemporaryDirectory(prefix="framefeed-estimate-")
        except OSError as error:
            resource = find_shortage(error)
            if resource is not None:
                raise make_shortage_error(resource, "temporary files", "estimate") from error
            raise _make_folder_error(str(error)) from error
        try:
            with FrameCache(folder.name, codec=codec, form=self._form, strict=self._strict) as scratch:
                yield scratch, Filler(self._plan, scratch, self._holder, self._epochs)
        finally:
            try:
                folder.cleanup()
            except KeyboardInterrupt:
                folder.cleanup()  # Python does not try again, and would leave the rest of the folder.
                raise

    def _count_loader_pictures(self, clips: int) -> float:
        """Count the pictures that a loader without a cache decodes for a clip."""
        num_clips = num_pictures = 0
        for block in _choose_blocks(self._plan, 1, clips):
            by_row: dict[int, list[IntArray]] = {}
            for position in block.tolist():
                with suppress(FrameNotFound, TimeUnavailable):
                    ordinals = self._plan[position].storable
                    by_row.setdefault(self._plan.row_at(position), []).append(ordinals)
            for row, ordinals_of_row in by_row.items():
                index = self._plan.catalog.frame_index(row)
                num_pictures += plan_runs(index, np.concatenate(ordinals_of_row)).num_decoded
            num_clips += len(block)
        return num_pictures / max(1, num_clips)

    def _count_own_seconds(self) -> float:
        """CPU time of this thread besides that of the decoder."""
        return thread_time() - self._holder.own_cpu_seconds

    def _read(self, scratch: FrameCache, form: Form) -> float:
        """Read all frames, with "output" as a loader does, with "planes" without conversion; return the CPU time."""
        decoder, rounds = scratch.decoder(self._holder, self._form), []
        for _ in range(_ROUNDS):
            begin = self._count_own_seconds()
            for task in self._tasks:
                source, index = (
                    MediaSource.of(self._plan.catalog.source(task.row)),
                    self._plan.catalog.frame_index(task.row),
                )
                decoder.decode(source, index, make_slots(task.runs, index, form))
            rounds.append(self._count_own_seconds() - begin)
        return min(rounds)


def _choose_blocks(plan: EpochPlan, epochs: int, clips: int) -> list[IntArray]:
    """Choose blocks of neighbouring positions in all epochs, as for ``make_tasks``; any few blocks lie far apart."""
    frames, total = plan.frames_per_clip or 1, len(plan) * epochs
    together = _NEIGHBOURS if frames == 1 else plan.options.clips_per_video
    length = max(1, min(together, total, MAX_FRAMES // (_MIN_BLOCKS * frames)))
    count = max(1, min(clips, max(_MIN_BLOCKS, MAX_FRAMES // (length * frames)), total // length))
    firsts = [number * (total - length) // max(1, count - 1) for number in scatter(count)]
    return [np.arange(first, first + length) for first in firsts]


def _cut(task: FillTask, most: int, share: float) -> FillTask:
    """Reduce a task to some consecutive frames, which begin after a share of it."""
    if task.num_frames <= most:
        return task
    first = int(share * (task.num_frames - most + 1))
    runs, begin = [], 0
    for run in task.runs:
        part = run.ordinals[max(0, first - begin) : max(0, first + most - begin)]
        runs += [FrameRun(part, run.output)] if len(part) else []
        begin += len(run)
    num_clips, clip_frames = (-(-count * most // task.num_frames) for count in (task.num_clips, task.clip_frames))
    return replace(task, runs=runs, num_clips=num_clips, clip_frames=clip_frames)


def _join(tasks: Sequence[FillTask], *, by_output: bool) -> list[FillTask]:
    """Join the tasks of each source, as a build does with those that it does not cut; each frame is in one of them."""
    joined: dict[int, FillTask] = {}
    seen = set[tuple[int, OutputSpec | None, int]]()
    for task in tasks:
        for run in task.runs:
            frames = [(task.row, run.output if by_output else None, ordinal) for ordinal in run.ordinals.tolist()]
            is_new = np.array([frame not in seen for frame in frames])
            seen.update(frames)
            if is_new.any():
                joined.setdefault(task.row, FillTask(-1, task.row)).append(run.ordinals[is_new], run.output)
    return list(joined.values())


def _check_writable(scratch: FrameCache) -> None:
    if scratch.store.trouble is not None:
        raise _make_folder_error(scratch.store.trouble)


def _make_folder_error(why: str) -> CacheError:
    return CacheError(
        f"a sample of the frames cannot be stored in the folder for temporary files: {why}: set TMPDIR to a folder "
        "with 100 MB of free space, or build without an estimate"
    )
