"""Random clips of videos: which clips of which media, under which rules of play, and the rows that compare them.

At the end, the rows of ``framefeed bench decode``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np

from framefeed._units import format_share
from framefeed.bench._frames import NUM_FRAMES, OUR_METHOD, OURS, SEED, Reference, decode_clips
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
    take_time,
)
from framefeed.bench._suites import Begin, BenchOptions, MakeRow, Suite
from framefeed.bench.baselines import Method, Peers
from framefeed.errors import MissingMedia
from framefeed.index import Verify, build_index

COPIES = 12
"""More than the open files that a thread keeps, so that under "many files" none is found open."""
CHECKED_CLIPS = 2
MAX_OWN_VIDEOS = 3
_CLIP_SECONDS = 0.25
"""Guess of what a clip of the user's costs, to choose how many make a round."""
# The default, and the cheapest.
_VERIFIES: tuple[Verify, ...] = ("proof", "none")

Rule = Literal["many files", "clip by clip", "one call"]
RULES: Mapping[Rule, str] = {
    "many files": "each clip is from another file, which is opened for it; framefeed has its index from a catalog, "
    "TorchCodec its frame mappings",
    "clip by clip": "all clips of a batch are from one file, opened once for the batch; one call for each clip",
    "one call": "all clips of a batch are from one file, opened once for the batch; one call for all frames",
}


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
    rules: tuple[Rule, ...] = ("many files",)  # rules to measure under
    # Libraries that are compared with under a rule, besides all of them together.
    against: tuple[tuple[Rule, tuple[str, ...]], ...] = ()

    def batches(self, store: MediaStore, rounds: int, rule: Rule) -> Batches:
        """Draw the clips of each round: random starts from which the whole clip fits, one seed for all rules."""
        video = self.video(store)
        files = store.copies(video, COPIES) if rule == "many files" else [video]
        rng = np.random.Generator(np.random.Philox(key=SEED))
        span = (NUM_FRAMES - 1) * self.stride
        starts = rng.integers(0, len(video) - span, (rounds, self.clips)).tolist()
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
    """Compare the methods of all peers with ours under each rule of a workload."""
    video = workload.video(store)
    batches = {rule: workload.batches(store, rounds.pairs, rule) for rule in workload.rules}
    plays = {
        method.name if len(workload.rules) == 1 else f"{method.name}, {rule}": (method, rule)
        for rule in workload.rules
        for method in (OUR_METHOD, *methods)
        if rule != "one call" or method.takes_many
    }

    @cache
    def references(rule: Rule) -> list[Reference]:
        first = batches[rule][0]
        if rule == "one call":
            return [Reference(first[0].video, all_ordinals(first))]
        return [Reference(clip.video, clip.ordinals) for clip in first[:CHECKED_CLIPS]]

    def check(contender: Contender) -> list[str]:
        method, rule = plays[contender.name]
        return check_frames(method, references(rule))

    def conclude(timings: Timings) -> Findings:
        comparisons = [
            Comparison(
                f"{rule}: {' + '.join(libraries)}" if libraries else rule,
                f"{rule}: the speed of {' and '.join(libraries) or 'the fastest other library'}",
                compare_libraries(timings, plays, rule, libraries),
            )
            for rule, libraries in [*((rule, ()) for rule in workload.rules), *workload.against]
        ]
        return Findings(comparisons, _index_facts(video, timings) if "many files" in workload.rules else {})

    return Row(
        workload.key,
        workload.title,
        [
            _enter(name, method, rule, batches[rule], workload)
            for name, (method, rule) in plays.items()
        ],
        conclude,
        unit="clips",
        rules={rule: RULES[rule] for rule in workload.rules},
        check=check,
    )  # fmt: skip


def _enter(name: str, method: Method, rule: Rule, batches: Batches, workload: Workload) -> Contender:
    own = method.name == OURS
    groups = [] if own else [f"{rule} {kind}" for kind in ("all", "own resize")[: 1 + method.resizes_itself]]
    groups += [
        f"{rule} {libraries}"
        for under, libraries in workload.against
        if under == rule and method.library in libraries and method.resizes_itself
    ]
    library = "" if own else method.library
    return Contender(name, lambda: open_method(method, rule, batches), library, rule, tuple(groups), workload.clips)


def open_method(method: Method, rule: Rule, batches: Batches) -> Run:
    """Prepare a method to play by a rule."""
    for clip in (clip for batch in batches for clip in batch):
        method.prepare(clip.video)

    def open_each(number: int) -> None:
        for clip in batches[number]:
            method.open(clip.video)(clip.ordinals)

    def open_once(number: int) -> None:
        read = method.open(batches[number][0].video)
        for clip in batches[number]:
            read(clip.ordinals)

    def ask_once(number: int) -> None:
        if method is OUR_METHOD:
            # The clips of the batch, each in its own memory, as the loader asks.
            decode_clips(batches[number][0].video, [clip.ordinals for clip in batches[number]])
        else:
            # Rising and without repeats, which some peers ask for and none is slower with.
            method.open(batches[number][0].video)(all_ordinals(batches[number]))

    return {"many files": open_each, "clip by clip": open_once, "one call": ask_once}[rule]


def all_ordinals(batch: Sequence[BenchClip]) -> list[int]:
    """The frames of all clips, rising, each once."""
    return sorted({ordinal for clip in batch for ordinal in clip.ordinals})


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


def compare_libraries(
    timings: Timings, plays: Mapping[str, tuple[Method, Rule]], rule: Rule, libraries: Sequence[str]
) -> dict[str, Figure]:
    """Our figures against the fastest method of some libraries, or of all."""
    rivals = {
        name: method
        for name, (method, under) in plays.items()
        if name in timings.of and under == rule and method.name != OURS
        if not libraries or method.library in libraries
    }
    # A batch of one file is one call for us, whatever the peers do.
    own_rule = "one call" if rule == "clip by clip" and (OUR_METHOD, "one call") in plays.values() else rule
    ours = next(name for name, play in plays.items() if play == (OUR_METHOD, own_rule))
    own_resize = [name for name, method in rivals.items() if method.resizes_itself]
    entrants: list[tuple[str, Sequence[str], Metric]] = [
        ("CPU", list(rivals), "cpu"),
        ("CPU, libraries with their own resize", own_resize, "cpu"),
        ("wall", list(rivals), "wall"),
    ]
    return {
        title: figure
        for title, names, metric in entrants
        if names
        for figure in compare_times(timings, ours, timings.best(names, metric), (metric,)).values()
    }


def _index_facts(video: BenchVideo, timings: Timings) -> dict[str, Any]:
    """What our index costs, and after how many clips of a file it has paid, by how it is verified."""
    costs = {
        verify: round(median(take_time(partial(build_index, video.path, verify)).cpu for _ in range(3)), 4)
        for verify in _VERIFIES
    }
    facts: dict[str, Any] = {"CPU_seconds_to_build_the_index": costs}
    peers = [timings.median(name) for name in timings.of if name != OURS]
    if OURS in timings.of and peers:
        facts["clips_of_a_file_after_which_the_index_has_paid"] = {
            verify: pays_after(cost, timings.median(OURS), min(peers)) for verify, cost in costs.items()
        }
    return facts


def pays_after(index_seconds: float, ours: float, best: float) -> int | None:
    """Clips of a file after which building its index and decoding with it is cheaper than the best peer; None: never.

    All in CPU seconds: of building the index, and of a clip by us and by the peer, which opens the file for each.
    """
    return None if best <= ours else math.ceil(index_seconds / (best - ours))


def plan_rows(options: BenchOptions, peers: Peers, work: Path, begin: Begin) -> dict[str, MakeRow]:
    """Plan a row for each video and distance of frames."""
    store, methods = MediaStore(options.media, work, options.rounds), peers.list_all("METHODS")

    def make(workload: Workload, scratch: Path, stack: ExitStack) -> Row:
        return workload_row(workload, store, methods, options.rounds)

    rows: dict[str, MakeRow] = {workload.key: partial(make, workload) for workload in own_workloads(store)}
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
