"""Rows of scans: engines that read headers, and whole scans of very many files.

What the write-up about a million pictures measured stands beside ours: ffprobe from asyncio, from processes and from a
fork server, PyAV in a process and in a pool of processes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.scan.facts import OUR_ENGINES, headers_row, mp4_row
from benchmarks.scan.large import memory_row, videos_row
from benchmarks.scan.media import Tree, find_originals, linked_tree, make_videos
from benchmarks.scan.whole import Pair, scan_row, second_row
from framefeed.bench import Begin, BenchOptions, MakeRow, Row, Suite
from framefeed.bench.baselines import Peers

FILES = 100_000
"""Pictures of a scanned tree; "headers" takes a fifth of them, "memory" and "videos" ten times as many."""
PEERS = tuple(
    f"benchmarks.peers.{name}" for name in ("pyav", "imagesize", "pillow", "ffprobe", "bare_calls", "torchcodec")
)
ROWS: Mapping[str, str] = {
    "headers": "sizes from headers of pictures, file by file, against other libraries",
    "scan": "a whole scan, against listing the files and reading their headers without parsing",
    "second": "a second scan, when no file has changed",
    "mp4": "facts and frame tables of MP4 files",
    "memory": "memory of a scan of ten times as many pictures",
    "videos": "opening and planning of a generated catalog with ten times as many videos",
}
ROW_SECONDS = {"headers": 35, "second": 12, "mp4": 8}
"""Of a row over 2000 files with its first round, about, on two x86-64 cores."""


def plan_rows(files: int, options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> Mapping[str, MakeRow]:
    """Plan all rows, over so many pictures."""
    rounds = options.rounds
    originals = find_originals(options.media, work / "originals", rounds)
    processes, fewest = len(os.sched_getaffinity(0)), len(originals.stills)

    def link(scratch: Path, stack: ExitStack, *counts: int) -> list[Tree]:
        return [
            stack.enter_context(linked_tree(originals.stills, scratch / f"tree_{number}", max(count, fewest), rounds))
            for number, count in enumerate(counts)
        ]

    def make_headers(scratch: Path, stack: ExitStack) -> Row:
        (tree,) = link(scratch, stack, files // 5)
        return headers_row(tree, originals, [*OUR_ENGINES, *peers.list_all("ENGINES")], processes, stack)

    def make_scan(scratch: Path, stack: ExitStack) -> Row:
        sizes = [files // 50, *(max(files, 2 * fewest) * times for times in (1, 2, 5))]
        trees = link(scratch, stack, *sizes)
        return scan_row(Pair(*trees[:2]), Pair(*trees[2:]), scratch, processes, stack)

    return {
        "headers": make_headers,
        "scan": make_scan,
        "second": lambda scratch, stack: second_row(link(scratch, stack, files)[0], scratch),
        "mp4": lambda scratch, stack: mp4_row(originals.videos or make_videos(scratch, rounds), peers),
        "memory": lambda scratch, stack: memory_row(link(scratch, stack, 10 * files)[0], scratch, rounds),
        "videos": lambda scratch, stack: videos_row(10 * files, scratch, rounds),
    }


def make_suite(files: int) -> Suite:
    """Make the suite over a number of pictures."""

    def describe(options: BenchOptions) -> Mapping[str, object]:
        return {"files": files, "own_media": bool(options.media)}

    return Suite("scan", ROWS, PEERS, partial(plan_rows, files), ROW_SECONDS, 20, describe)
