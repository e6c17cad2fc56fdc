"""Which tests `make check` leaves out: those marked slow, and those of the list of measured times beside this file."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache  # no process that is forked here reads the list
from pathlib import Path

import pytest

LIST = Path(__file__).with_name("slow_tests.txt")


@cache
def listed_tests() -> frozenset[str]:
    """Read the names `file::function`, each of which stands for all its parameters."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return frozenset(line.split()[1] for line in lines if line and not line.startswith("#"))


def name_of(item: pytest.Item) -> str:
    """Name a test without its parameters."""
    return item.nodeid.partition("[")[0]


def mark_listed(items: Iterable[pytest.Item]) -> None:
    """Mark the tests of the list as slow."""
    for item in items:
        if name_of(item) in listed_tests():
            item.add_marker(pytest.mark.slow)
