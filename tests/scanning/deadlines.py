"""Deadlines of scans that hold for some sources alone, and pass when a test says so: no other source can be late."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from framefeed.parallel import time_limit
from tests.parallel.clocks import HandClock


def make_deadline(monkeypatch: pytest.MonkeyPatch, *endings: str) -> Callable[..., None]:
    """Let ``deadline_seconds`` hold for the sources alone whose names end so; return what lets it pass."""
    clock = HandClock()

    def limit(seconds: float | None, name: str) -> AbstractContextManager[None]:
        return time_limit(seconds if name.endswith(endings) else None, name)

    monkeypatch.setattr("framefeed._stopping.monotonic", clock)
    for module in ("catalog._survey", "scanning._still_rows"):
        monkeypatch.setattr(f"framefeed.{module}.time_limit", limit)
    return lambda *_: clock.advance(1000)
