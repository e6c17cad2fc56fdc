"""Check whether processes are alive, and wait until they have ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from framefeed.parallel import _child
from tests.parallel.laws import PATIENCE


def wait_until(holds: Callable[[], object]) -> None:
    """Look again and again until something holds, and fail when only a hang takes so long."""
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.005)


def lives(process: int) -> bool:
    """A zombie, which has nobody yet who asks for its status, does not."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def all_gone(processes: Iterable[int]) -> bool:
    return not any(lives(process) for process in processes)


def children_of(process: int) -> set[int]:
    """Its children, zombies included."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text(encoding="utf-8").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == process:
            found.add(int(status.parent.name))
    return found


def check_workers_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have stopped worker processes noticed sooner, to save the tests time."""
    monkeypatch.setattr(_child, "LIVENESS_SECONDS", 0.05)
