"""Wanted frames -> chosen frames: pick rule, tolerance, and the policy for what lies past the end.

Timeline: the frames that a clip may be made of, and exact times counted from the first of them.

Windows: the part of each video that a manifest allows clips to come from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import isfinite, isinf, isnan
from numbers import Real
from typing import Literal

import numpy as np

from framefeed._arrays import AnyArray, BoolArray, FloatArray, IntArray
from framefeed._checks import expected
from framefeed._nearest import did_you_mean
from framefeed.catalog import Catalog
from framefeed.errors import FrameNotFound, UsageError
from framefeed.index import NONE, PICKS, ExactTimes, FrameIndex, Pick, as_ticks, pick_frames, reach_of, rounding_of


@dataclass(frozen=True, slots=True)
class Timeline:
    """Frames [first, stop) of an index, as if the video had no others.

    Frame 0 of a timeline is the index's frame ``first``; second 0 is its pts.

    Attributes:
        index: Where the video's frames are.
        first: Ordinal of the first frame.
        stop: Ordinal after the last frame.
    """

    index: FrameIndex
    first: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.stop <= len(self.index):
            raise FrameNotFound(f"no frame in [{self.first}, {self.stop}) of {len(self.index)} frames")

    def __len__(self) -> int:
        return self.stop - self.first

    @classmethod
    def whole(cls, index: FrameIndex) -> Timeline:
        """All frames of a video."""
        return cls(index, 0, len(index))

    @classmethod
    def within(cls, index: FrameIndex, start_seconds: float, end_seconds: float) -> Timeline:
        """The frames with start <= t < end, where t is counted from the video's first frame.

        Args:
            index: Where the video's frames are.
            start_seconds: NaN for the video's start.
            end_seconds: NaN for the video's end.

        Raises:
            FrameNotFound: No frame lies in the window.
            TimeUnavailable: The stream has no usable timestamps.
        """
        index.require_timestamps()
        whole = cls.whole(index)
        first = whole._first_from(start_seconds, 0)
        stop = whole._first_from(end_seconds, len(index))
        if first >= stop:
            raise FrameNotFound(
                f"no frame in the window from {start_seconds} s to {end_seconds} s: the video's {len(index)} frames "
                f"have times from 0 s to {float((int(index.pts[-1]) - whole.origin) * index.time_base):.6f} s; "
                "correct the window's columns or filter the row out"
            )
        return cls(index, first, stop)

    def _first_from(self, seconds: float, default: int) -> int:
        if isnan(seconds):
            return default
        if isinf(seconds):
            return len(self) if seconds > 0 else 0
        ticks = self.ticks(ExactTimes.of([seconds])).ceilings()[0]
        return int(self.pts.searchsorted(max(self.origin, min(ticks, self.end_pts)), side="left"))

    @property
    def pts(self) -> IntArray:
        """Presentation times of the frames in ticks, int64 [N]."""
        return self.index.pts[self.first : self.stop]

    @property
    def origin(self) -> int:
        """The pts that seconds are counted from."""
        self.index.require_timestamps()
        return int(self.index.pts[self.first])

    @property
    def end_pts(self) -> int:
        """When the last frame stops being shown: at the next frame's pts, or at the video's end."""
        return int(self.index.pts[self.stop]) if self.stop < len(self.index) else self.index.end_pts

    def ticks(self, seconds: ExactTimes, origin: int | Fraction | None = None) -> ExactTimes:
        """Convert seconds, counted from ``origin`` or the first frame, to ticks; within 1 ns of a pts they are that.

        Args:
            seconds: T times.
            origin: In ticks of the stream; None for the first frame's pts.
        """
        start = self.origin if origin is None else origin
        # The frame behind the last one too: a time that means its pts is past the end.
        pts = self.index.pts[self.first : self.stop + 1]
        return as_ticks(pts, seconds, self.index.time_base, self.end_pts, start)

    def starts_that_fit(self, span_seconds: ExactTimes, pick: Pick) -> int:
        """Count the frames at which a clip can begin so that its last wanted time still has a frame to pick.

        Args:
            span_seconds: The one time from a clip's start to its last wanted time.
            pick: With "next" a frame must begin at or after the last wanted time; otherwise the last frame must not
                have ended.
        """
        pts, base = self.pts, self.index.time_base
        span = span_seconds.in_ticks(base)
        above, below = span.numerators[0], span.denominator
        near = reach_of(below, base)
        if pick == "next":
            latest = (int(pts[-1]) * below + near - above) // below
            return int(pts.searchsorted(max(latest, int(pts[0]) - 1), side="right"))
        end = self.end_pts * below
        # A time that means the end, see `as_ticks`, is past it.
        slack = near if self.stop < len(self.index) else rounding_of(end)
        bound = -((above + slack - end) // below)
        return int(pts.searchsorted(max(bound, int(pts[0])), side="left"))


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


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Start and end of each row's window in seconds, counted from the video's first frame.

    A clip is chosen as if the video had no frames but those with start <= t < end: indices and seconds of the rule
    count from the first of them, and what is past the last of them is past the end.

    Attributes:
        starts: float64 [R]; NaN where the window begins with the video.
        ends: float64 [R]; NaN where it ends with the video.
    """

    starts: FloatArray
    ends: FloatArray

    @classmethod
    def of(cls, catalog: Catalog, names: tuple[str, str]) -> Windows:
        """Read two columns of a catalog.

        Raises:
            UsageError: A column is missing or holds no numbers.
        """
        return cls(*(_seconds_column(catalog, name) for name in names))

    def timeline(self, index: FrameIndex, row: int) -> Timeline:
        """The frames of a row that a clip may be made of."""
        return Timeline.within(index, float(self.starts[row]), float(self.ends[row]))


def _seconds_column(catalog: Catalog, name: str) -> FloatArray:
    values = catalog.column_values(name)
    if name == "label" or values.dtype.kind not in "iuf":
        raise UsageError(f"within: expected columns of numbers (seconds), but column {name!r} does not hold numbers")
    return values if values.dtype == np.float64 else _checked_codes(catalog, name, values)


def _checked_codes(catalog: Catalog, name: str, values: AnyArray) -> FloatArray:
    # Text arrives as codes, with -1 for nothing, which would pass for seconds: a row's own value tells them apart.
    rows = catalog.usable_rows
    coded = rows[values[rows] != -1]
    told_by = coded[0] if len(coded) else next(iter(rows), None)
    own = None if told_by is None else catalog[int(told_by)].columns.get(name)
    if own is None:
        return np.full(len(values), np.nan)
    if isinstance(own, bool) or not isinstance(own, (int, float)):
        raise UsageError(
            f"within: expected columns of numbers (seconds), but column {name!r} holds {type(own).__name__}"
        )
    return values.astype(np.float64)
