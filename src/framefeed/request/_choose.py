"""Choose the frames of a clip by number or by time: pick rule, tolerance, and the policy past the end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from framefeed._arrays import BoolArray, FloatArray, IntArray
from framefeed._checks import check_choice, expected, is_finite
from framefeed.errors import FrameNotFound
from framefeed.index import NO_PICK, PICKS, ExactTimes, FrameIndex, Pick, Timeline

Policy = Literal["repeat_last", "wrap", "error"]
POLICIES: tuple[str, ...] = ("repeat_last", "wrap", "error")


@dataclass(frozen=True, slots=True)
class ClipFrames:
    """Frames of one clip.

    Attributes:
        ordinals: Output frames of the index, int64 [T].
        errors: Picked minus requested time in seconds, float64 [T]; NaN where not valid, 0 for requests by number.
        valid: False where the policy replaced a frame past the end, bool [T].
        segments: Number of the rule's segment, int64 [T].
        seconds: Requested times from the first frame of the video, float64 [T]; None where frames were not requested by
            time.
    """

    ordinals: IntArray
    errors: FloatArray
    valid: BoolArray
    segments: IntArray
    seconds: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class Picking:
    """Options for picking a frame for a time, and for replacing frames past the end."""

    pick: Pick = "played"
    tolerance_seconds: float | None = None  # largest allowed distance between requested and picked time, or None
    # "repeat_last": the frame before it in the clip, and the video's last frame where there is none; "wrap": the clip's
    # own frames again from its first; "error": FrameNotFound.
    policy: Policy = "repeat_last"

    def __post_init__(self) -> None:
        check_choice("pick", self.pick, PICKS)
        check_choice("policy", self.policy, POLICIES)
        tolerance = self.tolerance_seconds
        if tolerance is not None and not (is_finite(tolerance) and tolerance >= 0):
            raise expected("tolerance_seconds", "a finite number of at least 0, or None", tolerance)


def choose_frames(timeline: Timeline, numbers: IntArray, segments: IntArray, policy: Policy) -> ClipFrames:
    """Choose frames by number, int64 [T]: 0 is the timeline's first frame, negative numbers count from its end."""
    count = len(timeline)
    if len(numbers) and numbers.view(np.uint64).max() < count:
        # The usual case: all numbers exist, and none counts from the end.
        return ClipFrames(timeline.first + numbers, *_describe_usual(len(numbers)), segments)
    numbers = np.where(numbers < 0, numbers + count, numbers)
    if np.any(numbers < 0):
        before = int(numbers.min()) - count
        raise FrameNotFound(f"no frame {before}: there are {count} frames; use an index from {-count} to {count - 1}")
    past = numbers >= count
    if policy == "error" and np.any(past):
        raise FrameNotFound(
            f"no frame {int(numbers[past][0])}: there are {count} frames, and policy is 'error'; "
            "use a shorter clip, or policy='repeat_last' or 'wrap'"
        )
    errors = np.where(past, np.nan, 0.0)
    return ClipFrames(fill_past_end(timeline, numbers, past, policy), errors, ~past, segments)


@lru_cache(maxsize=64)
def _describe_usual(count: int) -> tuple[FloatArray, BoolArray]:
    """Errors and ``valid`` of so many frames that all exist; read-only, because clips share them."""
    errors, valid = np.zeros(count), np.ones(count, dtype=np.bool_)
    errors.setflags(write=False)
    valid.setflags(write=False)
    return errors, valid


def choose_times(timeline: Timeline, ticks: ExactTimes, segments: IntArray, picking: Picking) -> ClipFrames:
    """Choose frames by time; ``ticks`` are T times as ``Timeline.to_ticks`` gives them."""
    numbers, past = timeline.pick(ticks, picking.pick)
    if past.any() and picking.policy == "error":
        raise FrameNotFound(
            f"{_describe_time(timeline, ticks, int(past.argmax()))} lies past the end, and policy is 'error'; "
            "use a shorter clip, or policy='repeat_last' or 'wrap'"
        )
    if (missing := (numbers == NO_PICK) & ~past).any():
        raise FrameNotFound(
            f"{_describe_time(timeline, ticks, int(missing.argmax()))} has no frame to pick ({picking.pick!r}); "
            "use another time, or pick='nearest'"
        )
    errors = timeline.measure_errors(numbers, ticks)
    errors[past] = np.nan
    tolerance = picking.tolerance_seconds
    if tolerance is not None and (far := np.abs(errors) > tolerance).any():
        first = int(far.argmax())
        number = int(numbers[first])
        picked_seconds = float(int(timeline.pts[number]) * timeline.index.time_base)
        raise FrameNotFound(
            f"{_describe_time(timeline, ticks, first)} is {abs(errors[first]):.6f} s away from the frame picked "
            f"({picking.pick!r}), number {timeline.first + number} at {picked_seconds:.6f} s: "
            f"more than tolerance_seconds={tolerance}; allow more, or use another pick or rate"
        )
    ordinals, seconds = fill_past_end(timeline, numbers, past, picking.policy), _count_seconds(timeline.index, ticks)
    return ClipFrames(ordinals, errors, ~past, segments, seconds)


def _count_seconds(index: FrameIndex, ticks: ExactTimes) -> FloatArray:
    """Convert ticks to seconds from the first frame of the video, each rounded once, float64 [T]."""
    base, below = index.time_base, ticks.denominator
    zero, unit, scale = index.pts.item(0) * below, base.numerator, below * base.denominator
    return np.array([(each - zero) * unit / scale for each in ticks.numerators])


def _describe_time(timeline: Timeline, ticks: ExactTimes, number: int) -> str:
    first, end = timeline.span_seconds
    return (
        f"the wanted time {float(ticks[number] * timeline.index.time_base):.6f} s on the stream's timeline (number "
        f"{number + 1} of the clip's {len(ticks)} times; the video's frames go from {first:.6f} s to {end:.6f} s)"
    )


def fill_past_end(timeline: Timeline, numbers: IntArray, past: BoolArray, policy: Policy) -> IntArray:
    """Convert numbers within a timeline to ordinals of its index, and replace those past the end by the policy.

    The same as TorchCodec's samplers (torchcodec/samplers/_common.py), for past frames anywhere in the clip: with
    "wrap", the k-th of them is the k-th frame of the clip that is not past the end, then the first again.
    """
    if not past.any():
        return numbers + timeline.first
    if policy == "wrap":
        own = numbers[~past]
        if not len(own):
            raise FrameNotFound(
                "the whole clip lies past the end, so that policy='wrap' has no frame to repeat; "
                "use an earlier start, or policy='repeat_last'"
            )
        numbers = numbers.copy()
        numbers[past] = own[np.arange(int(past.sum())) % len(own)]
        return numbers + timeline.first
    last_own = np.maximum.accumulate(np.where(past, -1, np.arange(len(numbers))))
    return np.where(last_own < 0, len(timeline) - 1, numbers[last_own]) + timeline.first
