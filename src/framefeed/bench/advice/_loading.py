"""Rows of ``bench all`` that run whole loaders in turns, and decoders of other libraries."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from framefeed.bench._isolated import Report
from framefeed.bench._media import MediaStore
from framefeed.bench._processes import read_family_clocks
from framefeed.bench._runner import Reading, Rounds, median_interval, run_row, settle
from framefeed.bench.advice._files import MOST_ROUNDS, Options, as_json, compare_predictions, open_sample
from framefeed.bench.advice._recommend import Kind, Sources
from framefeed.bench.baselines import Peers
from framefeed.bench.decode import own_workloads, workload_row
from framefeed.cache import FrameCache
from framefeed.catalog import Catalog
from framefeed.errors import MissingMedia, UsageError
from framefeed.load import ClipLoader
from framefeed.parallel import ordered_map
from framefeed.plan import EpochPlan, plan_requests
from framefeed.request import DecodeRequest

_FEW_ROUNDS = 3
_ROUND_SECONDS = 1.2
"""Of an epoch of a loader, about: so that its start and its end, when not all workers are busy, weigh little."""
_MOST_CLIPS = 4096
_HELD = 1.5
"""Times as long that two threads take for twice the work, above which a transform holds Python's lock."""
_TRANSFORM_SECONDS = 0.2
_TRIES = 3

_AHEAD, _MOST_AHEAD = 2, 64
"""Batches that a loader prepares ahead, by default and here at most."""

Transform = Callable[..., Any]


@dataclass(slots=True)
class _Contender:
    """A way of loading."""

    sources: Sources
    kind: Kind
    workers: int
    loader: ClipLoader
    clips: int = 0
    failed: int = 0
    failure: str = ""  # why the first clip failed
    cpu_seconds: float = 0.0
    rates: list[float] = field(default_factory=list)

    @property
    def order(self) -> tuple[bool, bool, int]:
        """Sort key of results."""
        return self.sources == "cache", self.kind == "processes", self.workers

    def run(self, seconds: float) -> tuple[int, Reading]:
        """Load an epoch, at most for some seconds; return clips, and what they took."""
        count, before = 0, read_family_clocks()
        batches = iter(self.loader)
        for batch in batches:
            count += int(batch.ok.sum())
            self.failed += int((~batch.ok).sum())
            self.failure = self.failure or next((str(error) for error in batch.errors if error is not None), "")
            del batch
            if read_family_clocks().wall - before.wall > seconds:
                break
        took = read_family_clocks() - before
        del batches  # which ends what its workers had begun
        settle(read_family_clocks)
        return count, took

    def add(self, count: int, took: Reading, more: float) -> None:
        """Note a run; ``more``: CPU seconds that a clip of all files takes longer than one of these."""
        own = took.cpu / count
        whole = max(own / 10, own + more)
        self.clips += count
        self.cpu_seconds += whole * count
        self.rates.append(count / took.wall * own / whole if own else count / took.wall)


def measure_loaders(options: Options, report: Report) -> None:
    """Load the clips of the sample in every way that is a choice, in turns."""
    until = time.perf_counter() + options["row_seconds"]
    catalog, plan = open_sample(options)
    transform, cores = import_transform(options), options["cores"]
    counts = sorted({cores, 1}, reverse=True)
    contenders: list[tuple[Sources, Kind, int]] = [("originals", "threads", count) for count in counts]
    if options["cached_clips"]:
        contenders += [("cache", "threads", count) for count in counts]
    if options["holds_lock"] and cores > 1:
        contenders += [("cache", "processes", cores)] if options["cached_clips"] else []
        contenders.append(("originals", "processes", cores))
    seconds = min(_ROUND_SECONDS, options["row_seconds"] / len(contenders) / (_FEW_ROUNDS + 1))
    entered, most = list[_Contender](), options["decoded_clips"]
    compare = cache(partial(_find_difference, options, catalog, plan))
    with ExitStack() as stack:
        for number in range(MOST_ROUNDS):
            if number and time.perf_counter() + seconds * len(contenders) > until:
                break
            for turn in range(len(contenders)):
                if number == 0:
                    entered.append(_enter(options, plan, transform, *contenders[turn], seconds, stack))
                each = entered[turn if number % 2 == 0 else -1 - turn]
                count, took = each.run(2 * seconds)
                if count:
                    each.add(count, took, compare(min(count, most)) if each.sources == "originals" else 0.0)
                timed = sorted((each for each in entered if each.rates), key=lambda each: each.order)
                runs = [_describe(each) for each in timed]
                if runs:
                    report({"runs": runs})
            if not any(each.rates for each in entered):
                raise MissingMedia(f"no clip could be loaded: {entered[0].failure}")


def _enter(
    options: Options,
    plan: EpochPlan,
    transform: Transform | None,
    sources: Sources,
    kind: Kind,
    workers: int,
    seconds: float,
    stack: ExitStack,
) -> _Contender:
    """Open a loader over as many clips as it takes some seconds for, by a shorter run in which all is new."""
    clips = options["cached_clips"] if sources == "cache" else options["decoded_clips"]
    cached = FrameCache(options["cache"]) if sources == "cache" else None
    batch, prefetch = choose_batch(options, clips, workers, seconds, is_cached=cached is not None)
    make = partial(
        ClipLoader, batch_size=batch, prefetch=prefetch, workers=workers, kind=kind, cache=cached,
        transform=transform, on_error="skip",
    )  # fmt: skip
    size, draws = tuple(options["size"]), options["has_random_draws"] and cached is None
    pilot = _Contender(
        sources, kind, workers, make(plan_many(plan, plan.catalog, size, clips, max(clips, batch), draws))
    )
    with pilot.loader:
        count, took = pilot.run(seconds)
        if took.wall < seconds:  # else a second run is not worth its time
            count, took = pilot.run(seconds)
    many = min(_MOST_CLIPS, max(clips, batch, round(count * seconds / max(1e-6, took.wall))))
    loader = stack.enter_context(make(plan_many(plan, plan.catalog, size, clips, many, draws)))
    contender = _Contender(sources, kind, workers, loader)
    if kind == "processes":
        contender.run(0)  # they take seconds to start
    return contender


def choose_batch(options: Options, clips: int, workers: int, seconds: float, *, is_cached: bool) -> tuple[int, int]:
    """Choose the clips of a batch and the batches ahead: in all as many as the user's loader has.

    Smaller batches where the user's would have several clips of one file only because the sample is small, or would
    take longer than a run.
    """
    batch, each = options["batch_size"], options["transform_seconds"]
    if options["clips"] > clips:
        batch = min(batch, clips)
    each += 0.0 if is_cached else options["decode_seconds"]
    batch = max(1, min(batch, round(seconds * workers / each))) if each else batch
    return batch, min(_MOST_AHEAD, -(-_AHEAD * options["batch_size"] // batch))


def plan_many(plan: EpochPlan, catalog: Catalog, size: Any, clips: int, count: int, draws: bool) -> EpochPlan:
    """Plan the first clips of a plan again and again, so that the clips of one file lie apart; with draws, others."""
    requests, epoch = list[DecodeRequest](), plan
    for number in range(count):
        if draws and number and number % clips == 0:
            epoch = plan.with_epoch(number // clips)
        clip = epoch[number % clips]
        requests.append(DecodeRequest(catalog[clip.row], indices=clip.indices))
    return plan_requests(requests, size=size)


def _find_difference(options: Options, catalog: Catalog, plan: EpochPlan, count: int) -> float:
    """CPU seconds that decoding a clip of all files takes longer than these first ones of the sample."""
    is_whole = count == options["decoded_clips"]
    factor = options["factor"] if is_whole else compare_predictions(options, catalog, plan, range(count))
    seconds: float = options["factor"] * options["decode_seconds"]
    return seconds - seconds / factor


def _describe(each: _Contender) -> dict[str, Any]:
    """Write a run."""
    stats = each.loader.stats()
    stages = {**stats.stages, "waiting": stats.idle_seconds}
    stages["other"] = max(0.0, stats.busy_seconds - sum(stats.stages.values()))
    return {
        "sources": each.sources,
        "kind": each.kind,
        "workers": each.workers,
        "clips_per_second": as_json(median_interval(each.rates)),
        "cpu_seconds_per_clip": each.cpu_seconds / each.clips,
        "stages": {name: round(seconds, 4) for name, seconds in stages.items()},
        "failed_clips": each.failed,
        "cached_share": stats.cached_share,
    }


def import_transform(options: Options) -> Transform | None:
    """Import the user's transform, also from the folder that the command was started in."""
    if not options["transform"]:
        return None
    sys.path.insert(0, options["folder"])
    module, _, names = options["transform"].partition(":")
    value: Any = importlib.import_module(module)
    for name in names.split("."):
        value = getattr(value, name)
    transform: Transform = value
    return transform


def measure_transform(options: Options, report: Report) -> None:
    """Call the user's transform, and find out whether two threads take much longer than one for twice the calls."""
    transform = import_transform(options)
    assert transform is not None
    height, width = options["size"]
    clip = np.zeros((options["frames_per_clip"], 3, height, width), dtype=np.uint8)

    def call(number: int) -> None:
        rng = np.random.default_rng(0)
        for _ in range(count):
            transform(clip.copy(), rng)

    def measure(workers: int) -> float:
        began = time.perf_counter()
        with ordered_map(call, range(workers), workers=workers, max_in_flight=workers) as calls:
            list(calls)
        return time.perf_counter() - began

    count = 1
    measure(1)  # in which all is new
    count = max(1, round(_TRANSFORM_SECONDS / max(1e-6, measure(1))))
    alone = [measure(1) for _ in range(_TRIES)]
    held = [measure(2) / seconds for seconds in alone] if options["cores"] > 1 else [0.0]
    report({"seconds": min(alone) / count, "holds_lock": min(held) > _HELD})


def measure_peer(options: Options, report: Report) -> None:
    """Decode random clips of a sampled video by another library, and by ours, in turns."""
    rounds = Rounds(MOST_ROUNDS, until=time.perf_counter() + options["row_seconds"])
    catalog, _ = open_sample(options)
    peers = Peers.find([options["peer"]])
    if peers.missing:
        raise UsageError(next(iter(peers.missing.values())))
    paths = [Path(catalog.media_source(row).name) for row in range(len(catalog))]
    with TemporaryDirectory(dir=options["work"]) as work:
        store = MediaStore(paths, Path(work), rounds)
        workload = next(iter(own_workloads(store)), None)
        if workload is None:
            raise MissingMedia("no sampled video is long enough: 65 frames")
        row = run_row(workload_row(workload, store, peers.list_all("METHODS"), rounds), rounds)
    report({"row": row, "versions": peers.versions})
