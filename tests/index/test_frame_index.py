from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ulp

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from framefeed._values import MISSING_PTS
from framefeed.errors import FrameNotFound, TimeUnavailable, UsageError
from framefeed.index._frame_index import FrameIndex, Timeline, read_seconds
from tests.fakes import index_of, steady_index
from tests.lengths import either
from tests.plan import oracle
from tests.plan.timelines import clock, indexes, stream_seconds

PICKS = ["played", "nearest", "previous", "next"]
LookUp = Callable[[FrameIndex, float | Fraction, str], int]


def found_by(look_up: LookUp, index: FrameIndex, seconds: float | Fraction, pick: str) -> int | None:
    try:
        return look_up(index, seconds, pick)
    except FrameNotFound:
        return None


def expected(index: FrameIndex, seconds: float | Fraction, pick: str) -> int | None:
    try:
        return oracle.index_at(clock(index), Fraction(seconds), pick)
    except oracle.NoFrame:
        return None


def check_look_up(look_up: LookUp, index: FrameIndex, seconds: float | Fraction, pick: str) -> None:
    assert found_by(look_up, index, seconds, pick) == expected(index, seconds, pick)


def ours(index: FrameIndex, seconds: float | Fraction, pick: str) -> int:
    return index.index_at(seconds, pick=pick)


@pytest.mark.long
@given(st.data(), indexes(may_be_far=True), st.sampled_from(PICKS))
@settings(max_examples=either(short=100, long=400))
def test_M02_index_at_is_brute_force_over_all_pts(data: st.DataObject, index: FrameIndex, pick: str) -> None:
    check_look_up(ours, index, data.draw(stream_seconds(index)), pick)


@given(st.data(), indexes(may_be_far=True))
@settings(max_examples=200)
def test_M02_the_frames_before_a_time_are_counted_one_by_one(data: st.DataObject, index: FrameIndex) -> None:
    seconds = data.draw(stream_seconds(index))
    time = oracle.meant(clock(index), Fraction(seconds))
    before = sum(own < time for own in clock(index).times)
    assert Timeline.whole(index).count_before(seconds, origin=0) == before  # type: ignore[arg-type]


@given(st.data(), indexes(may_be_far=True), st.sampled_from(PICKS), st.sampled_from([0.0, 1e-6, 0.001, 0.3]))
@settings(max_examples=200)
def test_tolerance_is_of_the_distance_that_a_user_sees(
    data: st.DataObject, index: FrameIndex, pick: str, tolerance: float
) -> None:
    seconds = data.draw(stream_seconds(index))
    try:
        expected_frame: int | None = oracle.index_at(clock(index), Fraction(seconds), pick, tolerance)
    except oracle.NoFrame:
        expected_frame = None
    try:
        picked: int | None = index.index_at(seconds, pick=pick, tolerance_seconds=tolerance)
    except FrameNotFound:
        picked = None
    assert picked == expected_frame


def test_an_error_equal_to_the_tolerance_is_allowed() -> None:
    assert index_of([0, 1000]).index_at(0.3, tolerance_seconds=0.3) == 0


@pytest.mark.parametrize("pick", PICKS)
def test_M24_float_of_the_exact_time_is_that_frame(pick: str) -> None:
    index = index_of([k * 1001 for k in range(100_000)], time_base=Fraction(1, 30_000), duration=1001)
    asked = np.arange(0, 100_000, 7)
    seconds = np.array([float(Fraction(k * 1001, 30_000)) for k in asked.tolist()])
    assert np.array_equal(index.index_at(seconds, pick=pick), asked)
    assert np.allclose(index.pts_seconds[asked], seconds, rtol=0, atol=0)


def test_M24_a_second_within_a_nanosecond_means_the_frame() -> None:
    index = index_of([0, 40, 80])
    assert index.index_at(0.04 - 0.9e-9) == 1
    assert index.index_at(0.04 - 1.1e-9) == 0
    assert index.index_at(Fraction(40, 1000) + Fraction(1, 10**9), pick="next") == 1
    assert index.index_at(Fraction(40, 1000) + Fraction(11, 10**10), pick="next") == 2


def test_M24_a_time_that_was_printed_with_six_decimals_is_compared_as_it_is() -> None:
    index = index_of([round(k * 30_000 * Fraction(1001, 30_000)) for k in range(200)], time_base=Fraction(1, 30_000))
    exact = Fraction(181 * 1001, 30_000)
    assert (float(f"{float(exact):.6f}"), round(float(exact), 7)) == (6.039367, 6.0393667)
    assert index.index_at(6.039366) == 180
    assert index.index_at(6.039366, pick="nearest") == index.index_at(float(exact)) == 181


def test_M24_a_float32_is_widened_and_not_repaired() -> None:
    index = index_of([k * 1001 for k in range(200)], time_base=Fraction(1, 30_000))
    exact = [Fraction(k * 1001, 30_000) for k in range(200)]
    picked = index.index_at(np.array([float(time) for time in exact], dtype=np.float32))
    widened = [Fraction(float(np.float32(float(time)))) for time in exact]
    near = Fraction(1, 10**9)
    assert picked.tolist() == [
        k - (time - given > near) for k, (time, given) in enumerate(zip(exact, widened, strict=True))
    ]
    assert 0 < np.count_nonzero(picked < np.arange(200)) < 200


@pytest.mark.parametrize("start", [1_700_000_000, -1_700_000_000, 2**33])
def test_M24_far_from_zero_a_second_within_one_place_of_its_float_means_the_frame(start: int) -> None:
    index = index_of([start * 10**9 + k * 33_366_667 for k in range(100)], time_base=Fraction(1, 10**9))
    exact = [Fraction(ticks, 10**9) for ticks in index.pts.tolist()]
    assert index.index_at(index.pts_seconds).tolist() == list(range(100))
    below = index.pts_seconds
    for _ in range(3):
        below = np.nextafter(below, -np.inf)
        near = [
            time - Fraction(given) <= Fraction(ulp(given)) for time, given in zip(exact, below.tolist(), strict=True)
        ]
        meant = [k if is_near else k - 1 for k, is_near in enumerate(near)]
        assert index.index_at(below[1:]).tolist() == meant[1:]
    assert not any(near)


@given(st.lists(st.integers(1, 2**40), min_size=1, max_size=20), st.integers(-(2**62), 2**61), st.fractions(0, 9))
def test_M24_the_seconds_of_a_frame_are_its_pts_rounded_once(steps: list[int], start: int, base: Fraction) -> None:
    pts = np.cumsum([start, *steps])
    index = index_of(pts.tolist(), time_base=base + Fraction(1, 90_000))
    exact = [int(ticks) * index.time_base for ticks in pts]
    assert index.pts_seconds.tolist() == [float(time) for time in exact]
    for frame, seconds in enumerate(index.pts_seconds.tolist()):
        if index.pts_seconds.tolist().count(seconds) == 1:
            nearest = min(range(len(exact)), key=lambda k: abs(exact[k] - Fraction(seconds)))
            assert index.index_at(seconds, pick="previous") == nearest == frame


@given(
    st.lists(st.one_of(st.integers(0, 90_000), st.integers(2**53, 2**54), st.just(MISSING_PTS)), min_size=1),
    st.fractions(Fraction(1, 10**6), 10),
    st.data(),
)
def test_seconds_of_frames_are_those_of_their_pts(pts: list[int], base: Fraction, data: st.DataObject) -> None:
    index = index_of(pts, time_base=base)
    ordinals = np.array(data.draw(st.lists(st.integers(0, len(pts) - 1))), np.int64)
    seconds = read_seconds(index, ordinals)
    assert seconds.dtype == np.float64
    assert np.array_equal(seconds, index.to_seconds(index.pts[ordinals]), equal_nan=True)


def test_M24_of_frames_closer_than_a_nanosecond_the_nearest_is_meant() -> None:
    index = index_of(range(10), time_base=Fraction(1, 10**10))
    assert index.index_at(Fraction(34, 10**11)) == 3
    assert index.index_at(Fraction(36, 10**11)) == 4


def test_M16_one_frame_lasts_its_duration_or_one_tick() -> None:
    known, unknown = index_of([500], duration=40), index_of([500])
    assert (known.end_pts, unknown.end_pts) == (540, 501)
    assert known.index_at(0.539) == 0
    assert known.average_fps is None
    with pytest.raises(FrameNotFound):
        known.index_at(0.54)
    with pytest.raises(FrameNotFound):
        known.index_at(0.499)


def test_the_last_frame_ends_after_the_median_step_where_its_duration_is_unknown() -> None:
    index = index_of([0, 10, 20, 100, 110])
    assert index.end_pts == 120
    assert index.index_at(0.1199) == 4
    with pytest.raises(FrameNotFound, match=r"0\.120000.*the end is not included"):
        index.index_at(Fraction(12, 100))


@pytest.mark.parametrize("fps", [Fraction(30_000, 1001), Fraction(24_000, 1001), Fraction(60_000, 1001), 25, 30, 48])
def test_a_constant_rate_in_milliseconds_is_no_variable_rate(fps: Fraction | int) -> None:
    """Matroska rounds times to milliseconds: 29.97 frames a second are steps of 33 and 34."""
    pts = [round(1000 * frame / Fraction(fps)) for frame in range(300)]
    assert not index_of(pts).is_variable_frame_rate
    assert index_of([*pts[:100], *(time + 2 for time in pts[100:])]).is_variable_frame_rate
    assert not index_of([time * 90 for time in range(0, 4000, 40)]).is_variable_frame_rate


def test_previous_and_nearest_have_no_end_and_next_has_no_start() -> None:
    index = index_of([1000, 2000])
    assert index.index_at(1e9, pick="previous") == 1
    assert index.index_at(1e300, pick="nearest") == 1
    assert index.index_at(-1e300, pick="next") == 0
    assert index.index_at(-5.0, pick="nearest") == 0
    for pick, seconds in [("previous", 0.5), ("played", 0.5), ("next", 2.5)]:
        with pytest.raises(FrameNotFound, match=pick):
            index.index_at(seconds, pick=pick)


def test_of_duplicates_played_takes_the_last_and_nearest_the_first() -> None:
    index = index_of([0, 40, 40, 40, 80])
    assert [index.index_at(0.04, pick=pick) for pick in PICKS] == [3, 1, 3, 1]
    assert index.index_at(0.05, pick="nearest") == 1
    assert index.index_at(Fraction(2, 100), pick="nearest") == 0


def test_arrays_keep_their_shape() -> None:
    index = steady_index(10)
    picked = index.index_at([[0.0, 0.05], [0.36, 0.2]])
    assert picked.dtype == np.int64
    assert picked.tolist() == [[0, 1], [9, 5]]
    assert index.index_at([]).shape == (0,)
    assert type(index.index_at(np.float32(0.04))) is int


@pytest.mark.parametrize("pts", [[0, MISSING_PTS, 2], [MISSING_PTS], [0, 5, 4]])
def test_unusable_timestamps_are_not_guessed(pts: list[int]) -> None:
    index = index_of(pts)
    assert not index.has_timestamps
    with pytest.raises(TimeUnavailable, match="by number instead of by time"):
        index.index_at(0.0)


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), [0.0, float("nan")]])
def test_a_time_must_be_finite(seconds: object) -> None:
    with pytest.raises(UsageError, match="finite"):
        steady_index(3).index_at(seconds)


def test_an_unknown_pick_lists_the_known() -> None:
    with pytest.raises(UsageError, match="'played', 'nearest', 'previous' or 'next'"):
        steady_index(3).index_at(0.0, pick="best")


# --- the same law over look-ups that are known to be wrong -------------------------------------------


def by_frame_rate(index: FrameIndex, seconds: float | Fraction, pick: str) -> int:
    since_first = float(seconds - int(index.pts[0]) * index.time_base)
    return min(len(index) - 1, max(0, round(since_first * (index.average_fps or 1))))


def with_inclusive_end(index: FrameIndex, seconds: float | Fraction, pick: str) -> int:
    end = index.end_pts * index.time_base
    return len(index) - 1 if seconds == end and pick == "played" else index.index_at(seconds, pick=pick)


def in_floats(index: FrameIndex, seconds: float | Fraction, pick: str) -> int:
    if pick != "played" or seconds >= float(index.end_pts * index.time_base):
        return index.index_at(seconds, pick=pick)
    picked = int(np.searchsorted(index.pts_seconds, float(seconds), side="right")) - 1
    if picked < 0:
        raise FrameNotFound
    return picked


@pytest.mark.parametrize("wrong", [by_frame_rate, with_inclusive_end, in_floats])
def test_the_law_catches(wrong: LookUp) -> None:
    @given(st.data(), indexes(), st.just("played"))
    @settings(max_examples=400, database=None, phases=[Phase.generate])
    def law(data: st.DataObject, index: FrameIndex, pick: str) -> None:
        check_look_up(wrong, index, data.draw(stream_seconds(index)), pick)

    with pytest.raises(AssertionError):
        law()
