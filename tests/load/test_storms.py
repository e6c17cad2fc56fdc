"""Worker processes that die or are stopped at random times cost a run nothing but time; `make chaos` runs 200 seeds."""

from __future__ import annotations

import pytest

from tests.lengths import either
from tests.load.storms import run_seed
from tests.parallel.living import check_workers_often

SEEDS = either(
    short=(8, 10, *(pytest.param(seed, marks=pytest.mark.test_all) for seed in (14, 34))),
    long=(2, 5, 9, 10, 12, 14, 15, 19),
)
"""Every signal, and runs that are left and resumed; then faults of a file: test_process_faults.py has others."""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_L04_D06_D07_kills_stops_and_crashes_change_no_batch(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_workers_often(monkeypatch)
    run_seed(seed)
