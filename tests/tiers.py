"""Tests in tiers, by the times of ``tests/times.txt``: which `make check` leaves out, and which files come first."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache  # no process that is forked here reads the file
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pytest

TIMES = Path(__file__).with_name("times.txt")
SLOW_CPU_SECONDS = 0.15
"""From here on, all parameters of a test together, `make check` and tests/installed.py leave it out."""
_LISTED_SECONDS = 0.1
_HEADING = """\
# Wall and CPU seconds of each test, all its parameters together, and how many these are: written by
# `python -m tests.times`. Fixtures, and processes that a test waits for, are counted. From {slow} s of CPU on,
# `make check` leaves a test out. Listed: {listed_wall:.0f} s of wall, {listed_cpu:.0f} s of CPU.
# Tests of less than {least} s are not listed: {count:,} functions, {wall:.0f} s of wall and {cpu:.0f} s of CPU.
"""

Node = pytest.Item | pytest.Collector


class TimesOfTest(NamedTuple):
    """Of all parameters together."""

    wall_seconds: float
    cpu_seconds: float
    num_parameters: int


@cache
def read_times() -> dict[str, TimesOfTest]:
    """Read the names `file::function`, each of which stands for all its parameters."""
    lines = TIMES.read_text(encoding="utf-8").splitlines()
    rows = (line.split() for line in lines if not line.startswith("#"))
    return {name: TimesOfTest(float(wall), float(cpu), int(count)) for wall, cpu, count, name in rows}


def write_times(measured: Mapping[str, TimesOfTest]) -> str:
    """Write the file, by name."""
    listed = {name: times for name, times in measured.items() if max(times[:2]) >= _LISTED_SECONDS}
    quick = [times for name, times in measured.items() if name not in listed]
    heading = _HEADING.format(
        least=_LISTED_SECONDS,
        count=len(quick),
        wall=sum(times.wall_seconds for times in quick),
        cpu=sum(times.cpu_seconds for times in quick),
        listed_wall=sum(times.wall_seconds for times in listed.values()),
        listed_cpu=sum(times.cpu_seconds for times in listed.values()),
        slow=SLOW_CPU_SECONDS,
    )
    rows = sorted((name, *times) for name, times in listed.items())
    return heading + "".join(f"{wall:6.1f} {cpu:6.1f} {count:5} {name}\n" for name, wall, cpu, count in rows)


@cache
def slow_tests() -> frozenset[str]:
    """Name the tests that `make check` leaves out; an exam, which is a class, is run whole."""
    times = read_times().items()
    return frozenset(name for name, of in times if of.cpu_seconds >= SLOW_CPU_SECONDS and name.count("::") == 1)


def name_of(item: pytest.Item) -> str:
    """Name a test without its parameters."""
    return item.nodeid.partition("[")[0]


def mark_slow(items: Iterable[pytest.Item]) -> None:
    """Mark the tests that are slow by their times."""
    for item in items:
        if name_of(item) in slow_tests():
            item.add_marker(pytest.mark.slow)


def put_long_files_first(items: list[pytest.Item]) -> None:
    """Sort the files by the wall time of their tests: processes that share them then end at about one time."""
    seconds: dict[Path, float] = defaultdict(float)
    for name, path in {name_of(item): item.path for item in items}.items():
        if name in read_times():
            seconds[path] += read_times()[name].wall_seconds
    # By path too: processes that collected in another order must come to the same one.
    items.sort(key=lambda item: (-seconds[item.path], item.path))


def turn(nodes: Sequence[Node], share: float) -> list[Node]:
    """Begin where this share of all that the nodes have to compile is over, and end with what is before that."""
    sizes = [sum(file.stat().st_size for file in {node.path, *node.path.rglob("*.py")}) for node in nodes]
    first = bisect_left([*accumulate(sizes, initial=0)], share * sum(sizes))
    return [*nodes[first:], *nodes[:first]]
