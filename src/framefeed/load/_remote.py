"""Do tasks in worker processes: a small request there, pixels through shared memory, times and errors back."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefeed._fetched import FetchCounter, FetchCounts
from framefeed.decode import Pixels
from framefeed.errors import FramefeedError, LoadError
from framefeed.load._ahead import ReadAhead
from framefeed.load._batch import BufferPools, ByStream, SharedArray
from framefeed.load._memory import TaskMemory
from framefeed.load._options import LoaderOptions
from framefeed.load._pending import BatchFrames, PendingBatch
from framefeed.load._stats import Stopwatch, WorkCost
from framefeed.load._work import ClipWorker, DecodeTask
from framefeed.media import SentRanges
from framefeed.parallel import (
    Err,
    Pool,
    RemoteCaller,
    RemoteCalls,
    fetch_limit,
    is_sendable,
    ordered_outcomes,
    run_next,
)
from framefeed.plan import EpochPlan

if TYPE_CHECKING:
    from framefeed.cache import CacheStats


@dataclass(frozen=True, slots=True)
class ClipRequest:
    """A task for a worker process: global positions of clips, and T of each clip of each part.

    ``shared`` is memory of each part of each clip, or its result, None if it must be sent; ``sent`` bytes of remote
    sources.
    """

    iteration: int
    epoch: int
    positions: tuple[int, ...]
    lengths: tuple[tuple[int, ...], ...]
    shared: tuple[tuple[SharedArray | None, ...], ...]
    sent: list[SentRanges] = field(default_factory=list, repr=False)


@dataclass(frozen=True, slots=True)
class TransformRequest:
    """A clip to be transformed by a worker process, and its global position."""

    iteration: int
    epoch: int
    clip: Pixels | dict[str, Pixels]
    position: int


@dataclass(frozen=True, slots=True)
class FlushRequest:
    """Ask a worker process to write the frames that it has cached."""


@dataclass(frozen=True, slots=True)
class ClipAnswer:
    """What a worker process returns for a task.

    Arrays and errors are as in a batch, for the clips of the task. ``results`` of each part are not in shared memory,
    by the number of the clip in the task; ``fetched`` counts what the process fetched by URL since its last answer.
    """

    cost: WorkCost
    frames: list[BatchFrames]
    errors: list[FramefeedError | None]
    results: list[dict[int, npt.NDArray[Any]]]
    process: int
    cache: CacheStats | None
    fetched: FetchCounts


ProcessRequest = ClipRequest | TransformRequest | FlushRequest


class ClipProcess:
    """Plans, decodes and transforms clips in a worker process, to which it is sent once; the plan is at any epoch."""

    def __init__(self, plan: EpochPlan, options: LoaderOptions) -> None:
        self._plan = plan
        self._options = options
        self._buffers = BufferPools(0, None if options.transform is None else 1, dtype=options.array_dtype)
        self._iteration: tuple[int, int] | None = None
        self._worker: ClipWorker | None = None
        self._counter = FetchCounter()

    def __reduce__(self) -> tuple[type[ClipProcess], tuple[EpochPlan, LoaderOptions]]:
        return (ClipProcess, (self._plan, self._options))

    def __repr__(self) -> str:
        return f"the work on {self._plan!r}"

    def __call__(self, request: ProcessRequest) -> ClipAnswer | ByStream[npt.NDArray[Any]] | None:
        """Do a task, transform a clip, or write the frames of the cache."""
        cache = self._options.cache
        if isinstance(request, FlushRequest):
            if cache is not None:
                cache.flush()
            return None
        worker = self._begin(request.iteration, request.epoch)
        if isinstance(request, TransformRequest):
            return worker.apply_transform((request.clip, request.position))
        found = self._plan.whole.clips_at(np.array(request.positions, dtype=np.int64))
        # T of some clips is known when they are planned, which the process that asked has done.
        shapes = [
            [(length, *shape[1:]) for length, shape in zip(lengths, of_part, strict=True)]
            for lengths, of_part in zip(request.lengths, found.find_shapes(), strict=True)
        ]
        # Memory of the process that asked.
        memories = [TaskMemory(each, own, self._buffers) for each, own in zip(shapes, request.shared, strict=True)]
        batch = PendingBatch(self._plan.whole, found, memories, shapes)
        received = [each.receive() for each in request.sent]
        try:
            cost = worker(DecodeTask(batch, list(range(len(batch)))))
        finally:
            for each in received:
                each.drop()
        errors = [error if error is None else _make_sendable(error) for error in batch.errors]
        counts = None if cache is None else cache.stats()
        results = [each.results for each in memories]
        return ClipAnswer(cost, batch.frames, errors, results, os.getpid(), counts, self._counter.take())

    def _begin(self, iteration: int, epoch: int) -> ClipWorker:
        if self._worker is None or self._iteration != (iteration, epoch):
            cache = self._options.cache
            if cache is not None and self._worker is not None:
                # Other workers may now need the frames that this one stored.
                cache.flush()
            self._plan = self._plan.with_epoch(epoch)
            self._worker = ClipWorker.of(self._plan, self._options, self._counter)
            self._iteration = iteration, epoch
        return self._worker


def _make_sendable(error: FramefeedError) -> FramefeedError:
    """Return an error of a clip, or its message if it cannot be sent."""
    if is_sendable(error):
        return error
    context = {"position": error.position, "source": error.source, "stage": error.stage}
    return LoadError(f"{type(error).__name__}: {error}", **context)  # type: ignore[arg-type]


ProcessCalls = RemoteCalls[ProcessRequest, Any]
"""Calls of a `ClipProcess`."""


class ProcessClips(RemoteCaller):
    """Has tasks done in the worker process of the calling thread, and stores the answers in their batches.

    ``caches`` are counts of the cache in each process, by its number. ``ahead`` asks for bytes in this process: which
    process does a task is known when it begins.
    """

    def __init__(
        self,
        calls: ProcessCalls,
        iteration: int,
        epoch: int,
        caches: dict[int, CacheStats],
        counter: FetchCounter,
        ahead: ReadAhead,
        fetch_seconds: float | None,
    ) -> None:
        self.ahead = ahead
        self._fetch_seconds = fetch_seconds
        self._calls = calls
        self._caches = caches
        self._counter = counter
        self._iteration = iteration
        self._epoch = epoch

    def __call__(self, task: DecodeTask) -> WorkCost:
        """Do a task; errors of clips are stored in the batch."""
        self.ahead.begin(task)
        try:
            return self._do(task)
        finally:
            self.ahead.end(task)

    def _do(self, task: DecodeTask) -> WorkCost:
        batch, watch = task.batch, Stopwatch()
        with fetch_limit(self._fetch_seconds):
            sent = self.ahead.send(task)
        fetch_seconds = watch.lap()
        clips = batch.find_clips(task.slots)
        positions = tuple(batch.positions[clip] for clip in clips)
        shared = tuple(tuple(memory.share(clip) for clip in clips) for memory in batch.memories)
        lengths = tuple(tuple(of_part[clip][0] for clip in clips) for of_part in batch.shapes)
        request = ClipRequest(self._iteration, self._epoch, positions, lengths, shared, sent)
        answer: ClipAnswer = self._calls(request)
        self._counter.add(answer.fetched)
        if answer.cache is not None:
            self._caches[answer.process] = answer.cache
        for frames, answered in zip(batch.frames, answer.frames, strict=True):
            frames.copy_from(answered, clips)
        for slot, error in zip(batch.list_slots(clips), answer.errors, strict=True):
            if error is not None:
                batch.set_error(slot, error)
        for memory, results in zip(batch.memories, answer.results, strict=True):
            for number, result in results.items():
                if batch.find_error(clips[number]) is None:
                    memory.put(clips[number], result)
        answer.cost.decode += fetch_seconds
        return answer.cost

    def apply_transform(self, pool: Pool, clip_and_position: tuple[Any, int]) -> object:
        """Call the transform in any process of a pool."""
        request = TransformRequest(self._iteration, self._epoch, *clip_and_position)
        with ordered_outcomes(self._calls, [request], pool=run_next(pool), max_in_flight=1) as outcomes:
            outcome = next(outcomes)
        if isinstance(outcome, Err):
            raise outcome.error
        return outcome.value
