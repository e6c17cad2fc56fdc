"""Ranges of seconds: whatever lies between the floats of start and stop, the frame shown at the start is in them."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from framefeed.decode._queries import find_frames_in_range
from framefeed.errors import FrameNotFound, UsageError
from framefeed.index import FrameIndex
from tests.fakes import index_of
from tests.lengths import either
from tests.plan.timelines import indexes, stream_seconds

NTSC = index_of([k * 1001 for k in range(300)], time_base=Fraction(1, 30_000), duration=1001)


def shown(index: FrameIndex, seconds: float) -> int | None:
    try:
        return index.index_at(seconds)
    except FrameNotFound:
        return None


@pytest.mark.long
@given(st.data(), indexes(may_be_far=True), st.integers(1, 3))
@settings(max_examples=either(short=100, long=400))
def test_M24_a_range_holds_the_frame_shown_at_its_start(data: st.DataObject, index: FrameIndex, positions: int) -> None:
    start = float(data.draw(stream_seconds(index)))
    near = start
    for _ in range(positions):
        near = math.nextafter(near, math.inf)
    stop = data.draw(
        st.sampled_from([near, start + 4e-10, start + 1e-9, start + 0.01]) | stream_seconds(index).map(float)
    )
    first = shown(index, start)
    assume(start < stop and first is not None)
    try:
        actual = find_frames_in_range(index, start, stop, "clip")
    except UsageError:
        assert stop > float(index.end_pts * index.time_base) or start < float(int(index.pts[0]) * index.time_base)
        return
    assert actual[0] == first
    assert actual.tolist() == list(range(actual[0], actual[-1] + 1))
    last = shown(index, stop)
    if last is not None:
        assert actual[-1] <= max(last, int(actual[0]))


@pytest.mark.parametrize("gap", [1e-10, 9e-10])
def test_M24_start_and_stop_that_mean_one_pts(gap: float) -> None:
    at = float(Fraction(10 * 1001, 30_000))
    assert find_frames_in_range(NTSC, at, at + gap, "clip").tolist() == [10]
    assert find_frames_in_range(NTSC, at - gap, at, "clip").tolist() == [10]
    assert find_frames_in_range(NTSC, at - 2e-9, at, "clip").tolist() == [9]
    assert find_frames_in_range(NTSC, at, at, "clip").tolist() == []
