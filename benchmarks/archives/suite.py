"""Rows of media in archives: where members lie, their headers, and clips of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path

from benchmarks.archives.clips import unpacked_row, webdataset_row
from benchmarks.archives.media import PackedMedia, Sizes
from benchmarks.archives.scans import scan_row
from benchmarks.archives.walks import WALKS
from framefeed.bench import Begin, BenchOptions, MakeRow, Row, Suite
from framefeed.bench.baselines import Peers

PEERS = ("benchmarks.peers.webdataset_clips",)
ROWS: Mapping[str, str] = {
    "walk": "finding the members of a large tar, against tarfile",
    "scan": "scan of pictures in tar archives, against the unpacked files",
    "unpacked": "random clips from tar archives, against the unpacked files",
    "webdataset": "random clips of members of 10 seconds, against WebDataset and TorchCodec",
    "webdataset-long": "the same of members of about 100 MB",
}
ROW_SECONDS = {"walk": 60, "scan": 30, "unpacked": 60, "webdataset": 120, "webdataset-long": 180}


def plan_rows(sizes: Sizes, options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> Mapping[str, MakeRow]:
    """Plan all rows; each makes its own media."""

    def make(make_row: Callable[[PackedMedia], Row], scratch: Path, stack: ExitStack) -> Row:
        return make_row(PackedMedia(scratch, sizes, options.rounds))

    makers: Mapping[str, Callable[[PackedMedia], Row]] = {
        **WALKS,
        "scan": scan_row,
        "unpacked": unpacked_row,
        "webdataset": lambda media: webdataset_row(media, peers, "webdataset"),
        "webdataset-long": lambda media: webdataset_row(media, peers, "webdataset-long"),
    }
    return {key: partial(make, make_row) for key, make_row in makers.items()}


def make_suite(sizes: Sizes) -> Suite:
    """Make the suite."""

    def describe(options: BenchOptions) -> Mapping[str, object]:
        return asdict(sizes)

    return Suite("archives", ROWS, PEERS, partial(plan_rows, sizes), ROW_SECONDS, 7, describe)
