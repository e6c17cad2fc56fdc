"""Decide which frame each picture of the output shows, and when; pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from framefeed._arrays import FloatArray, IntArray
from framefeed.decode import resample_frames
from framefeed.errors import TimeUnavailable, UsageError
from framefeed.index import FrameIndex

_MOST_TICKS = 1_000_000
"""Ticks of a second; more would make the numbers of a long video too large for MP4."""
_FINE_TICKS = 1000
"""Ticks between two pictures of a resampled video whose first time cannot be kept exactly."""


@dataclass(frozen=True, slots=True, eq=False)
class Timetable:
    """The P pictures of an output: the frame that each shows, and its time."""

    # Number of the frame, int64 [P], never decreasing; a number repeats where ``fps`` repeats a frame.
    ordinals: IntArray
    pts: IntArray  # time in ticks of ``time_base``, int64 [P], rising
    durations: IntArray  # ticks that each is shown, int64 [P]
    pts_seconds: FloatArray  # time on the stream's own timeline, float64 [P]; NaN without timestamps
    time_base: Fraction  # seconds in one tick
    rate: Fraction | None  # pictures a second, about; None if unknown
    is_variable: bool  # whether the distances differ

    def __len__(self) -> int:
        return len(self.ordinals)

    @property
    def num_frames(self) -> int:
        """Number of different frames."""
        return int(np.count_nonzero(np.diff(self.ordinals))) + 1 if len(self) else 0


def make_timetable(index: FrameIndex, fps: Fraction | None, name: str) -> Timetable:
    """Take all frames at their own times, or with ``fps`` the frames shown every 1 / fps seconds.

    Without timestamps, frames have numbers for times.
    """
    if fps is not None:
        return _resample(index, fps, name)
    numbers = np.arange(len(index), dtype=np.int64)
    if not index.has_timestamps:
        unknown = np.full(len(index), math.nan)
        return Timetable(numbers, numbers, np.ones_like(numbers), unknown, index.time_base, None, False)
    last = int(index.duration[-1]) or index.step
    durations = np.append(np.diff(index.pts), last).astype(np.int64)
    rate = None if index.average_fps is None else Fraction(index.average_fps).limit_denominator(1001)
    return Timetable(
        numbers, index.pts, durations, index.pts_seconds, index.time_base, rate or None, index.is_variable_frame_rate
    )


def _resample(index: FrameIndex, fps: Fraction, name: str) -> Timetable:
    check_known(index, name)
    start, stop = (float(pts * index.time_base) for pts in (int(index.pts[0]), index.end_pts))
    ordinals, seconds, _ = resample_frames(index, start, stop, fps, name)
    if not len(ordinals):
        raise UsageError(f"fps: {float(fps):g} pictures a second are none in {stop - start:.6f} s: use a higher rate")
    first, step = int(index.pts[0]) * index.time_base, 1 / fps
    # The longest tick of which both times are multiples; if it is too short, one for the step alone.
    below = first.denominator * step.denominator
    common = Fraction(math.gcd(first.numerator * step.denominator, step.numerator * first.denominator), below)
    time_base = common if common.denominator <= _MOST_TICKS else step / _FINE_TICKS
    ticks = int(step / time_base)
    numbers = np.arange(len(ordinals), dtype=np.int64)
    pts = numbers * ticks + round(first / time_base)
    return Timetable(ordinals, pts, np.full_like(numbers, ticks), seconds, time_base, fps, False)


def check_known(index: FrameIndex, name: str) -> None:
    """Check that the times of the frames are known."""
    if not index.has_timestamps:
        raise TimeUnavailable(
            f"{name}: the times of its frames are missing or go backwards, and it declares no constant rate; a video "
            "and fps= need times: write images, without fps=; or, if you know the frame rate, map the entry of a scan: "
            "map_video(ff.scan([path], assume_fps=25)[0], function, out)",
            source=name,
        )


def check_rising(times: Timetable, name: str) -> None:
    """Check that a video can have these times."""
    same = np.flatnonzero(np.diff(times.pts) <= 0)
    if len(same):
        raise UsageError(
            f"{name}: frames {same[0]} and {same[0] + 1} have the same time, which a video cannot hold: give fps=, or "
            "write images"
        )
