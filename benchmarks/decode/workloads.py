"""Rows of random clips on this project's own media: further rivals, what an index costs, and batches of one file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from statistics import median
from typing import Any, Literal

import numpy as np

from framefeed.bench import (
    OUR_METHOD,
    OURS,
    SIZE,
    BenchVideo,
    Comparison,
    Contender,
    Findings,
    MediaStore,
    Reference,
    Rounds,
    Row,
    Run,
    Timings,
    take_time,
)
from framefeed.bench.baselines import Method
from framefeed.bench.decode import (
    RULE,
    BenchClip,
    Workload,
    check_frames,
    compare_methods,
    enter_method,
    workload_row,
)
from framefeed.decode import ClipSlot, DecodeCounts
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.index import Verify, build_index
from framefeed.request import OutputSpec

Rule = Literal["clip by clip", "one call"]
RULES: Mapping[Rule, str] = {
    "clip by clip": "all clips of a batch are from one file, opened once for the batch; one call for each clip",
    "one call": "all clips of a batch are from one file, opened once for the batch; one call for all frames",
}
NOT_IN_ONE_CALL = (
    "spdl selected",  # a filter takes some hundred terms at most
    "torchcodec exact, resized by torch",
    "torchcodec mappings, resized by torch",
)
CHECKED_CLIPS = 2
# The default, and the cheapest.
_VERIFIES: tuple[Verify, ...] = ("proof", "none")
_OUTPUT = OutputSpec(size=(SIZE, SIZE))
_DECODER = PyAVDecoder()
Libraries = tuple[str, ...]
Batches = Sequence[Sequence[BenchClip]]


def files_row(
    workload: Workload,
    store: MediaStore,
    methods: Sequence[Method],
    rounds: Rounds,
    against: Sequence[Libraries] = (),
) -> Row:
    """The row of ``bench decode``, with comparisons with the best of some libraries, and what the index costs."""
    row, of_name = workload_row(workload, store, methods, rounds), {method.name: method for method in methods}

    def enter(contender: Contender) -> Contender:
        rivals = [libraries for libraries in against if contender.library in libraries]
        if not rivals or not of_name[contender.name].resizes_itself:
            return contender
        return replace(contender, groups=(*contender.groups, *(f"{RULE} {libraries}" for libraries in rivals)))

    def conclude(timings: Timings) -> Findings:
        comparisons = [compare_libraries(timings, RULE, OURS, of_name, libraries) for libraries in against]
        facts = index_facts(workload.video(store), timings)
        return Findings([*row.conclude(timings).comparisons, *comparisons], facts)

    return replace(row, contenders=list(map(enter, row.contenders)), conclude=conclude)


def batch_row(
    workload: Workload,
    store: MediaStore,
    methods: Sequence[Method],
    rounds: Rounds,
    against: Libraries = (),
) -> Row:
    """Batches of clips of one file, under both rules; in one call also against the best of some libraries."""
    batches = workload.draw([workload.video(store)], rounds.pairs)
    plays: dict[str, tuple[Method, Rule]] = {
        f"{method.name}, {rule}": (method, rule)
        for rule in RULES
        for method in (OUR_METHOD, *methods)
        if rule != "one call" or method.name not in NOT_IN_ONE_CALL
    }

    @cache
    def references(rule: Rule) -> list[Reference]:
        first = batches[0]
        if rule == "one call":
            return [Reference(first[0].video, all_ordinals(first))]
        return [Reference(clip.video, clip.ordinals) for clip in first[:CHECKED_CLIPS]]

    def enter(name: str) -> Contender:
        method, rule = plays[name]
        contender = enter_method(name, method, rule, partial(open_batches, method, rule, batches), workload.clips)
        competes = rule == "one call" and method.library in against and method.resizes_itself
        return replace(contender, groups=(*contender.groups, f"{rule} {against}")) if competes else contender

    def check(contender: Contender) -> list[str]:
        method, rule = plays[contender.name]
        return check_frames(method, references(rule))

    return Row(
        workload.key,
        workload.title,
        list(map(enter, plays)),
        lambda timings: Findings(compare_batches(timings, plays, against)),
        unit="clips",
        rules=dict(RULES.items()),
        check=check,
    )


def open_batches(method: Method, rule: Rule, batches: Batches) -> Run:
    """Prepare a method to play by a rule."""
    method.prepare(batches[0][0].video)

    def open_once(number: int) -> None:
        read = method.open(batches[number][0].video)
        for clip in batches[number]:
            read(clip.ordinals)

    def ask_once(number: int) -> None:
        if method is OUR_METHOD:
            # As the loader asks.
            decode_clips(batches[number][0].video, batches[number])
        else:
            # Rising and without repeats, which some peers ask for and none is slower with.
            method.open(batches[number][0].video)(all_ordinals(batches[number]))

    return open_once if rule == "clip by clip" else ask_once


def decode_clips(video: BenchVideo, clips: Sequence[BenchClip]) -> DecodeCounts:
    """Decode some clips of one video in one call, each into its own memory, and say what it cost."""
    slots = [
        ClipSlot(
            np.array(clip.ordinals, dtype=np.int64), _OUTPUT, np.empty((len(clip.ordinals), 3, SIZE, SIZE), np.uint8)
        )
        for clip in clips
    ]
    report = _DECODER.decode(video.source, video.index, slots)
    report.raise_first()
    return report.counts


def all_ordinals(batch: Sequence[BenchClip]) -> list[int]:
    """The frames of all clips, rising, each once."""
    return sorted({ordinal for clip in batch for ordinal in clip.ordinals})


def compare_batches(
    timings: Timings, plays: Mapping[str, tuple[Method, Rule]], against: Libraries = ()
) -> list[Comparison]:
    """Compare ours in one call, which a batch of one file is for us, with what the peers do under each rule."""
    pairs: list[tuple[Rule, Libraries]] = [(rule, ()) for rule in RULES]
    pairs += [("one call", against)] if against else []
    ours = f"{OURS}, one call"
    return [
        compare_libraries(
            timings,
            rule,
            ours,
            {name: method for name, (method, under) in plays.items() if under == rule and method is not OUR_METHOD},
            libraries,
        )
        for rule, libraries in pairs
    ]


def compare_libraries(
    timings: Timings, rule: str, ours: str, rivals: Mapping[str, Method], libraries: Libraries
) -> Comparison:
    """Our figures under a rule against the fastest method of some libraries, or of all."""
    chosen = {name: method for name, method in rivals.items() if not libraries or method.library in libraries}
    return Comparison(
        f"{rule}: {' + '.join(libraries)}" if libraries else rule,
        f"{rule}: the speed of {' and '.join(libraries) or 'the fastest other library'}",
        compare_methods(timings, ours, chosen),
    )


def index_facts(video: BenchVideo, timings: Timings) -> dict[str, Any]:
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
