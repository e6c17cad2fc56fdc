"""Rows "second", "filling" and "batches": whole passes over a plan of clips.

Without a cache, filling one, and reading one; and whole batches stored raw, from the store and from a loader over it,
against copying them in memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np

from framefeed.bench import (
    METRICS,
    NUM_FRAMES,
    SIZE,
    BenchVideo,
    Comparison,
    Contender,
    Figure,
    Findings,
    Row,
    Run,
    Timings,
    compare_times,
    ready,
    settle,
)
from framefeed.bench.cache import exhaust, plan_random_clips
from framefeed.cache import FrameCache, FrameStore, Kind, StoredFrame, StoreOptions
from framefeed.decode import RGB_PLANAR, Pixels, PlaneLayout
from framefeed.errors import UsageError
from framefeed.load import ClipLoader
from framefeed.plan import EpochPlan, plan_requests
from framefeed.request import DecodeRequest, RandomResizedCrop

OUTPUT_SIZE = (SIZE, SIZE)
_SIZE_TEXT = f"{SIZE}x{SIZE}"
CLIPS = 16
FILLED_CLIPS = 6
REPEATS = 8
"""Passes of a round over a cache that is filled: one alone is too short for the clock."""
BATCH_SIZE = 16
BATCHES = 4
BATCH_REPEATS = 3
"""Passes over the batches in a round."""
FIRST, SECOND_PASS, REOPENED = "first pass, filling", "second pass", "second pass, cache opened anew"
LOADER, STORE, COPY = "ClipLoader", "the store reading whole batches", "memcpy"
_KEY = bytes(16)


@dataclass(slots=True)
class Folders:
    """Folders of caches, a new one at each call; what was used is removed when nothing is timed."""

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


def loader_of(plan: EpochPlan, cache: FrameCache | None, batch_size: int) -> ClipLoader:
    """A loader that reads in the thread that iterates."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "cache: about")  # Both passes are over the same epoch.
        return ClipLoader(plan, batch_size=batch_size, workers=0, cache=cache)


def one_pass(plan: EpochPlan, cache: FrameCache | None, batch_size: int) -> None:
    """Iterate one epoch in this thread, with a loader of its own."""
    with loader_of(plan, cache, batch_size) as loader:
        exhaust(loader)


def filling_pass(plan: EpochPlan, cache: FrameCache, batch_size: int) -> None:
    """Iterate one epoch with an empty cache, and have all of it on the disk."""
    with cache:
        one_pass(plan, cache, batch_size)


def repeating(loader: ClipLoader, times: int) -> Run:
    """Go through the same epoch some times in a round."""
    start = loader.state_dict()

    def run(number: int) -> None:
        for _ in range(times):
            loader.load_state_dict(start)
            exhaust(loader)

    return run


def second_row(video: BenchVideo, folder: Path, stack: ExitStack) -> Row:
    """A pass that decodes and fills, and one over what it has filled."""
    plan = plan_random_clips(video, CLIPS, OUTPUT_SIZE)
    folders, filled = Folders(folder), folder / "filled"
    stack.callback(folders.tidy)
    cache = stack.enter_context(FrameCache(filled))
    one_pass(plan, cache, CLIPS)
    cache.flush()
    wrong = _list_differences(plan, cache)
    loader = stack.enter_context(loader_of(plan, cache, CLIPS))
    runs: dict[str, tuple[int, Run]] = {
        FIRST: (CLIPS, lambda number: filling_pass(plan, FrameCache(folders.new()), CLIPS)),
        SECOND_PASS: (CLIPS * REPEATS, repeating(loader, REPEATS)),
        REOPENED: (CLIPS, lambda number: one_pass(plan, FrameCache(filled), CLIPS)),
    }

    def conclude(timings: Timings) -> Findings:
        figures = compare_times(timings, SECOND_PASS, FIRST)
        figures["CPU, the cache opened anew"] = Figure(timings.ratio(FIRST, REOPENED), REOPENED, FIRST)
        what = "less time in a second pass over the same plan and epoch than in the first"
        facts = {"codec": cache.stats().codec, "stored_bytes": cache.info().bytes_on_disk}
        return Findings([Comparison("second", what, figures)] if not wrong else [], facts, wrong)

    return Row(
        "second",
        f"{CLIPS} clips of {NUM_FRAMES} frames to {_SIZE_TEXT} in a batch, the same epoch twice",
        [Contender(name, ready(run), amount=clips * NUM_FRAMES) for name, (clips, run) in runs.items()],
        conclude,
        unit="frames",
        between=folders.tidy,
    )


def _list_differences(plan: EpochPlan, cache: FrameCache) -> list[str]:
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


def filling_row(video: BenchVideo, folder: Path, stack: ExitStack) -> Row:
    """A first pass with and without a cache: outputs with the codec left to the cache, planes with lz4."""
    folders = Folders(folder)
    stack.callback(folders.tidy)
    kinds: dict[str, tuple[EpochPlan, dict[str, Any]]] = {
        "outputs, codec auto": (plan_random_clips(video, FILLED_CLIPS, OUTPUT_SIZE), {}),
        "planes, lz4": (
            plan_random_clips(video, FILLED_CLIPS, OUTPUT_SIZE, RandomResizedCrop()),
            {"codec": "lz4", "form": "planes"},
        ),
    }

    def enter(name: str, plan: EpochPlan, options: dict[str, Any]) -> list[Contender]:
        runs: dict[str, Run] = {
            "without": lambda number: one_pass(plan, None, FILLED_CLIPS),
            "filling": lambda number: filling_pass(plan, FrameCache(folders.new(), **options), FILLED_CLIPS),
        }
        amount = FILLED_CLIPS * NUM_FRAMES
        return [Contender(f"{name}: {which}", ready(run), amount=amount) for which, run in runs.items()]

    def conclude(timings: Timings) -> Findings:
        return Findings([
            Comparison(
                name,
                f"more time in a first pass that fills a cache, {name}",
                {
                    title: Figure(timings.ratio(f"{name}: filling", f"{name}: without", metric).scale(100, -100))
                    for title, metric in METRICS.items()
                },
                " %",
            )
            for name in kinds
        ])  # fmt: skip

    return Row(
        "filling",
        f"a first pass over {FILLED_CLIPS} clips of {NUM_FRAMES} frames in one batch, with and without a cache",
        [contender for name, of in kinds.items() for contender in enter(name, *of)],
        conclude,
        unit="frames",
        between=folders.tidy,
    )


def batches_row(video: BenchVideo, folder: Path, stack: ExitStack) -> Row:
    """Passes over some batches that lie in the page cache, checksums on."""
    first = range(0, BATCHES * BATCH_SIZE * NUM_FRAMES, NUM_FRAMES)
    # Clips of neighbouring frames, one after the other; from the start again where the video ends.
    clips = [[(start + step) % len(video) for step in range(NUM_FRAMES)] for start in first]
    plan = plan_requests([DecodeRequest(video.path, clip) for clip in clips], size=OUTPUT_SIZE)
    cache = stack.enter_context(FrameCache(folder / "raw", codec="raw", form="output"))
    with loader_of(plan, cache, BATCH_SIZE) as filling:
        batches = [batch.data.copy() for batch in filling]
    cache.flush()
    store = FrameStore(str(folder / "alone"), StoreOptions())
    stack.callback(store.close)
    fill_store(store, batches)
    memory = np.empty_like(batches[0])
    loader = stack.enter_context(loader_of(plan, cache, BATCH_SIZE))
    start = loader.state_dict()

    def read_store() -> Iterator[Pixels]:
        for number in range(len(batches)):
            read_batch(store, number, memory)
            yield memory

    def read_store_again(number: int) -> None:
        for _ in range(BATCH_REPEATS):
            exhaust(read_store())

    def copy(number: int) -> None:
        for _ in range(BATCH_REPEATS):
            for batch in batches:
                np.copyto(memory, batch)

    runs: dict[str, Run] = {
        LOADER: repeating(loader, BATCH_REPEATS),
        STORE: read_store_again,
        COPY: copy,
    }

    def check(contender: Contender) -> list[str] | None:
        if contender.name == COPY:
            return None
        loader.load_state_dict(start)
        came = (batch.data for batch in loader) if contender.name == LOADER else read_store()
        same = [bool(np.array_equal(batch, expected)) for batch, expected in zip(came, batches, strict=True)]
        return [f"batch {number} differs from the one that was decoded" for number, ok in enumerate(same) if not ok]

    def conclude(timings: Timings) -> Findings:
        what = "share of the speed of memcpy of the same bytes"
        return Findings([
            Comparison(key, f"{what}, {name}", compare_times(timings, name, COPY))
            for key, name in (("store", STORE), ("loader", LOADER))
        ])  # fmt: skip

    return Row(
        "batches",
        f"whole batches of {batches[0].nbytes / 1e6:.1f} MB ({BATCH_SIZE} clips of {NUM_FRAMES} frames to "
        f"{_SIZE_TEXT}) stored raw, checksums on, page cache warm, one thread",
        [Contender(name, ready(run), amount=BATCH_REPEATS * len(batches)) for name, run in runs.items()],
        conclude,
        unit="batches",
        check=check,
    )


def fill_store(store: FrameStore, batches: Sequence[Pixels]) -> None:
    """Store the frames of equal batches, uint8 [B, T, 3, H, W], raw, with rising numbers."""
    height, width = batches[0].shape[-2:]
    kind = Kind("raw", PlaneLayout(RGB_PLANAR, width, height).text)
    numbers = count()
    for clip in (clip for batch in batches for clip in batch):
        store.add(_KEY, "{}", [StoredFrame(next(numbers), kind, frame.data, frame.nbytes) for frame in clip])
    store.flush()


def read_batch(store: FrameStore, number: int, memory: Pixels) -> None:
    """Read one of them into memory of its shape."""
    frames = memory.reshape(memory.shape[0] * memory.shape[1], -1)
    start = number * len(frames)
    stored = store.find(_KEY, np.arange(start, start + len(frames), dtype=np.int64))
    if not all(store.read(stored, range(len(frames)), [frame.data for frame in frames])):
        raise UsageError("the store does not have a frame that it was given")
