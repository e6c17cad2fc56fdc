"""What the loader costs beside the decoding: its overhead, and moving batches that are ready."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from framefeed.bench._measuring import Contender, Interval, Rounds, Timings, as_json, measure, median_interval
from framefeed.bench._ready import CopyingDecoder, SleepingDecoder, plan_of_files, ready_clips
from framefeed.bench.baselines import load_module
from framefeed.decode import ClipSlot
from framefeed.load import ClipLoader
from framefeed.media import MediaSource
from framefeed.plan import EpochPlan

DECODE_SECONDS = 0.025
BATCH_SIZE = 16
OVERHEAD_CLIPS = 96
MOVED_BATCHES = 24
READY_CLIPS = 32


def exhaust(batches: Iterable[object], number: int) -> None:
    """Take every batch, and drop it, as a training loop does."""
    for batch in batches:
        del batch


def loader_overhead(folder: Path, rounds: Rounds) -> dict[str, Any]:
    """Wall time of an epoch over decoding alone, where decoding a clip takes 25 ms, with 1, 2 and 8 threads."""
    plan = plan_of_files(folder, BATCH_SIZE, OVERHEAD_CLIPS)
    loaders = {
        workers: ClipLoader(plan, batch_size=BATCH_SIZE, workers=workers, backend=SleepingDecoder(DECODE_SECONDS))
        for workers in (1, 2, 8)
    }
    contenders = [Contender("alone", lambda number: _decode_alone(plan))]
    contenders += [Contender(str(workers), partial(exhaust, loader)) for workers, loader in loaders.items()]
    samples = measure(contenders, rounds)
    for loader in loaders.values():
        loader.close()
    return {
        "key": "overhead",
        "title": f"loader overhead over a decoder of {DECODE_SECONDS * 1000:.0f} ms a clip, {OVERHEAD_CLIPS} clips",
        "overhead": {str(workers): as_json(_overhead(samples, workers), 4) for workers in loaders},
        "floor": 0.03,
        "aim": 0.01,
    }


def _decode_alone(plan: EpochPlan) -> None:
    """Call the decoder clip after clip in one thread: what cannot be saved."""
    decoder, catalog = SleepingDecoder(DECODE_SECONDS), plan.catalog
    source, index, request = MediaSource.of(catalog.source(0)), catalog.frame_index(0), plan[0]
    out = np.empty((len(request), *request.output.shape(0, 0)), dtype=np.uint8)
    for _ in range(len(plan)):
        decoder.decode(source, index, [ClipSlot(request.ordinals, request.output, out)])


def _overhead(samples: Timings, workers: int) -> Interval:
    alone, loaded = samples.of["alone"], samples.of[str(workers)]
    return median_interval([loaded[number].wall * workers / alone[number].wall - 1 for number in loaded])


def moving_batches(folder: Path, rounds: Rounds) -> dict[str, Any]:
    """Milliseconds a batch whose clips are ready in memory, ours against torch's DataLoader, on the clock."""
    clips = ready_clips(READY_CLIPS)
    count = MOVED_BATCHES * BATCH_SIZE
    plan = plan_of_files(folder, BATCH_SIZE, count)
    ours = [
        ClipLoader(plan, batch_size=BATCH_SIZE, workers=workers, backend=CopyingDecoder(clips)) for workers in (1, 2)
    ]
    contenders = [Contender(f"framefeed {n + 1}", partial(exhaust, loader)) for n, loader in enumerate(ours)]
    torch = load_module("torch_loader")
    if not isinstance(torch, str):
        contenders += [
            Contender(f"torch {workers}", partial(exhaust, torch.torch_loader(clips, count, BATCH_SIZE, workers)))
            for workers in (0, 1, 2)
        ]
    measure(contenders, Rounds(1, 1))  # workers start, buffers are touched for the first time
    samples = measure(contenders, replace(rounds, pilot=rounds.pairs))
    for loader in ours:
        loader.close()
    return {
        "key": "moving",
        "title": f"moving batches of {BATCH_SIZE * clips[0].nbytes / 1e6:.0f} MB that are ready in memory",
        "milliseconds": {c.name: round(1000 * samples.median(c.name, "wall") / MOVED_BATCHES, 2) for c in contenders},
        "wall": {
            f"torch {workers}": as_json(samples.ratio(f"torch {workers}", "framefeed 2", "wall"))
            for workers in (0, 1, 2)
            if f"torch {workers}" in samples.of
        },
        "missing": {"torch": torch} if isinstance(torch, str) else {},
        "floor": 5.0,
        "aim": 8.0,
    }
