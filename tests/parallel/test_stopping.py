from __future__ import annotations

import pytest

from framefeed import _stopping
from framefeed._stopping import StopDetector


def test_L23_a_wait_much_longer_than_it_was_to_be_was_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    stops = StopDetector()
    for now, was_stopped in [(1.0, False), (1.9, False), (30.0, True), (1.0, False), (30.0, True), (30.0, False)]:
        monkeypatch.setattr(_stopping, "perf_counter", lambda: 100.0 + now)  # noqa: B023 - called in this step alone
        assert stops.was_stopped(100.0, 1.0) is was_stopped


def test_L23_late_waits_in_a_row_are_a_busy_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_stopping, "perf_counter", lambda: 130.0)
    stops = StopDetector()
    assert [stops.was_stopped(100.0, 1.0) for _ in range(5)] == [True, False, False, False, False]
