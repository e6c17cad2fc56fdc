"""What the loader costs beside the decoding: its overhead, moving batches that are ready, and memory."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import cycle
from pathlib import Path
from shutil import copyfile

import numpy as np

from benchmarks.processes import own_megabytes, run_program
from framefeed.bench import (
    NUM_FRAMES,
    SIZE,
    BenchVideo,
    Comparison,
    Contender,
    Figure,
    Findings,
    Row,
    Timings,
    compare_times,
    ready,
)
from framefeed.bench.baselines import Peers
from framefeed.catalog import Catalog
from framefeed.decode import BaseDecoder, ClipSlot, DecodeReport, Pixels
from framefeed.index import FrameIndex
from framefeed.load import ClipLoader
from framefeed.media import MediaSource
from framefeed.plan import Dense, EpochPlan, plan_clips, plan_requests
from framefeed.request import DecodeRequest
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, write_clip

DECODE_SECONDS = 0.025
BATCH_SIZE = 16
OVERHEAD_CLIPS = 96
MOVED_BATCHES = 24
READY_CLIPS = 32
FED_CLIPS = 1000
FED_WORKERS = 2
SETTLED = 50
"""Batches after which nothing may grow."""
FLAT = 1.02


def exhaust(batches: Iterable[object], number: int) -> None:
    """Take every batch, and drop it, as a training loop does."""
    for batch in batches:
        del batch


def overhead_row(folder: Path, stack: ExitStack) -> Row:
    """Wall time of an epoch over decoding alone, where decoding a clip takes 25 ms, with 1, 2 and 8 threads."""
    plan = plan_of_files(folder, BATCH_SIZE, OVERHEAD_CLIPS)
    decoder, catalog, clip = SleepingDecoder(), plan.catalog, plan[0]
    source, index = MediaSource.of(catalog.source(0)), catalog.frame_index(0)
    out = np.empty((len(clip), *clip.output.shape(0, 0)), dtype=np.uint8)

    def decode_alone(number: int) -> None:
        """Call the decoder clip after clip in one thread: what cannot be saved."""
        for _ in range(len(plan)):
            decoder.decode(source, index, [ClipSlot(clip.indices, clip.output, out)])

    contenders = [Contender("decoding alone", ready(decode_alone), amount=OVERHEAD_CLIPS)]
    names = {workers: f"ClipLoader, {workers} threads" for workers in (1, 2, 8)}
    for workers, name in names.items():
        loader = stack.enter_context(ClipLoader(plan, batch_size=BATCH_SIZE, workers=workers, backend=decoder))
        contenders.append(Contender(name, ready(partial(exhaust, loader)), amount=OVERHEAD_CLIPS))

    def conclude(timings: Timings) -> Findings:
        figures = {}
        for workers, name in names.items():
            ratio = timings.ratio(name, "decoding alone", "wall")
            more = ratio.scale(100 * workers, -100)
            figures[f"wall, {workers} threads"] = Figure(more, name, "decoding alone")
        return Findings([Comparison("overhead", "more time than decoding alone, divided by threads", figures, " %")])

    title = f"loader overhead over a decoder of {DECODE_SECONDS * 1000:.0f} ms a clip, {OVERHEAD_CLIPS} clips"
    return Row("overhead", title, contenders, conclude, unit="clips")


def moving_row(folder: Path, stack: ExitStack, peers: Peers) -> Row:
    """Batches whose clips are ready in memory, through our loader and through torch's DataLoader."""
    clips = ready_clips(READY_CLIPS)
    count = MOVED_BATCHES * BATCH_SIZE
    plan = plan_of_files(folder, BATCH_SIZE, count)
    contenders = []
    for workers in (1, 2):
        decoder = CopyingDecoder(clips)
        loader = stack.enter_context(ClipLoader(plan, batch_size=BATCH_SIZE, workers=workers, backend=decoder))
        contenders.append(Contender(f"framefeed {workers}", ready(partial(exhaust, loader)), amount=MOVED_BATCHES))
    if "torch" in peers.modules:
        load = partial(peers.modules["torch"].load_ready, clips, count, BATCH_SIZE)
        contenders += [
            Contender(f"torch {workers}", lambda workers=workers: partial(exhaust, load(workers)), "torch",  # type: ignore[misc]
                      amount=MOVED_BATCHES)
            for workers in (0, 1, 2)
        ]  # fmt: skip

    def conclude(timings: Timings) -> Findings:
        figures = {
            f"wall, {name}": compare_times(timings, "framefeed 2", name, ("wall",))["wall"]
            for name in timings.of
            if name.startswith("torch")
        }
        return Findings([Comparison("moving", "the speed of torch's DataLoader, on the clock", figures)])

    title = f"moving batches of {BATCH_SIZE * clips[0].nbytes / 1e6:.0f} MB that are ready in memory, by workers"
    # Workers start in the first round, and buffers are touched for the first time.
    return Row("moving", title, contenders, conclude, unit="batches", warms_up=True)


def memory_row(videos: Sequence[BenchVideo], catalog: Path, stride: int, clips: int = FED_CLIPS) -> Row:
    """Feed clips of some files in a fresh process, and see what it holds."""
    scan([str(video.path) for video in videos], out=catalog)
    series = run_program(feed_clips, catalog, str(stride), str(-(-clips // len(videos))))
    title = f"memory of a loop over {clips} clips, batches of {BATCH_SIZE}, {FED_WORKERS} threads"
    return Row("memory", title, conclude=lambda timings: judge_memory(series))


def judge_memory(series: Sequence[float]) -> Findings:
    """Say whether a series of resident megabytes, one value a batch, stays flat once it has settled."""
    first, later = max(series[:SETTLED]), max(series[SETTLED:], default=None)
    facts = {
        "batches": len(series),
        f"is_flat_after_{SETTLED}": later is None or later <= FLAT * first,
        "resident_MB": [round(value, 1) for value in series],
    }
    return Findings([Comparison("peak", "resident memory", {"peak": Figure(max(series))}, " MB")], facts)


def feed_clips(catalog: str, stride: str, clips_per_video: str) -> list[float]:
    """Feed from a catalog, and list resident megabytes after each batch."""
    rule = Dense(NUM_FRAMES, stride=int(stride))
    plan = plan_clips(Catalog.open(catalog), rule, clips_per_video=int(clips_per_video), seed=0, size=(SIZE, SIZE))
    series = []
    with ClipLoader(plan, batch_size=BATCH_SIZE, workers=FED_WORKERS) as loader:
        for batch in loader:
            del batch
            series.append(own_megabytes("VmRSS"))
    return series


def ready_clips(count: int) -> list[Pixels]:
    """Different clips in memory, uint8 [16, 3, 224, 224] each."""
    rng = np.random.Generator(np.random.Philox(key=1))
    return [rng.integers(0, 256, (NUM_FRAMES, 3, SIZE, SIZE), dtype=np.uint8) for _ in range(count)]


def plan_of_files(folder: Path, num_files: int, num_clips: int) -> EpochPlan:
    """Plan clips of 16 frames over small files, no two neighbours of the same."""
    folder.mkdir(parents=True, exist_ok=True)
    first = write_clip(folder / "000.mp4", ClipSpec(num_frames=NUM_FRAMES, height=48, width=64))
    files = [first, *(folder / f"{number:03}.mp4" for number in range(1, num_files))]
    for file in files[1:]:
        copyfile(first, file)
    requests = [DecodeRequest(files[number % num_files], range(NUM_FRAMES)) for number in range(num_clips)]
    return plan_requests(requests, size=(SIZE, SIZE))


class CopyingDecoder(BaseDecoder):
    """Delivers clips that lie ready in memory."""

    name = "ready"

    def __init__(self, clips: Sequence[Pixels]) -> None:
        self._clips = cycle(clips)

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Copy one ready clip after the other."""
        for slot in slots:
            slot.out[...] = next(self._clips)
        return DecodeReport([None] * len(slots))


class SleepingDecoder(BaseDecoder):
    """Takes a known time for each clip without using the processor, and writes nothing."""

    name = "sleeping"

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Sleep once a clip."""
        for _ in slots:
            time.sleep(DECODE_SECONDS)
        return DecodeReport([None] * len(slots))
