"""Bounds of requests against the oracle: a clip never has a frame outside of them."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from fractions import Fraction
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import framefeed as ff
from framefeed.errors import FrameNotFound, UsageError
from framefeed.index import FrameIndex, Timeline
from framefeed.request import Bounds, Picking
from framefeed.testing import ClipSpec
from tests.corpus import clip_file
from tests.fakes import index_of
from tests.plan import oracle
from tests.plan.test_rules import PICKS, POLICIES, TOLERANCES, Outcome, catch_outcome
from tests.plan.timelines import clock, indexes

BEFORES = st.sampled_from(["repeat_first", "error"])
STEP = 0.04


@st.composite
def cases(draw: st.DrawFn) -> tuple[FrameIndex, float, float, list[float]]:
    """An index, bounds with NaN for none, and wanted times, all counted from the first frame."""
    index = draw(indexes())
    times = clock(index).times
    near = st.sampled_from([float(time - times[0]) for time in times] + [float(clock(index).end - times[0])])
    nudged = st.tuples(near, st.sampled_from([0.0, -0.5, -1e-3, 1e-3, 0.25])).map(sum)
    # Bounds and times are from a few, so that they are often the same, and often between the same frames.
    pool = draw(st.lists(nudged, min_size=2, max_size=4))
    start, end = (draw(st.just(nan) | st.sampled_from(pool)) for _ in range(2))
    return index, start, end, draw(st.lists(st.sampled_from(pool) | nudged, min_size=1, max_size=6))


def expect(
    index: FrameIndex, start: float, end: float, wanted: Sequence[float] | Sequence[int], picking: Picking, before: str
) -> Outcome:
    """What the words of the reference say, frame by frame."""
    whole = clock(index)
    zero = whole.times[0]

    def mean(seconds: float) -> Fraction:
        return oracle.meant(whole, zero + Fraction(seconds))

    low = None if isnan(start) else mean(start)
    high = whole.end if isnan(end) else min(whole.end, mean(end))
    own = [i for i, time in enumerate(whole.times) if (low is None or time >= low) and (isnan(end) or time < mean(end))]
    if not own:
        return None
    following = [*whole.times, whole.end][own[-1] + 1]
    part = oracle.Clock([whole.times[i] for i in own], following)
    frames: list[int | None] = []
    errors: list[float | None] = []
    is_front: list[bool] = []
    try:
        for each in wanted:
            if isinstance(each, int):
                number = each + len(whole.times) if each < 0 else each
                if number < 0:
                    return None
                is_front.append(number < own[0])
                inside = own[0] <= number <= own[-1]
                frames.append(number - own[0] if inside else None)
                errors.append(0.0 if inside else None)
                continue
            time = mean(each)
            early = low is not None and time < low
            early |= picking.pick in ("played", "previous") and time < part.times[0]
            is_front.append(early)
            if early or time >= min(high, following):
                frames.append(None)
                errors.append(None)
                continue
            found = oracle.pick(part, time, picking.pick)
            error = float(part.times[found] - time)
            if picking.tolerance_seconds is not None and abs(error) > picking.tolerance_seconds:
                return None
            frames.append(found)
            errors.append(error)
        if before == "error" and any(is_front):
            return None
        rest = [frame for frame, early in zip(frames, is_front, strict=True) if not early]
        filled = iter(oracle.fill(rest, picking.policy, len(own)) if rest else [])
    except oracle.NoFrame:
        return None
    ordinals = [own[0] if early else own[0] + next(filled) for early in is_front]
    return ordinals, [frame is not None for frame in frames], errors


@given(cases(), PICKS, TOLERANCES, POLICIES, BEFORES)
def test_times_outside_of_bounds_are_never_delivered(
    case: tuple[FrameIndex, float, float, list[float]],
    pick: Any,
    tolerance: float | None,
    policy: Any,
    before: Any,
) -> None:
    index, start, end, wanted = case
    picking, segments = Picking(pick, tolerance, policy), np.zeros(len(wanted), np.int64)
    bounds = Bounds(start, end, before)
    actual = catch_outcome(lambda: bounds.choose_seconds(Timeline.whole(index), np.array(wanted), segments, picking))
    assert actual == expect(index, start, end, wanted, picking, before)


@given(cases(), st.lists(st.integers(-35, 35), min_size=1, max_size=6), POLICIES, BEFORES)
def test_numbers_outside_of_bounds_are_never_delivered(
    case: tuple[FrameIndex, float, float, list[float]], numbers: list[int], policy: Any, before: Any
) -> None:
    index, start, end, _ = case
    picking, segments = Picking(policy=policy), np.zeros(len(numbers), np.int64)
    bounds = Bounds(start, end, before)
    actual = catch_outcome(lambda: bounds.choose_numbers(Timeline.whole(index), np.array(numbers), segments, picking))
    assert actual == expect(index, start, end, numbers, picking, before)


def episodes() -> Path:
    """Two episodes in one video: frames 0 to 9, and 10 to 19."""
    return clip_file("bounded.mp4", ClipSpec(num_frames=20, fps=25))


def choose(*requests: ff.DecodeRequest, **options: Any) -> list[tuple[list[int], list[bool]]]:
    return [(each.indices.tolist(), each.valid.tolist()) for each in ff.plan_requests(requests, **options)]


def test_a_clip_never_shows_another_episode() -> None:
    request = ff.DecodeRequest(episodes(), seconds=[0.36, 0.4, 0.44, 0.76, 0.8])
    expected = [([10, 10, 11, 19, 19], [False, True, True, True, False])]
    assert choose(request, within=(0.4, None)) == expected
    expected = [([9, 9, 9, 9, 9], [True, False, False, False, False])]
    assert choose(request, within=(None, 0.4)) == expected
    numbers = ff.DecodeRequest(episodes(), [8, 9, 10, -1, 11])
    assert choose(numbers, within=(0.4, 0.48)) == [([10, 10, 10, 10, 11], [False, False, True, False, True])]


def test_bounds_of_the_request_are_those_of_the_plan() -> None:
    times = [0.2, 0.36, 0.4, 0.6]
    bounds: list[Any] = [(0.32, 0.5), None, (None, 0.3), (0.3, None)]
    own = [
        ff.DecodeRequest(episodes(), seconds=times, start_seconds=start, end_seconds=end)
        for start, end in (pair or (None, None) for pair in bounds)
    ]
    plain = [ff.DecodeRequest(episodes(), seconds=times)] * 4
    assert choose(*own) == choose(*plain, within=bounds)
    assert choose(*own)[1] == choose(plain[1])[0]
    arrays = np.array([(0.1, 0.5)] * 4)
    assert choose(*plain, within=arrays) == choose(*plain, within=(0.1, 0.5))


def test_bounds_are_part_of_a_request_and_of_a_state() -> None:
    one = ff.DecodeRequest(episodes(), [1, 2], start_seconds=0.1)
    other = ff.DecodeRequest(episodes(), [1, 2])
    assert one != other
    again = pickle.loads(pickle.dumps(one))
    assert again == one
    assert (again.start_seconds, again.end_seconds) == (0.1, None)
    plans = [
        ff.plan_requests([other]),
        ff.plan_requests([one]),
        ff.plan_requests([one], before="error"),
        ff.plan_requests([other], within=(0.1, 0.4)),
    ]
    assert len({plan.fingerprint for plan in plans}) == 4
    travelled = pickle.loads(pickle.dumps(plans[1]))
    assert travelled[0] == plans[1][0]
    assert travelled.fingerprint == plans[1].fingerprint


def test_before_and_policy_may_be_errors() -> None:
    request = ff.DecodeRequest(episodes(), seconds=[0.2, 0.6])
    plan = ff.plan_requests([request], within=(0.4, None), before="error")
    with pytest.raises(FrameNotFound, match=r"the wanted time 0\.200000 s lies before its bounds from 0\.4 s"):
        plan[0]
    plan = ff.plan_requests([request], within=(None, 0.4), policy="error")
    with pytest.raises(FrameNotFound, match=r"0\.600000 s lies past the end of its bounds .* \(frames 0 to 9\)"):
        plan[0]
    plan = ff.plan_requests([ff.DecodeRequest(episodes(), [9, 10])], within=(None, 0.4), policy="error")
    with pytest.raises(FrameNotFound, match=r"frame 10 lies past the end of its bounds .* \(frames 0 to 9\)"):
        plan[0]
    plan = ff.plan_requests([request], within=(5, 6))
    with pytest.raises(FrameNotFound, match="no frame in the window"):
        plan[0]


@pytest.mark.parametrize(
    ("within", "message"),
    [
        (0.5, r"within: expected \(start, end\)"),
        ("ab", r"within: expected \(start, end\)"),
        (("start_seconds", "end_seconds"), r"within: expected one \(start, end\) per request \(1\), got 2"),
        ([("a", "b")], r"within\[0\]: expected"),
        ((1.0, 0.5), "expected an end after the start"),
        ((0.5, 0.5), "expected an end after the start"),
        ((nan, 0.5), "each a finite number or None"),
        ((0, float("inf")), "each a finite number or None"),
        ([(0, 1), (0, 1)], r"per request \(1\), got 2"),
    ],
)
def test_wrong_bounds_are_refused(within: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ff.plan_requests([ff.DecodeRequest(episodes(), [0])], within=within)


def test_bounds_in_two_places_are_refused() -> None:
    request = ff.DecodeRequest(episodes(), [0], end_seconds=1.0)
    with pytest.raises(UsageError, match="in one of the two places"):
        ff.plan_requests([request], within=(0, 1))
    with pytest.raises(UsageError, match="an end after the start"):
        ff.DecodeRequest(episodes(), [0], start_seconds=2, end_seconds=1)
    with pytest.raises(UsageError, match="before"):
        ff.plan_requests([ff.DecodeRequest(episodes(), [0])], before="wrap")  # type: ignore[arg-type]


def test_the_last_frame_in_the_bounds_ends_with_them() -> None:
    whole = Timeline.whole(index_of([0, 1000, 5000], duration=1000))
    wanted = np.array([1.5, 1.999, 2.0, 3.0])
    chosen = Bounds(nan, 2.0).choose_seconds(whole, wanted, np.zeros(4, np.int64), Picking())
    assert chosen.ordinals.tolist() == [1, 1, 1, 1]
    assert chosen.valid.tolist() == [True, True, False, False]
