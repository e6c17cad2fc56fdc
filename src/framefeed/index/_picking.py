"""Convert seconds to ticks, and pick frames for them: pure arithmetic for `Timeline`.

Times are compared as exact fractions of a tick, so that no rounding decides which frame is shown (docs/reference.md,
Timeline).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import repeat
from math import floor, lcm, ulp
from typing import Literal

import numpy as np

from framefeed._arrays import FloatArray, IntArray
from framefeed._checks import check_choice

Pick = Literal["played", "nearest", "previous", "next"]
PICKS: tuple[str, ...] = ("played", "nearest", "previous", "next")
NO_PICK = -1
"""Stands for the number of a frame if no frame can be picked."""

NO_TIMES = (
    "the stream's timestamps are missing or go backwards, and it declares no constant rate: ask for frames by number "
    "instead of by time; or, if you know the frame rate, give assume_fps= to scan or build_index (on the command line: "
    "--indices of clip; for a catalog framefeed scan --assume-fps)"
)
"""Message of `TimeUnavailable`."""

NANOSECONDS = 1_000_000_000
"""Nanoseconds in a second: a time within 1 ns of a frame's pts means that pts."""

_SECONDS_OF_ONE_NS = 2**23
"""Below this number of seconds, neighbouring float64 values are less than 1 ns apart."""

FLOAT_BITS = 52
"""Bits of a float's fraction (IEEE 754 binary64)."""

_MAX_INT64 = 2**63 - 1
"""NumPy's search takes int64; a time beyond it is past every frame anyway."""


@dataclass(frozen=True, slots=True)
class ExactTimes:
    """Times as fractions with one denominator, in seconds or in ticks."""

    numerators: tuple[int, ...]
    denominator: int

    @classmethod
    def of(cls, times: Iterable[float | Fraction]) -> ExactTimes:
        """Convert times without rounding; a float is its exact binary fraction."""
        ratios = [time.as_integer_ratio() for time in times]
        common = lcm(*(denominator for _, denominator in ratios))
        return cls(tuple(numerator * (common // denominator) for numerator, denominator in ratios), common)

    def __len__(self) -> int:
        return len(self.numerators)

    def __getitem__(self, number: int) -> Fraction:
        return Fraction(self.numerators[number], self.denominator)

    def in_ticks(self, time_base: Fraction, origin: int | Fraction = 0) -> ExactTimes:
        """Convert seconds counted from the tick ``origin`` to ticks of the stream's own timeline."""
        common = self.denominator * time_base.numerator
        zero = origin.numerator * common
        scale = time_base.denominator * origin.denominator
        return ExactTimes(tuple(zero + numerator * scale for numerator in self.numerators), common * origin.denominator)

    def floors(self) -> list[int]:
        """Round each time down to a whole number."""
        return [numerator // self.denominator for numerator in self.numerators]

    def ceilings(self) -> list[int]:
        """Round each time up to a whole number."""
        return [-(-numerator // self.denominator) for numerator in self.numerators]


def convert_to_ticks(
    pts: IntArray, seconds: ExactTimes, time_base: Fraction, end_pts: int, origin: int | Fraction = 0
) -> ExactTimes:
    """Convert seconds to ticks, and replace a time that means a frame's pts by that pts.

    A time means the nearest pts within 1 ns, or within one unit in the last place of its float64, whichever is more. A
    time that differs from the last frame's end only by the rounding of a float means that end, so that a video's own
    duration is past its last frame.

    ``pts``: ascending presentation times in ticks, int64 [N].
    ``seconds``: times counted from the tick ``origin``.
    ``end_pts``: when the last frame ends, in ticks.
    ``origin``, and the result: in ticks of the stream's own timeline.
    """
    ticks = seconds.in_ticks(time_base, origin)
    common = ticks.denominator
    end = end_pts * common
    rounding = compute_float_rounding(end)
    after = pts.searchsorted(_clamp_to_int64(ticks.floors()), side="right")
    lower, upper = np.maximum(after - 1, 0), np.minimum(after, len(pts) - 1)
    neighbours = zip(pts[lower].tolist(), pts[upper].tolist(), strict=True)
    meant = []
    for numerator, (low, high), reach in zip(
        ticks.numerators, neighbours, _compute_tolerances(seconds, ticks, time_base), strict=False
    ):
        to_low, to_high = abs(numerator - low * common), abs(high * common - numerator)
        if to_low <= reach or to_high <= reach:
            meant.append((low if to_low <= to_high else high) * common)
        else:
            meant.append(end if abs(end - numerator) <= rounding else numerator)
    return ExactTimes(tuple(meant), common)


def _compute_tolerances(seconds: ExactTimes, ticks: ExactTimes, time_base: Fraction) -> Iterable[int]:
    """Compute how far each time may be from the pts that it means, in parts of a tick as in ``ticks``."""
    nanosecond = convert_nanosecond_to_ticks(ticks.denominator, time_base)
    furthest = max(max(seconds.numerators, default=0), -min(seconds.numerators, default=0))
    if furthest < seconds.denominator * _SECONDS_OF_ONE_NS:
        return repeat(nanosecond)
    units = (Fraction(ulp(numerator / seconds.denominator)) for numerator in seconds.numerators)
    return (max(nanosecond, floor(unit * ticks.denominator / time_base)) for unit in units)


def convert_nanosecond_to_ticks(denominator: int, time_base: Fraction) -> int:
    """Convert 1 ns to ticks of ``time_base``, in parts of ``1 / denominator``."""
    return denominator * time_base.denominator // (time_base.numerator * NANOSECONDS)


def compute_float_rounding(numerator: int) -> int:
    """Compute the largest rounding error of a float for this time, in the unit of the time."""
    return abs(numerator) >> FLOAT_BITS


def pick_frames(pts: IntArray, ticks: ExactTimes, pick: Pick) -> IntArray:
    """Apply a pick rule to times, without checking the end of the last frame.

    ``pts``: ascending, int64 [N]; N >= 1.
    ``pick``: "played" and "previous": last pts <= t; "next": first pts >= t; "nearest": least distance, ties to the
    earlier frame.

    Returns:
        Frame numbers, int64 [T]; ``NO_PICK`` where no frame can be picked.
    """
    check_choice("pick", pick, PICKS)
    before = pts.searchsorted(_clamp_to_int64(ticks.floors()), side="right") - 1
    if pick in ("played", "previous"):
        return before
    after = pts.searchsorted(_clamp_to_int64(ticks.ceilings()), side="left")
    if pick == "next":
        return np.where(after < len(pts), after, NO_PICK)
    last = len(pts) - 1
    pairs = zip(pts[np.maximum(before, 0)].tolist(), pts[np.minimum(after, last)].tolist(), strict=True)
    common = ticks.denominator
    joined = zip(ticks.numerators, pairs, strict=True)
    gaps = [(numerator - low * common, high * common - numerator) for numerator, (low, high) in joined]
    closer = np.array([to_before <= to_after for to_before, to_after in gaps], dtype=np.bool_)
    earlier = (before >= 0) & ((after > last) | closer)
    # Of frames with one pts the first is the earlier.
    first_of_before = pts.searchsorted(pts[np.maximum(before, 0)], side="left")
    return np.where(earlier, first_of_before, after).astype(np.int64)


def measure_errors(pts: IntArray, frames: IntArray, ticks: ExactTimes, time_base: Fraction) -> FloatArray:
    """Compute the time of each frame minus the requested one in seconds, rounded once, float64 [T]."""
    common, scale = ticks.denominator, time_base.numerator
    parts = common * time_base.denominator
    pairs = zip(pts[frames].tolist(), ticks.numerators, strict=True)
    return np.array([(at * common - numerator) * scale / parts for at, numerator in pairs], dtype=np.float64)


def _clamp_to_int64(values: Sequence[int]) -> IntArray:
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        return np.array([max(-_MAX_INT64, min(_MAX_INT64, value)) for value in values], dtype=np.int64)
