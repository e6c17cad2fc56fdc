"""Workers that die or are stopped at random times cost nothing but time; `make chaos` runs 200 seeds."""

from __future__ import annotations

import pytest

from tests.parallel.chaos import run_seed

SHORT = (0, 2, 3, 7, 9)
"""Every signal, from both sides, once and twice; a call that hangs; one worker and more."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[] if seed in SHORT else pytest.mark.test_all) for seed in range(10)]
)
def test_L04_D06_D07_kills_stops_and_crashes_lose_no_item(seed: int) -> None:
    run_seed(seed)
