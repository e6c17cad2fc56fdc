"""The rows of ``framefeed bench cache``: every format on the user's own video, the paired rows, and the advice."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from framefeed.bench._runner import Findings, Row
from framefeed.bench._suites import Begin, BenchOptions, MakeRow, Suite
from framefeed.bench.baselines import Peers
from framefeed.bench.cache._reads import original_row
from framefeed.bench.cache._sample import take_sample, video_of
from framefeed.bench.cache._stored import Scene
from framefeed.bench.cache._table import measure_formats

FRAMES = 64
# The fewest whose interval holds the median in 95 of 100 cases.
PAIRS = 6
TABLE = "table"
ROWS: Mapping[str, str] = {
    TABLE: "one video's frames in every format of framefeed and of other libraries",
    "original": "reading stored frames, against decoding them from the original",
}
PEERS = ("opencv", "joblib", "torchcodec", "decord2", "torch")
# At least, about, on two x86-64 cores.
ROW_SECONDS = {TABLE: 30, "original": 20}


def plan_rows(options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> Mapping[str, MakeRow]:
    """Decode the frames that all rows read, and plan the rows."""
    rounds = options.rounds
    begin(f"decoding {options.frames} frames")
    sample = take_sample(video_of(options.media, work, rounds), options.frames, options.size, rounds)

    def make(key: str, scratch: Path, stack: ExitStack) -> Row:
        scene = Scene(sample, scratch, peers, rounds, _count_workers(options))
        return table_row(scene, options.crops, begin) if key == TABLE else original_row(scene, stack)

    return {key: partial(make, key) for key in ROWS}


def _count_workers(options: BenchOptions) -> int:
    return options.workers or len(os.sched_getaffinity(0))


def table_row(scene: Scene, crops: Path | None, begin: Begin) -> Row:
    """Measure every format, and say which one to take."""
    video = scene.sample.video
    height, width = video.index.stream.displayed
    facts, wrong = measure_formats(scene, crops, begin)
    title = f"{video.path.name}: {len(video):,} frames of {width}x{height}, in every format"
    return Row(TABLE, title, conclude=lambda timings: Findings(facts=facts, wrong=wrong))


CACHE = Suite(
    "cache",
    ROWS,
    PEERS,
    plan_rows,
    ROW_SECONDS,
    PAIRS,
    lambda options: {"frames": options.frames, "size": list(options.size), "workers": _count_workers(options)},
    measures_disk=True,
)
