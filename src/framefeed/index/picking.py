"""Pick rules over exact times: integer pts against fractions of a tick, many times in one search.

A time is a whole numerator over a common denominator, in ticks, so that nothing is ever rounded to a tick and no
float decides which frame is shown (docs/reference.md, Timeline).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Literal

import numpy as np
import numpy.typing as npt

from framefeed.errors import UsageError

IntArray = npt.NDArray[np.int64]
Pick = Literal["played", "nearest", "previous", "next"]
PICKS: tuple[str, ...] = ("played", "nearest", "previous", "next")
NONE = -1
"""In place of an ordinal: there is nothing to pick."""

SAME_TIMES_A_SECOND = 1_000_000
"""A second this close (one part of this many) to a frame's pts means that pts."""

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


def snapped(pts: IntArray, ticks: ExactTimes, time_base: Fraction, end_pts: int) -> ExactTimes:
    """Replace each time that lies within 1 us of a frame's pts by the nearest such pts.

    A float cannot say most ends exactly: one that is the last frame's end but for its rounding means that end, so
    that asking for a video's own duration is past it.

    Args:
        pts: Ascending presentation times in ticks, int64 [N].
        ticks: Times in ticks.
        time_base: Seconds in one tick.
        end_pts: When the last frame ends, in ticks.

    Returns:
        Times in ticks with the same denominator.
    """
    common = ticks.denominator
    reach = common * time_base.denominator // (time_base.numerator * SAME_TIMES_A_SECOND)
    end = end_pts * common
    rounding = abs(end) >> FLOAT_BITS
    after = np.searchsorted(pts, _clamped(ticks.floors()), side="right")
    neighbours = zip(*(pts[np.clip(at, 0, len(pts) - 1)].tolist() for at in (after - 1, after)), strict=True)
    snaps = []
    for above, pair in zip(ticks.numerators, neighbours, strict=True):
        nearest = min((at * common for at in pair), key=lambda at: abs(at - above))
        own = end if abs(end - above) <= rounding else above
        snaps.append(nearest if abs(nearest - above) <= reach else own)
    return ExactTimes(tuple(snaps), common)


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
        raise UsageError(f"unknown pick {pick!r}: use one of {', '.join(PICKS)}")
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
