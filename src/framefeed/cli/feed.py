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

from framefeed._units import counted, readable_bytes
from framefeed.cache import CacheStats, FrameCache
from framefeed.catalog import Catalog
from framefeed.cli._arguments import at_least, duration, limits_of
from framefeed.cli._io import Exit, Failed, as_json, failures_of_plan, list_failed, say, say_json, table
from framefeed.cli._plans import (
    add_cache_arguments,
    add_plan_arguments,
    cache_of,
    contents,
    is_too_small,
    num_workers,
    opened,
    percent,
    planned,
    quietly,
    remedy,
    say_trouble,
    wants_other_frames,
)
from framefeed.decode import DecodeCounts
from framefeed.errors import UsageError
from framefeed.load import ClipBatch, ClipLoader, LoadStats
from framefeed.plan import EpochPlan

ADVICE = {
    "training step": "the loader is fast enough: a faster loader would not help",
    "decode": "more CPU cores, smaller videos or more frequent key frames would help",
    "plan": "planning takes the most time: fewer, longer clips would help",
}

_SAME_OPTIONS = (
    "run the same command again to measure with stored frames; a cache from 'framefeed cache build' has these frames "
    "only if rates, start, clips per video, seed, shuffle and size are the same"
)
_LOW = 0.5
"""Share of an epoch's frames: where a cache has less, it is not what makes the loader quick."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("catalog", metavar="CATALOG", help="catalog from 'framefeed scan', such as cat.parquet")
    add_plan_arguments(parser)
    parser.add_argument("--batch-size", type=at_least(1), default=16, metavar="N", help="clips per batch (default: 16)")
    parser.add_argument("--max-batches", type=at_least(1), metavar="N", help="stop each epoch after this many batches")
    parser.add_argument("--step-ms", type=duration, default=0.0, metavar="MS",
                        help="duration of a simulated training step in milliseconds (default: 0)")  # fmt: skip
    parser.add_argument(
        "--cache", metavar="FOLDER", help="store decoded frames in this folder, and read stored frames from it"
    )
    add_cache_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the measurements as JSON")


@dataclass(frozen=True, slots=True)
class Epoch:
    """What an epoch gave.

    Attributes:
        clips: That were delivered.
        failed: That could not be loaded.
        seconds: How long it took.
        frames: That were delivered.
        frames_cached: Of these, those that the cache had.
    """

    clips: int
    failed: int
    seconds: float
    frames: int = 0
    frames_cached: int = 0

    @property
    def cached_share(self) -> float:
        """Share of its frames that the cache had."""
        return self.frames_cached / max(1, self.frames)

    def __str__(self) -> str:
        clips, rate = counted(self.clips, "clip"), f"{self.clips / self.seconds:,.1f} clips/s"
        if not self.failed:
            return f"{clips} in {self.seconds:.2f} s, {rate}"
        return f"{clips} delivered, {self.failed:,} failed, in {self.seconds:.2f} s, {rate}"


@dataclass(slots=True)
class Measured:
    """What the loop saw.

    Attributes:
        waits: Seconds that each batch was waited for.
        epochs: Of each epoch.
        failed: Clips that could not be loaded, one for each source.
        begins_empty: Whether there was a cache, without any frames.
    """

    waits: list[float] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)
    failed: dict[str, Failed] = field(default_factory=dict)
    begins_empty: bool = False

    @property
    def last_share(self) -> float:
        """Share of the last epoch's frames that the cache had."""
        return self.epochs[-1].cached_share if self.epochs else 0.0

    def add_epoch(self, epoch: Epoch, counts: DecodeCounts) -> None:
        """Add an epoch that is through.

        Args:
            epoch: Without its frames.
            counts: Of all epochs up to it.
        """
        frames = counts.frames_delivered - sum(each.frames for each in self.epochs)
        cached = counts.frames_cached - sum(each.frames_cached for each in self.epochs)
        self.epochs.append(replace(epoch, frames=frames, frames_cached=cached))

    def note_failures(self, batch: ClipBatch) -> None:
        """Note what failed in a batch."""
        for source, error in zip(batch.sources, batch.errors, strict=True):
            if error is not None:
                name = source if isinstance(source, str) else f"<{len(source)} bytes>"
                self.failed.setdefault(name, (name, type(error).__name__, str(error)))


def run(args: argparse.Namespace) -> int:
    """Plan, loop, and say what was measured."""
    catalog = opened(args.catalog, args.root)
    plan, cache = planned(args, catalog), _cache(args)
    if not args.json:
        say(_announced(args, catalog, plan))
    measured, stats = Measured(begins_empty=cache is not None and not cache.info().num_frames), LoadStats()
    if len(plan):
        with quietly(), ClipLoader(
            plan, batch_size=args.batch_size, workers=num_workers(args), limits=limits_of(args), cache=cache,
            on_error="skip",
        ) as loader:  # fmt: skip
            _loop(loader, args, measured)
            stats = loader.stats()
        say_trouble(cache)
    failed = [*failures_of_plan(plan), *measured.failed.values()]
    if args.json:
        say_json({"catalog": args.catalog, **_document(plan, stats, measured), "failed": as_json(failed)})
    else:
        say(*_report(plan, stats, measured, _advice(args, plan, cache, (stats, measured))))
        list_failed(failed, known=len(plan.catalog.failed_rows))
    if cache is not None and is_too_small(cache):
        return Exit.MISTAKE
    return Exit.FAILED_FILES if failed else Exit.WELL


def _cache(args: argparse.Namespace) -> FrameCache | None:
    given = [name for name in ("codec", "max_bytes", "form") if getattr(args, name) is not None]
    if given and args.cache is None:
        raise UsageError(f"--{given[0].replace('_', '-')} needs --cache FOLDER: it is an option of the cache")
    return None if args.cache is None else cache_of(args, args.cache)


def _loop(loader: ClipLoader, args: argparse.Namespace, measured: Measured) -> None:
    total = args.epochs * min(len(loader), args.max_batches or sys.maxsize)
    with tqdm(total=total, unit="batch", file=sys.stderr, disable=not sys.stderr.isatty(), leave=False) as bar:
        for epoch in range(args.epochs):
            if epoch and args.max_batches is not None:
                # A loader whose iteration was broken off would begin the same epoch again.
                planned_next = loader.plan.with_epoch(epoch)
                loader.load_state_dict({**loader.state_dict(), "plan": planned_next.state_dict(), "delivered": 0})
            began, clips, failed = time.perf_counter(), 0, 0
            for number, batch in enumerate(_timed(loader, measured.waits), start=1):
                clips += int(batch.ok.sum())
                failed += int((~batch.ok).sum())
                measured.note_failures(batch)
                del batch  # a training loop drops its batch too, and the memory is used again
                time.sleep(args.step_ms / 1000)
                bar.update()
                if number == args.max_batches:
                    break
            measured.add_epoch(Epoch(clips, failed, time.perf_counter() - began), loader.stats().counts)
            if not args.json:
                say(f"epoch {epoch}: {measured.epochs[-1]}{_hits(args, measured.epochs[-1])}")


def _hits(args: argparse.Namespace, epoch: Epoch) -> str:
    if args.cache is None:
        return ""
    frames = counted(epoch.frames, "frame")
    return f"; {epoch.frames_cached:,} of {frames} from the cache ({percent(epoch.cached_share)})"


def _timed(loader: ClipLoader, waits: list[float]) -> Iterator[ClipBatch]:
    batches = iter(loader)
    while True:
        began = time.perf_counter()
        batch = next(batches, None)
        if batch is None:
            return
        waits.append(time.perf_counter() - began)
        yield batch


def _announced(args: argparse.Namespace, catalog: Catalog, plan: EpochPlan) -> str:
    if not len(plan):
        return f"none of {counted(len(catalog), 'file')} can be read: there is nothing to load"
    _, height, width = plan.picture_shape
    return (
        f"{contents(catalog)}: {counted(len(plan), 'clip')} of {counted(plan.frames_per_clip or 0, 'frame')} of "
        f"{width}x{height} per epoch, in batches of {args.batch_size}; "
        f"simulated training step: {args.step_ms:g} ms"
    )


def _advice(
    args: argparse.Namespace, plan: EpochPlan, cache: FrameCache | None, seen: tuple[LoadStats, Measured]
) -> str:
    stats, measured = seen
    share = measured.last_share
    if stats.bottleneck == "decode" and cache is not None and share < _LOW:
        had = f"{percent(share)} of the {'last ' if len(measured.epochs) > 1 else ''}epoch's frames came from the cache"
        if len(measured.epochs) > 1 and wants_other_frames(plan, cache):
            return f"{had}, because each epoch has other frames: {remedy(args)}"
        if len(measured.epochs) == 1 and cache.stats().trouble is None:
            why = "was empty" if measured.begins_empty else "did not have the others"
            return f"{had}, because it {why} at the start of this run: {_SAME_OPTIONS}"
    return ADVICE.get(stats.bottleneck, stats.evidence)


def _report(plan: EpochPlan, stats: LoadStats, measured: Measured, advice: str) -> list[str]:
    if stats.clips == stats.failed_clips:
        return []
    frames = stats.clips_per_second * (plan.frames_per_clip or 0)
    first, *others = measured.waits
    later = f", then {1e3 * median(others):.1f} ms (median), at most {1e3 * max(others):.0f} ms" if others else ""
    rows = [
        ("throughput", f"{stats.clips_per_second:,.1f} clips/s, {frames:,.0f} frames/s, {stats.workers} workers"),
        ("decoded", f"{stats.decoded_frames_per_delivered_frame:.2f} frames for each delivered frame"),
        ("waited", f"{stats.wait_seconds:.2f} s of {stats.wall_seconds:.2f} s ({stats.wait_share:.0%}): "
                   f"{1e3 * first:.0f} ms for the first batch{later}"),
        ("bottleneck", f"{stats.bottleneck}: {advice}"),
    ]  # fmt: skip
    if stats.cache is not None:
        rows.append(("cache", _stored(stats.cache)))
    return ["", *table(rows, "ll")]


def _stored(cache: CacheStats) -> str:
    codec = "" if cache.codec is None else f", with {cache.codec}"
    return f"{counted(cache.frames_stored, 'frame')} stored, {readable_bytes(cache.bytes_written)}{codec}"


def _document(plan: EpochPlan, stats: LoadStats, measured: Measured) -> dict[str, Any]:
    return {
        "clips": len(plan),
        "frames_per_clip": plan.frames_per_clip,
        "picture_shape": list(plan.picture_shape) if len(plan) else None,
        "epochs": [asdict(epoch) for epoch in measured.epochs],
        "batches": stats.batches,
        "failed_clips": stats.failed_clips,
        "clips_per_second": stats.clips_per_second,
        "frames_per_second": stats.clips_per_second * (plan.frames_per_clip or 0),
        "decoded_frames_per_delivered_frame": stats.decoded_frames_per_delivered_frame,
        "workers": stats.workers,
        "wall_seconds": stats.wall_seconds,
        "wait_seconds": stats.wait_seconds,
        "wait_share": stats.wait_share,
        "waits_seconds": measured.waits,
        "step_seconds": stats.outside_seconds,
        "worker_seconds": {"decode": stats.decode_seconds, "plan": stats.plan_seconds},
        "cache": None if stats.cache is None else asdict(stats.cache),
        "bottleneck": stats.bottleneck,
        "evidence": stats.evidence,
    }
