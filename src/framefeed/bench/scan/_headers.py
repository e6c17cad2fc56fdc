"""Row "headers": the size of each picture, one engine of the write-up after the other, and ours.

Rates are of engines that are warm: pools have started and imported what they need before anything is timed, and what
that took is reported apart. CPU seconds are those of the process that measures and of all that it starts together, so
that rates are "per core" whatever the number of processes. Quick engines get many files a round and slow ones few,
each time the first of one tree, in which every original comes round equally often.

Ours reads the header between the bare system calls: once with an fstat for each file, as a scan needs it and the limit
has it; once without, as the peers that give width and height and nothing else do it, and with the calls in rows, as a
scan makes them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat

from framefeed.bench._peers import Engine, InProcess, Pace, Size, Sizer
from framefeed.bench._runner import Comparison, Contender, Findings, Row, Run, Timings, compare_times
from framefeed.bench.baselines import load_module
from framefeed.bench.scan._media import Originals, Tree
from framefeed.bench.scan._processes import read_family_clocks
from framefeed.errors import MediaError
from framefeed.media import PICTURE_HEAD_BYTES, Limits, MediaSource, OddHeader, probe_image, read_still_header

OURS = "framefeed, header"
BARE_OURS = "framefeed, without fstat"
_AT_ONCE = 64
_FLAGS = os.O_RDONLY | os.O_CLOEXEC
LIMIT = "open + fstat + pread + close"
"""The name of the contender that only makes the system calls."""


def size_of(path: str) -> Size:
    """Stored size of one picture; where the header is odd, a library says it, as in a scan."""
    file = os.open(path, _FLAGS)
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
            sizes += self._read(paths[start : start + _AT_ONCE])
        return sizes

    def close(self) -> None:
        """Nothing is held."""

    def _read(self, paths: Sequence[str]) -> list[Size]:
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


OUR_ENGINES = (
    Engine(OURS, lambda processes: InProcess(size_of), "quick", library=""),
    Engine(BARE_OURS, lambda processes: InRows(), "quick", library=""),
)
SHARES: dict[Pace, float] = {"quick": 1.0, "steady": 0.25, "pooled": 0.5, "slow": 0.002}
"""Of the files of the tree, that a round has."""
RIVALS = {
    "PyAV, process pool": ("pyav", BARE_OURS, "the rate of PyAV in a process pool"),
    "imagesize": ("imagesize", BARE_OURS, "the rate of imagesize"),
    LIMIT: ("limit", OURS, f"share of the rate of bare {LIMIT}"),
}
"""Engine -> key of the comparison, which of our ways it is compared with, and in what words."""


@dataclass(slots=True)
class Entrant:
    """An engine, and what it said last.

    Attributes:
        engine: Which.
        paths: The files of its rounds.
        sizer: The engine, open.
        measured: Sizes of the last round.
    """

    engine: Engine
    paths: list[str]
    sizer: Sizer | None = None
    measured: list[Size] = field(default_factory=list)

    def open(self, processes: int, stack: ExitStack) -> Run:
        """Start it, for one stack of things to close."""
        sizer = self.sizer = self.engine.open(processes)
        stack.callback(sizer.close)

        def run(number: int) -> None:
            self.measured = sizer.sizes(self.paths)

        return run


def headers_row(tree: Tree, originals: Originals, engines: Sequence[Engine], processes: int, stack: ExitStack) -> Row:
    """Compare engines on the files of a tree; what they say is compared with what Pillow says.

    Args:
        tree: Links to the originals.
        originals: They, and files that must fail.
        engines: Which; ours are among them.
        processes: For the engines that start any.
        stack: Closes the engines.
    """
    checked = [*map(str, originals.stills), *map(str, originals.broken)]
    expected = list(map(load_module("pillow").size_of, checked))
    in_tree = [expected[number % len(originals.stills)] for number in range(len(tree))]
    entrants = {
        engine.name: Entrant(engine, tree.paths(count_files(tree, engine.pace))) for engine in engines
    }  # fmt: skip

    def check(contender: Contender) -> list[str] | None:
        entrant = entrants[contender.name]
        assert entrant.sizer is not None
        answers = entrant.sizer.sizes(checked)
        return differing(checked, expected, answers) if entrant.engine.knows_sizes else None

    def recheck(contender: Contender) -> list[str]:
        entrant = entrants[contender.name]
        count = len(entrant.paths)
        return differing(entrant.paths, in_tree[:count], entrant.measured) if entrant.engine.knows_sizes else []

    def conclude(timings: Timings) -> Findings:
        comparisons = [
            Comparison(key, what, compare_times(timings, ours, rival, ("cpu",)))
            for rival, (key, ours, what) in RIVALS.items()
        ]
        return Findings(comparisons, {"originals": len(originals.stills), "processes": processes})

    return Row(
        "headers",
        "width and height of JPEG and PNG files, one after the other, warm cache",
        [
            Contender(
                name,
                partial(entrant.open, processes, stack),
                entrant.engine.library,
                amount=len(entrant.paths),
                facts={"files_a_round": len(entrant.paths)},
            )
            for name, entrant in entrants.items()
        ],
        conclude,
        unit="files",
        check=check,
        recheck=recheck,
        clock=read_family_clocks,
        times_opening=True,
    )


def differing(paths: Sequence[str], expected: Sequence[Size], measured: Sequence[Size]) -> list[str]:
    """What an engine got wrong, each in a line: sizes, and files that fail with one and not with the other."""
    if len(measured) != len(expected):
        return [f"{len(measured)} sizes of {len(expected)} files"]
    rows = zip(paths, expected, measured, strict=True)
    return [f"{path.rpartition('/')[2]}: expected {size}, got {got}" for path, size, got in rows if got != size]


def count_files(tree: Tree, pace: Pace) -> int:
    """How many files, so that every original comes round equally often, and at least once."""
    return max(1, round(SHARES[pace] * len(tree) / len(tree.originals))) * len(tree.originals)
