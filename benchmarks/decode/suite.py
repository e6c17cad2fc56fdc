"""Rows of the decoders on this project's own media; results name them as those of ``framefeed bench decode``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.decode.engines import engines_row
from benchmarks.decode.length import length_row
from benchmarks.decode.loader import memory_row, moving_row, overhead_row
from benchmarks.decode.workloads import Libraries, batch_row, files_row
from benchmarks.media import OwnStore
from framefeed.bench import (
    OUR_METHOD,
    SEED,
    Begin,
    BenchOptions,
    Comparison,
    Figure,
    Findings,
    MakeRow,
    Row,
    Suite,
    psnr,
    spread_ordinals,
)
from framefeed.bench.baselines import Method, Peers
from framefeed.bench.decode import Workload
from framefeed.errors import MissingMedia

PEERS = ("torchcodec", "decord2", "spdl", "opencv", "benchmarks.peers.torch", "benchmarks.peers.pillow")
COPIES = 12
COMPARED = 24
"""Frames of a video by which resizing is compared."""
ENGINE_FRAMES = 600
"""DALI scans the whole file at each call."""
WORKLOADS: Mapping[str, Workload] = {
    workload.key: workload
    for workload in (
        Workload("test-60", "720p60 test video, 16 frames 60 apart", lambda store: store.test_video, 60, 1),
        Workload("trailer-24", "720p trailer, 16 frames 24 apart", lambda store: store.trailer, 24, 1),
        Workload("trailer-4", "720p trailer, 16 frames 4 apart", lambda store: store.trailer, 4, 2),
        Workload("small-4", "456x256, 16 frames 4 apart", lambda store: store.small_trailer, 4, 10),
        Workload(
            "gop12-2", "456x256, GOP 12, 16 frames 2 apart, every clip another copy",
            lambda store: store.short_gop_trailer, 2, 20,
        ),
    )
}  # fmt: skip
AGAINST: Mapping[str, Sequence[Libraries]] = {"gop12-2": (("decord2", "torchcodec"), ("spdl",))}
"""Libraries that a workload is compared with, besides all of them together."""
BATCH = Workload(
    "batch-12", "720p trailer, a batch of 12 clips of 16 frames 24 apart", lambda store: store.trailer, 24, 12
)
ROWS: Mapping[str, str] = {
    **{workload.key: workload.title for workload in (*WORKLOADS.values(), BATCH)},
    "length": "the same clip in a video 50 times as long",
    "engines": "each engine through its backend against itself",
    "resize": "difference of the default resize from a high-quality resize",
    "overhead": "cost of the loader on top of decoding",
    "moving": "time of the loader for batches that need no decoding",
    "memory": "resident memory of a loading loop",
}
# A guess for all.
ROW_SECONDS = dict.fromkeys(ROWS, 8)


def plan_rows(options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> Mapping[str, MakeRow]:
    """Plan all rows."""
    rounds, methods = options.rounds, peers.list_all("METHODS")
    store = OwnStore(options.media, work, rounds)
    few = OwnStore(options.media, work, rounds, test_frames=ENGINE_FRAMES)
    makes: dict[str, MakeRow] = {
        key: lambda scratch, stack, workload=workload: files_row(
            workload, store, methods, rounds, AGAINST.get(workload.key, ())
        )
        for key, workload in WORKLOADS.items()
    }
    makes |= {
        BATCH.key: lambda scratch, stack: batch_row(BATCH, store, methods, rounds, ("torchcodec",)),
        "length": lambda scratch, stack: length_row(store.test_video, store.long_test_video, methods, rounds),
        "engines": lambda scratch, stack: engines_row(few.test_video, few.vp9_test_video, rounds),
        "resize": lambda scratch, stack: resize_row(store, methods, peers),
        "overhead": overhead_row,
        "moving": lambda scratch, stack: moving_row(scratch, stack, peers),
        "memory": lambda scratch, stack: memory_row(
            store.copies(store.short_gop_trailer, COPIES), scratch / "memory.parquet", stride=2
        ),
    }
    return makes


def resize_row(store: OwnStore, methods: Sequence[Method], peers: Peers) -> Row:
    """How close each contender's resize comes to a careful one: PSNR over some frames of each video."""
    pillow = peers.modules.get("pillow")
    if pillow is None:
        raise MissingMedia(f"it compares with Pillow: {peers.missing['pillow']}")
    comparisons = []
    for video in (store.trailer, store.small_trailer, store.test_video):
        ordinals = spread_ordinals(len(video), COMPARED)
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


SUITE = Suite("decode", ROWS, PEERS, plan_rows, ROW_SECONDS, 20, lambda options: {"seed": SEED, "threads": 1})
