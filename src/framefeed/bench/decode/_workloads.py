"""Random clips of videos, each of another file, and the rows of ``framefeed bench decode``, which compare decoders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np

from framefeed._units import format_share
from framefeed.bench._frames import NUM_FRAMES, OUR_METHOD, OURS, SEED, Reference
from framefeed.bench._media import BenchVideo, MediaStore
from framefeed.bench._runner import (
    Comparison,
    Contender,
    Figure,
    Findings,
    Metric,
    Rounds,
    Row,
    Run,
    Timings,
    compare_times,
)
from framefeed.bench._suites import Begin, BenchOptions, MakeRow, Suite
from framefeed.bench.baselines import Method, Peers
from framefeed.errors import MissingMedia

COPIES = 12
"""More than the open files that a thread keeps, so that none is found open."""
CHECKED_CLIPS = 2
MAX_OWN_VIDEOS = 3
_CLIP_SECONDS = 0.25
"""Guess of what a clip of the user's costs, to choose how many make a round."""
RULE = "many files"


@dataclass(frozen=True, slots=True, eq=False)
class BenchClip:
    """Some frames of one video, by rising ordinal."""

    video: BenchVideo
    ordinals: list[int]


Batches = Sequence[Sequence[BenchClip]]
"""The clips of each round."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One row of the report."""

    key: str
    title: str
    video: Callable[[MediaStore], BenchVideo]
    stride: int  # frames from one requested frame to the next
    clips: int  # clips in one round

    def draw(self, files: Sequence[BenchVideo], rounds: int) -> Batches:
        """Draw the clips of each round, in turn of files with the same frames: random starts from which a clip fits."""
        rng = np.random.Generator(np.random.Philox(key=SEED))
        span = (NUM_FRAMES - 1) * self.stride
        starts = rng.integers(0, len(files[0]) - span, (rounds, self.clips)).tolist()
        return [
            [
                BenchClip(files[(number * self.clips + slot) % len(files)], list(range(at, at + span + 1, self.stride)))
                for slot, at in enumerate(row)
            ]
            for number, row in enumerate(starts)
        ]


def own_workloads(store: MediaStore) -> list[Workload]:
    """Two rows a video, frames 4 apart and a second apart, for the user's first videos that are long enough."""
    rows: list[Workload] = []
    for video in store.iter_own():
        if len(video) <= 4 * NUM_FRAMES:
            continue
        fps = round(video.index.average_fps or 25)
        pixels = video.index.stream.width * video.index.stream.height
        clips = max(1, min(24, round(_CLIP_SECONDS * 24 * 640 * 360 / pixels)))
        name = video.path.name
        for stride in dict.fromkeys((4, fps)):
            if (NUM_FRAMES - 1) * stride < len(video):
                title = f"{name}, 16 frames {stride} apart"
                rows.append(Workload(f"own:{name}-{stride}", title, lambda store, video=video: video, stride, clips))  # type: ignore[misc]
        if len(rows) >= 2 * MAX_OWN_VIDEOS:
            break
    return rows


def workload_row(workload: Workload, store: MediaStore, methods: Sequence[Method], rounds: Rounds) -> Row:
    """Compare the methods of all peers with ours."""
    batches = workload.draw(store.copies(workload.video(store), COPIES), rounds.pairs)
    plays = {method.name: method for method in (OUR_METHOD, *methods)}

    @cache
    def references() -> list[Reference]:
        return [Reference(clip.video, clip.ordinals) for clip in batches[0][:CHECKED_CLIPS]]

    def conclude(timings: Timings) -> Findings:
        figures = compare_methods(timings, OURS, {method.name: method for method in methods})
        return Findings([Comparison(RULE, f"{RULE}: the speed of the fastest other library", figures)])

    return Row(
        workload.key,
        workload.title,
        [enter_method(name, method, RULE, partial(open_method, method, batches), workload.clips)
         for name, method in plays.items()],
        conclude,
        unit="clips",
        rules={RULE: "each clip is from another file, which is opened for it; framefeed has its index from a catalog, "
                     "TorchCodec its frame mappings"},
        check=lambda contender: check_frames(plays[contender.name], references()),
    )  # fmt: skip


def enter_method(name: str, method: Method, rule: str, open: Callable[[], Run], clips: int) -> Contender:
    """Make a contender that plays by a rule; those of others compete for being the best of it."""
    if method is OUR_METHOD:
        return Contender(name, open, rule=rule, amount=clips)
    groups = tuple(f"{rule} {kind}" for kind in ("all", "own resize")[: 1 + method.resizes_itself])
    return Contender(name, open, method.library, rule, groups, clips)


def open_method(method: Method, batches: Batches) -> Run:
    """Prepare a method to open the file of each clip."""
    for clip in (clip for batch in batches for clip in batch):
        method.prepare(clip.video)

    def open_each(number: int) -> None:
        for clip in batches[number]:
            method.open(clip.video)(clip.ordinals)

    return open_each


def check_frames(method: Method, references: Sequence[Reference]) -> list[str]:
    """Say how many of the frames of some clips are not the ones that were asked for; nothing if all are."""
    shares = []
    for reference in references:
        method.prepare(reference.video)
        frames = np.asarray(method.open(reference.video)(reference.ordinals))
        shares.append(reference.share_matching(frames, method.layout))
    share = float(np.mean(shares))
    wrong = format_share(1 - share, decimals=1)
    return [] if share == 1 else [f"{wrong} of the frames are not the ones that were asked for"]


def compare_methods(timings: Timings, ours: str, rivals: Mapping[str, Method]) -> dict[str, Figure]:
    """Our figures against the fastest of some contenders."""
    there = [name for name in rivals if name in timings.of]
    entrants: list[tuple[str, Sequence[str], Metric]] = [
        ("CPU", there, "cpu"),
        ("CPU, libraries with their own resize", [name for name in there if rivals[name].resizes_itself], "cpu"),
        ("wall", there, "wall"),
    ]
    return {
        title: figure
        for title, names, metric in entrants
        if names
        for figure in compare_times(timings, ours, timings.best(names, metric), (metric,)).values()
    }


def plan_rows(options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> dict[str, MakeRow]:
    """Plan a row for each video and distance of frames."""
    store, methods = MediaStore(options.media, work, options.rounds), peers.list_all("METHODS")
    rows: dict[str, MakeRow] = {
        workload.key: lambda scratch, stack, workload=workload: workload_row(workload, store, methods, options.rounds)  # type: ignore[misc]
        for workload in own_workloads(store)
    }
    if not rows:
        raise MissingMedia("MEDIA has no video of 65 frames that can be read: name a longer one")
    return rows


DECODE = Suite(
    "decode",
    {"own": "random clips of your videos, against other installed decoders"},
    ("torchcodec", "decord2", "spdl", "opencv"),
    plan_rows,
    {"own": 8},  # About, on two x86-64 cores, with its first round.
    20,
    lambda options: {"seed": SEED, "threads": 1},
)
