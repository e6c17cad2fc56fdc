"""A second implementation of Timeline, Pick rules and Policy of docs/reference.md: slow, with Fractions and lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ulp
from statistics import median

NANOSECOND = Fraction(1, 1_000_000_000)


class NoFrame(Exception):
    """Where the package raises FrameNotFound."""


@dataclass(frozen=True)
class Clock:
    """Times of all frames of a video in seconds on the stream's own timeline, and its end."""

    times: list[Fraction]
    end: Fraction


def clock_of(pts: Sequence[int], duration: Sequence[int], time_base: Fraction) -> Clock:
    times = [Fraction(tick) * time_base for tick in pts]
    steps = [after - before for before, after in pairwise(pts)]
    last = duration[-1] or (max(1, int(median(steps))) if steps else 1)
    return Clock(times, times[-1] + last * time_base)


def meant(clock: Clock, wanted: Fraction) -> Fraction:
    """A second within 1 ns, or one float's place, of a pts means it; one that is the end but for a float's, the end."""
    reach = max(NANOSECOND, Fraction(ulp(wanted)))
    near = [time for time in clock.times if abs(time - wanted) <= reach]
    own = clock.end if abs(clock.end - wanted) <= abs(clock.end) / 2**52 else wanted
    return min(near, key=lambda time: abs(time - wanted), default=own)


def pick(clock: Clock, wanted: Fraction, rule: str) -> int:
    numbers = range(len(clock.times))
    if rule == "played":
        bounds = [*clock.times, clock.end]
        found = [i for i in numbers if bounds[i] <= wanted < bounds[i + 1]]
    elif rule == "previous":
        found = [i for i in numbers if clock.times[i] <= wanted][-1:]
    elif rule == "next":
        found = [i for i in numbers if clock.times[i] >= wanted][:1]
    else:
        found = sorted(numbers, key=lambda i: (abs(clock.times[i] - wanted), i))[:1]
    if not found:
        raise NoFrame
    return found[0]


def index_at(clock: Clock, seconds: Fraction, rule: str, tolerance: float | None = None) -> int:
    wanted = meant(clock, seconds)
    found = pick(clock, wanted, rule)
    if tolerance is not None and abs(float(clock.times[found] - wanted)) > tolerance:
        raise NoFrame
    return found


Picked = tuple[int | None, float | None]
"""(frame, error), both None for what is past the end."""


def pick_clip(clock: Clock, stream_seconds: Sequence[Fraction], rule: str, tolerance: float | None) -> list[Picked]:
    picked: list[Picked] = []
    for seconds in stream_seconds:
        wanted = meant(clock, seconds)
        if wanted >= clock.end:
            picked.append((None, None))
        else:
            found = index_at(clock, seconds, rule, tolerance)
            picked.append((found, float(clock.times[found] - wanted)))
    return picked


def fill(frames: Sequence[int | None], policy: str, count: int) -> list[int]:
    """Put the policy's frames where there is None."""
    own = [frame for frame in frames if frame is not None]
    if policy == "error" and len(own) < len(frames):
        raise NoFrame
    if policy == "wrap" and not own:
        raise NoFrame
    filled: list[int] = []
    repeats = 0
    for frame in frames:
        if frame is not None:
            filled.append(frame)
        elif policy == "wrap":
            filled.append(own[repeats % len(own)])
            repeats += 1
        else:
            filled.append(filled[-1] if filled else count - 1)
    return filled
