"""Choose the frames of a clip by number or by time: pick rule, tolerance, and the policy past the end."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isfinite, isinf, isnan
from typing import Literal

import numpy as np

from framefeed._arrays import BoolArray, FloatArray, IntArray
from framefeed._checks import expected, is_number
from framefeed._nearest import did_you_mean
from framefeed.catalog import Catalog
from framefeed.errors import FrameNotFound, UsageError
from framefeed.index import (
    NO_PICK,
    PICKS,
    ExactTimes,
    FrameIndex,
    Pick,
    compute_float_rounding,
    convert_nanosecond_to_ticks,
    convert_to_ticks,
    pick_frames,
)


@dataclass(frozen=True, slots=True)
class Timeline:
    """Frames [first, stop) of an index, as if the video had no other frames; times are exact.

    Frame 0 of a timeline is the index's frame ``first``; second 0 is its pts.

    Attributes:
        index: Frame index of the video.
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
            index: Frame index of the video.
            start_seconds: NaN for the video's start.
            end_seconds: NaN for the video's end.

        Raises:
            FrameNotFound: No frame lies in the window.
            TimeUnavailable: The stream has no usable timestamps.
        """
        index.require_timestamps()
        whole = cls.whole(index)
        first = whole._find_first(start_seconds, 0)
        stop = whole._find_first(end_seconds, len(index))
        if first >= stop:
            raise FrameNotFound(
                f"no frame in the window from {start_seconds} s to {end_seconds} s: the video's {len(index)} frames "
                f"have times from 0 s to {float((int(index.pts[-1]) - whole.origin) * index.time_base):.6f} s; "
                "correct the window's columns or filter the row out"
            )
        return cls(index, first, stop)

    def _find_first(self, seconds: float, default: int) -> int:
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
        """Convert seconds, counted from ``origin``, to ticks; a time within 1 ns of a pts becomes that pts.

        Args:
            seconds: T times.
            origin: Ticks of the stream; None for the first frame's pts.
        """
        start = self.origin if origin is None else origin
        # With the pts of the frame after the last one: a time near it is past the end.
        pts = self.index.pts[self.first : self.stop + 1]
        return convert_to_ticks(pts, seconds, self.index.time_base, self.end_pts, start)

    def count_starts(self, span_seconds: ExactTimes, pick: Pick) -> int:
        """Count the frames at which a clip can begin so that there is a frame to pick for its last time.

        Args:
            span_seconds: One time: from a clip's start to its last time.
            pick: With "next" a frame must begin at or after the last time; otherwise the last frame must not have
                ended.
        """
        pts, base = self.pts, self.index.time_base
        span = span_seconds.in_ticks(base)
        above, below = span.numerators[0], span.denominator
        near = convert_nanosecond_to_ticks(below, base)
        if pick == "next":
            latest = (int(pts[-1]) * below + near - above) // below
            return int(pts.searchsorted(max(latest, int(pts[0]) - 1), side="right"))
        end = self.end_pts * below
        # A time that rounds to the end, see `convert_to_ticks`, is past it.
        slack = near if self.stop < len(self.index) else compute_float_rounding(end)
        bound = -((above + slack - end) // below)
        return int(pts.searchsorted(max(bound, int(pts[0])), side="left"))


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
    """

    ordinals: IntArray
    errors: FloatArray
    valid: BoolArray
    segments: IntArray


@dataclass(frozen=True, slots=True)
class Picking:
    """Options for picking a frame for a time, and for replacing frames past the end.

    Attributes:
        pick: "played", "nearest", "previous" or "next".
        tolerance_seconds: Largest allowed distance between requested and picked time, or None.
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
        if tolerance is not None and not (is_number(tolerance) and isfinite(tolerance) and tolerance >= 0):
            raise expected("tolerance_seconds", "a finite number of at least 0, or None", tolerance)


@dataclass(frozen=True, slots=True)
class PickedFrames:
    """Frames for times, before the policy is applied.

    Attributes:
        numbers: Frames counted from the timeline's first, int64 [T].
        past: True for times past the end, bool [T].
        errors: Picked minus requested time in seconds, float64 [T]; NaN for times past the end.
    """

    numbers: IntArray
    past: BoolArray
    errors: FloatArray


def choose_frames(timeline: Timeline, numbers: IntArray, segments: IntArray, policy: Policy) -> ClipFrames:
    """Choose frames by number: 0 is the timeline's first frame, negative numbers count from its end.

    Args:
        timeline: Frames to choose from.
        numbers: int64 [T].
        segments: int64 [T].
        policy: For numbers past the end.

    Raises:
        FrameNotFound: A negative number lies before the first frame, or the policy says so.
    """
    count = len(timeline)
    if len(numbers) and numbers.view(np.uint64).max() < count:
        # The usual case: all numbers exist, and none counts from the end.
        valid = np.ones(len(numbers), dtype=np.bool_)
        return ClipFrames(timeline.first + numbers, np.zeros(len(numbers)), valid, segments)
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


def choose_times(timeline: Timeline, ticks: ExactTimes, segments: IntArray, picking: Picking) -> ClipFrames:
    """Choose frames by time.

    Args:
        timeline: Frames to choose from.
        ticks: T times as ``Timeline.ticks`` gives them.
        segments: int64 [T].
        picking: Pick rule, tolerance and policy.

    Raises:
        FrameNotFound: Nothing to pick, an error beyond the tolerance, or past the end where the policy says so.
    """
    picked = pick_times(timeline, ticks, picking)
    ordinals = fill_past_end(timeline, picked.numbers, picked.past, picking.policy)
    return ClipFrames(ordinals, picked.errors, ~picked.past, segments)


def pick_times(timeline: Timeline, ticks: ExactTimes, picking: Picking) -> PickedFrames:
    """Pick frames for times; times past the end of the last frame are only marked."""
    pts, common = timeline.pts, ticks.denominator
    numbers = pick_frames(pts, ticks, picking.pick)
    end = timeline.end_pts * common
    past = np.array([above >= end for above in ticks.numerators], dtype=np.bool_)
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
    base = timeline.index.time_base
    scale, parts = base.numerator, common * base.denominator
    picked = pts[np.where(past, 0, numbers)].tolist()
    differences = [(at * common - above) * scale / parts for at, above in zip(picked, ticks.numerators, strict=True)]
    errors = np.where(past, np.nan, np.array(differences, dtype=np.float64))
    tolerance = picking.tolerance_seconds
    if tolerance is not None and (far := np.abs(errors) > tolerance).any():
        first = int(far.argmax())
        number = int(numbers[first])
        raise FrameNotFound(
            f"{_describe_time(timeline, ticks, first)} is {abs(errors[first]):.6f} s away from the frame picked "
            f"({picking.pick!r}), number {timeline.first + number} at {float(int(pts[number]) * base):.6f} s: "
            f"more than tolerance_seconds={tolerance}; allow more, or use another pick or rate"
        )
    return PickedFrames(numbers, past, errors)


def _describe_time(timeline: Timeline, ticks: ExactTimes, number: int) -> str:
    base = timeline.index.time_base
    first, end = float(timeline.origin * base), float(timeline.end_pts * base)
    return (
        f"the wanted time {float(ticks[number] * base):.6f} s on the stream's timeline (number "
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


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Start and end of each row's window in seconds, counted from the video's first frame.

    A clip is chosen as if the video had only the frames with start <= t < end: indices and seconds of the rule count
    from the first of them.

    Attributes:
        starts: float64 [R]; NaN if the window begins with the video.
        ends: float64 [R]; NaN if it ends with the video.
    """

    starts: FloatArray
    ends: FloatArray

    @classmethod
    def of(cls, catalog: Catalog, names: tuple[str, str]) -> Windows:
        """Read two columns of a catalog.

        Raises:
            UsageError: A column is missing or holds no numbers.
        """
        return cls(*(_read_seconds(catalog, name) for name in names))

    def timeline(self, index: FrameIndex, row: int) -> Timeline:
        """Make the timeline of a row's window."""
        return Timeline.within(index, float(self.starts[row]), float(self.ends[row]))


def _read_seconds(catalog: Catalog, name: str) -> FloatArray:
    values = catalog.column_values(name)
    if name == "label" or values.dtype.kind not in "iuf":
        raise UsageError(f"within: expected columns of numbers (seconds), but column {name!r} does not hold numbers")
    if values.dtype == np.float64:
        return values
    # Text is read as codes, -1 for null, which look like seconds: the value of one row decides.
    rows = catalog.usable_rows
    coded = rows[values[rows] != -1]
    sample = coded[0] if len(coded) else next(iter(rows), None)
    value = None if sample is None else catalog[int(sample)].columns.get(name)
    if value is None:
        return np.full(len(values), np.nan)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(
            f"within: expected columns of numbers (seconds), but column {name!r} holds {type(value).__name__}"
        )
    return values.astype(np.float64)
