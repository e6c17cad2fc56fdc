"""Rows of media behind a server that delays each request, which counts what it is asked for.

20 ms before each answer, 50 MB/s a connection. Nothing is left of the server, nor of the files that it serves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path

from benchmarks.remote.clips import epoch_row
from benchmarks.remote.media import ServedMedia, Sizes
from benchmarks.remote.requests import clip_row, open_row
from benchmarks.remote.scans import pictures_row, videos_row
from benchmarks.remote.server import BYTES_A_SECOND, DELAY_SECONDS, Server, check_nginx, serving
from framefeed.bench import Begin, BenchOptions, MakeRow, Row, Suite
from framefeed.bench.baselines import Peers

PEERS = ("benchmarks.peers.torchcodec_urls",)
ROWS: Mapping[str, str] = {
    "clip": "requests and bytes of clips in two neighbouring groups of pictures of a large video",
    "open": "requests and bytes until a large video is open",
    "epoch": "random clips of many videos, against TorchCodec and against local disk",
    "scan": "scans of many small pictures and videos, against one request at a time",
}
ROW_SECONDS = {"clip": 60, "open": 30, "epoch": 300, "scan": 60}


def plan_rows(sizes: Sizes, options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> Mapping[str, MakeRow]:
    """Plan all rows; each serves a folder of its own."""
    check_nginx()

    def serve(make: Callable[[Server, ServedMedia, Path], Row], scratch: Path, stack: ExitStack) -> Row:
        root = scratch / "served"
        root.mkdir()
        return make(stack.enter_context(serving(root)), ServedMedia(root, sizes, options.rounds), scratch)

    makers: Mapping[str, Callable[[Server, ServedMedia, Path], Row]] = {
        "clip": lambda server, media, scratch: clip_row(server, media),
        "open": lambda server, media, scratch: open_row(server, media),
        "epoch": lambda server, media, scratch: epoch_row(server, media, peers, scratch),
        "scan": pictures_row,
        "scan:MP4": videos_row,
    }
    return {key: partial(serve, make) for key, make in makers.items()}


def make_suite(sizes: Sizes) -> Suite:
    """Make the suite."""

    def describe(options: BenchOptions) -> Mapping[str, object]:
        return {"delay_seconds": DELAY_SECONDS, "bytes_a_second": BYTES_A_SECOND, **asdict(sizes)}

    return Suite("remote", ROWS, PEERS, partial(plan_rows, sizes), ROW_SECONDS, 3, describe)
