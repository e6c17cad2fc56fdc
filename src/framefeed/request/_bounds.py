"""Choose the frames of a clip within bounds in time, outside of which no frame of the video is delivered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isnan, nan
from typing import Any, Literal

import numpy as np

from framefeed._arrays import BoolArray, FloatArray, IntArray
from framefeed._checks import expected, is_finite, is_number
from framefeed.errors import FrameNotFound, UsageError
from framefeed.index import ExactTimes, Timeline
from framefeed.request._choose import ClipFrames, Picking, choose_frames, choose_times

Before = Literal["repeat_first", "error"]
BEFORES: tuple[str, ...] = ("repeat_first", "error")

_PAIR = "(start, end) in seconds from the video's first frame, each a finite number or None"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The part of a video whose frames a clip may have: those with start <= t < end."""

    start_seconds: float  # from the video's first frame; NaN for its start
    end_seconds: float  # NaN for the video's end
    # What is delivered for wanted frames before the start: "repeat_first": the first frame in the bounds; "error":
    # FrameNotFound.
    before: Before = "repeat_first"

    def choose_numbers(self, whole: Timeline, numbers: IntArray, segments: IntArray, picking: Picking) -> ClipFrames:
        """Choose frames by number, int64 [T]; negative ones count from the end of the video."""
        count = len(whole)
        numbers = np.where(numbers < 0, numbers + count, numbers)
        if len(numbers) and numbers.min() < 0:
            raise FrameNotFound(f"no frame {int(numbers.min()) - count}: the video has {count} frames")
        window = self._open(whole)
        is_past = numbers >= window.stop

        def describe(number: int) -> str:
            return f"frame {int(numbers[number])}"

        self._refuse_past(is_past, picking, describe, window)

        def choose(own: BoolArray) -> ClipFrames:
            return choose_frames(window, numbers[own] - window.first, segments[own], picking.policy)

        return self._join(numbers < window.first, choose, describe, window, segments)

    def choose_seconds(self, whole: Timeline, seconds: FloatArray, segments: IntArray, picking: Picking) -> ClipFrames:
        """Choose frames by time, float64 [T], counted from the video's first frame."""
        window = self._open(whole)
        exact = whole.to_ticks(ExactTimes.of(seconds.tolist()))
        ticks = [exact[number] for number in range(len(exact))]
        start, end = (
            None if isnan(bound) else whole.to_ticks(ExactTimes.of([bound]))[0]
            for bound in (self.start_seconds, self.end_seconds)
        )
        is_front = np.array([start is not None and tick < start for tick in ticks], dtype=np.bool_)
        if picking.pick in ("played", "previous"):
            # The frame that is shown at the start may have begun before it.
            is_front |= np.array([tick < window.origin for tick in ticks], dtype=np.bool_)
        last_end = Fraction(window.end_pts)
        stop = last_end if end is None else end
        is_past = np.array([tick >= stop for tick in ticks], dtype=np.bool_)

        def describe(number: int) -> str:
            return f"the wanted time {seconds[number]:.6f} s"

        self._refuse_past(is_past, picking, describe, window)
        # The last frame in the bounds may be shown until after their end.
        moved = [max(tick, last_end) if past else tick for tick, past in zip(ticks, is_past, strict=True)]

        def choose(own: BoolArray) -> ClipFrames:
            times = ExactTimes.of([tick for tick, is_own in zip(moved, own, strict=True) if is_own])
            return choose_times(window, times, segments[own], picking)

        return replace(self._join(is_front, choose, describe, window, segments), seconds=seconds)

    def _open(self, whole: Timeline) -> Timeline:
        return Timeline.within(whole.index, self.start_seconds, self.end_seconds)

    def _join(
        self,
        is_front: BoolArray,
        choose: Callable[[BoolArray], ClipFrames],
        describe: Callable[[int], str],
        window: Timeline,
        segments: IntArray,
    ) -> ClipFrames:
        """Put the first frame in the bounds in the place of those before them."""
        if is_front.any() and self.before == "error":
            raise FrameNotFound(
                f"{describe(int(is_front.argmax()))} lies before {self._describe(window)}, and before is 'error'; "
                "use a later start, or before='repeat_first'"
            )
        count = len(is_front)
        ordinals, errors = np.full(count, window.first, np.int64), np.full(count, np.nan)
        valid, own = np.zeros(count, np.bool_), ~is_front
        if own.any():
            chosen = choose(own)
            ordinals[own], errors[own], valid[own] = chosen.ordinals, chosen.errors, chosen.valid
        return ClipFrames(ordinals, errors, valid, segments)

    def _refuse_past(
        self, is_past: BoolArray, picking: Picking, describe: Callable[[int], str], window: Timeline
    ) -> None:
        if is_past.any() and picking.policy == "error":
            raise FrameNotFound(
                f"{describe(int(is_past.argmax()))} lies past the end of {self._describe(window)}, and policy is "
                "'error'; use a shorter clip, or policy='repeat_last' or 'wrap'"
            )

    def _describe(self, window: Timeline) -> str:
        start = 0.0 if isnan(self.start_seconds) else self.start_seconds
        end = "the video's end" if isnan(self.end_seconds) else f"{self.end_seconds} s"
        return f"its bounds from {start} s to {end} (frames {window.first} to {window.stop - 1})"


def read_bounds(name: str, start: Any, end: Any) -> tuple[float, float]:
    """Convert the two bounds of a clip to floats, NaN for None."""
    for value in (start, end):
        if value is not None and not is_finite(value):
            raise expected(name, _PAIR, value)
    if start is not None and end is not None and end <= start:
        raise UsageError(f"{name}: expected an end after the start, got {start} s to {end} s")
    return (nan if start is None else float(start)), (nan if end is None else float(end))


def is_pair(value: Any) -> bool:
    """Whether a value is (start, end): two numbers or Nones."""
    return (
        isinstance(value, tuple | list) and len(value) == 2 and all(each is None or is_number(each) for each in value)
    )
