"""Workers that die or are stopped at random times cost nothing but time; `make chaos` runs 200 seeds."""

from __future__ import annotations

import pytest

from framefeed.parallel import _child
from tests.parallel.chaos import run_seed


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_L04_D06_D07_kills_stops_and_crashes_lose_no_item(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_child, "LIVENESS_SECONDS", 0.05)
    run_seed(seed, deadline_seconds=2.0)
