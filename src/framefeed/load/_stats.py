"""Measure a loader: seconds of each stage, counts, and the slowest part. The only clock of this room."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING

from framefeed._fetched import FetchCounts
from framefeed._units import format_bytes, format_count, format_seconds, format_share
from framefeed.decode import DecodeCounts
from framefeed.parallel import Gauge, ProcessCounts, WorkerTimes

if TYPE_CHECKING:
    from framefeed.cache import CacheStats

HIDDEN_SHARE = 0.1
"""Share of the loop's time; a loop that waits less gains less than this from any faster loader."""
IDLE_SECONDS = 0.01
"""A consumer that waited as long for a batch has the time to plan one, which takes a millisecond or two."""


class Stopwatch:
    """Seconds between calls of `lap`."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = perf_counter()

    def lap(self) -> float:
        """Return the seconds since the last lap."""
        now = perf_counter()
        passed, self._last = now - self._last, now
        return passed


@dataclass(slots=True)
class WorkCost:
    """Cost of one task, in seconds of its worker.

    The requests of a batch are made in one of its tasks: ``plan`` is 0 in the others. ``decode`` includes conversion,
    ``transform`` the copies of results into the batch. ``nbytes`` are of the clips, or of the results.
    """

    plan: float = 0.0
    decode: float = 0.0
    transform: float = 0.0
    nbytes: int = 0
    counts: DecodeCounts = field(default_factory=DecodeCounts)


@dataclass(frozen=True, slots=True)
class LoadStats:
    """Counts and times of a loader since it was made, over all epochs. Seconds of workers are sums over all workers.

    Attributes:
        batches: Number of delivered batches.
        clips: Number of clips in them, including failed ones.
        failed_clips: Number of clips in them that could not be loaded.
        workers: Number of workers; 0 means that the consumer's thread does the work.
        plan_seconds: Time of workers for making requests.
        decode_seconds: Time of workers for decoding, conversion and resizing included.
        transform_seconds: Time of workers in the user's transform.
        wait_seconds: Time that the consumer waited for batches.
        outside_seconds: Time of the consumer between two batches: the training step.
        start_seconds: Time of workers until their processes were ready; 0 with threads.
        busy_seconds: Time of workers in all of these, whether or not the batch was delivered yet.
        idle_seconds: Time of workers without work; with ``busy_seconds``, the workers times the time of iterations.
        lost_workers: Number of worker processes that died, or were killed because they did not answer; each was
            replaced.
        running: Number of tasks that workers work on now: a task is the clips of one source in one batch.
        ready: Number of clips that are prepared ahead and not yet delivered now, in tasks that are done.
        max_ahead: Most clips that are prepared ahead, in whatever state; 0 before the first batch.
        counts: Counts of the decoders.
        requests: Number of requests for remote bytes that were sent, with repeated, failed and abandoned ones; of file
            systems that do not say it, of blocks of 128 KB.
        bytes_fetched: Bytes of the answers.
        fetch_wait_seconds: Time of workers that waited for them; it is part of ``decode_seconds``, but
            not of the stage "decode".
        gap_bytes: Ranges of an object up to so many bytes apart were one request where ranges were last asked for: as
            many as cost no more time than a request, by the first answers of the host. 0 if none were.
        cache: Counts of the cache in this process, for all its users, and in the loader's worker processes; None
            without a cache.
    """

    batches: int = 0
    clips: int = 0
    failed_clips: int = 0
    workers: int = 0
    plan_seconds: float = 0.0
    decode_seconds: float = 0.0
    transform_seconds: float = 0.0
    wait_seconds: float = 0.0
    outside_seconds: float = 0.0
    start_seconds: float = 0.0
    busy_seconds: float = 0.0
    idle_seconds: float = 0.0
    lost_workers: int = 0
    running: int = 0
    ready: int = 0
    max_ahead: int = 0
    counts: DecodeCounts = field(default_factory=DecodeCounts)
    requests: int = 0
    bytes_fetched: int = 0
    fetch_wait_seconds: float = 0.0
    gap_bytes: int = 0
    cache: CacheStats | None = None

    @property
    def wall_seconds(self) -> float:
        """Duration of the consumer's loop in seconds."""
        return self.wait_seconds + self.outside_seconds

    @property
    def clips_per_second(self) -> float:
        """Clips delivered per second of the loop, the training step included; failed clips do not count."""
        return (self.clips - self.failed_clips) / self.wall_seconds if self.wall_seconds else 0.0

    @property
    def wait_share(self) -> float:
        """Share of the loop's time that the consumer waited, from 0 to 1."""
        return self.wait_seconds / self.wall_seconds if self.wall_seconds else 0.0

    @property
    def idle_share(self) -> float:
        """Share of the workers' time that they had no work, from 0 to 1."""
        whole = self.busy_seconds + self.idle_seconds
        return self.idle_seconds / whole if whole else 0.0

    @property
    def cached_share(self) -> float:
        """Share of the delivered frames that came from a cache, from 0 to 1."""
        return self.counts.frames_cached / max(1, self.counts.frames_delivered)

    @property
    def decoded_frames_per_delivered_frame(self) -> float:
        """Frames decoded for each delivered frame: more with few key frames, less for clips that share frames."""
        return self.counts.frames_decoded / max(1, self.counts.frames_delivered)

    @property
    def bottleneck(self) -> str:
        """The slowest part: "training step", "fetch" of remote bytes, "decode", "transform", "plan" or "start".

        "nothing yet" before the first batch.
        """
        if not self.batches:
            return "nothing yet"
        if self.wait_share < HIDDEN_SHARE:
            return "training step"
        stages = self.stages
        return max(stages, key=lambda name: stages[name])

    @property
    def evidence(self) -> str:
        """The numbers that ``bottleneck`` is based on, as a sentence."""
        stages = ", ".join(f"{name} {seconds:.3f} s" for name, seconds in self.stages.items())
        waited = format_share(self.wait_share, decimals=1)
        return (
            f"the loop waited {self.wait_seconds:.3f} s of {self.wall_seconds:.3f} s ({waited}); "
            f"seconds of {self.workers} workers: {stages}"
        )

    @property
    def stages(self) -> dict[str, float]:
        """Seconds of workers in each stage, by its name."""
        # The waits are counted when they end, the other seconds when their batch is delivered.
        fetch = min(self.fetch_wait_seconds, self.decode_seconds)
        optional = {"fetch": fetch, "start": self.start_seconds}
        stages = {"plan": self.plan_seconds, "decode": self.decode_seconds - fetch, "transform": self.transform_seconds}
        return stages | {name: seconds for name, seconds in optional.items() if seconds}

    def __repr__(self) -> str:
        failed = f", {self.failed_clips} failed" if self.failed_clips else ""
        failed += f", {self.lost_workers} workers lost" if self.lost_workers else ""
        requests, nbytes = format_count(self.requests, "request"), format_bytes(self.bytes_fetched)
        waited = f"{nbytes} fetched, for which workers waited {format_seconds(self.fetch_wait_seconds)}, "
        fetched = f"{requests}, {waited}" if self.requests else ""
        cached = "" if self.cache is None else f"{format_share(self.cached_share)} of them cached, "
        return (
            f"LoadStats({self.batches} batches, {self.clips} clips{failed}, {self.clips_per_second:.2f} clips/s, "
            f"{self.decoded_frames_per_delivered_frame:.2f} decoded frames per delivered frame, {cached}{fetched}"
            f"bottleneck: {self.bottleneck}; {self.evidence})"
        )


class Meter:
    """Adds up the stats of a loader; only the consumer's thread writes."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        # Numbers that change with each batch: making a new LoadStats for each took an eighth of the time of `next`.
        self._batches = self._clips = self._failed_clips = 0
        self._plan = self._decode = self._transform = self._wait = self._outside = 0.0
        self._counts = DecodeCounts()
        # Of the iterations before; of this one.
        self._times, self._gauge = WorkerTimes(), Gauge(workers)
        self._watch: Stopwatch | None = None
        self._last_wait = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether the consumer waited for the last batch."""
        return self._last_wait > IDLE_SECONDS

    def restart(self, gauge: Gauge) -> None:
        """Begin an iteration, whose workers ``gauge`` measures: the time before it does not count."""
        self._watch = None
        self._times, self._gauge = self._times + self._gauge.read(), gauge

    def count_others(self, gauge: Gauge) -> None:
        """Count tasks that the workers did beside those of the iteration, in which they were idle meanwhile."""
        busy = gauge.read().busy_seconds
        self._times += WorkerTimes(busy, -busy if self._workers else 0.0)

    def begin_wait(self) -> None:
        """Note that the consumer asks for a batch."""
        if self._watch is None:
            self._watch = Stopwatch()
        else:
            self._outside += self._watch.lap()

    def end_wait(self, costs: list[WorkCost]) -> None:
        """Note that the consumer has its batch or an error; ``costs`` are of the tasks of the batch."""
        self._last_wait = 0.0 if self._watch is None else self._watch.lap()
        self._wait += self._last_wait
        for cost in costs:
            self._plan += cost.plan
            self._decode += cost.decode
            self._transform += cost.transform
            self._counts += cost.counts

    def count_batch(self, clips: int, failed: int) -> None:
        self._batches += 1
        self._clips += clips
        self._failed_clips += failed

    def snapshot(self, processes: ProcessCounts, fetched: FetchCounts, cache: CacheStats | None) -> LoadStats:
        """Return the sums so far, with the counts of worker processes, fetches and a cache; any thread may call it."""
        times = self._times + self._gauge.read()
        return LoadStats(
            batches=self._batches,
            clips=self._clips,
            failed_clips=self._failed_clips,
            workers=self._workers,
            plan_seconds=self._plan,
            decode_seconds=self._decode,
            transform_seconds=self._transform,
            wait_seconds=self._wait,
            outside_seconds=self._outside,
            start_seconds=processes.start_seconds,
            lost_workers=processes.num_lost,
            busy_seconds=times.busy_seconds,
            idle_seconds=times.idle_seconds,
            running=times.running,
            ready=times.ready,
            max_ahead=self._gauge.max_in_flight,
            counts=replace(self._counts),
            requests=fetched.requests,
            bytes_fetched=fetched.nbytes,
            fetch_wait_seconds=fetched.wait_seconds,
            gap_bytes=fetched.gap_bytes,
            cache=cache,
        )
