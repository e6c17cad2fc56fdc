"""`WholeVideo`: which times it asks for, and that each is on the screen in the picture that it gives."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.errors import FrameNotFound, UsageError
from framefeed.index import STILL_TIMELINE, FrameIndex, Timeline
from framefeed.plan import WholeVideo, choose_by
from framefeed.request import ClipContext, ClipFrames
from tests.fakes import index_of, steady_index

CONTEXT = ClipContext(0, 0, 0)


def choose(index: FrameIndex, rule: WholeVideo, start: float = np.nan, end: float = np.nan) -> ClipFrames:
    return choose_by(rule, Timeline.around(index, start, end), CONTEXT)


@given(
    steps=st.lists(st.integers(1, 4000), min_size=1, max_size=60),
    first=st.integers(-500, 500),
    fps=st.sampled_from([0.5, 1, 2, 3, Fraction(30000, 1001), 7.3]),
    least=st.integers(1, 9),
    more=st.none() | st.integers(0, 40),
    multiple=st.integers(1, 4),
)
def test_each_picture_is_on_the_screen_at_its_second(
    steps: list[int], first: int, fps: float, least: int, more: int | None, multiple: int
) -> None:
    pts = first + np.cumsum([0, *steps[:-1]])
    index = index_of(pts=pts, duration=np.array(steps), time_base=Fraction(1, 1000))
    most = None if more is None else max(least, multiple) + more
    chosen = choose(index, WholeVideo(fps, min_frames=least, max_frames=most, multiple=multiple))
    assert chosen.seconds is not None
    assert chosen.valid.all()
    begins = (index.pts[chosen.ordinals] - first) / 1000
    ends = begins + index.duration[chosen.ordinals] / 1000
    assert (begins <= chosen.seconds + 1e-9).all()
    assert (chosen.seconds < ends + 1e-9).all()

    seconds = Fraction(sum(steps), 1000)
    counted = floor(seconds * Fraction(fps))
    clamped = max(least, counted if most is None else min(counted, most))
    count = max(1, clamped // multiple) * multiple
    assert len(chosen.ordinals) == count
    step = 1 / Fraction(fps) if count <= clamped == counted else seconds / count
    assert np.allclose(chosen.seconds, [float(number * step) for number in range(count)], rtol=0, atol=2e-9)


@pytest.mark.parametrize(
    ("rule", "seconds"),
    [
        (WholeVideo(2), [0, 0.5, 1, 1.5]),
        (WholeVideo(2, max_frames=2), [0, 1.1]),
        (WholeVideo(2, min_frames=8), [number * 2.2 / 8 for number in range(8)]),
        (WholeVideo(2, multiple=3), [0, 0.5, 1]),
        (WholeVideo(1, multiple=4), [0, 0.55, 1.1, 1.65]),
        (WholeVideo(0.1), [0]),
    ],
)
def test_seconds_of_a_video_of_2_2_seconds(rule: WholeVideo, seconds: list[float]) -> None:
    chosen = choose(steady_index(55, start=700), rule)
    assert np.allclose(chosen.seconds, seconds, rtol=0, atol=1e-9)


def test_a_window_need_not_begin_at_a_frame() -> None:
    index = index_of(
        pts=np.array([0, 1680, 5270, 6000]), duration=np.array([1680, 3590, 730, 500]), time_base=Fraction(1, 1000)
    )
    chosen = choose(index, WholeVideo(2), 2.25, 5.5)
    assert chosen.seconds is not None
    assert chosen.seconds.tolist() == [2.25, 2.75, 3.25, 3.75, 4.25, 4.75]
    assert chosen.ordinals.tolist() == [1] * 6  # no frame begins before 5.27 s
    beyond = choose(index, WholeVideo(2), 5.0, 99.0)
    assert beyond.seconds is not None
    assert beyond.seconds.tolist() == [5.0, 5.5, 6.0]
    assert beyond.ordinals.tolist() == [1, 2, 3]
    before = choose(index, WholeVideo(1), -3.0, 1.0)
    assert before.seconds is not None
    assert before.seconds.tolist() == [0.0]


def test_windows_of_no_gap_join_to_the_whole_video() -> None:
    index = steady_index(250)
    whole = choose(index, WholeVideo(2))
    parts = [choose(index, WholeVideo(2), *pair) for pair in pairwise([0.0, 2.5, 4.0, 10.0])]
    assert np.concatenate([part.ordinals for part in parts]).tolist() == whole.ordinals.tolist()


@pytest.mark.parametrize("window", [(10.0, 12.0), (11.0, np.nan), (3.0, 3.0)])
def test_a_window_in_which_nothing_is_shown_is_an_error(window: tuple[float, float]) -> None:
    with pytest.raises(FrameNotFound, match=r"nothing is shown in the window"):
        choose(steady_index(250), WholeVideo(2), *window)


def test_ten_hours_and_a_still() -> None:
    assert len(choose(steady_index(50_000, fps=1), WholeVideo(2)).ordinals) == 100_000
    with pytest.raises(UsageError, match="give max_frames="):
        choose(steady_index(50_001, fps=1), WholeVideo(2))
    assert len(choose(steady_index(36_000, fps=1), WholeVideo(4, max_frames=768)).ordinals) == 768
    still = choose_by(WholeVideo(2, min_frames=4, multiple=2), STILL_TIMELINE, CONTEXT)
    assert still.ordinals.tolist() == [0, 0, 0, 0]
    assert len(choose_by(WholeVideo(2), STILL_TIMELINE, CONTEXT).ordinals) == 1


@pytest.mark.parametrize(
    "options",
    [{"fps": 0}, {"fps": "2"}, {"fps": 2, "multiple": 0}, {"fps": 2, "min_frames": 0},
     {"fps": 2, "max_frames": 1, "multiple": 2}, {"fps": 2, "min_frames": 5, "max_frames": 4},
     {"fps": 2, "max_frames": 100_001}],
)  # fmt: skip
def test_wrong_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        WholeVideo(**options)  # type: ignore[arg-type]


def test_equal_least_and_most_fix_the_number_of_frames() -> None:
    assert WholeVideo(2, min_frames=9, max_frames=9, multiple=4).num_frames == 8
    assert WholeVideo(2, max_frames=9).num_frames is None
