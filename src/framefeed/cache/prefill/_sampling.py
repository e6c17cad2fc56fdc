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
from framefeed.cache._demand import FillOptions, FillTask, FrameRun, make_tasks, scatter
from framefeed.cache._frame_cache import FrameCache
from framefeed.cache._keys import Form
from framefeed.cache._planned import count_frame_bytes
from framefeed.cache.codecs._auto import CodecFigures
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
    rebuild_picture,
)
from framefeed.errors import CacheError, FrameNotFound, TimeUnavailable, UsageError
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.parallel import find_shortage, make_shortage_error
from framefeed.plan import EpochPlan, plan_runs

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
        stream_bytes: Bytes of the files besides the frames and their rows.
    """

    figures: CodecFigures
    stream_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
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
    """Decode frames with another decoder, and hold them for the next equal call.

    Args:
        inner: The other decoder.

    Attributes:
        seconds: Time that the other decoder took.
        cpu_seconds: CPU time of it.
        own_cpu_seconds: CPU time of all calls, of equal ones too.
        pictures: Pictures that it decoded.
    """

    def __init__(self, inner: Decoder) -> None:
        self._inner = adapt_decoder(inner)
        self.name = inner.name
        self.seconds = self.cpu_seconds = self.own_cpu_seconds = 0.0
        self.pictures = 0
        self._clips: dict[object, tuple[list[Pixels], DecodeReport]] = {}
        self._pictures: dict[object, list[tuple[int, Any]]] = {}

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Decode clips, or copy held ones; see ``Decoder.decode``."""
        begin = thread_time()
        key = source.name, index.identity, index.stream, *((slot.output, slot.indices.tobytes()) for slot in slots)
        if key not in self._clips:
            with self._timing():
                report = self._inner.decode(source, index, slots)
            self.pictures += report.counts.frames_decoded
            self._clips[key] = [slot.out.copy() for slot in slots], report
        clips, report = self._clips[key]
        for slot, pixels in zip(slots, clips, strict=True):
            slot.out[:] = pixels
        self.own_cpu_seconds += thread_time() - begin
        return DecodeReport(list(report.errors), replace(report.counts))

    def iter_native(
        self,
        source: MediaSource,
        index: FrameIndex,
        ordinals: npt.ArrayLike | range,
        counts: DecodeCounts | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Decode all pictures, or take held ones, then yield them; see ``BaseDecoder.iter_native``."""
        begin, pictures = thread_time(), list[tuple[int, Any]]()
        key = source.name, index.identity, index.stream, np.asarray(ordinals, np.int64).tobytes()
        if key not in self._pictures:
            own = DecodeCounts()
            with self._timing():
                # A picture is valid until the next one is requested.
                for ordinal, picture in self._inner.iter_native(source, index, ordinals, own):
                    pictures.append((ordinal, _copy_picture(picture)))
            self.pictures += own.frames_decoded
            self._pictures[key] = pictures
        self.own_cpu_seconds += thread_time() - begin
        yield from self._pictures[key]

    def can_iter_native(self, index: FrameIndex) -> bool:
        """Whether the other decoder can."""
        return self._inner.can_iter_native(index)

    def recipe(self, index: FrameIndex) -> str:
        """Return the recipe of the other decoder."""
        return self._inner.recipe(index)

    @contextmanager
    def _timing(self) -> Iterator[None]:
        begin, cpu_begin = perf_counter(), thread_time()
        yield
        self.seconds += perf_counter() - begin
        self.cpu_seconds += thread_time() - cpu_begin


def _copy_picture(picture: Any) -> Any:
    try:
        layout = describe_layout(picture)
    except UsageError:  # too large to be stored
        return picture
    planes = np.empty(layout.nbytes, dtype=np.uint8)
    copy_planes(picture, planes)
    return rebuild_picture(layout, planes)


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
        self._num_listed = self._loader_pictures = 0
        self._list_seconds = 0.0
        self.layout: PlaneLayout | None = None
        self.sample = Sample(SampleCounts())

    def decode_clips(self, clips: int) -> None:
        """Decode about so many clips, or groups of neighbours, spread over the plan.

        Raises:
            UsageError: The decoder cannot give frames in the form to be stored.
            CacheError: There is no folder for temporary files, or it cannot be used.
            ResourceExhausted: A resource ran out.
        """
        blocks, max_frames = self._choose_blocks(clips)
        counts, done = SampleCounts(), FillCounts()
        num_clips = num_runs = 0
        with self._opening("raw") as (scratch, fill):
            for task in self._make_tasks(blocks, max_frames):
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
        self.sample = Sample(
            counts,
            frames=done.stored + done.failed,
            runs=num_runs,
            list_seconds=self._list_seconds / max(1, self._num_listed),
            loader_pictures=self._loader_pictures / max(1, self._num_listed),
        )

    def _make_tasks(self, blocks: Sequence[IntArray], max_frames: int) -> Iterator[FillTask]:
        """Make the tasks of some blocks as a build does; those of several blocks are cut to frames of equal number."""
        options = FillOptions(self._form == "output", TASK_BYTES)
        for number, block in zip(scatter(len(blocks)), blocks, strict=True):
            begin = thread_time()
            tasks = list(make_tasks(self._plan, self._epochs, options, block))
            self._list_seconds += thread_time() - begin
            self._num_listed += len(block)
            self._loader_pictures += self._count_loader_pictures(block)
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
        return CodecSample(figures, info.bytes_on_disk - info.stored_bytes - ROW.itemsize * info.num_frames)

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

    def _choose_blocks(self, clips: int) -> tuple[list[IntArray], int]:
        """Choose positions of all epochs: a block of all, or blocks of neighbours of which any few lie far apart.

        Returns:
            (blocks, most frames to decode).
        """
        frames, total = self._plan.frames_per_clip or 1, len(self._plan) * self._epochs
        together = _NEIGHBOURS if frames == 1 else self._plan.options.clips_per_video
        length = max(1, min(together, total, MAX_FRAMES // (_MIN_BLOCKS * frames)))
        count = max(1, min(clips, max(_MIN_BLOCKS, MAX_FRAMES // (length * frames)), total // length))
        firsts = [number * (total - length) // max(1, count - 1) for number in scatter(count)]
        rows = [self._plan.row_at(first % len(self._plan)) for first in firsts]
        frame_bytes = sum(count_frame_bytes(self._plan, self._form, row) for row in rows) / len(rows)
        max_frames = max(1, min(MAX_FRAMES, int(MAX_BYTES / frame_bytes)))
        if total <= clips * together and total * frames <= max_frames:
            return [np.arange(total)], max_frames
        return [np.arange(first, first + length) for first in firsts], max_frames

    def _count_loader_pictures(self, block: IntArray) -> int:
        """Count the pictures that a loader without a cache decodes for some neighbours."""
        num_pictures = 0
        for part in np.split(block, range(_NEIGHBOURS, len(block), _NEIGHBOURS)):
            by_row: dict[int, list[IntArray]] = {}
            for epoch, position in zip(*np.divmod(part, len(self._plan)), strict=True):
                plan = self._plan.with_epoch(self._plan.epoch + int(epoch))
                with suppress(FrameNotFound, TimeUnavailable):
                    ordinals = plan[position].storable
                    by_row.setdefault(plan.row_at(position), []).append(ordinals)
            for row, clips in by_row.items():
                num_pictures += plan_runs(self._plan.catalog.frame_index(row), np.concatenate(clips)).num_decoded
        return num_pictures

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


def _check_writable(scratch: FrameCache) -> None:
    if scratch.store.trouble is not None:
        raise _make_folder_error(scratch.store.trouble)


def _make_folder_error(why: str) -> CacheError:
    return CacheError(
        f"a sample of the frames cannot be stored in the folder for temporary files: {why}: set TMPDIR to a folder "
        "with 100 MB of free space, or build without an estimate"
    )
