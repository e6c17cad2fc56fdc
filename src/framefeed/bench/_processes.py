"""Processes: programs that suites run in fresh ones, and time and memory of one with all that it starts. Linux."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from framefeed.bench._runner import Reading

HOUR = 3600
"""Seconds."""
_TICKS = os.sysconf("SC_CLK_TCK")
_GONE = (OSError, ValueError, StopIteration)
"""What reading of a process that has just ended raises."""


def read_family_clocks() -> Reading:
    """Read both clocks, the processor's for the whole family.

    A process that ends moves from the living to those that its parent has waited for: as long as the parent lives,
    nothing is lost and nothing counted twice.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    living = sum(map(_cpu_seconds, descendants(os.getpid())))
    return Reading(time.process_time() + ended.ru_utime + ended.ru_stime + living, time.perf_counter())


def read_clocks_of(pid: int) -> Reading:
    """Read both clocks, the processor's for another process and its whole family."""
    return Reading(_cpu_seconds(pid) + sum(map(_cpu_seconds, descendants(pid))), time.perf_counter())


def descendants(pid: int) -> Iterator[int]:
    """Ids of the living processes that a process started, and of those that they started."""
    with suppress(*_GONE):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text(encoding="ascii").split()):
                yield child
                yield from descendants(child)


def family_megabytes(pid: int) -> float:
    """Proportional sets of a process and of all that it started, in 10^6 bytes: of what n share, an n-th."""
    kilobytes = 0
    for member in (pid, *descendants(pid)):
        with suppress(*_GONE):
            lines = Path(f"/proc/{member}/smaps_rollup").read_text(encoding="ascii", errors="replace").splitlines()
            kilobytes += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kilobytes * 1024 / 1e6


def own_megabytes(field: Literal["VmRSS", "VmHWM"]) -> float:
    """Resident set of this process, now or at most, in 10^6 bytes.

    Not ``ru_maxrss``, which a process inherits from the one that started it.
    """
    fields = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").split(f"{field}:")[1].split()
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


def run_program(program: Callable[..., Any], *words: str | os.PathLike[str]) -> Any:
    """Run a function of a module in a fresh process, and read what it returns."""
    done = subprocess.run(command(program, *words), stdout=subprocess.PIPE, text=True, check=True, timeout=HOUR)
    return json.loads(done.stdout)


def command(program: Callable[..., Any], *words: str | os.PathLike[str]) -> list[str]:
    """The command line that calls a function of a module with words, and prints what it returns, as JSON."""
    name = program.__name__
    run = f"import json, sys; from {program.__module__} import {name}; json.dump({name}(*sys.argv[1:]), sys.stdout)"
    return [sys.executable, "-c", run, *(os.fspath(word) for word in words)]
