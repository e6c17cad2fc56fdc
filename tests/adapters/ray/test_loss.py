"""A node that is lost in the middle of an epoch: each row comes once, in order, with the bytes of one process."""

from __future__ import annotations

import numpy as np

from framefeed.load import ClipLoader
from tests.adapters.ray.chaos import make_plan, read_and_lose
from tests.adapters.ray.conftest import Nodes


def test_a_node_that_is_lost_costs_no_row(nodes: Nodes) -> None:
    plan = make_plan()
    with ClipLoader(plan, batch_size=len(plan), workers=0) as loader:
        (expected,) = loader
    positions, clips = read_and_lose(plan, nodes, seed=0)
    assert positions == list(range(len(plan)))
    assert np.array_equal(clips, expected.data)
