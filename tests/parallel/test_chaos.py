"""Workers that die or are stopped at random times cost nothing but time; `make chaos` runs 200 seeds."""

from __future__ import annotations

import pytest

from tests.parallel.chaos import run_seed


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_L04_D06_D07_kills_stops_and_crashes_lose_no_item(seed: int) -> None:
    run_seed(seed)
