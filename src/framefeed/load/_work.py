"""Plan, decode and transform the clips of one source in one batch together, so that each GOP is decoded once.

Small pictures are taken together too: for each alone, all that is done besides reading it would take longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed._arrays import BoolArray
from framefeed._checks import describe_value
from framefeed._fetched import FetchCounter, counting_fetches
from framefeed.decode import (
    ClipSlot,
    DecodeCounts,
    Decoder,
    DecodeReport,
    Pixels,
    SourceClips,
    adapt_decoder,
    allocate_pixels,
    make_slot,
)
from framefeed.errors import DeadlineExceeded, UsageError, WorkerLost
from framefeed.index import SECONDS_PER_FILE, SECONDS_PER_FILE_PIXEL, plan_runs, predict_seconds
from framefeed.load._ahead import ReadAhead
from framefeed.load._batch import BufferPools, ByStream, ClipBatch
from framefeed.load._finish import TaskFrames
from framefeed.load._normalise import Normaliser
from framefeed.load._options import DEFAULT_READ_AHEAD, LoaderOptions, Transform
from framefeed.load._pending import PendingBatch, begin_batch
from framefeed.load._stats import Stopwatch, WorkCost
from framefeed.parallel import Err, Ok, catch_error, catch_outcome, fetch_limit
from framefeed.plan import EpochPlan, Sources, Take


@dataclass(slots=True, repr=False)
class DecodeTask:
    """The clips of one source in one batch, or of several pictures.

    Their ``slots`` in the batch are in the order of their sources. ``stage`` ("plan", "decode" or "transform") and
    ``slot`` say where a worker is, at the first of several slots. ``cost`` is predicted seconds, 0 if it is not known;
    the name of the decoder is for messages about workers that it ends.
    """

    batch: PendingBatch
    slots: list[int]
    stage: str = "plan"
    cost: float = 0.0
    decoder: str = ""
    slot: int = field(init=False)

    def __post_init__(self) -> None:
        self.slot = self.slots[0]

    @property
    def num_clips(self) -> int:
        return len(self.slots)

    @property
    def rows(self) -> list[int]:
        """Row of the catalog of each clip."""
        return [self.batch.rows[slot] for slot in self.slots]

    def __repr__(self) -> str:
        by = self.decoder and f', decoded by "{self.decoder}"'
        more = f" and {n} more sources" if (n := len(set(self.rows)) - 1) else ""
        return f"{self.num_clips} clips of {self.batch.identify(self.slots[0])[1]}{more}{by}"

    def fail(self, error: BaseException) -> None:
        if isinstance(error, DeadlineExceeded | WorkerLost):
            error.position = None  # it was the number of the task
        for slot in self.slots:
            self.batch.fail(slot, error, self.stage)


_DECODED_PIXELS = 1 << 20
"""Of the pictures of one task that are decoded: some 10 ms, so that other workers have work too."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """How many still pictures of a batch are one task, which for each of them alone takes as long as a cached picture.

    A task of several pictures has at most ``clips``, where 1 makes each source a task, and ``pixels`` of them as they
    are stored; a larger picture is a task alone.
    """

    clips: int = 1
    pixels: float = _DECODED_PIXELS

    @classmethod
    def of(cls, options: LoaderOptions, clips_ahead: int) -> Grouping:
        """Choose it for a loader that prepares so many clips ahead."""
        if options.kind == "processes" and options.num_workers:
            return cls()  # so that a process that dies or hangs takes one source with it
        # At least four tasks for each worker.
        clips = min(_MOST_PICTURES, clips_ahead // (4 * max(1, options.num_workers)))
        return cls(max(1, clips), _DECODED_PIXELS if options.cache is None else inf)


_MOST_PICTURES = 16
"""Clips of a task: with more, what is done for a task takes no visible part of its time."""


def split_batch(
    batch: PendingBatch, decoder: str = "", grouping: Grouping | None = None, *, keep_clips: bool = False
) -> list[DecodeTask]:
    """Split a batch into tasks, in the order in which their sources first appear.

    With ``keep_clips``, all takes of a clip are one task, with all clips that have a source in common.
    """
    if keep_clips and len(batch) > batch.count:
        return [DecodeTask(batch, slots, decoder=decoder) for slots in _group_by_sources(batch)]
    grouping = grouping or Grouping()
    slots_of: dict[int, list[int]] = {}
    for slot, row in enumerate(batch.rows):
        slots_of.setdefault(row, []).append(slot)
    tasks: list[DecodeTask] = []
    clips, pixels = 0, 0.0  # that the last task may still have
    for row, slots in slots_of.items():
        size = batch.count_pixels(row) if grouping.clips > 1 else None
        if size is not None and len(slots) <= clips and size <= pixels:
            tasks[-1].slots += slots
        else:
            tasks.append(DecodeTask(batch, slots, decoder=decoder))
            clips, pixels = (0, 0.0) if size is None else (grouping.clips, grouping.pixels)
        clips, pixels = clips - len(slots), pixels - (size or 0)
    return tasks


def _group_by_sources(batch: PendingBatch) -> list[list[int]]:
    """Group the slots of whole clips of several takes, so that each source is in one group."""
    group_of = list(range(batch.count))

    def find(clip: int) -> int:
        while group_of[clip] != clip:
            clip = group_of[clip]
        return clip

    first_with: dict[int, int] = {}
    for slot, row in enumerate(batch.rows):
        clip = slot % batch.count
        one, other = sorted((find(clip), find(first_with.setdefault(row, clip))))
        group_of[other] = one
    groups: dict[int, list[int]] = {}
    for clip in range(batch.count):
        groups.setdefault(find(clip), []).append(clip)
    return [batch.list_slots(clips) for clips in groups.values()]


class ClipCosts:
    """Predicted CPU seconds of a clip of each source, which is that of its first clip.

    Sources differ much more than the clips of one: of 236 clips of 60 real videos, the standard deviation of the
    logarithm was 1.7 over all, and 0.1 within a video.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        pixels = np.maximum(0, sources.heights) * np.maximum(0, sources.widths)
        of_picture = SECONDS_PER_FILE + pixels * SECONDS_PER_FILE_PIXEL
        # 0 if it is not known; that of a picture is known from its size.
        self._seconds = np.where(sources.num_frames == 1, of_picture, 0).astype(np.float32)
        self._sum = 0.0
        self._known = 0

    def learn(self, row: int, take: Take | None) -> None:
        """Predict the cost of the clips of a source from one of them; None, which cannot be planned, costs nothing."""
        outcome = None if take is None else catch_error(partial(self._predict, row), take)
        if isinstance(outcome, Ok):
            self._seconds[row] = outcome.value
            self._sum += outcome.value
            self._known += 1

    def _predict(self, row: int, take: Take) -> float:
        index = self._sources.frame_index(row)
        return predict_seconds(index, plan_runs(index, take.decoded))

    def predict(self, task: DecodeTask) -> float:
        """Predict the seconds of a task; if a source is not known, as many as the mean of the others."""
        mean = self._sum / max(1, self._known)
        return sum([float(self._seconds[row]) or mean for row in task.rows])

    def is_known(self, row: int) -> bool:
        return bool(self._seconds[row])


class ClipWorker:
    """Plans, decodes and transforms the clips of a task; called by several threads at once.

    ``fetch_seconds`` is the longest time for the fetches of a task, those by URL, from its start. The normaliser comes
    after the transform. Up to ``read_ahead`` bytes of remote sources are asked for before they are decoded.
    """

    @classmethod
    def of(cls, plan: EpochPlan, options: LoaderOptions, counter: FetchCounter) -> ClipWorker:
        """Make a worker for the whole epoch of a plan."""
        return cls(
            plan.whole,
            options.decoder_for(plan),
            options.transform,
            options.fetch_seconds,
            options.normaliser,
            options.read_ahead_bytes,
            counter,
        )

    def __init__(
        self,
        plan: EpochPlan,
        decoder: Decoder,
        transform: Transform | None = None,
        fetch_seconds: float | None = None,
        normaliser: Normaliser | None = None,
        read_ahead: int = 0,
        counter: FetchCounter | None = None,
    ) -> None:
        self._plan = plan
        self._decoder = adapt_decoder(decoder)
        self._sources = plan.clips.sources
        self.ahead = ReadAhead(self._sources, self._decoder, read_ahead, counter)
        self._transform = transform
        self._fetch_seconds = fetch_seconds
        self._counter = counter
        self._normaliser = normaliser
        self._in_place = normaliser is None or transform is not None

    def __call__(self, task: DecodeTask) -> WorkCost:
        """Do a task; errors are stored in the batch."""
        self.ahead.begin(task)
        try:
            with counting_fetches(self._counter):
                return self._do(task)
        finally:
            self.ahead.end(task)

    def _do(self, task: DecodeTask) -> WorkCost:
        cost = WorkCost()
        planned = task.batch.plan_takes()
        takes = {slot: take for slot in task.slots if (take := planned[slot]) is not None}
        cost.plan = task.batch.pop_plan_seconds()
        watch = Stopwatch()
        task.stage = "decode"
        memory = TaskFrames(task.batch, in_place=self._in_place)
        with fetch_limit(self._fetch_seconds):
            frames = self._decode(task, takes, memory, cost.counts)
        if self._transform is not None:
            cost.decode = watch.lap()
            task.stage = "transform"
            cost.nbytes = self._transform_clips(task, frames, memory)
            cost.transform = watch.lap()
            return cost
        if self._normaliser is not None:
            cost.nbytes = self._normalise(task, frames, self._normaliser)
        else:
            cost.nbytes = sum(each.nbytes for each in frames.values())
        cost.decode = watch.lap()
        return cost

    def apply_transform(self, clip_and_position: tuple[Any, int]) -> ByStream[npt.NDArray[Any]]:
        """Call the transform on the clip at a global position; of several streams, on a dict of clips."""
        clip, position = clip_and_position
        assert self._transform is not None
        returned: Any = self._transform(clip, self._plan.order.generator_at(position))
        if not isinstance(clip, dict):
            return self._check_result(returned)
        if not isinstance(returned, Mapping) or returned.keys() != clip.keys():
            given = list(returned) if isinstance(returned, Mapping) else describe_value(returned)
            raise UsageError(f"transform: expected it to return a dict of the streams {list(clip)}, got {given}")
        return {name: self._check_result(returned[name]) for name in clip}

    def _check_result(self, returned: Any) -> npt.NDArray[Any]:
        result = np.asarray(returned)
        if result.dtype.hasobject or result.dtype.kind in "SU":
            if returned is None:
                given = "None: end the function with `return` and the transformed clip"
            else:
                given = f"{describe_value(returned)}, which as an array has the type {result.dtype}"
            raise UsageError(f"transform: expected it to return an array of numbers, got {given}")
        if self._normaliser is not None:
            self._normaliser.check(result)
        return result

    def _decode(
        self, task: DecodeTask, takes: dict[int, Take], memory: TaskFrames, counts: DecodeCounts
    ) -> dict[int, Pixels]:
        batch = task.batch
        frames: dict[int, Pixels] = {}
        sources: dict[int, list[_Part]] = {}
        for slot, take in takes.items():
            frames[slot] = memory.lease(slot, take)
            for mask, clip_slot in split_damaged(take, frames[slot]):
                sources.setdefault(batch.rows[slot], []).append((slot, mask, clip_slot))
        for parts, outcome in self._decode_sources(task, sources):
            errors: Sequence[BaseException | None]
            if isinstance(outcome, Err):
                errors = [outcome.error] * len(parts)
            else:
                counts += outcome.value.counts
                errors = outcome.value.errors
            for (slot, _, _), error in zip(parts, errors, strict=True):
                if error is not None and slot in frames:
                    batch.fail(slot, error, task.stage, f" in the decoder {task.decoder or self._decoder.name!r}")
                    del frames[slot]
            for slot, mask, clip_slot in parts:
                if mask is not None and slot in frames:
                    frames[slot][mask] = clip_slot.out
        for slot, decoded in frames.items():
            frames[slot] = memory.finish(slot, takes[slot], decoded)
        return frames

    def _decode_sources(
        self, task: DecodeTask, sources: dict[int, list[_Part]]
    ) -> Iterator[tuple[list[_Part], Ok[DecodeReport] | Err]]:
        """Decode the takes of each source, after those that need no decoding are read together."""

        def open_source(of: tuple[int, list[_Part]]) -> SourceClips:
            row, parts = of
            return *self._sources.open(row), [clip_slot for _, _, clip_slot in parts]

        def step_through() -> Iterator[SourceClips]:
            for parts, outcome in zip(sources.values(), opened, strict=True):
                if isinstance(outcome, Ok):
                    task.slot = parts[0][0]
                    yield outcome.value

        opened = [catch_outcome(open_source, of) for of in sources.items()]
        reports = iter(self._decoder.read_ready(step_through()))
        for parts, outcome in zip(sources.values(), opened, strict=True):
            task.slot = parts[0][0]
            if isinstance(outcome, Err):
                yield parts, outcome
            elif (report := next(reports)) is not None:
                yield parts, Ok(report)
            else:
                yield parts, catch_outcome(lambda clips: self._decoder.decode(*clips), outcome.value)

    def _transform_clips(self, task: DecodeTask, frames: dict[int, Pixels], memory: TaskFrames) -> int:
        """Transform the clips of which all takes are there, and put the results into the batch; return their bytes."""
        nbytes, batch = 0, task.batch
        for clip in batch.find_clips(list(frames)):
            slots = batch.list_slots([clip])
            if not all(slot in frames for slot in slots):
                continue
            task.slot = slots[0]
            # Given up before the call, so that the memory of a clip comes back before the next one is transformed.
            for slot in slots:
                del frames[slot]
            outcome = catch_outcome(partial(self._transform_clip, batch, clip), memory.pop_clip(clip))
            if isinstance(outcome, Ok):
                nbytes += outcome.value
            else:
                batch.fail(slots[0], outcome.error, task.stage)
        return nbytes

    def _transform_clip(self, batch: PendingBatch, clip: int, parts: list[Pixels]) -> int:
        result = self.apply_transform((batch.join_parts(parts), batch.positions[clip]))
        nbytes = 0
        for memory, each in zip(batch.memories, batch.split_result(result), strict=True):
            memory.put(clip, each, self._normaliser)
            nbytes += each.size * (each if self._normaliser is None else self._normaliser.array_dtype).itemsize
        return nbytes

    def _normalise(self, task: DecodeTask, frames: dict[int, Pixels], normaliser: Normaliser) -> int:
        """Put decoded frames into the batch, normalised; return their bytes there."""
        nbytes, batch = 0, task.batch

        def put(slot: int) -> None:
            part, clip, stretch = batch.places[slot]
            if len(frames[slot]) == batch.shapes[part][clip][0]:
                batch.memories[part].put(clip, frames[slot], normaliser)
            else:
                batch.memories[part].put_frames(clip, stretch, frames[slot], normaliser)

        for slot in list(frames):
            task.slot = slot
            outcome = catch_outcome(put, slot)
            # Popped, so that the memory comes back for the next frames.
            pixels = frames.pop(slot)
            if isinstance(outcome, Ok):
                nbytes += pixels.size * normaliser.array_dtype.itemsize
            else:
                batch.fail(slot, outcome.error, task.stage)
        return nbytes


_Part = tuple[int, BoolArray | None, ClipSlot]
"""Slot in the batch, frames of the take or None for all, and where they are decoded."""


def split_damaged(take: Take, clip: Pixels) -> list[tuple[BoolArray | None, ClipSlot]]:
    """List the whole clip; if damaged frames are no error, its intact frames, and the damaged ones to be delivered.

    Parts of a clip have a mask, bool [T], and memory of their own; the whole clip has None.
    """
    if take.damaged is None or take.on_damaged == "error":
        return [(None, make_slot(take.indices, take.output, clip))]
    parts: list[tuple[BoolArray | None, ClipSlot]] = []
    for mask, is_damaged in ((~take.damaged, False), (take.damaged, True)):
        if mask.any() and (not is_damaged or take.on_damaged == "deliver"):
            shape = np.count_nonzero(mask), *clip.shape[1:]
            memory = allocate_pixels(shape, f"{shape[0]} frames of a clip {list(shape)}")
            parts.append((mask, make_slot(take.indices[mask], take.output, memory, is_damaged)))
    return parts


def load_batch(
    plan: EpochPlan,
    positions: Sequence[int],
    decoder: Decoder,
    buffers: BufferPools,
    normaliser: Normaliser | None = None,
) -> ClipBatch:
    """Load positions of a plan in the calling thread; the errors of clips are in the batch.

    ``buffers`` are of the dtype of the normaliser.
    """
    whole = plan.whole
    found = whole.clips_at(plan.global_position(np.array(positions, dtype=np.int64)))
    batch = begin_batch(whole, found, buffers)
    worker = ClipWorker(whole, decoder, normaliser=normaliser, read_ahead=DEFAULT_READ_AHEAD)
    tasks = split_batch(batch, grouping=Grouping(_MOST_PICTURES))
    for task in tasks:
        worker.ahead.add(task)
    try:
        for task in tasks:
            worker(task)
    finally:
        worker.ahead.close()
    return batch.finish()
