"""``framefeed feed``: run a training loop without a model, to measure whether loading is fast enough."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any

from tqdm import tqdm

from framefeed._units import format_bytes, format_count, format_number, format_seconds, format_share, format_table
from framefeed.cache import FrameCache
from framefeed.catalog import Catalog
from framefeed.cli._arguments import make_limits, read_at_least, read_milliseconds
from framefeed.cli._io import Exit, Failed, list_as_json, print_failed, print_json, print_out
from framefeed.cli._plans import (
    add_cache_arguments,
    add_plan_arguments,
    describe_contents,
    get_workers,
    ignoring_cache_warnings,
    list_plan_failures,
    make_cache,
    make_plan,
    open_catalog,
    print_trouble,
    suggest_remedy,
)
from framefeed.decode import DecodeCounts
from framefeed.errors import UsageError
from framefeed.load import ClipBatch, ClipLoader, LoadStats
from framefeed.parallel import thread_budget
from framefeed.plan import EpochPlan

ADVICE = {
    "nothing yet": "the first batch is not ready yet",
    "training step": "the loader is fast enough: a faster loader would not help",
    "plan": "planning takes the most time: fewer, longer clips would help",
    "start": "starting the worker processes took the most time: a longer run (--epochs) shows the rest",
}
# Share of the workers' time without work, above which their number is no limit.
_MANY_IDLE = 0.5
# Factor of the advice: what is asked for at a time grows by it, and the memory for batches too.
_MORE_AHEAD = 4
# Share of the CPUs' time, above which more of them are needed.
_CPUS_ARE_BUSY = 0.75
# Share of the workers' time, below which a stage is not listed.
_LEAST_SHOWN = 0.005

_SAME_OPTIONS = (
    "run the same command again to measure with stored frames; a cache from 'framefeed cache build' has these frames "
    "only if rates, start, clips per video, seed, shuffle and size are the same"
)
# Share of an epoch's frames. If a cache has less, the advice is about the cache.
_MIN_CACHED_SHARE = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("catalog", metavar="CATALOG", help="catalog from 'framefeed scan', such as cat.parquet")
    add_plan_arguments(parser)
    parser.add_argument("--batch-size", type=read_at_least(1), default=16, metavar="N",
                        help="clips per batch (default: 16)")  # fmt: skip
    parser.add_argument("--prefetch", type=read_at_least(1), default=2, metavar="N",
                        help="batches that are prepared ahead; more help with media by URL (default: 2)")  # fmt: skip
    parser.add_argument("--max-batches", type=read_at_least(1), metavar="N",
                        help="stop each epoch after this many batches")  # fmt: skip
    parser.add_argument("--step-ms", type=read_milliseconds, default=0.0, metavar="MS",
                        help="duration of a simulated training step in milliseconds (default: 0)")  # fmt: skip
    parser.add_argument("--cache", metavar="FOLDER",
                        help="store decoded frames in this folder, and read stored frames from it")  # fmt: skip
    add_cache_arguments(parser)
    parser.add_argument("--kind", choices=["threads", "processes"], default="threads",
                        help="what decodes: threads (default) or processes")  # fmt: skip
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the measurements as JSON (default if piped)")
    form.add_argument("--text", action="store_true", help="print the measurements as text (default on a terminal)")


@dataclass(frozen=True, slots=True)
class EpochResult:
    """Counts of one epoch: clips delivered and failed, its duration, frames delivered and from the cache."""

    clips: int
    failed: int
    seconds: float
    frames: int = 0
    frames_cached: int = 0

    @property
    def cached_share(self) -> float:
        """Share of the frames that came from the cache."""
        return self.frames_cached / max(1, self.frames)

    def __str__(self) -> str:
        clips, rate = format_count(self.clips, "clip"), f"{format_number(self.clips / self.seconds)} clips/s"
        if not self.failed:
            return f"{clips} in {format_seconds(self.seconds)}, {rate}"
        return f"{clips} delivered, {self.failed:,} failed, in {format_seconds(self.seconds)}, {rate}"


@dataclass(slots=True)
class FeedResult:
    """Measurements of the loop."""

    waits: list[float] = field(default_factory=list)  # seconds of waiting for each batch
    epochs: list[EpochResult] = field(default_factory=list)
    failed: dict[str, Failed] = field(default_factory=dict)  # clips that could not be loaded, one for each source
    step_seconds: float = 0.0
    cpu_seconds: float = 0.0  # CPU time of this process in the loop

    @property
    def last_share(self) -> float:
        """Share of the last epoch's frames that came from the cache."""
        return self.epochs[-1].cached_share if self.epochs else 0.0

    def add_epoch(self, epoch: EpochResult, counts: DecodeCounts) -> None:
        """Add a finished epoch without counts of frames, which are those of all epochs so far less the earlier ones."""
        frames = counts.frames_delivered - sum(each.frames for each in self.epochs)
        cached = counts.frames_cached - sum(each.frames_cached for each in self.epochs)
        self.epochs.append(replace(epoch, frames=frames, frames_cached=cached))

    def add_failures(self, batch: ClipBatch) -> None:
        """Add the failures of a batch."""
        for source, error in zip(batch.sources, batch.errors, strict=True):
            if error is not None:
                name = source if isinstance(source, str) else f"<{len(source)} bytes>"
                self.failed.setdefault(name, (name, type(error).__name__, str(error)))


def run(args: argparse.Namespace) -> int:
    """Run the loop, and print the measurements."""
    catalog = open_catalog(args.catalog, args.root)
    plan = make_plan(args, catalog)
    given = [name for name in ("codec", "max_bytes", "form") if getattr(args, name) is not None]
    if given and args.cache is None:
        raise UsageError(f"--{given[0].replace('_', '-')} needs --cache FOLDER: it is an option of the cache")
    cache = None if args.cache is None else make_cache(args, args.cache)
    as_json = args.json or not (args.text or sys.stdout.isatty())
    if not as_json:
        print_out(_describe_work(args, catalog, plan))
    result, stats = FeedResult(), LoadStats()
    if len(plan):
        with ignoring_cache_warnings(), ClipLoader(
            plan, batch_size=args.batch_size, workers=get_workers(args), kind=args.kind, limits=make_limits(args),
            cache=cache, on_error="skip", prefetch=args.prefetch,
        ) as loader:  # fmt: skip
            _run_loop(loader, args, result, is_quiet=as_json)
            # The loader does not know the last step of an epoch that ends early.
            stats = replace(loader.stats(), outside_seconds=result.step_seconds)
        print_trouble(cache)
    failed = [*list_plan_failures(plan), *result.failed.values()]
    advice = _choose_advice(args, cache, stats, result)
    if as_json:
        document = _make_document(args, plan, stats, result)
        print_json({"catalog": args.catalog, **document, "advice": advice, "failed": list_as_json(failed)})
    else:
        print_out(*_describe_result(plan, stats, result, advice))
        print_failed(failed, known=len(plan.catalog.failed_rows))
    # The first frames alone exceed the largest size of the cache.
    if cache is not None and cache.store.needed_bytes is not None and not cache.info().num_frames:
        return Exit.MISTAKE
    return Exit.FAILED_FILES if failed else Exit.WELL


def _run_loop(loader: ClipLoader, args: argparse.Namespace, result: FeedResult, *, is_quiet: bool) -> None:
    began_cpu = time.process_time()
    total = args.epochs * min(len(loader), args.max_batches or sys.maxsize)
    with tqdm(total=total, unit="batch", file=sys.stderr, disable=None, leave=False) as bar:
        for epoch in range(args.epochs):
            if epoch and args.max_batches is not None:
                # Otherwise a loader whose iteration ended early would start the same epoch again.
                planned_next = loader.plan.with_epoch(epoch).state_dict()
                start = {"plan": planned_next, "delivered": 0, "clips": 0, "finished": False}
                loader.load_state_dict({**loader.state_dict(), **start})
            began, clips, failed, done = time.perf_counter(), 0, 0, len(result.waits)
            # Without enumerate, which would keep the batch.
            for batch in _time_batches(loader, result):
                bar.update()
                clips += int(batch.ok.sum())
                failed += int((~batch.ok).sum())
                result.add_failures(batch)
                del batch  # as in a training loop, so that its memory is used again
                time.sleep(args.step_ms / 1000)
                if len(result.waits) - done == args.max_batches:
                    break
            result.add_epoch(EpochResult(clips, failed, time.perf_counter() - began), loader.stats().counts)
            last = result.epochs[-1]
            cached = f"{last.frames_cached:,} of {format_count(last.frames, 'frame')}"
            hits = f"; {cached} from the cache ({format_share(last.cached_share)})" if args.cache is not None else ""
            if not is_quiet:
                bar.clear()
                print_out(f"epoch {epoch}: {last}{hits}")
    result.cpu_seconds = time.process_time() - began_cpu


def _time_batches(loader: ClipLoader, result: FeedResult) -> Iterator[ClipBatch]:
    batches = iter(loader)
    while True:
        began = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            return
        # Only the loop keeps it, as long as it needs it.
        held = [batch]
        del batch
        begun_step = time.perf_counter()
        result.waits.append(begun_step - began)
        try:
            yield held.pop()
        finally:
            result.step_seconds += time.perf_counter() - begun_step


def _describe_work(args: argparse.Namespace, catalog: Catalog, plan: EpochPlan) -> str:
    if not len(plan):
        return f"none of {format_count(len(catalog), 'file')} can be planned: there is nothing to load"
    _, height, width = plan.picture_shape
    return (
        f"{describe_contents(catalog)}: {format_count(len(plan), 'clip')} of "
        f"{format_count(plan.frames_per_clip or 0, 'frame')} of {width}x{height} per epoch, "
        f"in batches of {args.batch_size}; simulated training step: {format_seconds(args.step_ms / 1000)}"
    )


def _choose_advice(args: argparse.Namespace, cache: FrameCache | None, stats: LoadStats, result: FeedResult) -> str:
    is_missed = cache is not None and cache.stats().trouble is None and result.last_share < _MIN_CACHED_SHARE
    if stats.bottleneck == "decode" and is_missed:
        remedy = _SAME_OPTIONS if len(result.epochs) == 1 else suggest_remedy(args)
        return f"{format_share(result.last_share)} of the last epoch's frames came from the cache: {remedy}"
    return _advise(args, stats, result.cpu_seconds)


def _advise(args: argparse.Namespace, stats: LoadStats, cpu_seconds: float) -> str:
    """Say what would make the loop faster, in which this process had so much CPU time."""
    if stats.bottleneck == "fetch":
        return (
            f"the workers wait for the network: more batches ahead (--prefetch {_MORE_AHEAD * args.prefetch}, in "
            "Python prefetch=, for many bytes also a larger read_ahead=) would help, as more is asked for at a time"
        )
    if stats.bottleneck != "decode":
        return ADVICE.get(stats.bottleneck, stats.evidence)
    cpus, workers = thread_budget().threads, stats.workers
    if workers and stats.idle_share > _MANY_IDLE:
        return (
            f"the workers had nothing to do for {format_share(stats.idle_share)} of the time: larger batches "
            "(--batch-size) or more batches ahead (--prefetch) would keep them busy"
        )
    if workers < cpus:
        return f"{format_count(workers, 'worker')} for {cpus} CPUs: more workers would help (--workers {cpus})"
    stored = "" if args.cache is not None else ", stored frames (--cache FOLDER)"
    remedies = f"more CPU cores, smaller videos{stored} or more frequent key frames would help"
    if args.kind == "processes":  # whose CPU time is not known
        return remedies
    share = cpu_seconds / (cpus * stats.wall_seconds) if stats.wall_seconds else 1.0
    if share < _CPUS_ARE_BUSY:
        return (
            f"this run got {format_share(share)} of {format_count(cpus, 'CPU')}: faster storage, more workers "
            f"(--workers {2 * workers}) or fewer other programs would help"
        )
    return f"all CPUs are busy: {remedies}"


def _describe_result(plan: EpochPlan, stats: LoadStats, result: FeedResult, advice: str) -> list[str]:
    if stats.clips == stats.failed_clips:
        return []
    frames = stats.clips_per_second * (plan.frames_per_clip or 0)
    first, *others = result.waits
    later = f", then {format_seconds(median(others))} (median), at most {format_seconds(max(others))}" if others else ""
    rows = [
        ("throughput", f"{format_number(stats.clips_per_second)} clips/s, {format_number(frames)} frames/s, "
                       f"{format_count(stats.workers, 'worker')}"),
        ("decoded", f"{stats.decoded_frames_per_delivered_frame:.2f} frames for each delivered frame"),
        ("waited", f"{format_seconds(stats.wait_seconds)} of {format_seconds(stats.wall_seconds)} "
                   f"({format_share(stats.wait_share)}): {format_seconds(first)} for the first batch{later}"),
        *([("workers", _describe_workers(stats))] if stats.workers else []),
        ("bottleneck", f"{stats.bottleneck}: {advice}"),
    ]  # fmt: skip
    if stats.requests:
        rows.append(("fetched", _describe_fetches(stats)))
    if stats.cache is not None:
        codec = "" if stats.cache.codec is None else f", with {stats.cache.codec}"
        frames_stored = format_count(stats.cache.frames_stored, "frame")
        rows.append(("cache", f"{frames_stored} stored, {format_bytes(stats.cache.bytes_written)}{codec}"))
    return ["", *format_table(rows)]


def _describe_workers(stats: LoadStats) -> str:
    whole = stats.busy_seconds + stats.idle_seconds
    stages = stats.stages
    # Messages to processes, and tasks whose batch was not delivered.
    stages["other"] = stats.busy_seconds - sum(stages.values())
    shown = {name: seconds for name, seconds in stages.items() if seconds >= _LEAST_SHOWN * whole}
    parts = ", ".join(f"{name} {format_share(seconds, whole)}" for name, seconds in shown.items())
    lost = f"; {format_count(stats.lost_workers, 'process', 'processes')} lost" if stats.lost_workers else ""
    waiting = format_share(stats.idle_seconds, whole)
    return f"busy {format_share(stats.busy_seconds, whole)} ({parts}), waiting {waiting}{lost}"


def _describe_fetches(stats: LoadStats) -> str:
    nbytes, seconds = stats.bytes_fetched // stats.batches, stats.fetch_wait_seconds / stats.batches
    return (
        f"{format_number(stats.requests / stats.batches)} requests and {format_bytes(nbytes)} per batch, for which "
        f"workers waited {format_seconds(seconds)}"
    )


def _make_document(args: argparse.Namespace, plan: EpochPlan, stats: LoadStats, result: FeedResult) -> dict[str, Any]:
    return {
        "clips": len(plan),
        "frames_per_clip": plan.frames_per_clip,
        "picture_shape": list(plan.picture_shape) if len(plan) else None,
        "epochs": [asdict(epoch) for epoch in result.epochs],
        "batches": stats.batches,
        "failed_clips": stats.failed_clips,
        "clips_per_second": stats.clips_per_second,
        "frames_per_second": stats.clips_per_second * (plan.frames_per_clip or 0),
        "decoded_frames_per_delivered_frame": stats.decoded_frames_per_delivered_frame,
        "kind": args.kind,
        "workers": stats.workers,
        "wall_seconds": stats.wall_seconds,
        "wait_seconds": stats.wait_seconds,
        "wait_share": stats.wait_share,
        "waits_seconds": result.waits,
        "step_seconds": stats.outside_seconds,
        "worker_seconds": {
            "plan": stats.plan_seconds,
            "fetch": stats.stages.get("fetch", 0.0),
            "decode": stats.stages["decode"],
            "transform": stats.transform_seconds,
            "start": stats.start_seconds,
            "busy": stats.busy_seconds,
            "waiting": stats.idle_seconds,
        },
        "requests": stats.requests,
        "bytes_fetched": stats.bytes_fetched,
        "fetch_wait_seconds": stats.fetch_wait_seconds,
        "lost_workers": stats.lost_workers,
        "cpu_seconds": result.cpu_seconds,
        "cache": None if stats.cache is None else asdict(stats.cache),
        "bottleneck": stats.bottleneck,
        "evidence": stats.evidence,
    }
