"""Processes of ``bench scan``: programs that it runs, and time and memory of one with all that it starts. Linux.

Each program prints one JSON document on standard output. What an interpreter needs to start and import is not in its
figures.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from framefeed.bench._frames import NUM_FRAMES
from framefeed.bench._runner import Reading
from framefeed.bench.baselines import SIZE, load_module
from framefeed.catalog import Catalog
from framefeed.catalog.scan import scan
from framefeed.plan import Dense, plan_clips

_TICKS = os.sysconf("SC_CLK_TCK")
_GONE = (OSError, ValueError)
"""What reading of a process that has just ended raises."""


def read_family_clocks() -> Reading:
    """Read both clocks, the processor's for the whole family.

    A process that ends moves from the living to those that its parent has waited for: as long as the parent lives,
    nothing is lost and nothing counted twice.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    living = sum(map(_cpu_seconds, descendants(os.getpid())))
    return Reading(time.process_time() + ended.ru_utime + ended.ru_stime + living, time.perf_counter())


def descendants(pid: int) -> Iterator[int]:
    """Ids of the living processes that a process started, and of those that they started."""
    with suppress(*_GONE):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text(encoding="ascii").split()):
                yield child
                yield from descendants(child)


def proportional_megabytes(pid: int) -> float:
    """Proportional set of a process, in 10^6 bytes: of what n processes share, an n-th. 0 once it has ended."""
    with suppress(*_GONE):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("Pss:"))
    return 0.0


def family_megabytes(pid: int) -> float:
    """Proportional sets of a process and of all that it started, in 10^6 bytes."""
    return sum(map(proportional_megabytes, [pid, *descendants(pid)]))


def peak_megabytes() -> float:
    """Most that this process was resident with, in 10^6 bytes.

    Not ``ru_maxrss``, which a process inherits from the one that started it.
    """
    fields = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").split("VmHWM:")[1].split()
    return int(fields[0]) * 1024 / 1e6


def _cpu_seconds(pid: int) -> float:
    """Of another process, all its threads, and of its children that have ended."""
    with suppress(*_GONE):
        # The kernel's number for "processor time of process pid", as clock_getcpuclockid(3) makes it.
        own = time.clock_gettime((~pid << 3) | 2)
        # proc(5): the fields after the name in parentheses; cutime and cstime are the 16th and 17th of all.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return own + (int(fields[13]) + int(fields[14])) / _TICKS
    return 0.0


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
    # Not with -m: the package imports this module, and runpy warns that it runs it a second time.
    run = f"from {__name__} import run_here; run_here()"
    return [sys.executable, "-c", run, *(os.fspath(word) for word in words)]


def scan_tree(tree: str, table: str) -> dict[str, Any]:
    """Scan a tree, of which there may be a table already."""
    return _time(lambda: scan(tree, out=table, depth="header", progress=False))


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
    facts = scan_tree(tree, table)
    return {**facts, "opened": opened}


def scan_unchanged(tree: str, table: str) -> dict[str, Any]:
    """The least that a second run must do."""
    least = load_module("bare_calls").rescan
    return _time(lambda: range(least(tree, table)))


def open_catalog(catalog: str) -> dict[str, Any]:
    """Open a catalog."""
    return _time(lambda: Catalog.open(catalog))


def plan_and_wait(catalog: str, rank: str, world_size: str) -> dict[str, Any]:
    """Plan clips over a part of a catalog, say so in a line, and hold everything until an answer comes."""
    before = read_family_clocks()
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
    took = read_family_clocks() - before
    return _say_and_wait({"positions": len(asked), "frames": frames, "wall_seconds": took.wall})


def import_and_wait() -> dict[str, Any]:
    """Hold nothing but what the imports of a planning worker bring along."""
    return _say_and_wait({"positions": 0})


def _say_and_wait(said: dict[str, Any]) -> dict[str, Any]:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()
    sys.stdin.readline()
    return {}


def _time(work: Callable[[], Any]) -> dict[str, Any]:
    before = read_family_clocks()
    facts = work()
    took = read_family_clocks() - before
    return {
        "cpu_seconds": took.cpu,
        "wall_seconds": took.wall,
        "rows": len(facts),
        "peak_mb": peak_megabytes(),
    }


PROGRAMS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "scan": scan_tree,
    "watched": scan_watched,
    "least": scan_unchanged,
    "open": open_catalog,
    "plan": plan_and_wait,
    "idle": import_and_wait,
}


def run_here() -> None:
    """Run the program that the command line names, and print what it finds."""
    json.dump(PROGRAMS[sys.argv[1]](*sys.argv[2:]), sys.stdout)
