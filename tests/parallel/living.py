"""Check whether processes are alive, and wait until they have ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from framefeed.parallel import _child
from tests.parallel.laws import PATIENCE


def wait_until(holds: Callable[[], object]) -> None:
    """Look again and again until something holds, and fail when only a hang takes so long."""
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.005)


def read_status(process: int) -> list[str]:
    """State, parent, group and the further fields of a process; of one that is gone, the state alone, "X"."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return ["X", "", ""]
    return status.rpartition(")")[2].split()


def state_of(process: int) -> str:
    return read_status(process)[0]


def lives(process: int) -> bool:
    """A zombie, whose parent has not yet asked for its status, does not."""
    return state_of(process) not in "ZX"


def all_gone(processes: Iterable[int]) -> bool:
    return not any(lives(process) for process in processes)


def _find_processes(field: int, value: int) -> set[int]:
    numbers = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return {number for number in numbers if read_status(number)[field] == str(value)}


def children_of(process: int) -> set[int]:
    """Its children, zombies included."""
    return _find_processes(1, process)


def group_of(process: int) -> set[int]:
    """The processes of the group that a process leads, zombies included."""
    return _find_processes(2, process)


def check_workers_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have stopped worker processes noticed sooner, to save the tests time."""
    monkeypatch.setattr(_child, "LIVENESS_SECONDS", 0.05)


@contextmanager
def ending_time_of(list_processes: Callable[[], Container[int]]) -> Iterator[None]:
    """End the time of a call in a worker process as soon as its process is among these: they hang."""
    own, wait = threading.local(), _child.Child._wait

    def wait_for(child: Any, event: int) -> None:
        own.process = child._running.value.process.pid
        wait(child, event)

    def count_left(step: Any) -> float:
        is_over = getattr(own, "process", -1) in list_processes()
        return 0.0 if is_over else float(step.limit_seconds - step.spent_seconds)

    with (
        patch.object(_child.Child, "_wait", wait_for),
        patch.object(_child._Step, "left_seconds", property(count_left)),
    ):
        yield
