"""Memory of any content has a pattern in all tests, also where it was used before and in worker processes."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np
import pytest

import framefeed as ff
from framefeed.decode import DecodeReport
from framefeed.parallel import LentMemory
from tests.fakes import FlatDecoder
from tests.makers import plan_of
from tests.poison import PATTERN


class IdleDecoder(FlatDecoder):
    """Wrong on purpose: writes nothing."""

    def decode(self, source: Any, index: Any, slots: Any) -> DecodeReport:
        return DecodeReport([None] * len(slots))


def do_nothing(clip: Any, rng: Any) -> Any:
    return clip


@pytest.mark.parametrize("transform", [None, do_nothing])
@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_a_decoder_that_writes_nothing_is_seen(kind: Literal["threads", "processes"], transform: Any) -> None:
    with ff.ClipLoader(
        plan_of(), batch_size=2, workers=1, kind=kind, backend=IdleDecoder(), transform=transform
    ) as loader:
        for _ in range(2):
            for batch in loader:
                assert (batch.data == PATTERN).all()
                batch.data[...] = 7  # of which the next epoch shows nothing


def test_new_arrays_have_the_pattern() -> None:
    assert (np.empty((3, 4), np.uint8) == PATTERN).all()
    assert np.empty((), np.uint16) == 0x0101 * PATTERN
    assert np.empty(2, object)[0] is None


def test_blocks_for_other_processes_have_the_pattern() -> None:
    block, descriptor = LentMemory().lend(10)
    os.close(descriptor)
    assert bytes(block[:10]) == bytes([PATTERN]) * 10
