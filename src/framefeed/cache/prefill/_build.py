"""build: fill a cache in advance with all frames of a plan; each GOP is decoded once.

Filling a cache with the frames of one group: what is there already is not decoded, what fails does not stop it.

Claims: who builds what, so that two builders of one cache do not decode the same frames.

Every builder locks one byte of ``building.lock`` for each group that it works on, and keeps the lock until what it
stored is sealed, so that others can read it. Locks end with their process: a killed builder claims nothing. They save
work and settle nothing; where locks cannot be had, the same frames may be stored twice.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from time import monotonic, perf_counter, sleep
from types import TracebackType
from typing import Literal, Self

import numpy as np
from tqdm import tqdm

from framefeed._checks import check_integer, expected
from framefeed.cache._demand import Gathering, Group, Piece, gathered
from framefeed.cache._frame_cache import FrameCache
from framefeed.cache.store._folder import file_mode, make_folder
from framefeed.decode import ClipSlot, Decoder, as_decoder
from framefeed.errors import CacheError, ResourceExhausted, UsageError
from framefeed.index import FrameIndex, holds_pictures
from framefeed.media import Limits, MediaSource, source_name
from framefeed.parallel import Err, ordered_outcomes, outcome_of, resource_exhausted, shortage_in, thread_budget
from framefeed.plan import EpochPlan, OutputSpec

FILE_NAME = "building.lock"
PATIENCE_SECONDS = 60.0
_LOOK_SECONDS = 0.05

_GROUP_BITS = 24
_PLAN_BITS = 38
"""Together they stay below 2**62, and neighbouring groups lock neighbouring bytes, which the system joins."""


class Claims:
    """The claims of one builder; a context manager that gives them back.

    Args:
        folder: Of the cache; made where it is missing.
        work: What the groups are numbered in: builders with the same text have the same groups.
        patience_seconds: How long to wait for others, at most.
        shared: Whether other users may use the folder and the lock file.
    """

    def __init__(
        self, folder: str, work: str, patience_seconds: float = PATIENCE_SECONDS, *, shared: bool = False
    ) -> None:
        digest = int.from_bytes(blake2b(work.encode(), digest_size=8).digest())
        self._base = digest % (1 << _PLAN_BITS) << _GROUP_BITS
        self._folder = folder
        self._shared = shared
        self._file = -1
        self._patience = patience_seconds

    def __enter__(self) -> Self:
        with suppress(OSError):
            make_folder(self._folder, shared=self._shared)
            path = os.path.join(self._folder, FILE_NAME)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._file = os.open(path, flags, file_mode(shared=self._shared))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def take(self, number: int) -> bool:
        """Claim a group; False where another process has claimed it."""
        return self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB, number)

    def wait(self, number: int) -> None:
        """Wait until no process claims a group. Call it without a claim, or two processes may wait for each other.

        A builder that was stopped claims for ever: patience ends, once for all groups, and they are worked on twice.
        """
        end = monotonic() + self._patience
        while not self.take(number):
            if monotonic() >= end:
                self._patience = 0.0
                return
            sleep(_LOOK_SECONDS)
        self._lock(fcntl.LOCK_UN, number)

    def give_back(self) -> None:
        """Claim nothing any more: what was stored is sealed."""
        if self._file >= 0:
            fcntl.lockf(self._file, fcntl.LOCK_UN)

    def _lock(self, how: int, number: int) -> bool:
        if self._file < 0:
            return True
        try:
            fcntl.lockf(self._file, how, 1, self._base + number % (1 << _GROUP_BITS))
        except (BlockingIOError, PermissionError):
            return False
        except OSError:
            return True  # a file system without locks
        return True


Failed = tuple[str, str, str]
"""Source, error type, message."""

_CORNER = 16
"""Side of the part of each picture that is converted where planes are stored: it is not looked at."""


@dataclass(slots=True)
class Filled:
    """What became of some groups; adding two gives their sum.

    Attributes:
        wanted: Frames of the clips, repeats included.
        stored: Frames that were decoded and stored.
        present: Frames that the cache had.
        failed: Frames that could not be had.
        failures: The first failure of each source.
    """

    wanted: int = 0
    stored: int = 0
    present: int = 0
    failed: int = 0
    failures: dict[str, Failed] = field(default_factory=dict)

    def __iadd__(self, other: Filled) -> Self:
        self.wanted += other.wanted
        self.stored += other.stored
        self.present += other.present
        self.failed += other.failed
        self.failures = {**other.failures, **self.failures}
        return self

    def fail(self, name: str, error: BaseException, frames: int = 0) -> None:
        """Note that frames of a source cannot be had."""
        self.failed += frames
        self.failures.setdefault(name, (name, type(error).__name__, str(error)))


class Filler:
    """Fills a cache with groups of a plan; called by several threads at once.

    Args:
        plan: That the groups are of.
        cache: What to fill.
        inner: Decodes what is missing.
        epochs: How many epochs the groups are of.

    Attributes:
        form: In which frames are stored.
    """

    def __init__(self, plan: EpochPlan, cache: FrameCache, inner: Decoder, epochs: int = 1) -> None:
        self._plan = plan
        self._cache = cache
        self._decoder = cache.decoder_for(plan, inner, epochs).for_building()
        self.form = cache.form_for(plan)

    def __call__(self, group: Group) -> Filled:
        """Fill in a group; a wish to stop, a wrong call and a shortage are raised, all other errors noted."""
        done = Filled(group.wanted)
        source = self._plan.catalog.source(group.row)
        for error in group.errors:
            done.fail(source_name(source), error)
        if not self._cache.is_filling or not group.pieces:
            return done
        outcome = outcome_of(self._fill, (group, done))
        if isinstance(outcome, Err):
            if isinstance(outcome.error, UsageError) or not isinstance(outcome.error, Exception):
                raise outcome.error
            resource = shortage_in(outcome.error)
            if isinstance(outcome.error, ResourceExhausted):
                raise outcome.error
            if resource is not None:
                raise resource_exhausted(resource, source_name(source), "cache") from outcome.error
            done.fail(source_name(source), outcome.error, group.num_frames - done.present - done.stored)
        return done

    def _fill(self, group_and_done: tuple[Group, Filled]) -> None:
        group, done = group_and_done
        catalog = self._plan.catalog
        source, index = MediaSource.of(catalog.source(group.row)), catalog.frame_index(group.row)
        self._cache.store.refresh()  # The group may have been sealed only now, by a process that claimed it before.
        lacking = [self._lacking(source, index, piece) for piece in group.pieces]
        count = sum(map(len, lacking))
        done.present += group.num_frames - count
        errors = self._decode(source, index, [piece for piece in lacking if len(piece)], done)
        if errors and self.form == "output":
            # Of a clip that fails nothing is stored; frame by frame, all of it is but the frames that fail.
            single = [Piece(piece.ordinals[[i]], piece.output) for piece, _ in errors for i in range(len(piece))]
            errors = self._decode(source, index, single, done)
        left = 0
        if done.stored < count:
            # Some may have been stored by others meanwhile.
            left = sum(len(self._lacking(source, index, piece)) for piece in lacking)
            done.present += count - done.stored - left
        resource = self._cache.keeper.shortage or self._cache.store.shortage
        if left and resource is not None:
            raise resource_exhausted(resource, self._cache.path, "store")
        if left and self._cache.is_filling:
            unknown = CacheError(
                f"{source.name}: {left} frame{'' if left == 1 else 's'} cannot be stored: the source cannot be "
                "identified by its contents, or the file was changed while it was read, or just before; if a program "
                "writes to the file, build again when it has ended"
            )
            done.fail(source.name, errors[0][1] if errors else unknown, left)

    def _decode(
        self, source: MediaSource, index: FrameIndex, pieces: Sequence[Piece], done: Filled
    ) -> list[tuple[Piece, BaseException]]:
        """Decode and store pieces; give those that failed."""
        if not pieces:
            return []
        report = self._decoder.decode(source, index, [self._slot(index, piece) for piece in pieces])
        done.stored += report.counts.frames_stored
        for error in report.errors:
            if isinstance(error, ResourceExhausted):
                raise error
        failed = zip(pieces, report.errors, strict=True)
        return [(piece, error) for piece, error in failed if error is not None]

    def _slot(self, index: FrameIndex, piece: Piece) -> ClipSlot:
        height, width = index.stream.displayed
        output = piece.output
        if self.form == "planes":
            # Pictures of a sequence may differ in size, and then have no common corner.
            corner = (0, 0, min(_CORNER, height), min(_CORNER, width))
            output = OutputSpec(size=(_CORNER, _CORNER)) if holds_pictures(index) else OutputSpec(crop=corner)
        return ClipSlot(piece.ordinals, output, np.empty((len(piece), *output.shape(height, width)), dtype=np.uint8))

    def _lacking(self, source: MediaSource, index: FrameIndex, piece: Piece) -> Piece:
        """What the cache has not, or not of the source as it is now."""
        lacks = self._decoder.lacks(source, index, piece.ordinals, piece.output)
        return Piece(piece.ordinals[lacks], piece.output)


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

    with Claims(cache.path, name, shared=cache.options.shared) as claims:
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
