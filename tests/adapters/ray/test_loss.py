"""A node that is lost in the middle of an epoch: each row comes once, in order, with the bytes of one process."""

from __future__ import annotations

import numpy as np
import pytest

from framefeed.load import ClipLoader
from tests.adapters.ray.chaos import make_plan, read_and_lose
from tests.adapters.ray.conftest import Nodes


@pytest.mark.parametrize("seed", [0, 1])
def test_a_node_that_is_lost_costs_no_row(nodes: Nodes, seed: int) -> None:
    plan = make_plan()
    with ClipLoader(plan, batch_size=len(plan), workers=0) as loader:
        (expected,) = loader
    positions, clips = read_and_lose(plan, nodes, seed)
    assert positions == list(range(len(plan)))
    assert np.array_equal(clips, expected.data)
