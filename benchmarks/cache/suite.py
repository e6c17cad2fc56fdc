"""Rows of the frame cache that check ourselves; results name them as those of ``framefeed bench cache``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.cache.exact import exact_row
from benchmarks.cache.passes import OUTPUT_SIZE, batches_row, filling_row, second_row
from framefeed.bench import Begin, BenchOptions, BenchVideo, MakeRow, Row, Suite
from framefeed.bench.baselines import Peers
from framefeed.bench.cache import Scene, take_sample, video_of

ROWS: Mapping[str, str] = {
    "exact": "framefeed's best lossless codec, against joblib's lz4 and PNG",
    "second": "a second pass over the same clips, against the first",
    "batches": "reading whole batches stored raw, against memcpy",
    "filling": "cost of storing frames in a first pass",
}
PEERS = ("opencv", "joblib")
_PASSES: Mapping[str, Callable[[BenchVideo, Path, ExitStack], Row]] = {
    "second": second_row,
    "batches": batches_row,
    "filling": filling_row,
}


def plan_rows(options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> Mapping[str, MakeRow]:
    """Plan all rows, on the first of the user's videos."""
    rounds = options.rounds
    video = video_of(options.media, work, rounds)

    def make_exact(scratch: Path, stack: ExitStack) -> Row:
        begin(f"decoding {options.frames} frames")
        sample = take_sample(video, options.frames, OUTPUT_SIZE, rounds)
        return exact_row(Scene(sample, scratch, peers, rounds, workers=1), stack)

    return {"exact": make_exact, **{key: partial(make, video) for key, make in _PASSES.items()}}


SUITE = Suite(
    "cache", ROWS, PEERS, plan_rows, {}, 6, lambda options: {"frames": options.frames, "size": list(OUTPUT_SIZE)}
)
