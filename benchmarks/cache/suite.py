"""Rows of the frame cache that check ourselves; results name them as those of ``framefeed bench cache``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.cache.passes import OUTPUT_SIZE, batches_row, filling_row, second_row
from framefeed.bench import Begin, BenchOptions, BenchVideo, MakeRow, Row, Suite
from framefeed.bench.baselines import Peers
from framefeed.bench.cache import video_of

ROWS: Mapping[str, str] = {
    "second": "a second pass over the same clips, against the first",
    "batches": "reading whole batches stored raw, against memcpy",
    "filling": "cost of storing frames in a first pass",
}
_MAKES: Mapping[str, Callable[[BenchVideo, Path, ExitStack], Row]] = {
    "second": second_row,
    "batches": batches_row,
    "filling": filling_row,
}


def plan_rows(options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> Mapping[str, MakeRow]:
    """Plan all rows, on the first of the user's videos."""
    video = video_of(options.media, work, options.rounds)
    return {key: partial(make, video) for key, make in _MAKES.items()}


SUITE = Suite("cache", ROWS, (), plan_rows, {}, 6, lambda options: {"size": list(OUTPUT_SIZE)})
