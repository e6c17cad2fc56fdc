"""Rows of our loader on made clips: one slow clip, threads and processes, a transform with the lock, restoring."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np
from numpy.random import Generator

from framefeed.bench import (
    BenchVideo,
    Comparison,
    Contender,
    Figure,
    Findings,
    Row,
    Run,
    Timings,
    compare_times,
    median_interval,
    read_family_clocks,
    ready,
)
from framefeed.decode import BaseDecoder, ClipSlot, DecodeReport, Pixels
from framefeed.index import FrameIndex
from framefeed.load import ClipLoader
from framefeed.media import MediaSource
from framefeed.plan import Dense, EpochPlan, plan_clips, plan_requests
from framefeed.request import DecodeRequest
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, write_clip

FRAMES, WORKERS, BATCH, SIZE = 16, 2, 8, 224
KINDS = ("threads", "processes")
# --- one slow clip
ITEMS, SLOWER = 64, 20
SLOW_SIZE = (720, 1280)
LIGHT_SECONDS = 0.025
PLACES = {"first": 0, "in the middle": ITEMS // 2, "last": ITEMS - 1}
BOUND = "max(slow, sum / workers)"
# --- a transform that holds the lock
HELD_SECONDS = 0.005
HELD_CLIPS = 160
LARGE_CLIPS = 24
# --- restoring
MANY = 1_000_000
"""Clips of each video, so that there are positions far from the beginning."""
FRESH, RESTORED = "first batch of an epoch", "state restored, first batch"


def exhaust(loader: ClipLoader, number: int) -> None:
    """Take every batch of an epoch, and drop it."""
    for batch in loader:
        del batch


@dataclass(frozen=True)
class PacingDecoder(BaseDecoder):
    """Takes a known time for each clip, a longer one for clips of large pictures, and writes nothing."""

    seconds: float
    name = "pacing"

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Sleep."""
        is_slow = index.stream.height == SLOW_SIZE[0]
        time.sleep(self.seconds * len(slots) * (SLOWER if is_slow else 1))
        return DecodeReport([None] * len(slots))


def slow_row(folder: Path, stack: ExitStack) -> Row:
    """Epochs of 64 clips, of which one takes 20 times as long: its pictures are large, as plans can know."""
    slow, *lights = folder / "slow.mp4", *(folder / f"{number}.mp4" for number in range(ITEMS))
    write_clip(lights[0], ClipSpec(FRAMES, height=48, width=64))
    write_clip(slow, ClipSpec(FRAMES, height=SLOW_SIZE[0], width=SLOW_SIZE[1]))
    for light in lights[1:]:  # clips of one file in a batch are one task
        copyfile(lights[0], light)
    decoder = PacingDecoder(LIGHT_SECONDS)
    total = LIGHT_SECONDS * (ITEMS - 1 + SLOWER)
    bound = max(LIGHT_SECONDS * SLOWER, total / WORKERS)
    contenders = [Contender(BOUND, ready(lambda number: time.sleep(bound)), amount=ITEMS)]
    for name, at in PLACES.items():
        requests = [DecodeRequest(light, range(FRAMES)) for light in lights]
        requests[at] = DecodeRequest(slow, range(FRAMES))
        plan = plan_requests(requests, size=(SIZE, SIZE))
        loader = stack.enter_context(ClipLoader(plan, batch_size=BATCH, workers=WORKERS, backend=decoder))
        contenders.append(Contender(name, ready(partial(exhaust, loader)), amount=ITEMS))

    def conclude(timings: Timings) -> Findings:
        figures = {
            f"wall, {name}": Figure(timings.ratio(name, BOUND, "wall").scale(100, -100), name, BOUND) for name in PLACES
        }
        return Findings([Comparison("slow", "more time than the bound, by where the slow clip is", figures, " %")])

    title = (
        f"{ITEMS} clips of {LIGHT_SECONDS * 1000:.0f} ms, one of which takes {SLOWER} times as long, {WORKERS} threads"
    )
    return Row("slow", title, contenders, conclude, unit="clips", warms_up=True)


@dataclass(frozen=True)
class HoldLock:
    """A transform that holds the interpreter's lock for so many turns of an empty loop."""

    turns: int

    @classmethod
    def measure(cls, seconds: float) -> HoldLock:
        """Choose the turns that take so many CPU seconds."""
        turns = 100_000
        began = time.process_time()
        cls(turns).hold()
        return cls(round(turns * seconds / (time.process_time() - began)))

    def hold(self) -> None:
        """Loop."""
        for _ in range(self.turns):
            pass

    def __call__(self, clip: Pixels, rng: Generator) -> Pixels:
        self.hold()
        return clip


def kinds_row(key: str, title: str, plan: EpochPlan, stack: ExitStack, **options: Any) -> Row:
    """Whole epochs with threads and with processes; both kinds of workers are running already."""
    contenders = []
    for kind in KINDS:
        loader = stack.enter_context(
            ClipLoader(plan, batch_size=BATCH, workers=WORKERS, kind=kind, **options)  # type: ignore[arg-type]
        )
        contenders.append(Contender(kind, ready(partial(exhaust, loader)), amount=len(plan)))

    def conclude(timings: Timings) -> Findings:
        figures = compare_times(timings, "processes", "threads")
        return Findings([Comparison(key, "the speed of threads, with processes", figures)])

    return Row(key, title, contenders, conclude, unit="clips", clock=read_family_clocks, warms_up=True)


def processes_row(videos: Sequence[BenchVideo], stack: ExitStack) -> Row:
    """Clips of 720p: what handing them over costs."""
    catalog = scan([str(video.path) for video in videos], progress=False)
    rule = Dense(FRAMES, stride=4)
    plan = plan_clips(catalog, rule, clips_per_video=LARGE_CLIPS // len(videos), seed=0, size=(SIZE, SIZE))
    title = f"{len(plan)} random clips of 720p to 224x224, {WORKERS} threads or processes"
    return kinds_row("processes", title, plan, stack)


def lock_row(folder: Path, stack: ExitStack) -> Row:
    """Clips that are quickly decoded, and a transform that lets no other thread run."""
    plan = plan_small(folder, HELD_CLIPS)
    title = (
        f"{HELD_CLIPS} small clips with a transform that holds the interpreter's lock for {HELD_SECONDS * 1000:.0f} ms"
    )
    return kinds_row("lock", title, plan, stack, transform=HoldLock.measure(HELD_SECONDS))


def plan_small(folder: Path, clips: int, files: int = BATCH) -> EpochPlan:
    """Clips of small equal files."""
    paths = [folder / f"{number}.mp4" for number in range(files)]
    write_clip(paths[0], ClipSpec(FRAMES, height=96, width=128))
    for path in paths[1:]:
        copyfile(paths[0], path)
    catalog = scan([str(path) for path in paths], progress=False)
    return plan_clips(catalog, Dense(FRAMES), clips_per_video=clips // files, seed=0, size=(96, 128))


def restore_row(folder: Path, stack: ExitStack) -> Row:
    """Restore a state at random positions, and take one batch."""
    plan = plan_small(folder, MANY * BATCH)
    loader = stack.enter_context(ClipLoader(plan, batch_size=BATCH, workers=WORKERS))
    start = loader.state_dict()
    batches = np.random.Generator(np.random.Philox(key=2)).integers(1, len(plan) // BATCH - 1, 1000).tolist()

    def take_one(number: int) -> None:
        next(iter(loader))

    def restore(number: int) -> None:
        delivered = batches[number % len(batches)]
        moved = {"delivered": delivered, "clips": delivered * BATCH}
        loader.load_state_dict(start | {name: value for name, value in moved.items() if name in start})
        next(iter(loader))

    runs: dict[str, Run] = {FRESH: take_one, RESTORED: restore}

    def conclude(timings: Timings) -> Findings:
        fresh, restored = timings.of[FRESH], timings.of[RESTORED]
        more = [1000 * (restored[number].wall - fresh[number].wall) for number in fresh.keys() & restored.keys()]
        figures = {"wall": Figure(median_interval(more), RESTORED, FRESH)}
        return Findings([Comparison("restore", "more time to the first batch at a restored position", figures, " ms")])

    title = f"the first batch at a restored position of an epoch of {len(plan):,} clips"
    contenders = [Contender(name, ready(run)) for name, run in runs.items()]
    return Row("restore", title, contenders, conclude, unit="restores", warms_up=True)
