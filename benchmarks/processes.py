"""Programs that suites run in fresh processes, and time and memory of one with all that it starts. Linux."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from framefeed.bench import Reading, count_cpu_seconds, descendants

HOUR = 3600
"""Seconds."""


def read_clocks_of(pid: int) -> Reading:
    """Read both clocks, the processor's for another process and its whole family."""
    return Reading(count_cpu_seconds(pid) + sum(map(count_cpu_seconds, descendants(pid))), time.perf_counter())


def family_megabytes(pid: int) -> float:
    """Proportional sets of a process and of all that it started, in 10^6 bytes: of what n share, an n-th."""
    kilobytes = 0
    for member in (pid, *descendants(pid)):
        with suppress(OSError, ValueError, StopIteration):  # it may have just ended
            lines = Path(f"/proc/{member}/smaps_rollup").read_text(encoding="ascii", errors="replace").splitlines()
            kilobytes += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kilobytes * 1024 / 1e6


def own_megabytes(field: Literal["VmRSS", "VmHWM"]) -> float:
    """Resident set of this process, now or at most, in 10^6 bytes.

    Not ``ru_maxrss``, which a process inherits from the one that started it.
    """
    fields = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").split(f"{field}:")[1].split()
    return int(fields[0]) * 1024 / 1e6


def run_program(program: Callable[..., Any], *words: str | os.PathLike[str]) -> Any:
    """Run a function of a module in a fresh process, and read what it returns."""
    done = subprocess.run(command(program, *words), stdout=subprocess.PIPE, text=True, check=True, timeout=HOUR)
    return json.loads(done.stdout)


def command(program: Callable[..., Any], *words: str | os.PathLike[str]) -> list[str]:
    """The command line that calls a function of a module with words, and prints what it returns, as JSON."""
    name = program.__name__
    run = f"import json, sys; from {program.__module__} import {name}; json.dump({name}(*sys.argv[1:]), sys.stdout)"
    return [sys.executable, "-c", run, *(os.fspath(word) for word in words)]
