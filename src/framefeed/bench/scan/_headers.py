"""Row "headers": the size of each picture, one engine of the write-up after the other, and ours.

Rates are of engines that are warm: pools have started and imported what they need before anything is timed, and what
that took is reported apart. CPU seconds are those of the process that measures and of all that it starts together, so
that rates are "per core" whatever the number of processes. Quick engines get many files a round and slow ones few,
each time the first of one tree, in which every original comes round equally often.

Our own ways of ``bench scan``: the header function alone, between the bare system calls.

Once with an fstat for each file, as a scan needs it and the limit has it; once without, as the peers that give width
and height and nothing else do it, and with the calls in rows, as a scan makes them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat
from typing import Any

from framefeed.bench._goals import Mark, per_file
from framefeed.bench._measuring import Contender, Rounds, Sample, Timings, measure, settle
from framefeed.bench._sizing import Engine, Pace, Size, Sizer, in_process
from framefeed.bench.baselines import load_module
from framefeed.bench.scan._family import family_now
from framefeed.bench.scan._media import Originals
from framefeed.bench.scan._trees import Tree
from framefeed.errors import MediaError
from framefeed.media import PICTURE_HEAD_BYTES, Limits, MediaSource, OddHeader, probe_image, read_still_header
from framefeed.parallel import Ok, catch_outcome

OURS = "framefeed, header"
BARE_OURS = "framefeed, without fstat"
_AT_ONCE = 64
_FLAGS = os.O_RDONLY | os.O_CLOEXEC


def size_of(path: str) -> Size:
    """Stored size of one picture; where the header is odd, a library says it, as in a scan."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fstat(file)
        header = read_still_header(os.pread(file, PICTURE_HEAD_BYTES, 0), partial(os.pread, file))
    except OddHeader:
        return _asked(path)
    finally:
        os.close(file)
    return header.width, header.height


def _asked(path: str) -> Size:
    try:
        info = probe_image(MediaSource.of(path), Limits())
    except MediaError:
        return None
    return info.coded_width, info.coded_height


class InRows:
    """Sizes of some files at a time: all are opened, then read, then closed."""

    def sizes(self, paths: Sequence[str]) -> list[Size]:
        """Size of each file, in order."""
        sizes = list[Size]()
        for start in range(0, len(paths), _AT_ONCE):
            sizes += _sizes(paths[start : start + _AT_ONCE])
        return sizes

    def close(self) -> None:
        """Nothing is held."""


def _sizes(paths: Sequence[str]) -> list[Size]:
    files, sizes = list[int](), list[Size]()
    try:
        files.extend(map(os.open, paths, repeat(_FLAGS)))
        for path, file, head in zip(
            paths, files, map(os.pread, files, repeat(PICTURE_HEAD_BYTES), repeat(0)), strict=True
        ):
            try:
                sizes.append(read_still_header(head, partial(os.pread, file))[2:4])
            except OddHeader:
                sizes.append(_asked(path))
    finally:
        for file in files:
            os.close(file)
    return sizes


ENGINE: Engine = in_process(OURS, size_of, "quick")
BARE_ENGINE = Engine(BARE_OURS, lambda processes: InRows(), "quick")


MODULES = ("sizes_pyav", "sizes_imagesize", "sizes_pillow", "sizes_ffprobe", "bare_calls")
LIMIT = "open + fstat + pread + close"
SHARES: dict[Pace, float] = {"quick": 1.0, "steady": 0.25, "pooled": 0.5, "slow": 0.002}
"""Of the files of the tree, that a round has."""
MOST_NAMED = 5
MARKS = {
    "PyAV, process pool": (BARE_OURS, Mark("the rate of PyAV in a process pool", 30, 60)),
    "imagesize": (BARE_OURS, Mark("the rate of imagesize", 2, 4)),
    LIMIT: (OURS, Mark(f"share of bare {LIMIT}", 0.4, 0.6)),
}
"""Peer -> which of our ways it is compared with, and what is aimed at."""


@dataclass(frozen=True, slots=True)
class EngineField:
    """All engines that can be measured here.

    Attributes:
        engines: Ours first.
        versions: Of their libraries.
        missing: Module -> why it cannot be had.
    """

    engines: list[Engine] = field(default_factory=lambda: [ENGINE, BARE_ENGINE])
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def find_engines(modules: Sequence[str] = MODULES) -> EngineField:
    """Load the baselines that are installed."""
    installed = EngineField()
    for name in modules:
        module = load_module(name)
        if isinstance(module, str):
            installed.missing[name.removeprefix("sizes_")] = module
            continue
        installed.engines.extend(module.engines())
        installed.versions.update(module.versions())
    return installed


@dataclass(slots=True)
class Entrant:
    """An engine that is warm, and what it found.

    Attributes:
        engine: Which.
        sizer: It, opened.
        paths: The files of its rounds.
        start_up: What opening it took.
        measured: Sizes of the last round.
    """

    engine: Engine
    sizer: Sizer
    paths: list[str]
    start_up: Sample
    measured: list[Size] = field(default_factory=list)

    def run(self, number: int) -> None:
        """One round."""
        self.measured = self.sizer.sizes(self.paths)


def headers_row(
    tree: Tree, originals: Originals, engines: Sequence[Engine], rounds: Rounds, processes: int
) -> dict[str, Any]:
    """Measure the engines.

    Args:
        tree: Links to the originals.
        originals: They, and files that must fail.
        engines: Which; ours is among them.
        rounds: How often.
        processes: For the engines that start any.
    """
    checked = [*map(str, originals.stills), *map(str, originals.broken)]
    expected = list(map(load_module("sizes_pillow").size_of, checked))
    with ExitStack() as stack:
        entrants = [_enter(stack, engine, tree, processes) for engine in engines]
        # Checked first: whatever a library sets up at its first use is not timed.
        answers, failed = check_engines(entrants, checked)
        entrants = [entrant for entrant in entrants if entrant.engine.name in answers]
        contenders = [Contender(entrant.engine.name, entrant.run) for entrant in entrants]
        samples = measure(contenders, replace(rounds, pilot=rounds.pairs), family_now, partial(settle, family_now))
    in_tree = [expected[number % len(originals.stills)] for number in range(len(tree))]
    wrong = {
        entrant.engine.name: differing(checked, expected, answers[entrant.engine.name])
        + differing(entrant.paths, in_tree[: len(entrant.paths)], entrant.measured)
        for entrant in entrants
        if entrant.engine.knows_sizes
    }
    facts = {"originals": len(originals.stills), "processes": processes, "failed": failed}
    return {**_report(entrants, samples, wrong), **facts}


def check_engines(entrants: Sequence[Entrant], paths: Sequence[str]) -> tuple[dict[str, list[Size]], dict[str, str]]:
    """Ask each engine once.

    Returns:
        Engine -> what it says of some files, and engine -> why it says nothing.
    """
    answers, failed = dict[str, list[Size]](), dict[str, str]()
    for entrant in entrants:
        name = entrant.engine.name
        outcome = catch_outcome(entrant.sizer.sizes, paths)
        if isinstance(outcome, Ok):
            answers[name] = outcome.value
        elif name in (OURS, BARE_OURS) or not isinstance(outcome.error, Exception):
            raise outcome.error
        else:
            failed[name] = f"{type(outcome.error).__name__}: {outcome.error}"
    return answers, failed


def differing(paths: Sequence[str], expected: Sequence[Size], measured: Sequence[Size]) -> list[str]:
    """What an engine got wrong, each in a line: sizes, and files that fail with one and not with the other."""
    if len(measured) != len(expected):
        return [f"{len(measured)} sizes of {len(expected)} files"]
    rows = zip(paths, expected, measured, strict=True)
    return [f"{path.rpartition('/')[2]}: expected {size}, got {got}" for path, size, got in rows if got != size]


def files_of_round(tree: Tree, pace: Pace) -> int:
    """How many files, so that every original comes round equally often, and at least once."""
    return max(1, round(SHARES[pace] * len(tree) / len(tree.originals))) * len(tree.originals)


def _enter(stack: ExitStack, engine: Engine, tree: Tree, processes: int) -> Entrant:
    before = family_now()
    sizer = engine.open(processes)
    stack.callback(sizer.close)
    return Entrant(engine, sizer, tree.paths(files_of_round(tree, engine.pace)), family_now() - before)


def _report(entrants: Sequence[Entrant], samples: Timings, wrong: Mapping[str, list[str]]) -> dict[str, Any]:
    each = per_file(samples, {entrant.engine.name: len(entrant.paths) for entrant in entrants})
    return {
        "key": "headers",
        "title": "width and height of JPEG and PNG files, one after the other, warm cache",
        "engines": [_facts(entrant, each, wrong.get(entrant.engine.name, [])) for entrant in entrants],
        "goals": [
            mark.judge({"CPU": each.ratio(name, ours)}) for name, (ours, mark) in MARKS.items() if name in each.of
        ],
    }


def _facts(entrant: Entrant, each: Timings, wrong: Sequence[str]) -> dict[str, Any]:
    name = entrant.engine.name
    return {
        "name": name,
        "files_a_round": len(entrant.paths),
        "files_per_cpu_second": round(1 / each.median(name), 1),
        "files_per_second": round(1 / each.median(name, "wall"), 1),
        "start_up": {"cpu_seconds": round(entrant.start_up.cpu, 3), "wall_seconds": round(entrant.start_up.wall, 3)},
        "num_wrong": len(wrong),
        "wrong": list(wrong[:MOST_NAMED]),
        "cpu_microseconds_a_file": [round(1e6 * sample.cpu, 3) for sample in each.of[name].values()],
        "wall_microseconds_a_file": [round(1e6 * sample.wall, 3) for sample in each.of[name].values()],
    }
