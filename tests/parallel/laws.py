"""Check the laws of ordered mapping, for any function with the signature of `ordered_outcomes`.

`check_laws` runs a candidate under instruments and asserts; `test_laws.py` also feeds it candidates that are wrong on
purpose, because a law that nothing breaks says nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from framefeed._outcome import Err, Ok
from tests.patience import PATIENCE_SECONDS


class Refused(Exception):
    """An error that equals another one with the same arguments."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.args == other.args

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Setting:
    """One way of running, and the order in which calls that run at the same time finish.

    Calls wait for each other until every worker has one, so ``max_calls`` below ``workers`` is broken for certain.
    """

    number: int
    workers: int
    max_in_flight: int
    priorities: tuple[int, ...]
    failing: frozenset[int] = frozenset()
    max_bytes: int | None = None
    max_calls: int | None = None

    def expected(self) -> list[Ok[int] | Err]:
        return [Err(Refused(item)) if item in self.failing else Ok(item * 10) for item in range(self.number)]


class Instruments:
    """Items and a function that watch how they are used."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._consumer = threading.current_thread()
        self._changed = threading.Condition()
        self._running: set[int] = set()
        self._finished: set[int] = set()
        self._pulled = 0
        self.yielded = 0
        self.violations: list[str] = []

    def items(self) -> Iterator[int]:
        for item in range(self._setting.number):
            with self._changed:
                if threading.current_thread() is not self._consumer:
                    self.violations.append("items pulled outside the consumer's thread")
                if self._pulled - self.yielded >= self._setting.max_in_flight:
                    self.violations.append(f"item {item} pulled with {self._pulled - self.yielded} in flight")
                self._pulled += 1
                self._changed.notify_all()
            yield item

    def function(self, item: int) -> int:
        """Finish in the order of the priorities, as far as the calls run at the same time."""
        with self._changed:
            self._running.add(item)
            if len(self._running) > (self._setting.max_calls or max(1, self._setting.workers)):
                self.violations.append(f"{len(self._running)} calls at once")
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._may_finish(item), PATIENCE_SECONDS):
                self.violations.append(f"item {item} waited in vain")
            self._running.remove(item)
            self._finished.add(item)
            self._changed.notify_all()
        if item in self._setting.failing:
            raise Refused(item)
        return item * 10

    def _may_finish(self, item: int) -> bool:
        # With every worker busy, or nothing left to start, the lowest priority goes first.
        left = min(self._setting.number, self.yielded + self._setting.max_in_flight) - len(self._finished)
        busy = len(self._running) >= min(self._setting.workers, left)
        # Where bytes hold back work, no other call may ever come: then whoever runs may finish.
        return (busy or self._setting.max_bytes is not None) and item == min(
            self._running, key=self._setting.priorities.__getitem__
        )

    def received(self) -> None:
        with self._changed:
            self.yielded += 1
            self._changed.notify_all()


def check_laws(candidate: Any, setting: Setting) -> None:
    """Assert that a candidate keeps order, bounds and threads, and that its outcomes are those of a plain loop."""
    instruments = Instruments(setting)
    outcomes: list[Ok[int] | Err] = []
    with candidate(
        instruments.function,
        instruments.items(),
        workers=setting.workers,
        max_in_flight=setting.max_in_flight,
        max_bytes=setting.max_bytes,
        size_of=None if setting.max_bytes is None else lambda value: 10,
    ) as results:
        for outcome in results:
            instruments.received()
            outcomes.append(outcome)
    assert not instruments.violations, "; ".join(instruments.violations)
    assert outcomes == setting.expected(), f"{outcomes} instead of {setting.expected()}"


def worker_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("framefeed-")]


def all_end(threads: Sequence[threading.Thread]) -> bool:
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    return not any(thread.is_alive() for thread in threads)
