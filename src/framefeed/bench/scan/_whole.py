"""Rows "scan" and "second": a whole scan of a large tree, and the same again with nothing changed.

What a scan costs however many files there are, such as starting workers, is measured on a small tree and taken off:
rates are of the files by which the large tree is larger.

Who opens a file: the kernel's own watches (inotify), which see every process and every library. Linux.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from framefeed.bench._goals import Mark, steady
from framefeed.bench._measuring import Contender, Interval, Metric, Rounds, Sample, Timings, measure, settle
from framefeed.bench._sizing import Size
from framefeed.bench.baselines import load_module
from framefeed.bench.scan._family import family_now
from framefeed.bench.scan._headers import LIMIT, MOST_NAMED
from framefeed.bench.scan._programs import run_program
from framefeed.bench.scan._trees import Tree
from framefeed.catalog import Catalog
from framefeed.catalog.scan import scan

Result = TypeVar("Result")

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
    watcher = _watch(folders)
    if watcher is None:
        return work(), None
    try:
        return work(), _count(watcher)
    finally:
        os.close(watcher)


def _watch(folders: Sequence[str]) -> int | None:
    library = ctypes.CDLL(None, use_errno=True)
    watcher = int(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    if watcher < 0:
        return None
    for folder in folders:
        if library.inotify_add_watch(watcher, os.fsencode(folder), _IN_OPEN) < 0:
            os.close(watcher)
            return None
    return watcher


def _count(watcher: int) -> int:
    count = 0
    while True:
        try:
            events = os.read(watcher, _BUFFER)
        except BlockingIOError:
            return count
        at = 0
        while at < len(events):
            _, mask, _, length = _EVENT.unpack_from(events, at)
            count += bool(mask & _IN_Q_OVERFLOW or (mask & _IN_OPEN and not mask & _IN_ISDIR))
            at += _EVENT.size + length


OURS = "framefeed"
_BARE = f"walk + {LIMIT}"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two trees of the same originals: rates are of the files by which they differ.

    Attributes:
        small: Few files.
        large: More.
    """

    small: Tree
    large: Tree


def scan_row(one: Pair, on_all: Pair, work: Path, rounds: Rounds, processes: int) -> dict[str, Any]:
    """Measure whole scans against walking the tree and the bare calls, on one core and on all.

    Args:
        one: What is scanned on one core.
        on_all: What is scanned on all cores: both so large that `scan` starts processes, which it does for many files.
        work: Folder for the tables.
        rounds: How often.
        processes: As many as there are cores.
    """
    bare = load_module("bare_calls")
    pool = bare.WalkingPool(processes)
    cores = f"{processes} cores"
    runs: dict[str, tuple[Pair, Callable[[Tree], object]]] = {
        f"{OURS}, 1 core": (one, partial(_scan, work, 0)),
        f"{_BARE}, 1 core": (one, lambda tree: bare.walk_and_touch(str(tree.root))),
        f"{OURS}, {cores}": (on_all, partial(_scan, work, None)),
        f"{_BARE}, {cores}": (on_all, lambda tree: pool.walk_and_touch(tree.folders())),
    }
    contenders = [
        Contender(f"{name} | {size}", lambda number, run=run, tree=tree: run(tree))  # type: ignore[misc]
        for name, (pair, run) in runs.items()
        for size, tree in (("small", pair.small), ("large", pair.large))
    ]
    try:
        # Once for nothing: names of new files are looked up for the first time, and modules imported.
        measure(contenders, Rounds(1), family_now, partial(settle, family_now))
        samples = measure(contenders, replace(rounds, pilot=rounds.pairs), family_now, partial(settle, family_now))
    finally:
        pool.close()
    each = Timings({
        name: steady(samples.of[f"{name} | large"], samples.of[f"{name} | small"], len(pair.large) - len(pair.small))
        for name, (pair, _) in runs.items()
    })  # fmt: skip
    trees = [tree for pair in (one, on_all) for tree in (pair.small, pair.large)]
    wrong = [line for tree in trees for line in wrong_rows(Catalog.open(_table(work, tree)), tree)]
    return {
        "key": "scan",
        "title": f"whole scan, steady rate over {len(one.large) - len(one.small)} pictures, start-up apart",
        "pictures": {"1 core": _lengths(one), cores: _lengths(on_all)},
        "ways": [_facts(name, samples, each, len(pair.small)) for name, (pair, _) in runs.items()],
        "num_wrong": len(wrong),
        "wrong": wrong[:MOST_NAMED],
        "goals": [
            _share(f"share of {_BARE}, 1 core", "1 core", ("cpu", "wall"), each),
            _share(f"share of {_BARE}, {cores}", cores, ("wall", "cpu"), each),
        ],
    }


def _lengths(pair: Pair) -> list[int]:
    return [len(pair.small), len(pair.large)]


def wrong_rows(catalog: Catalog, tree: Tree) -> list[str]:
    """Rows of a catalog that do not have the stored size of the file, or not its place in the order."""
    size_of = load_module("sizes_pillow").size_of
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


def second_row(tree: Tree, work: Path, rounds: Rounds) -> dict[str, Any]:
    """Scan again what has not changed, against walking, a stat of each file and reading the old table.

    That no file is opened is shown twice: by an audit hook in the process that scans, which sees what Python opens,
    and by the kernel's watches on all folders of the tree, which see what libraries and other processes open.

    Args:
        tree: Many files.
        work: Folder for the table.
        rounds: How often.
    """
    table = work / "again.parquet"
    scan(str(tree.root), out=table, depth="header", progress=False)
    watched, opened = count_opened(tree.folders(), lambda: run_program("watched", tree.root, table))
    samples = Timings()
    for number in range(rounds.pairs):
        order = ("again", "least") if number % 2 == 0 else ("least", "again")
        for name in order:
            facts = run_program(name, tree.root, table)
            samples.add(name, number, Sample(facts["cpu_seconds"], facts["wall_seconds"]))
    ratio = samples.ratio("again", "least"), samples.ratio("again", "least", "wall")
    return {
        "key": "second",
        "title": f"scan of {len(tree)} pictures of which nothing has changed",
        "opened_by_python": watched["opened"],
        "opened_by_anybody": opened,
        "wrong": [] if watched["rows"] == len(tree) else [f"{watched['rows']} rows of {len(tree)} files"],
        "seconds": {name: round(samples.median(name), 4) for name in ("again", "least")},
        "goals": [
            Mark("media files opened", 0, 0, at_most=True, unit="").judge(
                {"audit hook": float(watched["opened"])} | ({} if opened is None else {"kernel": float(opened)})
            ),
            Mark("the cost of walk + stat + reading the old table", 1.5, 1.1, at_most=True).judge(
                {"CPU": ratio[0], "wall": ratio[1]}
            ),
        ],
    }


def _scan(work: Path, workers: int | None, tree: Tree) -> None:
    scan(str(tree.root), out=_table(work, tree), depth="header", workers=workers, resume=False, progress=False)


def _table(work: Path, tree: Tree) -> Path:
    return work / f"{tree.root.name}.parquet"


def _share(what: str, on: str, metrics: Sequence[Metric], each: Timings) -> dict[str, Any]:
    words = {"cpu": "CPU", "wall": "wall"}
    figures: dict[str, Interval | float] = {
        words[metric]: each.ratio(f"{_BARE}, {on}", f"{OURS}, {on}", metric) for metric in metrics
    }
    return Mark(what, 0.5, 0.7).judge(figures)


def _facts(name: str, samples: Timings, each: Timings, few: int) -> dict[str, Any]:
    start_up = samples.median(f"{name} | small") - few * each.median(name)
    return {
        "name": name,
        "files_per_cpu_second": round(1 / each.median(name), 1),
        "files_per_second": round(1 / each.median(name, "wall"), 1),
        "start_up_cpu_seconds": round(max(0.0, start_up), 3),
        "cpu_microseconds_a_file": [round(1e6 * sample.cpu, 3) for sample in each.of[name].values()],
        "wall_microseconds_a_file": [round(1e6 * sample.wall, 3) for sample in each.of[name].values()],
    }
