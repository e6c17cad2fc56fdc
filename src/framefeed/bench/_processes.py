"""Processor time of a process with all that it starts. Linux."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from framefeed.bench._runner import Reading

_TICKS = os.sysconf("SC_CLK_TCK")


def read_family_clocks() -> Reading:
    """Read both clocks, the processor's for the whole family.

    A process that ends moves from the living to those that its parent has waited for: as long as the parent lives,
    nothing is lost and nothing counted twice.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    living = sum(map(count_cpu_seconds, descendants(os.getpid())))
    return Reading(time.process_time() + ended.ru_utime + ended.ru_stime + living, time.perf_counter())


def descendants(pid: int) -> Iterator[int]:
    """Ids of the living processes that a process started, and of those that they started."""
    with suppress(OSError, ValueError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text(encoding="ascii").split()):
                yield child
                yield from descendants(child)


def count_cpu_seconds(pid: int) -> float:
    """Of another process, all its threads, and of its children that have ended."""
    with suppress(OSError, ValueError):
        # The kernel's number for "processor time of process pid", as clock_getcpuclockid(3) makes it.
        own = time.clock_gettime((~pid << 3) | 2)
        # proc(5): the fields after the name in parentheses; cutime and cstime are the 16th and 17th of all.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return own + (int(fields[13]) + int(fields[14])) / _TICKS
    return 0.0


def read_busy_seconds() -> float:
    """Read the processor time of all programs of the machine since it started, in seconds."""
    # proc(5): user, nice, system, idle, iowait, irq, softirq, steal.
    words = Path("/proc/stat").read_text(encoding="ascii").split(None, 9)
    user, nice, system, _, _, *rest = map(int, words[1:9])
    return (user + nice + system + sum(rest)) / _TICKS


def count_busy_seconds() -> float | None:
    """Processor time of all programs on the cores that this process has; None where it is not known.

    In a container with some of the machine's cores, the system counts those of all.
    """
    with suppress(OSError, ValueError, AttributeError):
        lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
        if sum(line.startswith("cpu") for line in lines) - 1 == len(os.sched_getaffinity(0)):
            return read_busy_seconds()
    return None
