"""Choose the frames of a clip by a rule: by frame number, or by exact times against each file's own timestamps.

A rule is a value: frozen, hashable, checked when it is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from math import floor
from operator import index as whole_number
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from framefeed._arrays import FloatArray, IntArray
from framefeed._cached import cached_property
from framefeed._checks import MAX_INT64, check_integer, expected, is_finite
from framefeed.errors import FrameNotFound, UsageError
from framefeed.index import ExactTimes, FrameIndex, Pick, Timeline
from framefeed.request import ClipContext, ClipFrames, Picking, Policy, choose_frames, choose_times

MOST_FRAMES = 100_000
"""Frames of a clip: an hour at 27 frames a second, and 15 GB of pictures of 224 x 224."""
_MOST_RATE = 1_000_000_000
"""Frames a second: pts are matched within 1 ns."""


class ClipRule(Protocol):
    """A clip rule; its ``repr`` must differ from that of every other rule, for the plan's fingerprint.

    A rule that draws frames has an attribute ``is_random``, which is True; one that fails in streams without times has
    ``needs_times``, which is True.

    Example of a rule of your own, two frames a second of whole videos, whose T differs::

        @dataclass(frozen=True)
        class TwoPerSecond:
            num_frames = None
            needs_times = True

            def choose(self, timeline, context):
                first, end = timeline.span_seconds
                return np.arange(0, end - first, 0.5)
    """

    @property
    def num_frames(self) -> int | None:
        """T, the frames of one clip; None if clips differ in it."""

    def choose(self, timeline: Timeline, context: ClipContext) -> ClipFrames | IntArray | FloatArray:
        """Choose the frames of one clip, T of at least 1: the same for the same arguments.

        Frame numbers of the timeline, int64 [T], are taken as `AtIndices` takes them, and seconds from its first frame,
        float64 [T], as `AtSeconds` does, both with the attribute ``policy`` of the rule, if it has one.
        """


@dataclass(frozen=True)
class Uniform:
    """The middle frames of ``num_frames`` equal parts: frame k has index floor((k + 0.5) * N / num_frames).

    No frame is past the end, so ``policy`` has no effect. If the video has fewer frames, some of them repeat.

    Example: ``Uniform(3)`` takes the frames 1, 5 and 8 of 10.
    """

    num_frames: int
    _: KW_ONLY
    policy: Policy = "repeat_last"

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_frames", _check_num_frames(self.num_frames))
        Picking(policy=self.policy)

    def choose(self, timeline: Timeline, context: ClipContext) -> ClipFrames:
        """Choose the frames of one clip."""
        parts = np.arange(self.num_frames, dtype=np.int64)
        numbers = (2 * parts + 1) * len(timeline) // (2 * self.num_frames)
        return choose_frames(timeline, numbers, np.zeros_like(parts), self.policy)


@dataclass(frozen=True)
class RandomSegments:
    """One random frame from each of n = ``num_frames`` equal parts, [floor(kN/n), floor((k+1)N/n)).

    If the video has fewer frames, an empty part gives its lower bound. Frame k belongs to segment k. This is the
    sampling of temporal segment networks (Wang et al., 2016).
    """

    num_frames: int
    _: KW_ONLY
    policy: Policy = "repeat_last"
    is_random: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_frames", _check_num_frames(self.num_frames))
        Picking(policy=self.policy)

    def choose(self, timeline: Timeline, context: ClipContext) -> ClipFrames:
        """Choose the frames of one clip."""
        bounds = np.arange(self.num_frames + 1, dtype=np.int64) * len(timeline) // self.num_frames
        numbers = context.generator.integers(bounds[:-1], np.maximum(bounds[1:], bounds[:-1] + 1))
        return choose_frames(timeline, numbers, np.arange(self.num_frames, dtype=np.int64), self.policy)


@dataclass(frozen=True)
class AtIndices:
    """The same frame numbers in every video; negative numbers count from the end.

    Attributes:
        indices: Frame numbers in any order, with repeats; kept as a tuple.
        policy: Which frames replace those past the end.
    """

    indices: Sequence[int]
    _: KW_ONLY
    policy: Policy = "repeat_last"

    def __post_init__(self) -> None:
        try:
            indices = tuple(self.indices)
            if bool in map(type, indices):
                raise TypeError("a mask is no list of frame numbers")
            indices = tuple(map(whole_number, indices))
        except TypeError:
            raise expected("indices", "a list of integers such as [0, 30, -1]", self.indices) from None
        if not indices:
            raise UsageError("indices: expected at least one frame number, got an empty list")
        if any(abs(number) > MAX_INT64 for number in indices):
            raise expected("indices", "integers of 64 bits", max(indices, key=abs))
        _check_num_frames(len(indices))
        object.__setattr__(self, "indices", indices)
        Picking(policy=self.policy)

    @property
    def num_frames(self) -> int:
        """T, the frames of one clip."""
        return len(self.indices)

    def choose(self, timeline: Timeline, context: ClipContext) -> ClipFrames:
        """Choose the frames of one clip."""
        numbers = np.array(self.indices, dtype=np.int64)
        return choose_frames(timeline, numbers, np.zeros_like(numbers), self.policy)


@dataclass(frozen=True)
class EveryFrame:
    """Clips of one frame, with one position for each frame of each video; ``policy`` has no effect."""

    policy: Policy = "repeat_last"
    num_frames: ClassVar[int] = 1

    def __post_init__(self) -> None:
        Picking(policy=self.policy)

    def choose(self, timeline: Timeline, context: ClipContext) -> ClipFrames:
        """Choose the frame of one clip."""
        numbers = np.array([context.number], dtype=np.int64)
        return choose_frames(timeline, numbers, np.zeros_like(numbers), self.policy)


Seconds = float | Fraction
Start = Literal["random"] | Seconds


@dataclass(frozen=True)
class AtSeconds:
    """The same times in every video, in seconds from its first frame.

    Attributes:
        seconds: Times in any order; kept as a tuple.
        pick: Which frame is taken for a time: "played", "nearest", "previous" or "next".
        tolerance_seconds: Largest allowed distance between requested and picked time; None for no limit.
        policy: Which frames replace those past the end: "repeat_last", "wrap" or "error".
    """

    seconds: Sequence[Seconds]
    _: KW_ONLY
    pick: Pick = "played"
    tolerance_seconds: float | None = None
    policy: Policy = "repeat_last"
    needs_times: ClassVar[bool] = True

    def __post_init__(self) -> None:
        try:
            seconds = tuple(_as_exact_number("seconds", time) for time in self.seconds)
        except TypeError:
            raise expected("seconds", "a list of times such as [0.5, 1.0]", self.seconds) from None
        if not seconds:
            raise UsageError("seconds: expected at least one time, got an empty list")
        _check_num_frames(len(seconds))
        object.__setattr__(self, "seconds", seconds)
        self._picking  # noqa: B018 - made now, so that a wrong rule fails at once

    @property
    def num_frames(self) -> int:
        """T, the frames of one clip."""
        return len(self.seconds)

    @cached_property
    def _picking(self) -> Picking:
        return Picking(self.pick, self.tolerance_seconds, self.policy)

    @cached_property
    def _times(self) -> ExactTimes:
        return ExactTimes.of(self.seconds)

    def choose(self, timeline: Timeline, context: ClipContext) -> ClipFrames:
        """Choose the frames of one clip."""
        segments = np.zeros(self.num_frames, dtype=np.int64)
        return choose_times(timeline, timeline.to_ticks(self._times), segments, self._picking)


@dataclass(frozen=True)
class Rates:
    """Several rates in one clip: some frames at one rate, then some frames at another.

    Segment j begins at start + the sum of num_frames_i / fps_i of the segments before it.

    Example: ``Rates([(1, 2), (2, 2)], start=0)`` asks for the times 0, 1, 2 and 2.5 s, in segments 0, 0, 1 and 1.

    Attributes:
        rates: (frames per second, number of frames) of each segment; kept as a tuple.
        start: Seconds from the first frame, or "random": the pts of a random frame from which the whole clip fits. If
            it fits nowhere, the clip starts at the first frame, and the policy fills the rest.
        pick: Which frame is taken for a time: "played", "nearest", "previous" or "next".
        tolerance_seconds: Largest allowed distance between requested and picked time; None for no limit.
        policy: Which frames replace those past the end: "repeat_last", "wrap" or "error".
    """

    rates: Sequence[tuple[Seconds, int]]
    start: Start = "random"
    _: KW_ONLY
    pick: Pick = "played"
    tolerance_seconds: float | None = None
    policy: Policy = "repeat_last"
    needs_times: ClassVar[bool] = True

    @property
    def end(self) -> tuple[str, Fraction]:
        """Column of a catalog, and the number above which a clip fits: to its last time."""
        start = Fraction(0) if isinstance(self.start, str) else Fraction(self.start)
        return "duration_seconds", start + self._span[0]

    def __post_init__(self) -> None:
        try:
            pairs = [(fps, count) for fps, count in self.rates]
        except (TypeError, ValueError):
            raise expected("rates", "a list of (fps, num_frames) such as [(1.0, 8), (2.0, 8)]", self.rates) from None
        if not pairs:
            raise UsageError("rates: expected at least one (fps, num_frames), got an empty list")
        rates = tuple((_check_rate(fps), _check_num_frames(count)) for fps, count in pairs)
        object.__setattr__(self, "rates", rates)
        _check_num_frames(self.num_frames)
        object.__setattr__(self, "start", _check_start(self.start))
        self._picking  # noqa: B018 - made now, so that a wrong rule fails at once

    @property
    def num_frames(self) -> int:
        """T, the frames of one clip."""
        return sum(count for _, count in self.rates)

    @property
    def is_random(self) -> bool:
        """Whether the start is drawn."""
        return self.start == "random"

    @cached_property
    def _picking(self) -> Picking:
        return Picking(self.pick, self.tolerance_seconds, self.policy)

    @cached_property
    def _segments(self) -> IntArray:
        return np.repeat(np.arange(len(self.rates), dtype=np.int64), [count for _, count in self.rates])

    @cached_property
    def _offsets(self) -> ExactTimes:
        begin, times = Fraction(0), []
        for fps, count in self.rates:
            step = 1 / Fraction(fps)
            times += [begin + number * step for number in range(count)]
            begin += count * step
        return ExactTimes.of(times)

    @cached_property
    def _span(self) -> ExactTimes:
        return ExactTimes.of([self._offsets[-1]])

    def choose(self, timeline: Timeline, context: ClipContext) -> ClipFrames:
        """Choose the frames of one clip."""
        first_tick: int | Fraction
        if self.start != "random":
            first_tick = timeline.to_ticks(ExactTimes.of([self.start]))[0]
        elif num_starts := timeline.count_starts(self._span, self.pick):
            first_tick = int(timeline.pts[context.generator.integers(num_starts)])
        else:
            first_tick = timeline.origin
        ticks = timeline.to_ticks(self._offsets, first_tick)
        return choose_times(timeline, ticks, self._segments, self._picking)


@dataclass(frozen=True)
class Dense:
    """Frames at equal distances: every ``stride``-th frame, or ``fps`` frames per second.

    Example: ``Dense(16, stride=4)``, ``Dense(16, fps=8, start=1.5)``.

    Attributes:
        num_frames: T, the frames of one clip.
        stride: Distance in frames; 1 if neither ``stride`` nor ``fps`` is given.
        fps: Frames per second, instead of ``stride``.
        start: Seconds from the first frame, or "random": a random frame from which the whole clip fits. If it fits
            nowhere, the clip starts at the first frame, and the policy fills the rest. With ``stride``, ``pick`` and
            ``tolerance_seconds`` choose the frame for the start; on a stream without timestamps, 0 is its first frame.
        pick: Which frame is taken for a time: "played", "nearest", "previous" or "next".
        tolerance_seconds: Largest allowed distance between requested and picked time; None for no limit.
        policy: Which frames replace those past the end: "repeat_last", "wrap" or "error".
    """

    num_frames: int
    _: KW_ONLY
    stride: int | None = None
    fps: Seconds | None = None
    start: Start = "random"
    pick: Pick = "played"
    tolerance_seconds: float | None = None
    policy: Policy = "repeat_last"

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_frames", _check_num_frames(self.num_frames))
        if self.stride is not None and self.fps is not None:
            raise UsageError("expected either stride= or fps=, got both")
        if self.fps is None:
            stride = 1 if self.stride is None else self.stride
            most = MAX_INT64 // MOST_FRAMES
            object.__setattr__(self, "stride", check_integer("stride", stride, least=1, most=most))
        else:
            object.__setattr__(self, "fps", _check_rate(self.fps))
        object.__setattr__(self, "start", _check_start(self.start))
        self._picking  # noqa: B018 - made now, so that a wrong rule fails at once
        self._by_time  # noqa: B018

    @property
    def is_random(self) -> bool:
        """Whether the start is drawn."""
        return self.start == "random"

    @property
    def needs_times(self) -> bool:
        """Whether frames, or the first one, are found by time."""
        return self.fps is not None or self.start not in ("random", 0)

    @property
    def end(self) -> tuple[str, Fraction] | None:
        """As that of `Rates`; None if frames and seconds are added."""
        if self._by_time is not None:
            return self._by_time.end
        return None if self.needs_times else ("num_frames", Fraction((self.num_frames - 1) * (self.stride or 1)))

    @cached_property
    def _picking(self) -> Picking:
        return Picking(self.pick, self.tolerance_seconds, self.policy)

    @cached_property
    def _by_time(self) -> Rates | None:
        if self.fps is None:
            return None
        picking = {"pick": self.pick, "tolerance_seconds": self.tolerance_seconds, "policy": self.policy}
        return Rates([(self.fps, self.num_frames)], self.start, **picking)  # type: ignore[arg-type]

    def choose(self, timeline: Timeline, context: ClipContext) -> ClipFrames:
        """Choose the frames of one clip."""
        if self._by_time is not None:
            return self._by_time.choose(timeline, context)
        first, error = 0, 0.0
        if self.start == "random":
            num_starts = len(timeline) - (self.num_frames - 1) * (self.stride or 1)
            # Without a generator where nothing is to choose: it draws nothing then, so the crop's draws are the same.
            first = int(context.generator.integers(num_starts)) if num_starts > 1 else 0
        elif self.start != 0 or timeline.index.has_timestamps:
            ticks = timeline.to_ticks(ExactTimes.of([self.start]))
            start = choose_times(timeline, ticks, np.zeros(1, dtype=np.int64), self._picking)
            first, error = len(timeline), 0.0
            if start.valid[0]:
                first, error = int(start.ordinals[0]) - timeline.first, float(start.errors[0])
        numbers = first + np.arange(self.num_frames, dtype=np.int64) * (self.stride or 1)
        chosen = choose_frames(timeline, numbers, np.zeros_like(numbers), self.policy)
        if not error:
            return chosen
        errors = chosen.errors.copy()
        errors[0] += error
        return replace(chosen, errors=errors)


@dataclass(frozen=True)
class WholeVideo:
    """The pictures on the screen at a rate over the whole video, or over its window: T depends on the duration.

    With D, the exact seconds of the video or window, T is floor(D * fps), within [min_frames, max_frames], and rounded
    down to a multiple, of which it is at least one. Frame k is the one on the screen at start + k * D' / T, where D' is
    T / fps; if the least or most number of frames was taken in place of floor(D * fps), D' is D. So a picture that is
    on the screen at two of these times is delivered twice. The window of ``within`` need not begin at a frame.

    Example: ``WholeVideo(fps=2, max_frames=64)``; of 9.8 s it takes the times 0, 0.5, ... 9, 19 frames.

    Attributes:
        fps: Frames per second.
        min_frames: Least T.
        max_frames: Most T; None for as many as a clip may have.
        multiple: Of T: processors of video language models that join two frames pad an odd T.
    """

    fps: Seconds
    _: KW_ONLY
    min_frames: int = 1
    max_frames: int | None = None
    multiple: int = 1
    policy: ClassVar[Policy] = "repeat_last"
    needs_times: ClassVar[bool] = True
    takes_windows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "fps", _check_rate(self.fps))
        multiple = check_integer("multiple", self.multiple, least=1, most=MOST_FRAMES)
        object.__setattr__(self, "multiple", multiple)
        object.__setattr__(self, "min_frames", check_integer("min_frames", self.min_frames, 1, MOST_FRAMES))
        if self.max_frames is not None:
            object.__setattr__(self, "max_frames", check_integer("max_frames", self.max_frames, multiple, MOST_FRAMES))
            if self.max_frames < self.min_frames:
                raise UsageError(f"max_frames: expected at least min_frames={self.min_frames}, got {self.max_frames}")

    @property
    def num_frames(self) -> int | None:
        """T if it is the same for all videos, else None."""
        return self._round(self.min_frames) if self.min_frames == self.max_frames else None

    def _round(self, count: int) -> int:
        return max(1, count // self.multiple) * self.multiple

    def choose(self, timeline: Timeline, context: ClipContext) -> ClipFrames:
        """Choose the frames of one clip."""
        index, (begin, end) = timeline.index, timeline.window or (timeline.origin, timeline.end_pts)
        is_still = len(index) == 1 and not index.duration[0]
        seconds = Fraction(0) if is_still else (end - begin) * index.time_base
        counted = floor(seconds * Fraction(self.fps))
        clamped = max(self.min_frames, counted if self.max_frames is None else min(counted, self.max_frames))
        count = self._round(clamped)
        if count > MOST_FRAMES:
            raise UsageError(
                f"{self!r}: a clip has at most {MOST_FRAMES:,} frames, and {float(seconds):.0f} s have {count:,}: give "
                "max_frames="
            )
        step = 1 / Fraction(self.fps) if count <= clamped == counted else seconds / count
        times = ExactTimes(tuple(number * step.numerator for number in range(count)), step.denominator)
        whole = Timeline.whole(index)
        return choose_times(whole, whole.to_ticks(times, begin), np.zeros(count, dtype=np.int64), _PLAYED)


_PLAYED = Picking()


def open_window(index: FrameIndex, rule: ClipRule, start_seconds: float, end_seconds: float) -> Timeline:
    """Open what a rule chooses from in a window: its frames, or all of the video for a rule that takes windows."""
    make = Timeline.around if getattr(rule, "takes_windows", False) else Timeline.within
    return make(index, start_seconds, end_seconds)


def choose_by(rule: ClipRule, timeline: Timeline, context: ClipContext) -> ClipFrames:
    """Choose the frames of one clip by a rule, which may be a user's.

    Raises:
        FrameNotFound: The rule chose none.
        UsageError: It chose what are no frames, or not as many as it says.
    """
    chosen = rule.choose(timeline, context)
    if not isinstance(chosen, ClipFrames):
        values = np.asarray(chosen)
        if values.ndim != 1 or values.dtype.kind not in "iuf" or not np.isfinite(values).all():
            what = "frame numbers (integers) or finite seconds (floats), an array [T]"
            raise expected(f"{rule!r}: `choose`", f"it to return {what}", chosen)
        segments = np.zeros(len(values), dtype=np.int64)
        policy: Policy = getattr(rule, "policy", "repeat_last")
        if not len(values):
            raise FrameNotFound(f"{rule!r} chose no frames: return at least one")
        if values.dtype.kind == "f":
            ticks = timeline.to_ticks(ExactTimes.of(values.tolist()))
            chosen = choose_times(timeline, ticks, segments, Picking(policy=policy))
        else:
            chosen = choose_frames(timeline, values.astype(np.int64), segments, policy)
    length, given = rule.num_frames, len(chosen.ordinals)
    if given > MOST_FRAMES:
        raise UsageError(f"{rule!r}: a clip has at most {MOST_FRAMES:,} frames, and `choose` returned {given:,}")
    if length is not None and given != length:
        raise UsageError(f"{rule!r}: expected `choose` to return num_frames={length} frames, got {given}")
    return chosen


ALIKE_IN_STILLS = (Uniform, RandomSegments, AtIndices, EveryFrame, AtSeconds, Rates, Dense, WholeVideo)
"""Rules that choose the same of every still picture, where nothing is drawn; classes derived from them need not."""


def _check_num_frames(count: int) -> int:
    return check_integer("num_frames", count, least=1, most=MOST_FRAMES)


def _check_rate(fps: Seconds) -> Seconds:
    rate = _as_exact_number("fps", fps)
    if rate <= 0:
        raise expected("fps", "a number above 0", fps)
    if not 1 <= rate * _MOST_RATE <= _MOST_RATE**2:
        raise expected("fps", f"frames a second from 1/{_MOST_RATE} to {_MOST_RATE}", fps)
    return rate


def _check_start(start: Start) -> Start:
    if start == "random":
        return "random"
    if isinstance(start, str):
        raise expected("start", "'random' or seconds from the first frame", start)
    seconds = _as_exact_number("start", start)
    if seconds < 0:
        raise expected("start", "seconds from the first frame, at least 0", start)
    return seconds


def _as_exact_number(name: str, value: Any) -> Seconds:
    """Convert a time or rate exactly to the simplest type that can hold it, so that equal rules have equal texts."""
    if not is_finite(value):
        raise expected(name, 'a finite number or "random"' if name == "start" else "a finite number", value)
    exact = value if isinstance(value, (int, Fraction)) else float(value)
    return int(exact) if exact == int(exact) else exact
