"""ClipLoader over real media: every delivered frame says that it is the planned one."""

from __future__ import annotations

import pytest

from framefeed.load import ClipLoader
from tests.load.media import assert_stamps, plan_of


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_every_frame_is_the_planned_one(workers: int) -> None:
    with ClipLoader(plan_of(), batch_size=5, workers=workers) as loader:
        position = 0
        for batch in loader:
            for place in range(len(batch)):
                assert_stamps(loader.plan, position, batch.data[place])
                position += 1
        assert position == len(plan_of())
