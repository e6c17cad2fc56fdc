"""Check whether processes are alive, and wait until they have ended."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from sys import _current_frames
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from framefeed.parallel import _child
from framefeed.parallel._processes import child_of_this_thread
from tests.patience import PATIENCE_SECONDS


def wait_until(holds: Callable[[], object]) -> None:
    """Look again and again until something holds, and fail when only a hang takes so long."""
    until = time.monotonic() + PATIENCE_SECONDS
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


def waits_for_notice(thread: threading.Thread) -> bool:
    """Whether a thread is in ``Condition.wait``: another one that gets the condition's lock then comes behind it."""
    frame = None if thread.ident is None else _current_frames().get(thread.ident)
    return frame is not None and frame.f_code is threading.Condition.wait.__code__


class HurriedPoll:
    """Stands in for ``select.poll``: while a worker process hangs, each wait for it is over at once.

    Args:
        hangs: Says whether a process hangs, by its number; one that is stopped does.
    """

    def __init__(self, hangs: Callable[[int], object]) -> None:
        self._poll, self._hangs = select.poll(), hangs
        self.register, self.modify = self._poll.register, self._poll.modify

    def poll(self, milliseconds: float) -> list[tuple[int, int]]:
        process = child_of_this_thread()._running.value.process
        assert process is not None
        until = time.monotonic() + milliseconds / 1000
        while (left := until - time.monotonic()) > 0:
            hangs = self._hangs(process.pid) or state_of(process.pid) == "T"
            events = self._poll.poll(1 if hangs else min(10, left * 1000))
            if events or hangs:
                return events
        return []


def hurry_calls_that_hang(monkeypatch: pytest.MonkeyPatch, hangs: Callable[[int], object] = lambda _: False) -> None:
    """Let deadlines pass at once where a process hangs or is stopped, of those that start from now on."""
    polling = SimpleNamespace(poll=partial(HurriedPoll, hangs), POLLIN=select.POLLIN, POLLOUT=select.POLLOUT)
    monkeypatch.setattr(_child, "select", polling)


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
