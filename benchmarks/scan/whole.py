"""Rows "scan" and "second": a whole scan of a large tree, and the same again with nothing changed.

What a scan costs however many files there are, such as starting workers, is measured on a small tree and taken off:
rates are of the files by which the large tree is larger.

Which files are opened: the kernel's own watches (inotify), which see every process and every library. Linux.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import numpy as np

from benchmarks.peers import bare_calls, pillow
from benchmarks.peers.kinds import Size
from benchmarks.processes import own_megabytes, run_program
from benchmarks.scan.facts import LIMIT
from benchmarks.scan.media import Tree
from framefeed.bench import (
    METRICS,
    Comparison,
    Contender,
    Figure,
    Findings,
    Reading,
    Row,
    Timings,
    compare_times,
    read_family_clocks,
    ready,
    settle,
    take_time,
)
from framefeed.catalog import Catalog
from framefeed.scanning import scan

Result = TypeVar("Result")
SMALLEST = 1e-9
"""Seconds: a difference of two times may be noise below zero."""

# inotify(7) and <sys/inotify.h>
_IN_OPEN = 0x20
_IN_Q_OVERFLOW = 0x4000
_IN_ISDIR = 0x40000000
_EVENT = struct.Struct("iIII")
_BUFFER = 1 << 20


def count_opened(folders: Sequence[str], work: Callable[[], Result]) -> tuple[Result, int | None]:
    """Do some work, and count how often files right in some folders are opened meanwhile.

    Returns:
        What the work gives, and the count, None where the kernel cannot watch. It counts openings of one file right
        after each other once, and too many at once as one: a count of 0 is exact.
    """
    library = ctypes.CDLL(None, use_errno=True)
    watcher = int(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    if watcher < 0:
        return work(), None
    try:
        if any(library.inotify_add_watch(watcher, os.fsencode(folder), _IN_OPEN) < 0 for folder in folders):
            return work(), None
        result, count = work(), 0
        while True:
            try:
                events = os.read(watcher, _BUFFER)
            except BlockingIOError:
                return result, count
            at = 0
            while at < len(events):
                _, mask, _, length = _EVENT.unpack_from(events, at)
                count += bool(mask & _IN_Q_OVERFLOW or (mask & _IN_OPEN and not mask & _IN_ISDIR))
                at += _EVENT.size + length
    finally:
        os.close(watcher)


OURS = "framefeed"
_BARE = f"walk + {LIMIT}"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two trees of the same originals: rates are of the files by which they differ."""

    small: Tree
    large: Tree

    def __len__(self) -> int:
        return len(self.large) - len(self.small)


@dataclass(slots=True)
class Steady:
    """Work on the large tree of a pair without what it costs on the small one."""

    pair: Pair
    work: Callable[[Tree], object]
    small: dict[int, Reading] = field(default_factory=dict)

    def run(self, number: int) -> Reading:
        """One round of both trees."""
        took = []
        for tree in (self.pair.small, self.pair.large):
            settle(read_family_clocks)
            took.append(take_time(partial(self.work, tree), read_family_clocks))
        self.small[number] = took[0]
        more = took[1] - took[0]
        return Reading(max(more.cpu, SMALLEST), max(more.wall, SMALLEST))


def scan_row(one: Pair, on_all: Pair, work: Path, processes: int, stack: ExitStack) -> Row:
    """Compare whole scans with walking the tree and the bare calls, on one core and on all.

    The trees of the second pair are so large that `scan` starts processes, which it does for many files.
    """
    walk_on_all = bare_calls.start_walkers(processes, stack)
    cores = f"{processes} cores"

    def table(tree: Tree) -> Path:
        return work / f"{tree.root.name}.parquet"

    def scan_tree(workers: int | None, tree: Tree) -> None:
        scan(str(tree.root), out=table(tree), depth="header", workers=workers, resume=False, progress=False)

    ways = {
        f"{OURS}, 1 core": Steady(one, partial(scan_tree, 0)),
        f"{_BARE}, 1 core": Steady(one, lambda tree: bare_calls.walk_and_touch(str(tree.root))),
        f"{OURS}, {cores}": Steady(on_all, partial(scan_tree, None)),
        f"{_BARE}, {cores}": Steady(on_all, lambda tree: walk_on_all(tree.folders())),
    }

    def recheck(contender: Contender) -> list[str]:
        if not contender.name.startswith(OURS):
            return []
        pair = ways[contender.name].pair
        return [line for tree in (pair.small, pair.large) for line in wrong_rows(Catalog.open(table(tree)), tree)]

    def conclude(timings: Timings) -> Findings:
        start_up = {
            name: max(0.0, median(took.cpu for took in way.small.values()) - len(way.pair.small) * timings.median(name))
            for name, way in ways.items()
            if name in timings.of
        }
        return Findings(
            [
                Comparison(key, f"share of the rate of {_BARE}, {on}",
                           compare_times(timings, f"{OURS}, {on}", f"{_BARE}, {on}"))
                for key, on in (("1 core", "1 core"), ("all cores", cores))
            ],
            {
                "pictures": {on: [len(pair.small), len(pair.large)] for on, pair in (("1 core", one), (cores, on_all))},
                "start_up_CPU_seconds": {name: round(seconds, 3) for name, seconds in start_up.items()},
            },
        )  # fmt: skip

    return Row(
        "scan",
        f"whole scan, steady rate over {len(one)} pictures, start-up apart",
        [Contender(name, ready(way.run), amount=len(way.pair)) for name, way in ways.items()],
        conclude,
        unit="files",
        recheck=recheck,
        clock=read_family_clocks,
        # Names of new files are looked up for the first time, and modules imported.
        warms_up=True,
    )


def wrong_rows(catalog: Catalog, tree: Tree) -> list[str]:
    """Rows of a catalog that do not have the stored size of the file, or not its place in the order."""
    size_of = pillow.size_of
    expected: list[Size] = [size_of(os.fspath(original)) for original in tree.originals]
    if len(catalog) != len(tree):
        return [f"{len(catalog)} rows of {len(tree)} files"]
    wide, high = (catalog.table.column(name).fill_null(0).to_numpy() for name in ("coded_width", "coded_height"))
    turn = np.arange(len(tree)) % len(expected)
    sizes = np.array([size or (0, 0) for size in expected])[turn]
    wrong = np.flatnonzero((wide != sizes[:, 0]) | (high != sizes[:, 1])).tolist()
    names = catalog.table.column("source").to_pylist()
    moved = [row for row, name in enumerate(names) if not tree.path(row).endswith(name.rpartition("/")[2])]
    return [f"{names[row]}: row {row} is {wide[row]} x {high[row]}" for row in sorted({*wrong, *moved})]


def second_row(tree: Tree, work: Path) -> Row:
    """Scan again what has not changed, against walking, a stat of each file and reading the old table.

    That no file is opened is shown twice: by an audit hook in the process that scans, which sees what Python opens,
    and by the kernel's watches on all folders of the tree, which see what libraries and other processes open.
    """
    table = work / "again.parquet"
    scan(str(tree.root), out=table, depth="header", progress=False)
    watched, opened = count_opened(tree.folders(), lambda: run_program(scan_watched, tree.root, table))

    def run(program: Callable[..., Any], number: int) -> Reading:
        said = run_program(program, tree.root, table)
        return Reading(said["cpu_seconds"], said["wall_seconds"])

    ours, least = f"{OURS}, again", "walk + stat + reading the old table"

    def conclude(timings: Timings) -> Findings:
        figures = {"audit hook": Figure(watched["opened"])} | ({} if opened is None else {"kernel": Figure(opened)})
        cost = {name: Figure(timings.ratio(ours, least, metric), ours, least) for name, metric in METRICS.items()}
        return Findings(
            [
                Comparison("opened", "media files opened", figures, ""),
                Comparison("cost", f"the cost of {least}", cost),
            ],
            wrong=[] if watched["rows"] == len(tree) else [f"{watched['rows']} rows of {len(tree)} files"],
        )

    return Row(
        "second",
        f"scan of {len(tree)} pictures of which nothing has changed",
        [
            Contender(name, ready(partial(run, program)), amount=len(tree))
            for name, program in ((ours, scan_folder), (least, scan_unchanged))
        ],
        conclude,
        unit="files",
        clock=read_family_clocks,
    )


# --- programs for fresh processes; what these need to start and import is not in their figures ---


def scan_folder(tree: str, table: str) -> dict[str, Any]:
    """Scan a tree, of which there may be a table already."""
    return time_work(lambda: scan(tree, out=table, depth="header", progress=False))


def scan_watched(tree: str, table: str) -> dict[str, Any]:
    """The same under an audit hook that counts the files of the tree that are opened."""
    opened = 0
    within = tree + os.sep

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal opened
        if event == "open" and isinstance(arguments[0], (str, bytes)):
            # Folders are opened to find their files by name.
            is_file = not arguments[2] & os.O_DIRECTORY
            opened += is_file and os.fsdecode(arguments[0]).startswith(within)

    sys.addaudithook(hook)
    facts = scan_folder(tree, table)
    return {**facts, "opened": opened}


def scan_unchanged(tree: str, table: str) -> dict[str, Any]:
    """The least that a second run must do."""
    return time_work(lambda: range(bare_calls.rescan(tree, table)))


def time_work(work: Callable[[], Any]) -> dict[str, Any]:
    """Say what some work took, how many rows it gives, and what this process held."""
    before = read_family_clocks()
    facts = work()
    took = read_family_clocks() - before
    return {
        "cpu_seconds": took.cpu,
        "wall_seconds": took.wall,
        "rows": len(facts),
        "peak_mb": own_megabytes("VmHWM"),
    }
