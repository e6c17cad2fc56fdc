"""Rows "second", "filling" and "batches": whole passes over a plan of clips.

Without a cache, filling one, and reading one; and whole batches stored raw, from the store and from a loader over it,
against copying them in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import xxhash

from framefeed.bench._frames import NUM_FRAMES, SEED
from framefeed.bench._runner import (
    Comparison,
    Contender,
    Figure,
    Findings,
    Interval,
    Metric,
    Row,
    Run,
    Timings,
    compare_times,
    median_interval,
    settle,
)
from framefeed.bench.cache._scene import Scene
from framefeed.cache import FrameCache, FrameStore, Kind, StoredFrame, StoreOptions
from framefeed.catalog.scan import scan
from framefeed.decode import RGB_PLANAR, Pixels, PlaneLayout
from framefeed.errors import UsageError
from framefeed.load import ClipLoader
from framefeed.plan import DecodeRequest, Dense, EpochPlan, RandomResizedCrop, plan_clips, plan_requests

STRIDE = 24
CLIPS = 16
FILLED_CLIPS = 6
ALONE_CLIPS = 2
"""The same, a batch each: clips of one video in one batch share its decoding, clips of many videos do not."""
REPEATS = 8
"""Passes of a round over a cache that is filled: one alone is too short for the clock."""
BATCH_SIZE = 16
BATCHES = 4
BATCH_REPEATS = 3
"""Passes over the batches in a round."""
FIRST, SECOND_PASS, REOPENED = "first pass, filling", "second pass", "second pass, cache opened anew"
FIRST_ALONE, SECOND_ALONE = "first pass, filling, clip by clip", "second pass, clip by clip"
LOADER, STORE, COPY = "ClipLoader", "the store reading whole batches", "memcpy"
READING, HASHING = "preads of as many bytes alone", "xxh3 of them alone"
_KEY = bytes(16)


def plan_random_clips(scene: Scene, clips: int, is_cropped: bool = False) -> EpochPlan:
    """Plan clips of 16 frames 24 apart with random starts; nearer to each other where the video is short.

    Args:
        scene: Of which video, and at which size.
        clips: How many.
        is_cropped: Whether each clip has a random crop.
    """
    video = scene.sample.video
    stride = max(1, min(STRIDE, (len(video) - 1) // NUM_FRAMES))
    return plan_clips(
        scan(str(video.path), progress=False),
        Dense(NUM_FRAMES, stride=stride),
        clips_per_video=clips,
        seed=SEED,
        shuffle=False,
        size=scene.sample.output.size,
        crop=RandomResizedCrop() if is_cropped else None,
    )


@dataclass(slots=True)
class Folders:
    """Folders of caches, a new one at each call; what was used is removed when nothing is timed.

    Attributes:
        root: Where they are.
    """

    root: Path
    _numbers: Iterator[int] = field(default_factory=count)
    _used: list[Path] = field(default_factory=list)

    def new(self) -> Path:
        """Name another."""
        self._used.append(self.root / f"cache_{next(self._numbers)}")
        return self._used[-1]

    def tidy(self) -> None:
        """Remove all of them, and wait as ``settle`` does."""
        for folder in self._used:
            rmtree(folder, ignore_errors=True)
        self._used.clear()
        settle()


def one_pass(plan: EpochPlan, cache: FrameCache | None, batch_size: int) -> None:
    """Iterate one epoch in this thread, with a loader of its own."""
    with loader_of(plan, cache, batch_size) as loader:
        for batch in loader:
            del batch


def filling_pass(plan: EpochPlan, cache: FrameCache, batch_size: int) -> None:
    """Iterate one epoch with an empty cache, and have all of it on the disk."""
    with cache:
        one_pass(plan, cache, batch_size)


def loader_of(plan: EpochPlan, cache: FrameCache | None, batch_size: int) -> ClipLoader:
    """A loader that reads in the thread that iterates."""
    return ClipLoader(plan, batch_size=batch_size, workers=0, cache=cache)


def again(loader: ClipLoader, state: dict[str, Any], times: int) -> None:
    """Go through the same epoch some times."""
    for _ in range(times):
        loader.load_state_dict(state)
        for batch in loader:
            del batch


def second_row(scene: Scene, stack: ExitStack) -> Row:
    """A pass that decodes and fills, and one over what it has filled."""
    plan, alone = plan_random_clips(scene, CLIPS), plan_random_clips(scene, ALONE_CLIPS)
    folders, filled = Folders(scene.work), scene.work / "filled"
    stack.callback(folders.tidy)
    cache = stack.enter_context(FrameCache(filled))
    one_pass(plan, cache, CLIPS)
    one_pass(alone, cache, 1)
    cache.flush()
    wrong = _differing(plan, cache)
    loader, single = (stack.enter_context(loader_of(*of)) for of in ((plan, cache, CLIPS), (alone, cache, 1)))
    at_start, at_single_start = loader.state_dict(), single.state_dict()
    runs: dict[str, tuple[int, Run]] = {
        FIRST: (CLIPS, lambda number: filling_pass(plan, FrameCache(folders.new()), CLIPS)),
        SECOND_PASS: (CLIPS * REPEATS, lambda number: again(loader, at_start, REPEATS)),
        REOPENED: (CLIPS, lambda number: one_pass(plan, FrameCache(filled), CLIPS)),
        FIRST_ALONE: (ALONE_CLIPS, lambda number: filling_pass(alone, FrameCache(folders.new()), 1)),
        SECOND_ALONE: (ALONE_CLIPS * REPEATS, lambda number: again(single, at_single_start, REPEATS)),
    }

    def conclude(timings: Timings) -> Findings:
        figures = compare_times(timings, SECOND_PASS, FIRST)
        figures["CPU, the cache opened anew"] = Figure(timings.ratio(FIRST, REOPENED), REOPENED, FIRST)
        figures["CPU, clip by clip, which no batch shares"] = Figure(
            timings.ratio(FIRST_ALONE, SECOND_ALONE), SECOND_ALONE, FIRST_ALONE
        )
        what = "less time in a second pass over the same plan and epoch than in the first"
        facts = {"codec": cache.stats().codec, "stored_bytes": cache.info().bytes_on_disk}
        return Findings([Comparison("second", what, figures)] if not wrong else [], facts, wrong)

    return Row(
        "second",
        f"{CLIPS} clips of {NUM_FRAMES} frames to {scene.sample.size} in a batch, the same epoch twice",
        [
            Contender(name, lambda run=run: run, amount=clips * NUM_FRAMES)  # type: ignore[misc]
            for name, (clips, run) in runs.items()
        ],
        conclude,
        unit="frames",
        between=folders.tidy,
    )


def filling_row(scene: Scene, stack: ExitStack) -> Row:
    """A first pass with and without a cache: outputs with the codec left to the cache, planes with lz4."""
    folders = Folders(scene.work)
    stack.callback(folders.tidy)
    kinds: dict[str, tuple[bool, dict[str, Any]]] = {
        "outputs, codec auto": (False, {}),
        "planes, lz4": (True, {"codec": "lz4", "form": "planes"}),
    }
    runs: dict[str, Run] = {}
    for name, (is_cropped, options) in kinds.items():
        plan = plan_random_clips(scene, FILLED_CLIPS, is_cropped)
        runs[f"{name}: without"] = lambda number, plan=plan: one_pass(plan, None, FILLED_CLIPS)  # type: ignore[misc]
        runs[f"{name}: filling"] = lambda number, plan=plan, options=options: filling_pass(  # type: ignore[misc]
            plan, FrameCache(folders.new(), **options), FILLED_CLIPS
        )

    def conclude(timings: Timings) -> Findings:
        what = "more time in a first pass that fills a cache"
        return Findings([
            Comparison(name, f"{what}, {name}", {
                "CPU": Figure(measure_overhead(timings, name, "cpu")),
                "wall": Figure(measure_overhead(timings, name, "wall")),
            }, " %")
            for name in kinds
        ])  # fmt: skip

    return Row(
        "filling",
        f"a first pass over {FILLED_CLIPS} clips of {NUM_FRAMES} frames in one batch, with and without a cache",
        [
            Contender(name, lambda run=run: run, amount=FILLED_CLIPS * NUM_FRAMES)  # type: ignore[misc]
            for name, run in runs.items()
        ],
        conclude,
        unit="frames",
        between=folders.tidy,
    )


def measure_overhead(timings: Timings, name: str, metric: Metric) -> Interval:
    """How much longer the pass with a cache took, in percent, over all rounds."""
    without, filling = timings.of[f"{name}: without"], timings.of[f"{name}: filling"]
    return median_interval([100 * (filling[n].of(metric) / without[n].of(metric) - 1) for n in sorted(without)])


def _differing(plan: EpochPlan, cache: FrameCache) -> list[str]:
    """Compare every batch from the cache with the batch that is decoded."""
    before = cache.stats().frames_missed
    with loader_of(plan, None, CLIPS) as decoded, loader_of(plan, cache, CLIPS) as cached:
        wrong = [
            f"batch {number} differs from the one that is decoded"
            for number, (one, other) in enumerate(zip(decoded, cached, strict=True))
            if not np.array_equal(one.data, other.data)
        ]
    missed = cache.stats().frames_missed - before
    return wrong + ([f"{missed} frames were not in the cache"] if missed else [])


def batches_row(scene: Scene, stack: ExitStack) -> Row:
    """Passes over some batches that lie in the page cache, checksums on."""
    first, video = range(0, BATCHES * BATCH_SIZE * NUM_FRAMES, NUM_FRAMES), scene.sample.video
    # Clips of neighbouring frames, one after the other; from the start again where the video ends.
    clips = [[(start + step) % len(video) for step in range(NUM_FRAMES)] for start in first]
    plan = plan_requests([DecodeRequest(video.path, clip) for clip in clips], size=scene.sample.output.size)
    cache = stack.enter_context(FrameCache(scene.work / "raw", codec="raw", form="output"))
    with loader_of(plan, cache, BATCH_SIZE) as filling:
        batches = [batch.data.copy() for batch in filling]
    cache.flush()
    alone = BareStore(batches, str(scene.work / "alone"))
    stack.callback(alone.close)
    loader = stack.enter_context(loader_of(plan, cache, BATCH_SIZE))
    state = loader.state_dict()

    def copy(number: int) -> None:
        for _ in range(BATCH_REPEATS):
            for batch in batches:
                np.copyto(alone.memory[: len(batch)], batch)

    runs: dict[str, Run] = {
        LOADER: lambda number: again(loader, state, BATCH_REPEATS),
        STORE: lambda number: alone.read(BATCH_REPEATS),
        COPY: copy,
        READING: lambda number: alone.read_only(BATCH_REPEATS),
        HASHING: lambda number: alone.hash_only(BATCH_REPEATS),
    }

    def check(contender: Contender) -> list[str] | None:
        if contender.name == STORE:
            return alone.wrong()
        if contender.name != LOADER:
            return None
        loader.load_state_dict(state)
        came = [bool(np.array_equal(batch.data, expected)) for batch, expected in zip(loader, batches, strict=True)]
        return [f"batch {number} differs from the one that was decoded" for number, same in enumerate(came) if not same]

    def conclude(timings: Timings) -> Findings:
        what = "share of the speed of memcpy of the same bytes"
        return Findings([
            Comparison(key, f"{what}, {name}", compare_times(timings, name, COPY))
            for key, name in (("store", STORE), ("loader", LOADER))
        ])  # fmt: skip

    return Row(
        "batches",
        f"whole batches of {batches[0].nbytes / 1e6:.1f} MB ({BATCH_SIZE} clips of {NUM_FRAMES} frames to "
        f"{scene.sample.size}) stored raw, checksums on, page cache warm, one thread",
        [
            Contender(name, lambda run=run: run, amount=BATCH_REPEATS * len(batches))  # type: ignore[misc]
            for name, run in runs.items()
        ],
        conclude,
        unit="batches",
        check=check,
    )


class BareStore:
    """The same batches in a store without a cache around it, and memory for one that is used again.

    Args:
        batches: uint8 [B, T, 3, H, W] each.
        folder: Of the store.
    """

    def __init__(self, batches: Sequence[Pixels], folder: str) -> None:
        self._batches = batches
        self._folder = folder
        self._store = FrameStore(folder, StoreOptions())
        self.memory = np.empty_like(batches[0])
        height, width = batches[0].shape[-2:]
        kind = Kind("raw", PlaneLayout(RGB_PLANAR, width, height).text)
        number = 0
        for batch in batches:
            for clip in batch:
                frames = [StoredFrame(number + at, kind, frame.data, frame.nbytes) for at, frame in enumerate(clip)]
                self._store.add(_KEY, "{}", frames)
                number += len(frames)
        self._store.flush()

    def read(self, times: int) -> None:
        """Read all batches into the same memory."""
        for _ in range(times):
            for number in range(len(self._batches)):
                self._read(number)

    def read_only(self, times: int) -> None:
        """Read as many bytes from the segments, a clip at a time, and know nothing of what they are."""
        clips = self.memory.reshape(-1, self.memory[0].size)
        for _ in range(times):
            for path in sorted(Path(self._folder).glob("*.data")):
                with open(path, "rb", buffering=0) as file:
                    for number in range(path.stat().st_size // clips.shape[1]):
                        os.preadv(file.fileno(), [clips[number % len(clips)].data], number * clips.shape[1])

    def hash_only(self, times: int) -> None:
        """Hash frame after frame of the batches."""
        for _ in range(times):
            for batch in self._batches:
                for frame in batch.reshape(-1, batch[0, 0].size):
                    xxhash.xxh3_64_intdigest(frame.data)

    def wrong(self) -> list[str]:
        """Batches that do not come back as they were."""
        return [
            f"batch {number} of the store alone differs"
            for number, batch in enumerate(self._batches)
            if not np.array_equal(self._read(number), batch)
        ]

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _read(self, number: int) -> Pixels:
        batch = self._batches[number]
        per_batch = self.memory.shape[0] * self.memory.shape[1]
        count = batch.shape[0] * batch.shape[1]
        stored = self._store.find(_KEY, np.arange(number * per_batch, number * per_batch + count, dtype=np.int64))
        frames = self.memory[: len(batch)].reshape(count, -1)
        if not all(self._store.read(stored, range(count), [frame.data for frame in frames])):
            raise UsageError("the store does not have a frame that it was given")
        return self.memory[: len(batch)]
