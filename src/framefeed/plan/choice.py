"""Wanted frames -> chosen frames: pick rule, tolerance, and the policy for what lies past the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from numbers import Real
from typing import Literal

import numpy as np
import numpy.typing as npt

from framefeed._checks import expected
from framefeed._nearest import did_you_mean
from framefeed.errors import FrameNotFound, UsageError
from framefeed.index.frame_index import FloatArray, IntArray
from framefeed.index.picking import NONE, PICKS, ExactTimes, Pick, pick_frames
from framefeed.plan.timeline import Timeline

BoolArray = npt.NDArray[np.bool_]
Policy = Literal["repeat_last", "wrap", "error"]
POLICIES: tuple[str, ...] = ("repeat_last", "wrap", "error")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Frames of one clip.

    Attributes:
        ordinals: Output frames of the index, int64 [T].
        errors: Picked minus wanted time in seconds, float64 [T]; NaN where not valid, 0 where an index was wanted.
        valid: False where the policy filled in for what lies past the end, bool [T].
        segments: Number of the rule's segment, int64 [T].
    """

    ordinals: IntArray
    errors: FloatArray
    valid: BoolArray
    segments: IntArray


@dataclass(frozen=True, slots=True)
class Picking:
    """How a wanted time becomes a frame, and what stands in for what lies past the end.

    Attributes:
        pick: "played", "nearest", "previous" or "next".
        tolerance_seconds: Largest allowed distance between wanted and picked time, or None.
        policy: "repeat_last": the frame before it in the clip, and the video's last frame where there is none;
            "wrap": the clip's own frames again from its first; "error": FrameNotFound.
    """

    pick: Pick = "played"
    tolerance_seconds: float | None = None
    policy: Policy = "repeat_last"

    def __post_init__(self) -> None:
        for name, value, known in (("pick", self.pick, PICKS), ("policy", self.policy, POLICIES)):
            if value not in known:
                error = expected(name, f"one of {', '.join(known)}", value)
                raise UsageError(f"{error}{did_you_mean(str(value), known)}")
        tolerance = self.tolerance_seconds
        is_number = isinstance(tolerance, Real) and not isinstance(tolerance, bool)
        if tolerance is not None and not (is_number and isfinite(tolerance) and tolerance >= 0):
            raise expected("tolerance_seconds", "a finite number of at least 0, or None", tolerance)


@dataclass(frozen=True, slots=True)
class Found:
    """Frames for wanted times before any policy: ordinals within the timeline, what is past the end, errors."""

    numbers: IntArray
    past: BoolArray
    errors: FloatArray = field(repr=False)


def choose_frames(timeline: Timeline, numbers: IntArray, segments: IntArray, policy: Policy) -> Chosen:
    """Choose frames by number: 0 is the timeline's first frame, negative numbers count from its end.

    Args:
        timeline: The frames there are.
        numbers: int64 [T].
        segments: int64 [T].
        policy: For numbers past the end.

    Raises:
        FrameNotFound: A negative number lies before the first frame, or the policy says so.
    """
    count = len(timeline)
    if len(numbers) and numbers.view(np.uint64).max() < count:
        # The usual case: all are there, and none counts from the end.
        return Chosen(timeline.first + numbers, np.zeros(len(numbers)), np.ones(len(numbers), dtype=np.bool_), segments)
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
    return Chosen(filled(timeline, numbers, past, policy), errors, ~past, segments)


def choose_times(timeline: Timeline, ticks: ExactTimes, segments: IntArray, picking: Picking) -> Chosen:
    """Choose frames by time.

    Args:
        timeline: The frames there are.
        ticks: T times as ``Timeline.ticks`` gives them.
        segments: int64 [T].
        picking: Pick rule, tolerance and policy.

    Raises:
        FrameNotFound: Nothing to pick, an error beyond the tolerance, or past the end where the policy says so.
    """
    found = find_times(timeline, ticks, picking)
    ordinals = filled(timeline, found.numbers, found.past, picking.policy)
    return Chosen(ordinals, found.errors, ~found.past, segments)


def find_times(timeline: Timeline, ticks: ExactTimes, picking: Picking) -> Found:
    """Pick frames for times; those past the end of the last frame are marked and left to the policy."""
    pts, common = timeline.pts, ticks.denominator
    numbers = pick_frames(pts, ticks, picking.pick)
    end = timeline.end_pts * common
    past = np.array([above >= end for above in ticks.numerators], dtype=np.bool_)
    if past.any() and picking.policy == "error":
        raise FrameNotFound(
            f"{_wanted(timeline, ticks, int(past.argmax()))} lies past the end, and policy is 'error'; "
            "use a shorter clip, or policy='repeat_last' or 'wrap'"
        )
    if (missing := (numbers == NONE) & ~past).any():
        raise FrameNotFound(
            f"{_wanted(timeline, ticks, int(missing.argmax()))} has no frame to pick ({picking.pick!r}); "
            "use another time, or pick='nearest'"
        )
    base = timeline.index.time_base
    scale, parts = base.numerator, common * base.denominator
    picked = pts[np.where(past, 0, numbers)].tolist()
    errors = [(at * common - above) * scale / parts for at, above in zip(picked, ticks.numerators, strict=True)]
    found = Found(numbers, past, np.where(past, np.nan, np.array(errors, dtype=np.float64)))
    _check_tolerance(timeline, ticks, found, picking)
    return found


def _check_tolerance(timeline: Timeline, ticks: ExactTimes, found: Found, picking: Picking) -> None:
    tolerance = picking.tolerance_seconds
    if tolerance is None or not (far := np.abs(found.errors) > tolerance).any():
        return
    worst = int(far.argmax())
    number = int(found.numbers[worst])
    raise FrameNotFound(
        f"{_wanted(timeline, ticks, worst)} is {abs(found.errors[worst]):.6f} s away from the frame picked "
        f"({picking.pick!r}), number {timeline.first + number} at {_shown(timeline, int(timeline.pts[number])):.6f} s: "
        f"more than tolerance_seconds={tolerance}; allow more, or use another pick or rate"
    )


def _wanted(timeline: Timeline, ticks: ExactTimes, number: int) -> str:
    first, end = _shown(timeline, timeline.origin), _shown(timeline, timeline.end_pts)
    return (
        f"the wanted time {float(ticks[number] * timeline.index.time_base):.6f} s on the stream's timeline (number "
        f"{number + 1} of the clip's {len(ticks)} times; the video's frames go from {first:.6f} s to {end:.6f} s)"
    )


def _shown(timeline: Timeline, pts: int) -> float:
    return float(pts * timeline.index.time_base)


def filled(timeline: Timeline, numbers: IntArray, past: BoolArray, policy: Policy) -> IntArray:
    """Turn numbers within a timeline into ordinals of its index, with the policy's frames where past the end.

    As TorchCodec's samplers fill up a clip (torchcodec/samplers/_common.py), for past frames anywhere in the clip:
    the k-th of them is "wrap"'s k-th frame of the clip, starting again when there are no more.
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
