"""Which tests `make check` leaves out: those marked slow, and those of the list of measured times beside this file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cache  # no process that is forked here reads the list
from pathlib import Path

import pytest

LIST = Path(__file__).with_name("slow_tests.txt")


SECONDS_OF_A_MARKED_TEST = 0.7
"""On average; which ones take longer is not recorded."""


@cache
def listed_seconds() -> dict[str, float]:
    """Read the names `file::function`, each of which stands for all its parameters, and their CPU seconds."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    pairs = (line.split() for line in lines if line and not line.startswith("#"))
    return {name: float(seconds) for seconds, name in pairs}


def listed_tests() -> frozenset[str]:
    """Name the tests of the list."""
    return frozenset(listed_seconds())


def name_of(item: pytest.Item) -> str:
    """Name a test without its parameters."""
    return item.nodeid.partition("[")[0]


def mark_listed(items: Iterable[pytest.Item]) -> None:
    """Mark the tests of the list as slow."""
    for item in items:
        if name_of(item) in listed_tests():
            item.add_marker(pytest.mark.slow)


def put_long_files_first(items: list[pytest.Item]) -> None:
    """Sort the files by the time that their slow tests take: processes that share them then end at about one time."""
    names = {name_of(item): item.path for item in items}
    seconds: dict[Path, float] = defaultdict(float)
    for name, path in names.items():
        seconds[path] += listed_seconds().get(name, 0.0)
    for item in items:
        if name_of(item) not in listed_seconds() and item.get_closest_marker("slow"):
            seconds[item.path] += SECONDS_OF_A_MARKED_TEST
    items.sort(key=lambda item: -seconds[item.path])
