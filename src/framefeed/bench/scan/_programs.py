"""What ``bench scan`` runs in processes of their own: ``python -m framefeed.bench.scan._programs WORK ARGUMENT...``.

Each prints one JSON document on standard output. What an interpreter needs to start and import is not in its figures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from framefeed.bench._peer import SIZE
from framefeed.bench._workloads import NUM_FRAMES
from framefeed.bench.baselines import load_module
from framefeed.bench.scan._family import descendants, family_now, peak_megabytes
from framefeed.catalog import Catalog
from framefeed.catalog.scan import scan
from framefeed.plan import Dense, plan_clips

HOUR = 3600
"""Seconds."""
PLANNED = 5_000
"""Positions that a worker plans."""


def run_program(*words: str | os.PathLike[str]) -> dict[str, Any]:
    """Run one of the programs below in a fresh process, and read what it prints."""
    done = subprocess.run(command(*words), stdout=subprocess.PIPE, text=True, check=True, timeout=HOUR)
    return dict(json.loads(done.stdout))


def command(*words: str | os.PathLike[str]) -> list[str]:
    """The command line of one of the programs below."""
    return [sys.executable, "-m", __name__, *(os.fspath(word) for word in words)]


def scan_again(tree: str, table: str) -> dict[str, Any]:
    """Scan a tree of which there is a table already."""
    return _timed(lambda: scan(tree, out=table, depth="header", progress=False))


def scan_watched(tree: str, table: str) -> dict[str, Any]:
    """The same under an audit hook that counts the files of the tree that are opened."""
    opened = 0
    within = tree + os.sep

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal opened
        if event == "open" and isinstance(arguments[0], (str, bytes)):
            opened += os.fsdecode(arguments[0]).startswith(within)

    sys.addaudithook(hook)
    facts = scan_again(tree, table)
    return {**facts, "opened": opened}


def scan_unchanged(tree: str, table: str) -> dict[str, Any]:
    """The least that a second run must do."""
    least = load_module("old_table").scan_unchanged
    return _timed(lambda: range(least(tree, table)))


def open_catalog(catalog: str) -> dict[str, Any]:
    """Open a catalog."""
    return _timed(lambda: Catalog.open(catalog))


def scan_once(tree: str, table: str) -> dict[str, Any]:
    """Scan a tree into a table that is not there yet."""
    return _timed(lambda: scan(tree, out=table, depth="header", resume=False, progress=False))


def plan_and_wait(catalog: str, rank: str, world_size: str) -> dict[str, Any]:
    """Plan clips over a part of a catalog, say so in a line, and hold everything until an answer comes."""
    before = family_now()
    plan = plan_clips(
        Catalog.open(catalog),
        Dense(NUM_FRAMES, stride=4),
        seed=0,
        size=(SIZE, SIZE),
        rank=int(rank),
        world_size=int(world_size),
    )
    asked = range(0, len(plan), max(1, len(plan) // PLANNED))
    frames = sum(len(plan[position]) for position in asked)
    took = family_now() - before
    return _say_and_wait({"positions": len(asked), "frames": frames, "wall_seconds": took.wall})


def import_and_wait() -> dict[str, Any]:
    """Hold nothing but what the imports of a planning worker bring along."""
    return _say_and_wait({"positions": 0})


def _say_and_wait(said: dict[str, Any]) -> dict[str, Any]:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()
    sys.stdin.readline()
    return {}


def _timed(work: Callable[[], Any]) -> dict[str, Any]:
    before = family_now()
    facts = work()
    took = family_now() - before
    return {
        "cpu_seconds": took.cpu,
        "wall_seconds": took.wall,
        "rows": len(facts),
        "peak_mb": peak_megabytes(),
        "alone": not any(descendants(os.getpid())),
    }


PROGRAMS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "once": scan_once,
    "again": scan_again,
    "watched": scan_watched,
    "least": scan_unchanged,
    "open": open_catalog,
    "plan": plan_and_wait,
    "idle": import_and_wait,
}

if __name__ == "__main__":
    json.dump(PROGRAMS[sys.argv[1]](*sys.argv[2:]), sys.stdout)
