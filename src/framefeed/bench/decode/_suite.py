"""The rows of ``framefeed bench decode``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from framefeed.bench._frames import OUR_METHOD, SEED, psnr, spread_ordinals
from framefeed.bench._media import MediaStore
from framefeed.bench._runner import Comparison, Figure, Findings, Row
from framefeed.bench._suites import Begin, BenchOptions, PlannedRow, Suite
from framefeed.bench.baselines import Method, Peers
from framefeed.bench.decode._loader import memory_row, moving_row, overhead_row
from framefeed.bench.decode._workloads import COPIES, WORKLOADS, length_row, own_workloads, workload_row
from framefeed.errors import MissingMedia

PEERS = ("torchcodec", "decord2", "spdl", "opencv", "torch", "pillow")
ROWS: Mapping[str, str] = {
    **{key: workload.title for key, workload in WORKLOADS.items()},
    "own": "random clips of your videos, against other installed decoders",
    "length": "the same clip in a video 50 times as long",
    "resize": "difference of the default resize from a high-quality resize",
    "overhead": "cost of the loader on top of decoding",
    "moving": "time of the loader for batches that need no decoding",
    "memory": "resident memory of a loading loop",
}
# About, on two x86-64 cores, of a row on the user's own videos with its first round; a guess for all others.
ROW_SECONDS = dict.fromkeys(ROWS, 8)


def plan_rows(options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> list[PlannedRow]:
    """List the rows that are asked for."""
    rounds, methods = options.rounds, peers.list_all("METHODS")
    store = MediaStore(options.media, work, rounds)
    makes: dict[str, Callable[[Path, ExitStack], Row]] = {
        workload.key: lambda scratch, stack, workload=workload: workload_row(workload, store, methods, rounds)  # type: ignore[misc]
        for workload in (*WORKLOADS.values(), *own_workloads(store))
    }
    makes |= {
        "length": lambda scratch, stack: length_row(store.test_video, store.long_test_video, methods, rounds),
        "resize": lambda scratch, stack: resize_row(store, methods, peers),
        "overhead": overhead_row,
        "moving": lambda scratch, stack: moving_row(scratch, stack, peers),
        "memory": lambda scratch, stack: memory_row(
            store.copies(store.short_gop_trailer, COPIES), scratch / "memory.parquet", stride=2
        ),
    }
    asked = [key for key in makes if not options.rows or key.partition(":")[0] in options.rows]
    return [PlannedRow(key, makes[key]) for key in asked]


def resize_row(store: MediaStore, methods: Sequence[Method], peers: Peers) -> Row:
    """How close each contender's resize comes to a careful one: PSNR over some frames of each video."""
    pillow = peers.modules.get("pillow")
    if pillow is None:
        raise MissingMedia(f"it compares with Pillow: {peers.missing['pillow']}")
    comparisons = []
    for video in (store.trailer, store.small_trailer, store.test_video):
        ordinals = spread_ordinals(len(video))
        taken = {method: np.asarray(method.open(video)(ordinals)) for method in (OUR_METHOD, *methods)}
        comparisons += compare_resizing(video.path.name, pillow.resize_frames(video, ordinals), taken)
    title = "PSNR to Pillow's antialiased bilinear on full-chroma RGB"
    return Row("resize", title, conclude=lambda timings: Findings(comparisons))


def compare_resizing(name: str, reference: Any, taken: Mapping[Method, Any]) -> list[Comparison]:
    """PSNR of each method to the reference, and how far ours is above the decoder's own resize of TorchCodec."""
    decibels = {
        method: psnr(pictures.transpose(0, 2, 3, 1) if method.layout == "NCHW" else pictures, reference)
        for method, pictures in taken.items()
    }
    ranked = sorted(decibels.items(), key=lambda item: -item[1])
    out = [Comparison(name, name, {method.name: Figure(value) for method, value in ranked}, " dB")]
    native = [value for method, value in decibels.items() if method.library == "torchcodec" and method.resizes_itself]
    if native:
        figures = {"PSNR": Figure(decibels[OUR_METHOD] - max(native))}
        what = f"{name}: framefeed above TorchCodec's own resize"
        out.append(Comparison(f"{name}, above torchcodec", what, figures, " dB"))
    return out


DECODE = Suite("decode", ROWS, PEERS, plan_rows, ROW_SECONDS, 20, lambda options: {"seed": SEED, "threads": 1})
