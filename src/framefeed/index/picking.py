"""Pick rules over exact times: integer pts against fractions of a tick, many times in one search.

A time is a whole numerator over a common denominator, in ticks, so that nothing is ever rounded to a tick and no
float decides which frame is shown (docs/reference.md, Timeline).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import repeat
from math import floor, lcm, ulp
from typing import Literal

import numpy as np
import numpy.typing as npt

from framefeed._checks import expected
from framefeed._nearest import did_you_mean
from framefeed.errors import UsageError

IntArray = npt.NDArray[np.int64]
Pick = Literal["played", "nearest", "previous", "next"]
PICKS: tuple[str, ...] = ("played", "nearest", "previous", "next")
NONE = -1
"""In place of an ordinal: there is nothing to pick."""

NANOSECONDS = 1_000_000_000
"""A second this close (one part of this many) to a frame's pts means that pts."""

_SECONDS_OF_ONE_NS = 2**23
"""Up to here neighbouring float64 lie less than 1 ns apart."""

FLOAT_BITS = 52
"""Bits of a float's fraction (IEEE 754 binary64)."""

_BOUND = 2**63 - 1  # NumPy's search takes int64: a time beyond it is past every frame all the same.


@dataclass(frozen=True, slots=True)
class ExactTimes:
    """Times as fractions with one denominator, in seconds or in ticks as the name that holds them says."""

    numerators: tuple[int, ...]
    denominator: int

    @classmethod
    def of(cls, times: Iterable[float | Fraction]) -> ExactTimes:
        """Take times exactly as they are; a float is the binary fraction that it stands for."""
        ratios = [time.as_integer_ratio() for time in times]
        common = lcm(*(below for _, below in ratios))
        return cls(tuple(above * (common // below) for above, below in ratios), common)

    def __len__(self) -> int:
        return len(self.numerators)

    def __getitem__(self, number: int) -> Fraction:
        return Fraction(self.numerators[number], self.denominator)

    def in_ticks(self, time_base: Fraction, origin: int | Fraction = 0) -> ExactTimes:
        """Convert seconds counted from the tick ``origin`` to ticks of the stream's own timeline."""
        common = self.denominator * time_base.numerator
        zero = origin.numerator * common
        scale = time_base.denominator * origin.denominator
        return ExactTimes(tuple(zero + above * scale for above in self.numerators), common * origin.denominator)

    def floors(self) -> list[int]:
        """The last whole number not after each time."""
        return [above // self.denominator for above in self.numerators]

    def ceilings(self) -> list[int]:
        """The first whole number not before each time."""
        return [-(-above // self.denominator) for above in self.numerators]


def as_ticks(
    pts: IntArray, seconds: ExactTimes, time_base: Fraction, end_pts: int, origin: int | Fraction = 0
) -> ExactTimes:
    """Convert seconds to ticks; one that means a frame's pts becomes that pts, any other stays as it is.

    A second means the nearest pts within 1 ns of it, or within one unit in the last place of its float64, whichever is
    more. A float cannot say most ends exactly either: one that is the last frame's end but for its rounding means that
    end, so that asking for a video's own duration is past it.

    Args:
        pts: Ascending presentation times in ticks, int64 [N].
        seconds: Times counted from the tick ``origin``.
        time_base: Seconds in one tick.
        end_pts: When the last frame ends, in ticks.
        origin: In ticks of the stream's own timeline.

    Returns:
        Times in ticks of the stream's own timeline.
    """
    ticks = seconds.in_ticks(time_base, origin)
    common = ticks.denominator
    end = end_pts * common
    rounding = rounding_of(end)
    after = np.searchsorted(pts, _clamped(ticks.floors()), side="right")
    neighbours = zip(*(pts[np.clip(at, 0, len(pts) - 1)].tolist() for at in (after - 1, after)), strict=True)
    meant = []
    for above, pair, reach in zip(ticks.numerators, neighbours, _reaches(seconds, ticks, time_base), strict=False):
        low, high = pair[0] * common, pair[1] * common
        to_low, to_high = abs(above - low), abs(high - above)
        if min(to_low, to_high) <= reach:
            meant.append(low if to_low <= to_high else high)
        else:
            meant.append(end if abs(end - above) <= rounding else above)
    return ExactTimes(tuple(meant), common)


def _reaches(seconds: ExactTimes, ticks: ExactTimes, time_base: Fraction) -> Iterable[int]:
    """How far each time may lie from the pts that it means, in parts of a tick as ``ticks`` has them."""
    nanosecond = reach_of(ticks.denominator, time_base)
    furthest = max(map(abs, seconds.numerators), default=0)
    if furthest < seconds.denominator * _SECONDS_OF_ONE_NS:
        return repeat(nanosecond)
    places = (Fraction(ulp(above / seconds.denominator)) for above in seconds.numerators)
    return (max(nanosecond, floor(place * ticks.denominator / time_base)) for place in places)


def reach_of(denominator: int, time_base: Fraction) -> int:
    """1 ns in ticks of ``time_base``, in parts of ``1 / denominator``."""
    return denominator * time_base.denominator // (time_base.numerator * NANOSECONDS)


def rounding_of(above: int) -> int:
    """What a float that stands for a time may be off by, in the unit of that time."""
    return abs(above) >> FLOAT_BITS


def pick_frames(pts: IntArray, ticks: ExactTimes, pick: Pick) -> IntArray:
    """Apply a pick rule to times; the end of the last frame is the caller's to check.

    Args:
        pts: Ascending presentation times in ticks, int64 [N]; N >= 1.
        ticks: T times in ticks.
        pick: "played" and "previous": last pts <= t; "next": first pts >= t; "nearest": least distance, ties to the
            earlier frame.

    Returns:
        Ordinals, int64 [T]; ``NONE`` where there is nothing to pick.
    """
    if pick not in PICKS:
        error = expected("pick", f"one of {', '.join(PICKS)}", pick)
        raise UsageError(f"{error}{did_you_mean(str(pick), PICKS)}")
    before = np.searchsorted(pts, _clamped(ticks.floors()), side="right") - 1
    if pick in ("played", "previous"):
        return before
    after = np.searchsorted(pts, _clamped(ticks.ceilings()), side="left")
    if pick == "next":
        return np.where(after < len(pts), after, NONE)
    return _nearer(pts, ticks, before, after)


def _nearer(pts: IntArray, ticks: ExactTimes, before: IntArray, after: IntArray) -> IntArray:
    last = len(pts) - 1
    pairs = zip(pts[np.maximum(before, 0)].tolist(), pts[np.minimum(after, last)].tolist(), strict=True)
    common = ticks.denominator
    joined = zip(ticks.numerators, pairs, strict=True)
    gaps = [(above - low * common, high * common - above) for above, (low, high) in joined]
    closer = np.array([to_before <= to_after for to_before, to_after in gaps], dtype=np.bool_)
    earlier = (before >= 0) & ((after > last) | closer)
    # Of frames with one pts the first is the earlier.
    first_of_before = np.searchsorted(pts, pts[np.maximum(before, 0)], side="left")
    return np.where(earlier, first_of_before, after).astype(np.int64)


def _clamped(values: Sequence[int]) -> IntArray:
    return np.array([max(-_BOUND, min(_BOUND, value)) for value in values], dtype=np.int64)
