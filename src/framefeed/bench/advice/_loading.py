"""Rows of ``bench all`` that run whole loaders in turns, and decoders of other libraries."""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from framefeed.bench._isolated import Report
from framefeed.bench._media import MediaStore
from framefeed.bench._processes import read_family_clocks
from framefeed.bench._runner import Reading, Rounds, median_interval, run_row, settle
from framefeed.bench.advice._files import Options, as_json, compare_predictions, open_sample
from framefeed.bench.baselines import Peers
from framefeed.bench.decode import own_workloads, workload_row
from framefeed.cache import FrameCache
from framefeed.catalog import Catalog
from framefeed.errors import MissingMedia, UsageError
from framefeed.load import ClipLoader
from framefeed.parallel import ordered_map
from framefeed.plan import EpochPlan, plan_requests
from framefeed.request import DecodeRequest

MOST_ROUNDS = 9
_FEW_ROUNDS = 3
_ROUND_SECONDS = 1.2
"""Of an epoch of a loader, about: so that its start and its end, when not all workers are busy, weigh little."""
_MOST_CLIPS = 4096
_HELD = 1.5
"""Times as long that two threads take for twice the work, above which a transform holds Python's lock."""
_TRANSFORM_SECONDS = 0.2
_TRIES = 3

Transform = Callable[..., Any]


@dataclass(slots=True)
class _Contender:
    """A way of loading."""

    sources: str
    kind: Literal["threads", "processes"]
    workers: int
    loader: ClipLoader
    clips: int = 0
    failed: int = 0
    failure: str = ""  # why the first clip failed
    cpu_seconds: float = 0.0
    rates: list[float] = field(default_factory=list)

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


def measure_loaders(options: Options, report: Report) -> None:
    """Load the clips of the sample in every way that is a choice, in turns."""
    until = time.perf_counter() + options["row_seconds"]
    catalog, plan = open_sample(options)
    transform = import_transform(options)
    size, cores = tuple(options["size"]), options["cores"]
    counts = sorted({1, cores})
    compare = partial(_find_factor, options, catalog, plan)
    ways: list[tuple[str, Literal["threads", "processes"], int]] = [("originals", "threads", count) for count in counts]
    if options["cached_clips"]:
        ways += [("cache", "threads", count) for count in counts]
    if options["holds_lock"] and cores > 1:
        ways += [("cache", "processes", cores)] if options["cached_clips"] else []
        ways.append(("originals", "processes", cores))
    seconds = min(_ROUND_SECONDS, options["row_seconds"] / len(ways) / (_FEW_ROUNDS + 1))
    with ExitStack() as stack:
        contenders = []
        for sources, kind, workers in ways:
            clips = options["cached_clips"] if sources == "cache" else options["decoded_clips"]
            cached = FrameCache(options["cache"]) if sources == "cache" else None
            # A batch of slow clips would take all of the row's time.
            few = max(workers, round(seconds * workers / options["clip_seconds"])) if cached is None else clips
            make = partial(
                ClipLoader, batch_size=min(options["batch_size"], clips, few), workers=workers, kind=kind, cache=cached,
                transform=transform, on_error="skip",
            )  # fmt: skip
            draws = options["has_random_draws"] and cached is None
            pilot = _Contender(sources, kind, workers, make(plan_many(plan, catalog, size, clips, clips, draws)))
            with pilot.loader:
                count, took = pilot.run(seconds)
                if took.wall < seconds:  # else what is new in it weighs little
                    count, took = pilot.run(seconds)
            many = min(_MOST_CLIPS, max(clips, round(count * seconds / max(1e-6, took.wall))))
            loader = stack.enter_context(make(plan_many(plan, catalog, size, clips, many, draws)))
            contender = _Contender(sources, kind, workers, loader)
            if kind == "processes":
                contender.run(0)  # they take seconds to start
            contenders.append(contender)
        for number in range(MOST_ROUNDS):
            if number and time.perf_counter() + seconds * len(ways) > until:
                break
            for each in contenders if number % 2 == 0 else contenders[::-1]:
                count, took = each.run(2 * seconds)
                if count:
                    factor = compare(count) if each.sources == "originals" else 1.0
                    each.clips += count
                    each.cpu_seconds += took.cpu * factor
                    each.rates.append(count / took.wall / factor)
            runs = [_describe(each) for each in contenders if each.rates]
            if not runs:
                raise MissingMedia(f"no clip could be loaded: {contenders[0].failure}")
            report({"runs": runs})


def plan_many(plan: EpochPlan, catalog: Catalog, size: Any, clips: int, count: int, draws: bool) -> EpochPlan:
    """Plan the first clips of a plan again and again, so that the clips of one file lie apart; with draws, others."""
    requests, epoch = list[DecodeRequest](), plan
    for number in range(count):
        if draws and number and number % clips == 0:
            epoch = plan.with_epoch(number // clips)
        clip = epoch[number % clips]
        requests.append(DecodeRequest(catalog[clip.row], indices=clip.indices))
    return plan_requests(requests, size=size)


def _find_factor(options: Options, catalog: Catalog, plan: EpochPlan, count: int) -> float:
    """How many times as heavy as these clips those of all files are: an epoch that ended early has only the first."""
    is_whole = count >= options["decoded_clips"]
    factor: float = options["factor"] if is_whole else compare_predictions(options, catalog, plan, range(count))
    return factor


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
    count = max(1, round(_TRANSFORM_SECONDS / max(1e-6, measure(1))))
    report({"holds_lock": min(measure(2) / measure(1) for _ in range(_TRIES)) > _HELD})


def measure_peer(options: Options, report: Report) -> None:
    """Decode random clips of a sampled video by another library, and by ours, in turns."""
    rounds = Rounds(MOST_ROUNDS, until=time.perf_counter() + options["row_seconds"])
    catalog, _ = open_sample(options)
    peers = Peers.find([options["peer"]])
    if peers.missing:
        raise UsageError(next(iter(peers.missing.values())))
    paths = [Path(catalog.media_source(row).name) for row in range(len(catalog))]
    work = Path(tempfile.mkdtemp(dir=options["work"]))
    store = MediaStore(paths, work, rounds)
    workload = next(iter(own_workloads(store)), None)
    if workload is None:
        raise MissingMedia("no sampled video is long enough: 65 frames")
    report(
        {
            "row": run_row(workload_row(workload, store, peers.list_all("METHODS"), rounds), rounds),
            "versions": peers.versions,
        }
    )
