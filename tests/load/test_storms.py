"""Worker processes that die or are stopped at random times cost a run nothing but time; `make chaos` runs 200 seeds."""

from __future__ import annotations

import pytest

from tests.load.storms import FAULTS, SIGNALS, Storm, run_seed
from tests.parallel.living import check_workers_often

SEEDS = (2, 3, 5, 8, 9, 10, 13, 14, 19)
"""Of the first twenty, which take a minute of processor time: these are half of it, and draw all that can happen."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_L04_D06_D07_kills_stops_and_crashes_change_no_batch(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_workers_often(monkeypatch)
    run_seed(seed)


def test_the_seeds_draw_all_that_can_happen() -> None:
    storms = [Storm.draw(seed) for seed in SEEDS]
    assert {storm.fate for storm in storms} == {*FAULTS, None}
    assert {name for storm in storms for name in storm.strikes.values()} == set(SIGNALS)
    assert {len(storm.strikes) for storm in storms} == {0, 1, 2}
    left = [storm for storm in storms if storm.leave_after is not None]
    assert {name for storm in left for name in storm.strikes.values()} == set(SIGNALS)
    assert {storm.fate is None for storm in left} == {True, False}
    assert len(left) < len(storms)
    for name in ("workers", "prefetch"):
        assert {storm.options[name] for storm in storms if storm.strikes} == {1, 2, 3}
    assert {storm.options["transform"] is None for storm in storms} == {True, False}
