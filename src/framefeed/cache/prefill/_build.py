"""build: fill a cache in advance with all frames of a plan; each GOP is decoded once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from math import sqrt
from time import perf_counter
from typing import Any, Literal, Self

import numpy as np

from framefeed._checks import check_integer, check_progress, expected, showing_progress
from framefeed._values import Limits
from framefeed.cache._caching import CachingDecoder
from framefeed.cache._frame_cache import FrameCache
from framefeed.cache._keys import Form
from framefeed.cache.prefill._demand import (
    TASK_BYTES,
    FillOptions,
    FillTask,
    FrameRun,
    count_demand,
    count_frames,
    make_tasks,
)
from framefeed.cache.store._format import ROW
from framefeed.decode import ClipSlot, Decoder, as_decoder, find_reduction
from framefeed.errors import CacheError, FramefeedError, UsageError
from framefeed.index import FrameIndex, has_picture_files
from framefeed.media import MediaSource, source_name
from framefeed.parallel import (
    SAYS_NOTHING_OF_FILES,
    Err,
    catch_outcome,
    find_shortage,
    make_shortage_error,
    ordered_outcomes,
    thread_budget,
)
from framefeed.plan import EpochPlan, choose_stored_form, count_planned
from framefeed.request import OutputSpec


def make_decoder(plan: EpochPlan, cache: FrameCache, inner: Decoder, epochs: int = 1) -> CachingDecoder:
    """Wrap a decoder so that it reads the clips of a plan from a cache and fills it, in the form that suits the plan.

    If the cache has a ``max_bytes``, it is told how many frames the plan needs.

    Args:
        plan: The plan at its first epoch.
        cache: The cache.
        inner: Decodes the frames that the cache lacks.
        epochs: Number of epochs that will be stored.

    Raises:
        UsageError: An argument is wrong.
        CacheError: The folder of the cache is a file, or others may write to it.
    """
    check_filling(plan, cache, epochs)
    form = choose_form(plan, cache)
    decoder = cache.decoder(inner, form)
    if cache.options.max_bytes is not None:
        cache.expect(*count_planned(plan, form, epochs))
    return decoder


def choose_form(plan: EpochPlan, cache: FrameCache) -> Form:
    """Choose the form in which frames of a plan are stored: that of the cache, else the one that suits the plan.

    Planes suit random crops and whole pictures; outputs suit all others.
    """
    check_filling(plan, cache)
    return choose_stored_form(plan, cache.options.form)


def check_filling(plan: object, cache: object, epochs: Any = 1) -> None:
    """Check the arguments of a function that fills a cache."""
    if not isinstance(plan, EpochPlan):
        raise expected("plan", "an EpochPlan (from ff.plan_clips or ff.plan_requests)", plan)
    if not isinstance(cache, FrameCache):
        raise expected("cache", "an ff.FrameCache", cache)
    check_integer("epochs", epochs, least=1)


Failed = tuple[str, str, str]
"""Source, error type, message."""

_CORNER = 16
"""Side of the part of each picture that is converted if planes are stored: the result is not used."""


@dataclass(slots=True)
class FillCounts:
    """Results of some tasks; adding two gives their sum."""

    clip_frames: int = 0  # frames of the clips, repeats included
    stored: int = 0
    present: int = 0
    failed: int = 0
    busy_seconds: float = 0.0  # time of the tasks, of all threads together
    failures: dict[str, Failed] = field(default_factory=dict)

    def __iadd__(self, other: FillCounts) -> Self:
        self.clip_frames += other.clip_frames
        self.stored += other.stored
        self.present += other.present
        self.failed += other.failed
        self.busy_seconds += other.busy_seconds
        self.failures = {**other.failures, **self.failures}
        return self

    def add_failure(self, name: str, error: BaseException, frames: int = 0) -> None:
        """Count failed frames of a source."""
        self.failed += frames
        self.failures.setdefault(name, (name, type(error).__name__, str(error)))


class Filler:
    """Stores the frames of a plan in a cache, task by task; called by several threads at once."""

    def __init__(self, plan: EpochPlan, cache: FrameCache, inner: Decoder, epochs: int = 1) -> None:
        self._plan = plan
        self._cache = cache
        self._decoder = make_decoder(plan, cache, inner, epochs).without_counting()
        self.form = choose_form(plan, cache)

    def __call__(self, task: FillTask) -> FillCounts:
        """Do a task. What says nothing about a file, and a request to stop, is raised; other errors are counted."""
        counts, begin = FillCounts(task.clip_frames), perf_counter()
        name = source_name(self._plan.clips.sources.source(task.row), task.row)
        for error in task.errors:
            counts.add_failure(name, error)
        if not self._cache.is_filling or not task.runs:
            return counts
        outcome = catch_outcome(lambda _: self._fill(task, counts, name), None)
        if isinstance(outcome, Err):
            if isinstance(outcome.error, SAYS_NOTHING_OF_FILES) or not isinstance(outcome.error, Exception):
                raise outcome.error
            resource = find_shortage(outcome.error)
            if resource is not None:
                raise make_shortage_error(resource, name, "cache") from outcome.error
            counts.add_failure(name, outcome.error, task.num_frames - counts.present - counts.stored)
        counts.busy_seconds = perf_counter() - begin
        return counts

    def _fill(self, task: FillTask, counts: FillCounts, name: str) -> None:
        source, index = self._plan.clips.sources.open(task.row)
        self._cache.store.refresh()  # Another process may have stored some meanwhile.
        missing = [self._find_missing(source, index, run) for run in task.runs]
        num_missing = sum(map(len, missing))
        counts.present += task.num_frames - num_missing
        errors = self._decode(source, index, [run for run in missing if len(run)], counts)
        if errors and self.form == "output":
            # Nothing is stored of a clip that fails, so its frames are decoded one by one.
            single = [FrameRun(run.ordinals[[i]], run.output) for run, _ in errors for i in range(len(run))]
            errors = self._decode(source, index, single, counts)
        num_left = 0
        if counts.stored < num_missing:
            # Other processes may have stored some meanwhile.
            num_left = sum(len(self._find_missing(source, index, run)) for run in missing)
            counts.present += num_missing - counts.stored - num_left
        resource = self._cache.state.shortage or self._cache.store.appender.shortage
        if num_left and resource is not None:
            raise make_shortage_error(resource, self._cache.path, "store")
        if num_left and self._cache.is_filling:
            unknown = CacheError(
                f"{name}: {num_left} frame{'' if num_left == 1 else 's'} cannot be stored: the source cannot be "
                "identified by its contents, or the file was changed while it was read, or just before; if a program "
                "writes to the file, build again when it has ended"
            )
            counts.add_failure(name, errors[0][1] if errors else unknown, num_left)

    def _decode(
        self, source: MediaSource, index: FrameIndex, runs: Sequence[FrameRun], counts: FillCounts
    ) -> list[tuple[FrameRun, BaseException]]:
        """Decode and store runs; return those that failed, with their errors."""
        if not runs:
            return []
        slots = make_slots(runs, index, self.form)
        report = self._decoder.decode(source, index, slots)
        # Not held by the traceback of an error: memory may be what ran out.
        del slots
        counts.stored += report.counts.frames_stored
        for error in report.errors:
            if isinstance(error, SAYS_NOTHING_OF_FILES):
                raise error
        return [(run, error) for run, error in zip(runs, report.errors, strict=True) if error is not None]

    def select_missing(self, task: FillTask) -> FillTask:
        """Return a task for the frames that the cache lacks; for all, where the source cannot be read."""
        try:
            source, index = self._plan.clips.sources.open(task.row)
            missing = [self._find_missing(source, index, run) for run in task.runs]
        except (FramefeedError, OSError):
            return task
        return replace(task, runs=[run for run in missing if len(run)])

    def _find_missing(self, source: MediaSource, index: FrameIndex, run: FrameRun) -> FrameRun:
        """Return the frames of a run that the cache lacks; frames of a changed source count as lacking."""
        missing = self._decoder.find_missing(source, index, run.ordinals, run.output)
        return FrameRun(run.ordinals[missing], run.output)


def make_slots(runs: Sequence[FrameRun], index: FrameIndex, form: Form) -> list[ClipSlot]:
    """Make memory for the frames of runs; of frames that are stored as planes at full size, for a corner."""
    height, width = index.stream.displayed
    slots = []
    for run in runs:
        output = run.output
        if form == "planes" and find_reduction(index, output) == 1:
            # Pictures of a sequence may differ in size, and then have no common corner.
            corner = (0, 0, min(_CORNER, height), min(_CORNER, width))
            output = OutputSpec(size=(_CORNER, _CORNER)) if has_picture_files(index) else OutputSpec(crop=corner)
        shape = (len(run), *output.shape(height, width))
        slots.append(ClipSlot(run.ordinals, output, np.empty(shape, dtype=np.uint8)))
    return slots


@dataclass(frozen=True, slots=True)
class BuildReport:
    """Result of ``build``.

    Attributes:
        clips: Clips that were to be filled: of the plan, all epochs together; with ``clips=``, at most that many.
        frames_stored: Frames that were decoded and stored.
        frames_present: Frames that the cache already had.
        frames_failed: Frames that could not be decoded or stored.
        failed: (source, error type, message) of the first failure of each source.
        bytes_written: Bytes stored.
        seconds: Time of the whole call.
        workers: Threads that decoded; 0 is the calling thread alone.
        stopped_because: Why ``build`` stopped before the end of the plan, or None.
        rest_clips: With ``clips=``, the number of the other clips, else 0.
        rest_bytes: With ``clips=``, about what the frames that the cache still lacks will take on disk, by those that
            were stored; None if no frame was stored.
        rest_seconds: About how long a build of them will take with the same workers, likewise.
    """

    clips: int
    frames_stored: int = 0
    frames_present: int = 0
    frames_failed: int = 0
    failed: list[Failed] = field(default_factory=list)
    bytes_written: int = 0
    seconds: float = 0.0
    workers: int = 0
    stopped_because: str | None = None
    rest_clips: int = 0
    rest_bytes: int | None = None
    rest_seconds: float | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the cache has all frames of the plan."""
        return self.stopped_because is None and not self.failed and not self.rest_clips


def build(
    plan: EpochPlan,
    cache: FrameCache,
    *,
    workers: int | Literal["auto"] = "auto",
    backend: str | Decoder = "auto",
    epochs: int = 1,
    clips: int | None = None,
    progress: bool | Callable[[int, int | None], object] | None = None,
    limits: Limits | None = None,
) -> BuildReport:
    """Decode and store all frames that this rank's clips need and the cache lacks.

    Clips of one source are decoded together, also those of different epochs; sources come in the order of the catalog.
    The build stops when the cache is full. If it is interrupted or killed, run it again and it continues from there.
    Several processes, also on several machines that share the folder, divide a plan by its ``rank`` and ``world_size``.

    With ``clips=24``, that many clips are filled, spread over the plan, and the report says what the others will take
    in bytes and seconds. A later build continues from there.

    Example: ``ff.cache.build(plan, ff.FrameCache("cache/", max_bytes="200GB"))``

    Args:
        plan: The plan at its first epoch.
        cache: The cache to fill.
        workers: Threads that decode; 0 decodes in the calling thread, "auto" uses the thread budget.
        backend: Name of a decoder, or a decoder.
        epochs: Number of epochs to store, from the plan's epoch on; give more than 1 if epochs have different frames.
        clips: Number of clips to fill; None fills all.
        progress: True shows a progress bar, False none; None shows it if standard error is a terminal. Or a function,
            called with the number of frames done and the number of all frames (None if clips differ in length).
        limits: Largest sizes that a file may have, checked before memory is allocated; None is ``Limits()``.

    Returns:
        A report. Clips that fail are listed in it; the build continues with the others.

    Raises:
        UsageError: An argument is wrong, the decoder cannot give frames in the form to be stored, or ``max_bytes`` of
            the cache is smaller than the first frames need.
        MissingDependency: A file needs a package that is not installed; stored frames are kept.
        CacheError: The folder of the cache cannot be used.
        ResourceExhausted: Memory or file descriptors ran out; stored frames are kept, and the next build continues.
    """
    check_filling(plan, cache, epochs)
    check_progress(progress)
    if clips is not None:
        check_integer("clips", clips, least=1)
    before, begin = replace(cache.store.counts), perf_counter()
    num_clips = sum(len(plan.with_epoch(plan.epoch + number)) for number in range(epochs))  # which may differ
    num_filled = num_clips if clips is None else min(clips, num_clips)
    count = thread_budget().threads if workers == "auto" else check_integer("workers", workers, least=0)
    done, lacking = FillCounts(), (0, 0)
    lengths = [form.num_frames for form in plan.clips.forms.values()]
    total = None if None in lengths else num_clips * sum(length or 0 for length in lengths)
    try:
        filler = Filler(plan, cache, as_decoder(backend, limits), epochs)
        options = FillOptions(by_output=filler.form == "output", max_bytes=TASK_BYTES)
        tasks: Iterable[FillTask] = make_tasks(plan, epochs, options, clips)
        if clips is not None:
            tasks = list(tasks)
            total = sum(task.clip_frames for task in tasks)
            cache.store.refresh()
            lacking = count_frames(plan, map(filler.select_missing, tasks))
        possible = takewhile(lambda _: cache.is_filling, tasks)
        with (
            showing_progress(total, progress, unit_scale=True) as show,
            ordered_outcomes(filler, possible, workers=count, max_in_flight=2 * max(1, count)) as outcomes,
        ):
            for outcome in outcomes:
                if isinstance(outcome, Err):
                    raise outcome.error
                done += outcome.value
                show(done.clip_frames)
    finally:
        cache.flush()
    after = cache.store.counts
    lost = after.frames_lost - before.frames_lost
    if lost and cache.store.trouble is None and cache.store.appender.lost_by is not None:
        raise make_shortage_error(cache.store.appender.lost_by, cache.path, "store")
    if cache.store.needed_bytes is not None and not cache.info().num_frames:
        raise UsageError(cache.state.trouble or "")
    report = BuildReport(
        clips=num_filled,
        frames_stored=done.stored - lost,
        frames_present=done.present,
        frames_failed=done.failed,
        failed=list(done.failures.values()),
        bytes_written=after.bytes_written - before.bytes_written,
        seconds=perf_counter() - begin,
        workers=count,
        stopped_because=cache.state.trouble,
        rest_clips=num_clips - num_filled,
    )
    if clips is None or not report.frames_stored:
        return report
    rest = count_demand(plan, epochs, options, filler.select_missing)
    rest_bytes, rest_seconds = predict_rest(report, done.busy_seconds, lacking, rest)
    return replace(report, rest_bytes=rest_bytes, rest_seconds=rest_seconds)


def predict_rest(
    report: BuildReport, busy_seconds: float, lacking: tuple[int, int], rest: tuple[int, int]
) -> tuple[int, float]:
    """Predict the bytes and seconds of what a cache lacks of a plan, by what it lacked of the clips before the build.

    Both are frames, and the pictures that must be decoded for them.
    """
    (num_frames, num_pictures), (rest_frames, rest_pictures) = lacking, rest
    rest_frames = max(0, rest_frames - report.frames_failed)  # which will fail again
    nbytes = rest_frames * (report.bytes_written / report.frames_stored + ROW.itemsize)
    # Which takes more time is not known: storing, by frames, or decoding, by pictures.
    times = sqrt(rest_frames * rest_pictures / max(1, num_frames * num_pictures)) * num_frames / report.frames_stored
    busy = busy_seconds / max(1, report.workers)
    return round(nbytes), max(0.0, report.seconds - busy) + busy * times
