"""What a VideoDecoder's callers may ask for, turned into ordinals; pure."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed.errors import FrameNotFound, UsageError
from framefeed.index.frame_index import FrameIndex, IntArray
from framefeed.index.picking import NONE, ExactTimes, as_ticks, pick_frames

FloatArray = npt.NDArray[np.float64]


class FrameNotPlayed(FrameNotFound, RuntimeError):
    """No frame is played at one of several times; TorchCodec raises RuntimeError there and IndexError for one time."""


def ordinal(index: FrameIndex, number: Any, name: str) -> int:
    """Check one frame number; a negative one counts from the end.

    Raises:
        FrameNotFound: There is no such frame.
        UsageError: Not a whole number.
    """
    try:
        asked = operator.index(number)
    except TypeError as error:
        raise UsageError(f"a frame index is a whole number, not {number!r}") from error
    if not -len(index) <= asked < len(index):
        raise FrameNotFound(f"{name}: there is no frame {asked}: it has {len(index)} frames", source=name)
    return asked % len(index)


def ordinals(index: FrameIndex, numbers: Any, name: str) -> IntArray:
    """Check several frame numbers, int64 [T]; see ``ordinal``."""
    given = np.asarray(numbers)
    if given.ndim != 1 or (given.size and not np.issubdtype(given.dtype, np.integer)):
        raise UsageError(f"frame indices are a flat sequence of whole numbers, not {numbers!r}")
    return np.array([ordinal(index, number, name) for number in given.tolist()], dtype=np.int64)


def played_at(index: FrameIndex, seconds: Sequence[float] | npt.ArrayLike) -> IntArray:
    """Find the frames played at several times.

    Raises:
        FrameNotPlayed: No frame is played at one of them.
    """
    times = np.asarray(seconds, dtype=np.float64)
    if times.ndim != 1:
        raise UsageError("times are a flat sequence of seconds")
    try:
        return index.index_at(times) if len(times) else np.empty(0, dtype=np.int64)
    except FrameNotFound as error:
        raise FrameNotPlayed(str(error)) from error


def played_in_range(index: FrameIndex, start_seconds: float, stop_seconds: float) -> IntArray:
    """Frames shown in [start, stop): from the one played at ``start`` to the last that begins before ``stop``.

    Raises:
        UsageError: The range does not lie inside the stream, or is turned round.
    """
    _check_range(index, start_seconds, stop_seconds)
    if start_seconds == stop_seconds:
        return np.empty(0, dtype=np.int64)
    first = index.index_at(start_seconds)
    ticks = as_ticks(index.pts, ExactTimes.of([stop_seconds]), index.time_base, index.end_pts)
    following = int(pick_frames(index.pts, ticks, "next")[0])
    stop = len(index) if following == NONE else following
    # Start and stop may mean the same pts: the frame shown at the start is in the range all the same.
    return np.arange(first, max(stop, first + 1), dtype=np.int64)


def resampled(index: FrameIndex, start_seconds: float, stop_seconds: float, fps: float) -> tuple[IntArray, FloatArray]:
    """Frames played at start + k / fps for all such times before ``stop``, and those times in seconds.

    Raises:
        UsageError: As ``played_in_range``; or ``fps`` is not positive.
    """
    _check_range(index, start_seconds, stop_seconds)
    if not fps > 0:
        raise UsageError(f"fps must be positive, not {fps}")
    start, rate = Fraction(start_seconds), Fraction(fps)
    count = _ceil((Fraction(stop_seconds) - start) * rate)
    times = [start + k / rate for k in range(count)]
    found = [index.index_at(time) for time in times]
    return np.array(found, dtype=np.int64), np.array([float(time) for time in times], dtype=np.float64)


def _check_range(index: FrameIndex, start_seconds: float, stop_seconds: float) -> None:
    index.require_timestamps()
    begin, end = (float(ticks * index.time_base) for ticks in (int(index.pts[0]), index.end_pts))
    if not start_seconds <= stop_seconds:
        raise UsageError(f"the range starts at {start_seconds} s, after its stop at {stop_seconds} s")
    if not begin <= start_seconds < end or not stop_seconds <= end:
        raise UsageError(
            f"the range [{start_seconds}, {stop_seconds}) does not lie inside the stream's [{begin:.6f}, {end:.6f})"
        )


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)
