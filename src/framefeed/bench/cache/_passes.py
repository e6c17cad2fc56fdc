"""Rows "second" and "filling": whole passes over a plan of clips, without a cache, filling one, and reading one.

Reading of single frames at full size, timed in the same rounds: our caches and whatever they are compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np

from framefeed.bench._goals import Mark, per_file
from framefeed.bench._measuring import Contender, Interval, Metric, Run, Timings, measure, median_interval, settle
from framefeed.bench._workloads import NUM_FRAMES, SEED
from framefeed.bench.cache._ours import sized
from framefeed.bench.cache._scene import CachedSample, Scene
from framefeed.cache import Form, FrameCache
from framefeed.catalog.scan import scan
from framefeed.load import ClipLoader
from framefeed.plan import Dense, EpochPlan, RandomResizedCrop, plan_clips

LZ4_RGB = "framefeed lz4, RGB"
Read = Callable[[Sequence[int]], object]
"""Reads the frames at some places of the sample."""


def caches_of(scene: Scene, stack: ExitStack, with_rgb: bool = False) -> dict[str, CachedSample]:
    """The sample in a cache of each exact codec, by name.

    Args:
        scene: Where.
        stack: Closes them.
        with_rgb: Whether there is one of RGB with lz4 too.
    """
    formats: list[tuple[str, Form]] = [(codec, "planes") for codec in scene.exact_codecs()]
    caches = {}
    for codec, form in [*formats, ("lz4", "output")] if with_rgb else formats:
        name = f"framefeed {codec}, planes" if form == "planes" else LZ4_RGB
        caches[name] = CachedSample(scene.sample, scene.work / f"{codec}_{form}", codec, form)
        stack.callback(caches[name].close)
    return caches


def race(
    reads: Mapping[str, Read], numbers: Sequence[Sequence[int]], scene: Scene, groups: Mapping[str, str] | None = None
) -> Timings:
    """Time readers in the same rounds.

    Args:
        reads: Reader by name.
        numbers: What to read in each round.
        scene: How often.
        groups: Reader -> its group; those that cannot be the best of theirs stop after some rounds, others stay.
    """

    def run(read: Read, number: int) -> None:
        read(numbers[number])

    groups = groups or {}
    contenders = [
        Contender(name, partial(run, read), (groups[name],) if name in groups else ()) for name, read in reads.items()
    ]
    rounds = scene.rounds if groups else replace(scene.rounds, pilot=scene.rounds.pairs)
    return measure(contenders, rounds)


def list_rates(samples: Timings, frames: int, nbytes: Mapping[str, float]) -> list[dict[str, Any]]:
    """What each reader did, for the report.

    Args:
        samples: What was timed.
        frames: Read in a round.
        nbytes: Reader -> stored bytes of a frame, where it has any.
    """
    return [
        {
            "name": name,
            "frames_per_cpu_second": round(frames / samples.median(name), 1),
            "frames_per_second": round(frames / samples.median(name, "wall"), 1),
            "rounds": len(rounds),
            **({"bytes_a_frame": round(nbytes[name])} if name in nbytes else {}),
            "cpu_seconds": [round(took.cpu, 5) for took in rounds.values()],
            "wall_seconds": [round(took.wall, 5) for took in rounds.values()],
        }
        for name, rounds in samples.of.items()
    ]


STRIDE = 24
CLIPS = 16
FILLED_CLIPS = 6
ALONE_CLIPS = 2
"""The same, a batch each: clips of one video in one batch share its decoding, clips of many videos do not."""
REPEATS = 8
"""Passes of a round over a cache that is filled: one alone is too short for the clock."""
SECOND = Mark("less processor time in a second pass over the same plan and epoch than in the first", 50, 200)
FILLING = Mark("more processor time in a first pass that fills a cache", 15, 5, at_most=True, unit=" %")
FIRST, SECOND_PASS, REOPENED = "first pass, filling", "second pass", "second pass, cache opened anew"
FIRST_ALONE, SECOND_ALONE = "first pass, filling, clip by clip", "second pass, clip by clip"


def clip_plan(scene: Scene, clips: int, is_cropped: bool = False) -> EpochPlan:
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


def second_row(scene: Scene) -> dict[str, Any]:
    """A pass that decodes and fills, and one over what it has filled."""
    plan, alone = clip_plan(scene, CLIPS), clip_plan(scene, ALONE_CLIPS)
    folders, filled = Folders(scene.work), scene.work / "filled"
    with FrameCache(filled) as cache:
        one_pass(plan, cache, CLIPS)
        one_pass(alone, cache, 1)
        cache.flush()
        wrong = _differing(plan, cache)
        with loader_of(plan, cache, CLIPS) as loader, loader_of(alone, cache, 1) as single:
            at_start, at_single_start = loader.state_dict(), single.state_dict()
            runs: dict[str, Run] = {
                FIRST: lambda number: filling_pass(plan, FrameCache(folders.new()), CLIPS),
                SECOND_PASS: lambda number: again(loader, at_start, REPEATS),
                REOPENED: lambda number: one_pass(plan, FrameCache(filled), CLIPS),
                FIRST_ALONE: lambda number: filling_pass(alone, FrameCache(folders.new()), 1),
                SECOND_ALONE: lambda number: again(single, at_single_start, REPEATS),
            }
            samples = _timed(runs, scene, folders)
        codec, nbytes = cache.stats().codec, cache.info().bytes_on_disk
    clips = {FIRST: CLIPS, SECOND_PASS: CLIPS * REPEATS, REOPENED: CLIPS,
             FIRST_ALONE: ALONE_CLIPS, SECOND_ALONE: ALONE_CLIPS * REPEATS}  # fmt: skip
    each = per_file(samples, clips)
    ratios = {
        "CPU": each.ratio(FIRST, SECOND_PASS),
        "wall": each.ratio(FIRST, SECOND_PASS, "wall"),
        "CPU, the cache opened anew": each.ratio(FIRST, REOPENED),
        "CPU, clip by clip, which no batch shares": each.ratio(FIRST_ALONE, SECOND_ALONE),
    }
    return {
        "key": "second",
        "title": f"{CLIPS} clips of {NUM_FRAMES} frames to {sized(scene.sample)} in a batch, the same epoch twice",
        "ways": list_rates(each, NUM_FRAMES, {}),
        "stored": {"codec": codec, "bytes": nbytes},
        "wrong": wrong,
        "goals": [SECOND.judge(ratios)],
    }


def filling_row(scene: Scene) -> dict[str, Any]:
    """A first pass with and without a cache: outputs with the codec left to the cache, planes with lz4."""
    folders = Folders(scene.work)
    plain, cropped = clip_plan(scene, FILLED_CLIPS), clip_plan(scene, FILLED_CLIPS, is_cropped=True)
    kinds = {
        "outputs, codec auto": (plain, {}),
        "planes, lz4": (cropped, {"codec": "lz4", "form": "planes"}),
    }
    runs: dict[str, Run] = {}
    for name, (plan, options) in kinds.items():
        runs[f"{name}: without"] = partial(_decode_only, plan)
        runs[f"{name}: filling"] = partial(_fill_anew, plan, folders, options)
    samples = _timed(runs, scene, folders)
    goals = []
    for name in kinds:
        figures: dict[str, Any] = {"CPU": overhead(samples, name, "cpu"), "wall": overhead(samples, name, "wall")}
        goals.append(replace(FILLING, what=f"{FILLING.what}, {name}").judge(figures))
    return {
        "key": "filling",
        "title": f"a first pass over {len(plain)} clips of {NUM_FRAMES} frames in one batch, with and without a cache",
        "ways": list_rates(samples, len(plain) * NUM_FRAMES, {}),
        "wrong": [],
        "goals": goals,
    }


def overhead(samples: Timings, name: str, metric: Metric) -> Interval:
    """How much longer the pass with a cache took, in percent, over all rounds."""
    without, filling = samples.of[f"{name}: without"], samples.of[f"{name}: filling"]
    return median_interval([100 * (filling[n].of(metric) / without[n].of(metric) - 1) for n in sorted(without)])


def _decode_only(plan: EpochPlan, number: int) -> None:
    one_pass(plan, None, FILLED_CLIPS)


def _fill_anew(plan: EpochPlan, folders: Folders, options: Mapping[str, Any], number: int) -> None:
    filling_pass(plan, FrameCache(folders.new(), **options), FILLED_CLIPS)


def _timed(runs: Mapping[str, Run], scene: Scene, folders: Folders) -> Timings:
    contenders = [Contender(name, run) for name, run in runs.items()]
    samples = measure(contenders, replace(scene.rounds, pilot=scene.rounds.pairs), between=folders.tidy)
    folders.tidy()
    return samples


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
