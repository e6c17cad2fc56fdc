"""Row "simulation": producers that need a second for a batch, and a consumer that needs a fifth, ten times as fast.

Producer and consumer sleep: they stand for work of processors that this machine may not have. Each loader runs in a
process of its own, which says when its batches arrived; so torch starts its workers as its users have them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from shutil import copyfile
from statistics import median
from typing import Any

import numpy as np

from benchmarks.processes import run_program
from framefeed.bench import (
    Comparison,
    Contender,
    Figure,
    Findings,
    Reading,
    Row,
    Run,
    Timings,
    median_interval,
    read_family_clocks,
    ready,
)
from framefeed.bench.baselines import Peers, load_module
from framefeed.decode import BaseDecoder, ClipSlot, DecodeReport, Pixels
from framefeed.index import FrameIndex
from framefeed.load import ClipLoader
from framefeed.media import MediaSource
from framefeed.plan import plan_requests
from framefeed.request import DecodeRequest
from framefeed.testing import ClipSpec, write_clip

PRODUCER_SECONDS, CONSUMER_SECONDS = 0.1, 0.02
"""For a batch; the write-up has ten times as much."""
PRODUCERS = (1, 2, 5, 10, 30)
BATCH = 8
FRAMES, SIDE = 16, 16
MEASURED_SECONDS = 2.0
"""Of a run at the ideal rate, after its first batch."""
PEERS = {"queues": "threads + queue.Queue", "torch": "torch DataLoader", "spdl": "SPDL", "grain": "grain"}
"""Module of the baselines -> what its loader is called."""
OURS, WRITE_UP = "framefeed", PEERS["queues"]
CHECKED_BATCHES = 4
# Enough for all that is prepared ahead: by torch, two batches a worker.
_SPARE_BATCHES = 100


def find_period(producers: int) -> float:
    """Seconds a batch at the ideal rate."""
    return max(CONSUMER_SECONDS, PRODUCER_SECONDS / producers)


def load_sample(position: int) -> Pixels:
    """Make a sample that shows its position, in the time of its share of a batch."""
    time.sleep(PRODUCER_SECONDS / BATCH)
    return np.full((3, SIDE, SIDE), position // BATCH % FRAMES, dtype=np.uint8)


class SampleDecoder(BaseDecoder):
    """Takes as long as `load_sample`, and writes the frame's number."""

    name = "sample"

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Sleep for each clip, and fill it."""
        for slot in slots:
            time.sleep(PRODUCER_SECONDS / BATCH)
            slot.out[...] = int(slot.indices[0])
        return DecodeReport([None] * len(slots))


def make_files(folder: Path) -> None:
    """Write as many files as a batch has samples: clips of one file in a batch would be one task."""
    write_clip(folder / "0.mp4", ClipSpec(FRAMES, height=SIDE * 2, width=SIDE * 2))
    for number in range(1, BATCH):
        copyfile(folder / "0.mp4", folder / f"{number}.mp4")


def make_loader(folder: Path, length: int, producers: int) -> ClipLoader:
    """Make a whole loader, with as many threads as there are producers."""
    sources = [folder / f"{number}.mp4" for number in range(BATCH)]
    requests = [DecodeRequest(sources[each % BATCH], [each // BATCH % FRAMES]) for each in range(length)]
    plan = plan_requests(requests, size=(SIDE, SIDE))
    return ClipLoader(plan, batch_size=BATCH, workers=producers, backend=SampleDecoder())


def begin_ours(loader: ClipLoader) -> Iterator[Any]:
    """Iterate over a loader, and close it."""
    with loader:
        for batch in loader:
            yield batch.data[:, 0]


def simulate(module: str, producers: str, batches: str, folder: str) -> dict[str, Any]:
    """Train on so many batches and on all that come within their ideal time; run as a program.

    Returns:
        Seconds from the start at which batches arrived, the frame that each sample shows, CPU seconds.
    """
    workers, count = int(producers), int(batches)
    length = BATCH * (count + _SPARE_BATCHES)
    if module:
        (offered,) = load_module(f"benchmarks.peers.{module}").PRODUCERS
        before = read_family_clocks()
        iterator = offered.begin(load_sample, length, BATCH, workers)
    else:
        loader = make_loader(Path(folder), length, workers)
        before = read_family_clocks()
        iterator = begin_ours(loader)
    until = before.wall + find_seconds(workers, count)
    arrivals, shown = list[float](), list[list[int]]()
    for batch in iterator:
        arrivals.append(time.perf_counter() - before.wall)
        shown.append(np.asarray(batch)[:, 0, 0, 0].tolist())
        if len(arrivals) > count and time.perf_counter() > until:
            break
        time.sleep(CONSUMER_SECONDS)
    took = read_family_clocks() - before
    # The workers must end before their queues are collected.
    del iterator
    return {"arrivals": arrivals, "shown": shown, "cpu": took.cpu}


def find_seconds(producers: int, batches: int) -> float:
    """Time for so many batches at the ideal rate, with that until the first one, and half of that between two."""
    return PRODUCER_SECONDS + (batches + 0.5) * find_period(producers)


@dataclass(frozen=True)
class Loader:
    """One of the loaders, of a module of the baselines, or ours without one."""

    name: str
    module: str = ""
    keeps_order: bool = True

    def run(self, producers: int, batches: int, folder: Path) -> dict[str, Any]:
        """Train in a process of its own."""
        words = self.module, str(producers), str(batches), os.fspath(folder)
        result: dict[str, Any] = run_program(simulate, *words)
        return result


def find_wrong(loader: Loader, shown: Sequence[Sequence[int]]) -> list[str]:
    """Say which batches are not those that were asked for."""
    due = [[number % FRAMES] * BATCH for number in range(len(shown))]
    if not loader.keeps_order:
        # Those of a queue come as they are ready; the last ones that came may be later ones than are due.
        return [f"batch {number} mixes frames {batch}" for number, batch in enumerate(shown) if len({*batch}) != 1]
    pairs = zip(due, shown, strict=True)
    return [f"batch {number}: expected {want}, got {got}" for number, (want, got) in enumerate(pairs) if want != got]


@dataclass(slots=True)
class Records:
    """What the runs have shown: (loader, producers) -> round -> samples in the same time; and what was wrong."""

    samples: dict[tuple[str, int], dict[int, int]] = field(default_factory=dict)
    wrong: dict[str, list[str]] = field(default_factory=dict)

    def compare(self, producers: int) -> Figure | None:
        """Our samples in times of those of the write-up's loader."""
        ours, theirs = (self.samples.get((name, producers), {}) for name in (OURS, WRITE_UP))
        both = sorted(ours.keys() & theirs.keys())
        if not both:
            return None
        return Figure(median_interval([ours[number] / theirs[number] for number in both]), OURS, WRITE_UP)


def simulation_row(peers: Peers, folder: Path) -> Row:
    """All loaders with 1 to 30 producers."""
    make_files(folder)
    offered = [(name, peers.modules[name].PRODUCERS[0]) for name in PEERS if name in peers.modules]
    loaders = [Loader(OURS), *(Loader(each.name, name, each.keeps_order) for name, each in offered)]
    by_name = {_title(loader.name, producers): (loader, producers) for loader in loaders for producers in PRODUCERS}
    records = Records()

    def time_run(loader: Loader, producers: int) -> Run:
        batches = round(MEASURED_SECONDS / find_period(producers))

        def run(number: int) -> Reading:
            result = loader.run(producers, batches, folder)
            arrivals = result["arrivals"]
            within = sum(at <= find_seconds(producers, batches) for at in arrivals)
            records.samples.setdefault((loader.name, producers), {})[number] = within * BATCH
            records.wrong[_title(loader.name, producers)] = find_wrong(loader, result["shown"])
            return Reading(result["cpu"] / len(arrivals), (arrivals[-1] - arrivals[0]) / (len(arrivals) - 1))

        return run

    @cache
    def check_loader(loader: Loader) -> list[str]:
        return find_wrong(loader, loader.run(2, CHECKED_BATCHES, folder)["shown"])

    def conclude(timings: Timings) -> Findings:
        return conclude_simulation(timings, by_name, records)

    contenders = [
        Contender(name, ready(time_run(*which)), which[0].module, rule=f"{which[1]} producers")
        for name, which in by_name.items()
    ]
    title = (
        f"batches of {BATCH} samples that a producer makes in {PRODUCER_SECONDS} s and a consumer trains on in "
        f"{CONSUMER_SECONDS} s, from the first batch on"
    )
    return Row(
        "simulation",
        title,
        contenders,
        conclude,
        unit="batches",
        check=lambda contender: list(check_loader(by_name[contender.name][0])),
        recheck=lambda contender: records.wrong.get(contender.name, []),
        between=lambda: None,
    )


def conclude_simulation(timings: Timings, by_name: Mapping[str, tuple[Loader, int]], records: Records) -> Findings:
    """Shares of the ideal rate and use of the consumer, a comparison for each loader; ours first."""
    comparisons, use = [], dict[str, dict[str, float]]()
    for loader in dict.fromkeys(loader for loader, _ in by_name.values()):
        figures = {}
        for producers in PRODUCERS:
            took = timings.of.get(_title(loader.name, producers))
            if took is None:
                continue
            walls = [reading.wall for reading in took.values()]
            shares = median_interval([100 * find_period(producers) / wall for wall in walls])
            figures[f"{producers} producers"] = Figure(shares, loader.name)
            use.setdefault(loader.name, {})[str(producers)] = round(100 * CONSUMER_SECONDS / median(walls), 1)
        key = "share" if loader.name == OURS else f"share of {loader.name}"
        comparisons.append(Comparison(key, f"share of the ideal rate, {loader.name}", figures, " %"))
    samples = {f"{each} producers": figure for each in PRODUCERS if (figure := records.compare(each)) is not None}
    comparisons.append(Comparison("samples", f"samples in the same time since the start, {WRITE_UP}", samples))
    return Findings(comparisons, {"use_of_the_consumer_in_percent": use})


def _title(name: str, producers: int) -> str:
    return f"{name}, {producers}"
