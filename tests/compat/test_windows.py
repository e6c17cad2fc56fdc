"""The frames of each clip are those of torchvision's documented rule, and rules that are nearly the same are caught."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from framefeed.compat.torchvision._windows import Windows
from tests.compat.torchvision_oracles import list_windows

RATES = [None, 23.976, 24000 / 1001, 25.0, 29.97, 30000 / 1001, 30.0, 12.5, 60.0, 5.0, 0.5]
WANTED = [None, 1, 5, 7.5, 10, 12, 15, 24, 25, 30, 60]
LONG = [(frames, fps, rate) for frames in (7200, 30_011) for fps in RATES[1:9] for rate in (7, 15, 24)]


def check_windows(num_frames: int, fps: float | None, size: int, step: int, frame_rate: float | None) -> None:
    """Compare all clips of a video with the oracle."""
    expected = list_windows(num_frames, fps, size, step, frame_rate)
    made = Windows(size, step, frame_rate)
    assert made.count_clips(num_frames, fps) == len(expected)
    assert [made.find_frames(clip, num_frames, fps).tolist() for clip in range(len(expected))] == expected
    whole = made.resample_video(num_frames, fps).tolist()
    assert [whole[k * step : k * step + size] for k in range(len(expected))] == expected


@given(st.integers(0, 200), st.sampled_from(RATES), st.integers(1, 40), st.integers(1, 50), st.sampled_from(WANTED))
@example(0, None, 16, 1, 15)
@example(15, 25.0, 16, 1, None)
@example(16, 25.0, 16, 1, None)
@example(125, 25.0, 1, 1, 12)  # 60 frames, and 59 if the ratio of the rates is computed first
def test_clips_are_those_of_the_documented_rule(
    num_frames: int, fps: float | None, size: int, step: int, frame_rate: float | None
) -> None:
    check_windows(num_frames, fps, size, step, frame_rate)


@pytest.mark.parametrize(("num_frames", "fps", "frame_rate"), LONG)
def test_long_videos(num_frames: int, fps: float | None, frame_rate: float) -> None:
    check_windows(num_frames, fps, 300, 300, frame_rate)


def test_a_rate_of_0_is_no_rate() -> None:
    windows = Windows(4, 2, 10)
    assert windows.count_clips(20, 0.0) == windows.count_clips(20, None) == 9
    assert windows.find_frames(8, 20, 0.0).tolist() == [16, 17, 18, 19]


WRONG: dict[str, tuple[str, Callable[..., Any]]] = {
    "float64": ("_resample", lambda self, at, num_frames, fps: np.floor(at * self._find_ratio(fps)).astype(np.int64)),
    "nearest": ("_resample", lambda self, at, num_frames, fps: np.rint(at * self._find_ratio(fps)).astype(np.int64)),
    "floor of a whole ratio": (
        "_count_resampled", lambda self, num_frames, fps: math.floor(num_frames / self._find_ratio(fps))
    ),
    "ratio first": (
        "_count_resampled",
        lambda self, num_frames, fps: (math.ceil if self._find_ratio(fps).is_integer() else math.floor)(
            num_frames / self._find_ratio(fps)
        ),
    ),
    "one more": (
        "count_clips",
        lambda self, *video: max(0, (self._count_resampled(*video) - self.size + self.step) // self.step + 1),
    ),
    "step of the video": (
        "find_frames", lambda self, clip, *video: self._resample(np.arange(self.size), *video) + clip * self.step
    ),
}  # fmt: skip


@pytest.mark.parametrize(("method", "wrong"), WRONG.values(), ids=WRONG)
def test_a_wrong_rule_is_caught(method: str, wrong: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Windows, method, wrong)
    with pytest.raises(AssertionError):
        check_many()


def check_many() -> None:
    for num_frames, fps, frame_rate in [(37, 30.0, 15.0), (35, 25.0, 12.0), (1000, 24000 / 1001, 24.0), *LONG]:
        check_windows(num_frames, fps, 3, 2, frame_rate)


def test_a_rate_far_above_that_of_the_video_stays_within_it() -> None:
    windows = Windows(1, 1, 50_000.0)
    last = math.floor(3000 * 50_000 / 7) - 1
    assert windows.count_clips(3000, 7.0) == last + 1
    assert np.float32(last) * np.float32(7 / 50_000) == 3000, "past the last frame"
    assert windows.find_frames(last, 3000, 7.0).tolist() == [2999]
