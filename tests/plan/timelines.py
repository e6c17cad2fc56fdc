"""Random timelines for laws: any time base, variable rates, duplicates, any start, durations known or not."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

from framefeed.index import FrameIndex
from tests.fakes import index_of
from tests.plan.oracle import Clock, clock_of

TIME_BASES = [
    Fraction(1, 1000),
    Fraction(1, 90_000),
    Fraction(1001, 30_000),
    Fraction(1, 25),
    Fraction(1, 2_000_000),
    Fraction(1, 2 * 10**9),
]
FAR = Fraction(10**6, 7)
"""With it, times lie so far from zero that neighbouring floats are more than 1 ns apart."""


@st.composite
def indexes(draw: st.DrawFn, max_frames: int = 30, *, may_be_far: bool = False) -> FrameIndex:
    time_base = draw(st.sampled_from([*TIME_BASES, *([FAR] if may_be_far else [])]))
    scale = draw(st.sampled_from([1, 1, 7, 3000]))
    steps = draw(st.lists(st.integers(0, 6), max_size=max_frames - 1))
    pts = [draw(st.integers(-50, 200_000))]
    for step in steps:
        pts.append(pts[-1] + step * scale)
    duration = draw(st.sampled_from([0, 1, scale, 5 * scale]))
    return index_of(pts, time_base=time_base, duration=duration)


def clock(index: FrameIndex) -> Clock:
    return clock_of(index.pts.tolist(), index.duration.tolist(), index.time_base)


@st.composite
def stream_seconds(draw: st.DrawFn, index: FrameIndex) -> float | Fraction:
    """A time near a frame, near the end, between frames, or anywhere."""
    times = clock(index).times
    base = draw(st.sampled_from(times) | st.just(clock(index).end))
    nudge = draw(
        st.sampled_from(
            [Fraction(0), Fraction(1, 10**6), Fraction(11, 10**10), Fraction(1, 10**9), index.time_base / 2]
        )
        | st.fractions(Fraction(-1, 2), Fraction(1, 2))
    )
    exact = base + draw(st.sampled_from([-1, 1])) * nudge
    return exact if draw(st.booleans()) else float(exact)
