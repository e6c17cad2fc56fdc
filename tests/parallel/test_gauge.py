"""The times of workers: busy and idle seconds add up to the workers times the duration."""

from __future__ import annotations

import gc
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.parallel import Gauge, WorkerTimes, ordered_outcomes
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("framefeed.parallel._gauge.monotonic", lambda: now[0])
    return now


@given(
    workers=st.integers(0, 5),
    steps=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 5), st.integers(0, 9)), min_size=1),
    rest=st.integers(0, 100),
)
def test_busy_and_idle_add_up(workers: int, steps: list[tuple[int, int, int]], rest: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        now, counts = [0.0], [0]
        patch.setattr("framefeed.parallel._gauge.monotonic", lambda: now[0])
        gauge = Gauge(workers, 8, lambda: counts[-1])
        busy, running, began = 0, 0, steps[0][0]
        for seconds, most_running, ready in steps:
            now[0] += seconds
            busy += running * (seconds if now[0] > began else 0)
            running = min(most_running, workers)
            counts.append(ready)
            gauge.record(running)
        now[0] += rest
        times = gauge.read()
        assert times.busy_seconds == busy + running * rest
        assert times.busy_seconds + times.idle_seconds == workers * (now[0] - began)
        assert (times.running, times.ready) == (running, steps[-1][2])
        gauge.stop()
        now[0] += 7
        gauge.record(workers)
        now[0] += 7
        assert gauge.read() == WorkerTimes(times.busy_seconds, times.idle_seconds)


def test_times_of_iterations_are_added() -> None:
    assert WorkerTimes(1, 2, 3, 4) + WorkerTimes(10, 20, 5, 6) == WorkerTimes(11, 22, 5, 6)


@pytest.mark.parametrize("workers", [1, 3])
def test_an_iteration_counts_its_calls(workers: int, clock: list[float]) -> None:
    both = threading.Barrier(workers)

    def work(item: int) -> int:
        # All workers are in a call, so that all of them are busy while the clock moves.
        if both.wait(PATIENCE_SECONDS) == 0:
            clock[0] += 1.0
        both.wait(PATIENCE_SECONDS)
        return item

    with ordered_outcomes(work, range(4 * workers), workers=workers, max_in_flight=workers) as outcomes:
        for _ in range(4 * workers):
            next(outcomes)
            if not outcomes.gauge.read().running and not outcomes.gauge.read().ready:
                clock[0] += 0.5
        times = outcomes.gauge.read()
    assert times.busy_seconds >= 4 * workers
    assert times.busy_seconds + times.idle_seconds == workers * clock[0]


def test_an_iteration_that_is_dropped_or_closed_counts_no_more(clock: list[float]) -> None:
    for end in ("close", "drop", "exhaust"):
        outcomes = ordered_outcomes(abs, [1], workers=2, max_in_flight=2)
        gauge = outcomes.gauge
        next(outcomes)
        if end == "close":
            outcomes.close()
        if end == "exhaust":
            assert list(outcomes) == []
        del outcomes
        gc.collect()
        before = gauge.read()
        clock[0] += 100
        assert gauge.read() == before
        assert (before.running, before.ready) == (0, 0)
