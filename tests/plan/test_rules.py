"""The clip rules against the oracle, on random timelines with variable rates and duplicates."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import isnan, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from framefeed._values import MISSING_PTS
from framefeed.errors import FrameNotFound, TimeUnavailable, UsageError
from framefeed.index import FrameIndex, Timeline
from framefeed.plan._rules import AtIndices, AtSeconds, ClipRule, Dense, EveryFrame, RandomSegments, Rates, Uniform
from framefeed.request import ClipContext, ClipFrames
from tests.fakes import index_of, steady_index
from tests.plan import oracle
from tests.plan.timelines import clock, indexes

PICKS = st.sampled_from(["played", "nearest", "previous", "next"])
POLICIES = st.sampled_from(["repeat_last", "wrap", "error"])
TOLERANCES = st.sampled_from([None, None, 0.0, 0.001, 0.05])
FPS = st.sampled_from([1, 2, 8, 29.97, Fraction(30_000, 1001), 0.5, 1000, 60])

Outcome = tuple[list[int], list[bool], list[float | None]] | None


def catch_outcome(choose: Callable[[], ClipFrames]) -> Outcome:
    """(frames, valid, errors), or None for FrameNotFound."""
    try:
        chosen = choose()
    except FrameNotFound:
        return None
    errors = [None if isnan(error) else error for error in chosen.errors.tolist()]
    return chosen.ordinals.tolist(), chosen.valid.tolist(), errors


def fill_oracle(picked: Sequence[oracle.Picked], policy: str, count: int) -> Outcome:
    frames = [frame for frame, _ in picked]
    filled = oracle.fill(frames, policy, count)
    return filled, [frame is not None for frame in frames], [error for _, error in picked]


def choose_by_times(index: FrameIndex, stream_seconds: Sequence[Fraction], rule: Any) -> Outcome:
    try:
        picked = oracle.pick_clip(clock(index), stream_seconds, rule.pick, rule.tolerance_seconds)
        return fill_oracle(picked, rule.policy, len(index))
    except oracle.NoFrame:
        return None


def choose_by_numbers(index: FrameIndex, numbers: Sequence[int], policy: str) -> Outcome:
    count = len(index)
    numbers = [number + count if number < 0 else number for number in numbers]
    try:
        if min(numbers) < 0:
            return None
        return fill_oracle([(i, 0.0) if i < count else (None, None) for i in numbers], policy, count)
    except oracle.NoFrame:
        return None


def choose_with(rule: ClipRule, index: FrameIndex, context: ClipContext | None = None) -> Outcome:
    return catch_outcome(lambda: rule.choose(Timeline.whole(index), context or ClipContext(1, 2, 3)))


# --- rules without chance -----------------------------------------------------------------------------


@given(indexes(), st.integers(1, 40))
def test_uniform_takes_the_middles_of_equal_parts(index: FrameIndex, num_frames: int) -> None:
    numbers = [int((Fraction(k) + Fraction(1, 2)) * len(index) / num_frames) for k in range(num_frames)]
    assert choose_with(Uniform(num_frames), index) == choose_by_numbers(index, numbers, "error")


@given(indexes(), st.lists(st.integers(-8, 40), min_size=1, max_size=8), POLICIES)
def test_at_indices(index: FrameIndex, indices: list[int], policy: str) -> None:
    assert choose_with(AtIndices(indices, policy=policy), index) == choose_by_numbers(index, indices, policy)


@given(st.data(), indexes(), PICKS, TOLERANCES, POLICIES)
@settings(max_examples=300)
def test_M02_at_seconds(data: st.DataObject, index: FrameIndex, pick: str, tolerance: Any, policy: str) -> None:
    times, end = clock(index).times, clock(index).end
    near = st.sampled_from([time - times[0] for time in [*times, end]])
    nudges = st.sampled_from([Fraction(n, 10**10) for n in (0, 9, -11, 9_000)])
    exact = st.builds(lambda base, nudge: base + nudge, near, nudges)
    seconds = data.draw(st.lists(exact | exact.map(float) | st.floats(-0.1, 20), min_size=1, max_size=6))
    rule = AtSeconds(seconds, pick=pick, tolerance_seconds=tolerance, policy=policy)
    wanted = [times[0] + Fraction(second) for second in seconds]
    assert choose_with(rule, index) == choose_by_times(index, wanted, rule)


RATES = st.lists(st.tuples(FPS, st.integers(1, 5)), min_size=1, max_size=3)


@given(st.data(), indexes(), RATES, PICKS, TOLERANCES, POLICIES)
@settings(max_examples=300)
def test_M02_rates_from_a_start(
    data: st.DataObject, index: FrameIndex, rates: Any, pick: str, tolerance: Any, policy: str
) -> None:
    start = data.draw(starts(index))
    rule = Rates(rates, start=start, pick=pick, tolerance_seconds=tolerance, policy=policy)
    assert choose_with(rule, index) == choose_by_times(index, rate_times(rates, compute_start(index, start)), rule)


def starts(index: FrameIndex) -> st.SearchStrategy[Any]:
    times = clock(index).times
    at_frames = st.sampled_from([time - times[0] for time in times])
    return st.sampled_from([0, 0.25, 2.5]) | at_frames | at_frames.map(float)


def compute_start(index: FrameIndex, start: Any) -> Fraction:
    return oracle.meant(clock(index), clock(index).times[0] + Fraction(start))


def rate_times(rates: Sequence[tuple[Any, int]], start: Fraction) -> list[Fraction]:
    times = []
    for fps, count in rates:
        times += [start + k / Fraction(fps) for k in range(count)]
        start += Fraction(count) / Fraction(fps)
    return times


@given(indexes(), st.integers(1, 8), FPS, st.sampled_from([0, 0.0, Fraction(1, 3), 2.5]), PICKS, POLICIES)
def test_dense_by_time_from_a_start(
    index: FrameIndex, num_frames: int, fps: Any, start: Any, pick: str, policy: str
) -> None:
    rule = Dense(num_frames, fps=fps, start=start, pick=pick, policy=policy)
    wanted = rate_times([(fps, num_frames)], compute_start(index, start))
    assert choose_with(rule, index) == choose_by_times(index, wanted, rule)


@given(indexes(), st.integers(1, 8), st.integers(1, 5), st.sampled_from([0, 0.5, Fraction(1, 3)]), PICKS, POLICIES)
def test_dense_by_stride_picks_its_start_by_time(
    index: FrameIndex, num_frames: int, stride: int, start: Any, pick: str, policy: str
) -> None:
    rule = Dense(num_frames, stride=stride, start=start, pick=pick, policy=policy)
    try:
        [(first, error)] = oracle.pick_clip(clock(index), [clock(index).times[0] + Fraction(start)], pick, None)
    except oracle.NoFrame:
        assert choose_with(rule, index) is None
        return
    first = len(index) if first is None else first
    expected = choose_by_numbers(index, [first + k * stride for k in range(num_frames)], policy)
    if expected is not None:
        expected[2][0] = error
    assert choose_with(rule, index) == expected


@pytest.mark.parametrize(
    ("pick", "first", "error"), [("played", 1, -0.5), ("nearest", 1, -0.5), ("previous", 1, -0.5), ("next", 2, 0.5)]
)
def test_a_start_between_two_frames_has_a_pick_error(pick: Any, first: int, error: float) -> None:
    rule = Dense(3, stride=2, start=1.5, pick=pick)
    frames = [first, first + 2, first + 4]
    assert choose_with(rule, steady_index(10, fps=1)) == (frames, [True] * 3, [error, 0.0, 0.0])


def test_rates_by_hand() -> None:
    # 60 frames a second, first pts 0.5 s: 2 frames at 1 FPS from 1 s on, then 3 at 4 FPS, then 1 at 0.5 FPS.
    index = steady_index(600, fps=60, start=30)
    chosen = Rates([(1, 2), (4, 3), (0.5, 1)], start=1).choose(Timeline.whole(index), ClipContext(0, 0, 0))
    assert chosen.ordinals.tolist() == [60, 120, 180, 195, 210, 225]
    assert chosen.segments.tolist() == [0, 0, 1, 1, 1, 2]
    assert chosen.errors.tolist() == [0.0] * 6
    assert chosen.valid.all()


def test_rates_by_hand_on_a_rate_that_does_not_divide() -> None:
    # Frame i of 29.97 FPS is at i * 1001 / 30000 s: 0.5 s lies in frame 14, 1.0 s in frame 29.
    index = index_of([i * 1001 for i in range(60)], time_base=Fraction(1, 30_000), duration=1001)
    chosen = Rates([(2, 4)], start=0).choose(Timeline.whole(index), ClipContext(0, 0, 0))
    assert chosen.ordinals.tolist() == [0, 14, 29, 44]
    errors = [Fraction(frame * 1001, 30_000) - Fraction(k, 2) for k, frame in enumerate([0, 14, 29, 44])]
    assert chosen.errors.tolist() == [float(error) for error in errors]
    nearest = Rates([(2, 4)], start=0, pick="nearest").choose(Timeline.whole(index), ClipContext(0, 0, 0))
    assert nearest.ordinals.tolist() == [0, 15, 30, 45]


def test_policies_by_hand() -> None:
    index = steady_index(10, fps=10)
    expected = {"repeat_last": [6, 8, 8, 8, 8], "wrap": [6, 8, 6, 8, 6]}
    for policy, frames in expected.items():
        for rule in (
            Dense(5, fps=5, start=0.6, policy=policy),
            Dense(5, stride=2, start=0.6, policy=policy),
            AtIndices([6, 8, 10, 12, 14], policy=policy),
        ):
            chosen = rule.choose(Timeline.whole(index), ClipContext(0, 0, 0))
            assert chosen.ordinals.tolist() == frames
            assert chosen.valid.tolist() == [True, True, False, False, False]
            assert np.isnan(chosen.errors).tolist() == [False, False, True, True, True]


def test_tolerance_is_not_applied_past_the_end() -> None:
    rule = AtSeconds([0.0, 99.0], tolerance_seconds=0.0)
    assert choose_with(rule, steady_index(5)) == ([0, 0], [True, False], [0.0, None])


@pytest.mark.parametrize("pick", ["played", "nearest", "previous", "next"])
def test_past_the_end_begins_at_the_last_frames_end_for_every_pick(pick: str) -> None:
    index = index_of([0, 100, 200], duration=50)
    at_end = AtSeconds([0.2, Fraction(1, 4)], pick=pick, policy="repeat_last")
    assert choose_with(at_end, index) == ([2, 2], [True, False], [0.0, None])
    assert choose_with(AtSeconds([0.24], pick=pick), index) == (
        None if pick == "next" else ([2], [True], [pytest.approx(-0.04)])
    )


def test_a_time_without_a_frame_is_named_by_its_value() -> None:
    index = steady_index(5)
    with pytest.raises(
        FrameNotFound, match=r"the wanted time -1\.000000 s .* \(number 2 of the clip's 2 times; .*\) has no"
    ):
        AtSeconds([0, -1]).choose(Timeline.whole(index), ClipContext(0, 0, 0))
    with pytest.raises(FrameNotFound, match=r"the wanted time 9\.000000 s .* \(number 1 of .*\) lies past the end"):
        AtSeconds([9], policy="error").choose(Timeline.whole(index), ClipContext(0, 0, 0))
    with pytest.raises(FrameNotFound, match=r"number 1 of the clip's 1 times; .*\) is 0.*away"):
        AtSeconds([0.01], tolerance_seconds=0.001).choose(Timeline.whole(index), ClipContext(0, 0, 0))


def test_a_clip_that_lies_past_the_end_as_a_whole() -> None:
    index = steady_index(5)
    for rule in (AtSeconds([9, 10]), Dense(2, stride=3, start=9), AtIndices([7, 8])):
        assert choose_with(rule, index) == ([4, 4], [False, False], [None, None])
    with pytest.raises(FrameNotFound, match="repeat_last"):
        AtSeconds([9], policy="wrap").choose(Timeline.whole(index), ClipContext(0, 0, 0))


def test_every_frame_of_a_timeline() -> None:
    index = steady_index(4)
    assert [choose_with(EveryFrame(), index, ClipContext(0, 0, 9, number)) for number in range(4)] == [
        ([number], [True], [0.0]) for number in range(4)
    ]


# --- rules with chance --------------------------------------------------------------------------------


def list_origins(index: FrameIndex, span: Fraction, pick: str) -> list[Fraction]:
    times, end = clock(index).times, clock(index).end
    if pick == "next":
        return [time for time in times if time + span <= times[-1]]
    return [time for time in times if time + span < end]


SHORT_RATES = st.lists(st.tuples(FPS, st.integers(1, 4)), min_size=1, max_size=2)


@given(indexes(), SHORT_RATES, PICKS, POLICIES, st.integers(0, 99))
@settings(max_examples=300)
def test_a_random_start_is_a_frame_from_which_the_clip_fits(
    index: FrameIndex, rates: Any, pick: str, policy: str, position: int
) -> None:
    rule = Rates(rates, pick=pick, policy=policy)
    offsets = rate_times(rates, Fraction(0))
    fitting = list_origins(index, offsets[-1], pick)
    origins = fitting or clock(index).times[:1]
    candidates = [choose_by_times(index, [origin + offset for offset in offsets], rule) for origin in origins]
    found = choose_with(rule, index, ClipContext(7, 0, position))
    assert found in candidates
    assert found is None or not fitting or all(found[1])


@given(indexes(), st.integers(1, 6), st.integers(1, 6), POLICIES, st.integers(0, 99))
def test_a_random_start_by_stride_fits(
    index: FrameIndex, num_frames: int, stride: int, policy: str, position: int
) -> None:
    starts = range(max(1, len(index) - (num_frames - 1) * stride))
    candidates = [choose_by_numbers(index, [start + k * stride for k in range(num_frames)], policy) for start in starts]
    assert (
        choose_with(Dense(num_frames, stride=stride, policy=policy), index, ClipContext(3, 1, position)) in candidates
    )


@given(st.integers(1, 60), st.integers(1, 12), st.integers(0, 99))
def test_random_segments_draw_one_frame_a_part(count: int, num_frames: int, position: int) -> None:
    chosen = RandomSegments(num_frames).choose(Timeline.whole(steady_index(count)), ClipContext(1, 1, position))
    for k, frame in enumerate(chosen.ordinals.tolist()):
        low, high = k * count // num_frames, (k + 1) * count // num_frames
        assert frame in range(low, max(high, low + 1))
    assert chosen.segments.tolist() == list(range(num_frames))


def measure_excess(counts: Counter[int], cells: int) -> float:
    """Distance from uniform in standard deviations of chi-square."""
    mean = sum(counts.values()) / cells
    chi_square = sum((counts.get(cell, 0) - mean) ** 2 / mean for cell in range(cells))
    return abs(chi_square - (cells - 1)) / sqrt(2 * (cells - 1))


@pytest.mark.parametrize(
    ("rule", "cells"),
    [
        (Dense(5, stride=2), 32),
        (Dense(5, fps=5), 20),
        (Rates([(1, 1), (2, 2)]), 3),
        (RandomSegments(1), 40),
    ],
)
def test_L11_starts_are_uniform_over_the_frames_that_fit(rule: ClipRule, cells: int) -> None:
    # 40 frames at 25 a second: five frames at 5 FPS span 0.8 s, which is 20 frames.
    timeline = Timeline.whole(steady_index(40))
    counts = Counter(int(rule.choose(timeline, ClipContext(17, 4, position)).ordinals[0]) for position in range(4000))
    assert set(counts) <= set(range(cells))
    assert measure_excess(counts, cells) < 4


def test_L11_the_draws_of_segments_are_independent() -> None:
    timeline = Timeline.whole(steady_index(8))
    pairs = Counter(
        int(first) * 4 + int(second) - 4
        for first, second in (
            RandomSegments(2).choose(timeline, ClipContext(5, 0, position)).ordinals for position in range(4000)
        )
    )
    assert measure_excess(pairs, 16) < 4


# --- streams, values ----------------------------------------------------------------------------------


@pytest.mark.parametrize("pts", [[MISSING_PTS] * 20, [5, 4, *range(18)]])
def test_without_timestamps_rules_by_index_work_and_rules_by_time_say_so(pts: list[int]) -> None:
    timeline = Timeline.whole(index_of(pts))
    for rule in (Uniform(4), RandomSegments(4), Dense(4, stride=2), Dense(4, stride=2, start=0), AtIndices([0, 3])):
        assert rule.choose(timeline, ClipContext(0, 0, 0)).valid.all()
    by_time = (Dense(4, fps=2), Rates([(1, 2)]), Rates([(1, 2)], start=0), AtSeconds([0]), Dense(2, stride=1, start=1))
    for timed in by_time:
        with pytest.raises(TimeUnavailable, match="by number instead of by time"):
            timed.choose(timeline, ClipContext(0, 0, 0))


RULES = [
    Uniform(4),
    RandomSegments(4, policy="wrap"),
    Dense(4),
    Dense(4, fps=Fraction(30_000, 1001), pick="nearest", tolerance_seconds=0.1),
    Rates([(1, 2), (2.5, 3)], start=1.5),
    AtIndices(np.array([1, 2])),
    AtSeconds([0.5, Fraction(1, 3)]),
    EveryFrame(),
]


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_rules_are_values(rule: ClipRule) -> None:
    copy = pickle.loads(pickle.dumps(rule))
    rule.choose(Timeline.whole(steady_index(50)), ClipContext(0, 0, 0))
    assert copy == rule
    assert hash(copy) == hash(rule)
    assert repr(copy) == repr(rule)
    with pytest.raises(AttributeError):
        rule.policy = "error"


WRONG_RULES: list[tuple[type, tuple[Any, ...], dict[str, Any]]] = [
    (Dense, (4,), {"stride": 2, "fps": 3}),
    (Dense, (4,), {"stride": 0}),
    (Dense, (4,), {"fps": 0}),
    (Dense, (4,), {"tolerance_seconds": -1}),
    (Rates, ([(1, 0)],), {}),
    (Rates, ([(-1, 3)],), {}),
    (Rates, ([1, 2],), {}),
    (Rates, ([(1, 2)],), {"start": float("inf")}),
    (AtIndices, ([True, False],), {}),
    (AtIndices, (np.array([True, False]),), {}),
]
"""Beside what tests/test_wrong_calls.py has."""


@pytest.mark.parametrize(("kind", "arguments", "options"), WRONG_RULES)
def test_a_wrong_rule_is_refused_when_it_is_made(
    kind: type, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        kind(*arguments, **options)


# --- the same law over rules that are known to be wrong -----------------------------------------------


class FpsArithmetic(Rates):
    """Frame numbers from round(seconds * average_fps)."""

    def choose(self, timeline: Timeline, context: ClipContext) -> ClipFrames:
        right = super().choose(timeline, context)
        fps = timeline.index.average_fps or 1.0
        wanted = [round(float(t) * fps) for t in rate_times(self.rates, Fraction(self.start))]
        return ClipFrames(np.clip(wanted, 0, len(timeline) - 1), right.errors, right.valid, right.segments)


class InclusiveEnd(Rates):
    """What is wanted just at the end is taken for the last frame."""

    def choose(self, timeline: Timeline, context: ClipContext) -> ClipFrames:
        right = super().choose(timeline, context)
        end = (timeline.end_pts - timeline.origin) * timeline.index.time_base
        at_end = np.array([t == end for t in rate_times(self.rates, Fraction(self.start))])
        return ClipFrames(right.ordinals, right.errors, right.valid | at_end, right.segments)


class VideosLastFrame(Rates):
    """Repeats the video's last frame instead of the clip's."""

    def choose(self, timeline: Timeline, context: ClipContext) -> ClipFrames:
        right = super().choose(timeline, context)
        return replace(right, ordinals=np.where(right.valid, right.ordinals, len(timeline) - 1))


@pytest.mark.parametrize("wrong", [FpsArithmetic, InclusiveEnd, VideosLastFrame])
def test_the_law_of_rates_catches(wrong: type[Rates]) -> None:
    @given(indexes(), st.sampled_from([1, 8, 25, 1000]), st.integers(1, 9))
    @settings(max_examples=400, database=None, phases=[Phase.generate])
    def law(index: FrameIndex, fps: int, num_frames: int) -> None:
        rule = wrong([(fps, num_frames)], start=0)
        wanted = rate_times(rule.rates, clock(index).times[0])
        assert choose_with(rule, index) == choose_by_times(index, wanted, rule)

    with pytest.raises(AssertionError):
        law()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Uniform(np.int64(4)), Uniform(4)),
        (Dense(np.int32(4), stride=np.int64(2)), Dense(4, stride=2)),
        (Dense(4, fps=8.0, start=1.0), Dense(4, fps=Fraction(8), start=1)),
        (Rates([(2.0, np.int64(3))], start=np.float64(0.5)), Rates(((2, 3),), start=0.5)),
        (AtSeconds(np.array([0.0, 1.5])), AtSeconds([0, 1.5])),
        (AtIndices(np.arange(3)), AtIndices((0, 1, 2))),
    ],
)
def test_rules_that_mean_the_same_read_alike(one: ClipRule, other: ClipRule) -> None:
    assert one == other
    assert repr(one) == repr(other)


def test_M24_every_float_of_an_exact_time_is_its_frame() -> None:
    index = index_of([7 + k * 1001 for k in range(100_000)], time_base=Fraction(1, 30_000), duration=1001)
    rule = AtSeconds([float(Fraction(k * 1001, 30_000)) for k in range(100_000)], tolerance_seconds=0.0)
    chosen = rule.choose(Timeline.whole(index), ClipContext(0, 0, 0))
    assert np.array_equal(chosen.ordinals, np.arange(100_000))
    assert not chosen.errors.any()


@pytest.mark.parametrize("start", ["rand", "", "0"])
@pytest.mark.parametrize("rule", [partial(Dense, 4), partial(Rates, [(1, 2)])], ids=["Dense", "Rates"])
def test_a_start_that_is_no_word_names_the_word(rule: Callable[[Any], Any], start: str) -> None:
    with pytest.raises(
        UsageError, match=f"start: expected 'random' or seconds from the first frame, got the string {start!r}"
    ):
        rule(start=start)
    for negative in (-1, -0.5, Fraction(-1, 3)):
        with pytest.raises(UsageError, match="start: expected seconds from the first frame, at least 0, got "):
            rule(start=negative)
