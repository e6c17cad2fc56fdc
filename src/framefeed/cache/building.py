"""build: fill a cache in advance with all frames of a plan; each GOP is decoded once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Literal

from tqdm import tqdm

from framefeed._checks import check_integer, expected
from framefeed.cache.claims import Claims
from framefeed.cache.filling import Failed, Filled, Filler
from framefeed.cache.frame_cache import FrameCache
from framefeed.cache.wanted import Gathering, Group, gathered
from framefeed.decode.decoder import Decoder
from framefeed.decode.registry import as_decoder
from framefeed.errors import UsageError
from framefeed.media.limits import Limits
from framefeed.parallel import Err, ordered_outcomes, thread_budget
from framefeed.parallel.shortage import resource_exhausted
from framefeed.plan.epoch import EpochPlan

Show = Callable[[int, int | None], object]

GROUP_BYTES = 256 << 20
"""Pixels of what one worker decodes together."""


@dataclass(frozen=True, slots=True)
class BuildReport:
    """Result of ``build``.

    Attributes:
        clips: Clips of the plan, all epochs together.
        frames_stored: Frames that were decoded and stored.
        frames_present: Frames that the cache already had.
        frames_failed: Frames that could not be decoded or stored.
        failed: (source, error type, message) of the first failure of each source.
        bytes_written: Bytes stored.
        seconds: Time of the whole call.
        workers: Threads that decoded; 0 is the calling thread alone.
        stopped_because: Why ``build`` stopped before the end of the plan, or None.
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

    @property
    def is_complete(self) -> bool:
        """Whether the cache has all frames of the plan."""
        return self.stopped_because is None and not self.failed


def build(
    plan: EpochPlan,
    cache: FrameCache,
    *,
    workers: int | Literal["auto"] = "auto",
    backend: str | Decoder = "auto",
    epochs: int = 1,
    progress: bool | Show | None = None,
    limits: Limits | None = None,
) -> BuildReport:
    """Decode and store all frames that this rank's clips need and the cache lacks.

    Clips of one source are decoded together, also those of different epochs; sources come in the order of the catalog.
    The build stops when the cache is full. If it is interrupted or killed, run it again and it continues from there.
    Several processes, also on several machines that share the folder, can build one plan at the same time; each
    decodes a part.

    Example: ``ff.cache.build(plan, ff.FrameCache("cache/", max_bytes="200GB"))``

    Args:
        plan: The plan at its first epoch.
        cache: The cache to fill.
        workers: Threads that decode; 0 decodes in the calling thread, "auto" uses the thread budget.
        backend: Name of a decoder, or a decoder.
        epochs: Number of epochs to store, from the plan's epoch on; give more than 1 if epochs have different frames.
        progress: True shows a progress bar, False none; None shows it if standard error is a terminal. Or a function,
            called with the number of frames done and the number of all frames (None if clips differ in length).
        limits: Largest sizes that a file may have, checked before memory is allocated; None is ``Limits()``.

    Returns:
        A report. Clips that fail are listed in it; the build continues with the others.

    Raises:
        UsageError: An argument is wrong, the decoder cannot give frames in the form to be stored, or ``max_bytes`` of
            the cache is smaller than the first frames need.
        CacheError: The folder of the cache cannot be used.
        ResourceExhausted: Memory or file descriptors ran out; stored frames are kept, and the next build continues.
    """
    _check(plan, cache, epochs, progress)
    before, begin = replace(cache.store.counts), perf_counter()
    count = thread_budget().threads if workers == "auto" else check_integer("workers", workers, least=0)
    done = Filled()
    try:
        filled = _filled(Filler(plan, cache, as_decoder(backend, limits), epochs), (plan, epochs, cache), count)
        with _shown(_num_frames(plan, epochs), progress) as show, closing(filled):
            for each in filled:
                done += each
                show(done.wanted)
    finally:
        cache.flush()
    after = cache.store.counts
    lost = after.frames_lost - before.frames_lost
    if lost and cache.store.trouble is None and cache.store.lost_by is not None:
        raise resource_exhausted(cache.store.lost_by, cache.path, "store")
    if cache.store.needed_bytes is not None and not cache.info().num_frames:
        raise UsageError(cache.store.trouble or "")
    return BuildReport(
        clips=len(plan) * epochs,
        frames_stored=done.stored - lost,
        frames_present=done.present,
        frames_failed=done.failed,
        failed=list(done.failures.values()),
        bytes_written=after.bytes_written - before.bytes_written,
        seconds=perf_counter() - begin,
        workers=count,
        stopped_because=cache.store.trouble,
    )


def _check(plan: object, cache: object, epochs: int, progress: object) -> None:
    if not isinstance(plan, EpochPlan):
        raise expected("plan", "an EpochPlan (from ff.plan_clips or ff.plan_requests)", plan)
    if not isinstance(cache, FrameCache):
        raise expected("cache", "an ff.FrameCache", cache)
    check_integer("epochs", epochs, least=1)
    is_function = callable(progress) and not isinstance(progress, type)
    if not (progress is None or isinstance(progress, bool) or is_function):
        raise expected("progress", "True, False, None or a function of two numbers", progress)


def _filled(filler: Filler, work: tuple[EpochPlan, int, FrameCache], workers: int) -> Generator[Filled]:
    """Yield what became of each group: first of those that no other process works on, then of the others."""
    plan, epochs, cache = work
    gathering = Gathering(by_output=filler.form == "output", max_bytes=GROUP_BYTES)
    options = plan.options
    name = repr((plan.fingerprint, plan.epoch, epochs, options.rank, options.world_size, gathering, filler.form))
    elsewhere: set[int] = set()

    def unclaimed() -> Iterator[Group]:
        for group in gathered(plan, epochs, gathering):
            if claims.take(group.number):
                yield group
            else:
                elsewhere.add(group.number)

    def left() -> Iterator[Group]:
        # The processes that claimed them have stored them by now, or were killed, or could not.
        for group in gathered(plan, epochs, gathering):
            if group.number in elsewhere:
                claims.wait(group.number)
                yield group

    with Claims(cache.path, name) as claims:
        yield from _worked_on(filler, _while_filling(unclaimed(), cache), workers)
        if elsewhere and cache.is_filling:
            cache.flush()
            claims.give_back()
            yield from _worked_on(filler, _while_filling(left(), cache), workers)
        cache.flush()


def _worked_on(filler: Filler, groups: Iterable[Group], workers: int) -> Iterator[Filled]:
    with ordered_outcomes(filler, groups, workers=workers, max_in_flight=2 * max(1, workers)) as outcomes:
        for outcome in outcomes:
            if isinstance(outcome, Err):
                raise outcome.error
            yield outcome.value


def _while_filling(groups: Iterator[Group], cache: FrameCache) -> Iterator[Group]:
    for group in groups:
        if not cache.is_filling:
            return
        yield group


def _num_frames(plan: EpochPlan, epochs: int) -> int | None:
    """Frames of all clips, repeats included; None where clips differ in length."""
    try:
        return len(plan) * plan.num_frames_per_clip * epochs
    except UsageError:
        return None


@contextmanager
def _shown(total: int | None, progress: bool | Show | None) -> Iterator[Callable[[int], object]]:
    """Give a function that shows how many frames are done."""
    if callable(progress):
        yield lambda done: progress(done, total)
        return
    is_shown = sys.stderr.isatty() if progress is None else progress
    if not is_shown:  # tqdm starts a thread for a bar that is not shown, too
        yield lambda done: None
        return
    with tqdm(total=total, unit="frame", unit_scale=True, file=sys.stderr, leave=False) as bar:
        yield lambda done: bar.update(done - bar.n)
