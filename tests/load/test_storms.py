"""Worker processes that die or are stopped at random times cost a run nothing but time; `make chaos` runs 200 seeds."""

from __future__ import annotations

import pytest

from tests.load.storms import run_seed
from tests.parallel.living import check_workers_often


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_L04_D06_D07_kills_stops_and_crashes_change_no_batch(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_workers_often(monkeypatch)
    run_seed(seed)
