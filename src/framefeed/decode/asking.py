"""What a VideoDecoder's callers may ask for, turned into ordinals; pure."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed._checks import expected, shown
from framefeed.errors import FrameNotFound, TimeUnavailable, UsageError
from framefeed.index.frame_index import FrameIndex, IntArray
from framefeed.index.picking import NONE, ExactTimes, as_ticks, pick_frames

FloatArray = npt.NDArray[np.float64]


_MOST_RESAMPLED = 1_000_000
"""Frames that one call may ask for at a rate of its own: far more than fit into memory."""


class NoSuchFrame(FrameNotFound, RuntimeError):
    """There is no such frame, where TorchCodec raises RuntimeError: at one of several times, beyond 64 bits."""


class WrongKind(UsageError, TypeError, RuntimeError):
    """An argument of another kind; TorchCodec raises one of these or the other, by the place where it notices."""


class RefusedValue(UsageError, RuntimeError):
    """A value out of its range, where TorchCodec raises RuntimeError."""


def ordinal(index: FrameIndex, number: Any, name: str) -> int:
    """Check one frame number; a negative one counts from the end.

    Raises:
        FrameNotFound: There is no such frame.
        WrongKind: Not a whole number.
    """
    try:
        asked = operator.index(number)
    except TypeError as error:
        raise WrongKind(f"index: expected an integer, got {shown(number)}") from error
    if not -len(index) <= asked < len(index):
        kind = FrameNotFound if -(2**63) <= asked < 2**63 else NoSuchFrame
        raise kind(f"{name}: there is no frame {asked}: the video has {len(index)} frames", source=name)
    return asked % len(index)


def ordinals(index: FrameIndex, numbers: Any, name: str) -> IntArray:
    """Check several frame numbers, int64 [T]; see ``ordinal``."""
    try:
        given = np.asarray(numbers)
    except ValueError as error:  # lists of unequal lengths
        raise WrongKind(f"indices: expected a flat list of integers, got {shown(numbers)}") from error
    if given.ndim != 1 or (given.size and not np.issubdtype(given.dtype, np.integer)):
        raise WrongKind(f"indices: expected a flat list of integers, got {shown(numbers)}")
    return np.array([ordinal(index, number, name) for number in given.tolist()], dtype=np.int64)


def frame_range(key: slice, count: int) -> range:
    """Clip a slice to a video, as a sequence does.

    Raises:
        WrongKind: Its ends or its step are not whole numbers.
        UsageError: Its step is 0.
    """
    try:
        return range(*key.indices(count))
    except TypeError as error:
        raise WrongKind(f"expected start, stop and step as integers, got {key}: {error}") from error
    except ValueError as error:
        raise UsageError(f"not a range of frames: {error}") from error


def as_number(value: Any, name: str) -> float:
    """Take one time or rate; what is beyond floats is infinite.

    Raises:
        WrongKind: Not one number.
    """
    if isinstance(value, (str, bytes, bytearray)):  # float() reads text
        raise WrongKind(f"{name}: expected a number, got {shown(value)}")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError) as error:
        raise WrongKind(f"{name}: expected a number, got {shown(value)}") from error


def played_once(index: FrameIndex, seconds: Any, name: str) -> int:
    """Find the frame played at one time.

    Raises:
        FrameNotFound: No frame is.
        TimeUnavailable: The stream has no usable timestamps.
        WrongKind: Not one number.
    """
    time = as_number(seconds, "a time")
    require_times(index, name)
    if not math.isfinite(time):
        raise FrameNotFound(f"{name}: no frame is shown at {time} seconds", source=name)
    try:
        return index.index_at(time)
    except FrameNotFound as error:
        raise FrameNotFound(f"{name}: {error}", source=name) from error


def require_times(index: FrameIndex, name: str) -> None:
    """Refuse a stream without usable timestamps by its name.

    Raises:
        TimeUnavailable: It is one.
    """
    try:
        index.require_timestamps()
    except TimeUnavailable as error:
        raise TimeUnavailable(f"{name}: {error}", source=name) from error


def played_at(index: FrameIndex, seconds: Sequence[float] | npt.ArrayLike, name: str) -> IntArray:
    """Find the frames played at several times.

    Raises:
        NoSuchFrame: No frame is played at one of them.
        TimeUnavailable: The stream has no usable timestamps.
        UsageError: Not a flat sequence of numbers.
    """
    times = _as_times(seconds)
    if not np.isfinite(times).all():
        raise NoSuchFrame(f"{name}: no frame is shown at {times[~np.isfinite(times)][0]} seconds", source=name)
    if not len(times):
        return np.empty(0, dtype=np.int64)
    require_times(index, name)
    try:
        return index.index_at(times)
    except FrameNotFound as error:
        raise NoSuchFrame(f"{name}: {error}", source=name) from error


def _as_times(seconds: Any) -> FloatArray:
    try:
        given = np.asarray(seconds)
        if given.dtype == np.object_ and given.ndim:  # fractions, decimals, what NumPy has no type for
            given = np.array([float(time) for time in given.tolist()], dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise expected("seconds", "a flat list of times", seconds) from error
    if given.ndim != 1 or given.dtype.kind not in "biuf":
        raise expected("seconds", "a flat list of times", seconds)
    return given.astype(np.float64)


def played_in_range(index: FrameIndex, start_seconds: float, stop_seconds: float, name: str) -> IntArray:
    """Frames shown in [start, stop): from the one played at ``start`` to the last that begins before ``stop``.

    Raises:
        UsageError: The range does not lie inside the stream, or is turned round.
        TimeUnavailable: The stream has no usable timestamps.
    """
    start_seconds, stop_seconds = _checked_range(index, start_seconds, stop_seconds, name)
    if start_seconds == stop_seconds:
        return np.empty(0, dtype=np.int64)
    first = index.index_at(start_seconds)
    ticks = as_ticks(index.pts, ExactTimes.of([stop_seconds]), index.time_base, index.end_pts)
    following = int(pick_frames(index.pts, ticks, "next")[0])
    stop = len(index) if following == NONE else following
    # Start and stop may mean the same pts: the frame shown at the start is in the range all the same.
    return np.arange(first, max(stop, first + 1), dtype=np.int64)


def resampled(
    index: FrameIndex, start_seconds: float, stop_seconds: float, fps: float | Fraction, name: str
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Find the frames played at start + k / fps, as many as fit into the range, to the nearest whole number.

    Returns:
        Ordinals int64 [T], those times in seconds float64 [T], and the seconds that each stands for, float64 [T].

    Raises:
        UsageError, TimeUnavailable: As ``played_in_range``.
        RefusedValue: ``fps`` is not positive, or asks for more frames than any memory holds.
    """
    begin, end = _checked_range(index, start_seconds, stop_seconds, name)
    if begin == end:
        return np.empty(0, dtype=np.int64), np.empty(0), np.empty(0)
    frequency = as_number(fps, "fps")
    if not 0 < frequency < math.inf:
        raise RefusedValue(f"fps: expected a number above 0, got {fps}")
    wanted = (end - begin) * frequency
    if wanted > _MOST_RESAMPLED:
        raise RefusedValue(f"fps={fps} gives {wanted:.0f} frames in one call: ask for at most {_MOST_RESAMPLED}")
    start, rate = Fraction(begin), fps if isinstance(fps, Fraction) else Fraction(frequency)
    # The number of frames that TorchCodec gives: halves go up.
    times = [start + k / rate for k in range(math.floor(Fraction(wanted) + Fraction(1, 2)))]
    found = [index.index_at(time) for time in times]
    seconds = np.array([float(time) for time in times], dtype=np.float64)
    return np.array(found, dtype=np.int64), seconds, np.full(len(times), float(1 / rate))


def _checked_range(index: FrameIndex, start_seconds: Any, stop_seconds: Any, name: str) -> tuple[float, float]:
    start_seconds, stop_seconds = as_number(start_seconds, "start_seconds"), as_number(stop_seconds, "stop_seconds")
    require_times(index, name)
    begin, end = (float(ticks * index.time_base) for ticks in (int(index.pts[0]), index.end_pts))
    if not start_seconds <= stop_seconds:
        raise UsageError(f"stop_seconds: expected at least start_seconds={start_seconds}, got {stop_seconds}")
    if not begin <= start_seconds < end or not stop_seconds <= end:
        raise UsageError(
            f"the range from {start_seconds} s to {stop_seconds} s is not inside the stream, which runs from "
            f"{begin:.6f} s "
            f"to {end:.6f} s"
        )
    return start_seconds, stop_seconds
