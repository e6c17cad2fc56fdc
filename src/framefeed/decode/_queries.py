"""Check the frame numbers, times and ranges given to a VideoDecoder, and turn them into ordinals; pure."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from framefeed._arrays import FloatArray, IntArray
from framefeed._checks import describe_value, expected
from framefeed.errors import FrameNotFound, TimeUnavailable, UsageError
from framefeed.index import FrameIndex, Timeline

# Frames of one call with ``fps``: far more than fit into memory.
_MAX_RESAMPLED = 1_000_000
_TIMES = "a flat list of numbers of seconds, such as [0.5, 1.25]"


class NoSuchFrame(FrameNotFound, RuntimeError):
    """There is no such frame, at one of several times or beyond 64 bits; TorchCodec raises RuntimeError here."""


class WrongKind(UsageError, TypeError, RuntimeError):
    """An argument has the wrong type; TorchCodec raises TypeError for some and RuntimeError for others."""


class RefusedValue(UsageError, RuntimeError):
    """A value is out of range; TorchCodec raises RuntimeError here."""


def check_ordinal(index: FrameIndex, number: Any, name: str) -> int:
    """Check one frame number; a negative one counts from the end."""
    try:
        given = operator.index(number)
    except TypeError as error:
        several = "; get_frames_at(indices) takes several" if isinstance(number, (list, tuple, np.ndarray)) else ""
        raise WrongKind(f"index: expected an integer, got {describe_value(number)}{several}") from error
    count = len(index)
    if not -count <= given < count:
        kind = FrameNotFound if -(2**63) <= given < 2**63 else NoSuchFrame
        frames = f"{count} frame{'' if count == 1 else 's'}"
        raise kind(
            f"{name}: there is no frame {describe_value(given)} in {frames}: expected {-count} to {count - 1} "
            "(negative numbers count from the end)",
            source=name,
        )
    return given % count


def check_ordinals(index: FrameIndex, numbers: Any, name: str) -> IntArray:
    """Check several frame numbers, int64 [T]; see ``check_ordinal``."""
    try:
        given = np.asarray(numbers)
    except ValueError as error:  # lists of unequal lengths
        raise _make_indices_error(numbers) from error
    if given.ndim != 1:
        raise _make_indices_error(numbers)
    if given.size and not np.issubdtype(given.dtype, np.integer):
        # NumPy turns a list of numbers and text into text: only the list itself shows the wrong item.
        raise _make_indices_error(numbers, numbers if isinstance(numbers, (list, tuple)) else given.tolist())
    return np.array([check_ordinal(index, number, name) for number in given.tolist()], dtype=np.int64)


def _make_indices_error(numbers: Any, items: Iterable[Any] = ()) -> WrongKind:
    wrong = [item for item in items if not isinstance(item, (int, np.integer)) or isinstance(item, bool)]
    given = f"a list that contains {describe_value(wrong[0])}" if wrong else describe_value(numbers)
    return WrongKind(f"indices: expected a flat list of integers, got {given}")


def clip_slice(key: slice, count: int) -> range:
    """Clip a slice to a video, as a sequence does."""
    try:
        return range(*key.indices(count))
    except TypeError as error:
        parts = {"start": key.start, "stop": key.stop, "step": key.step}
        name = next(name for name, value in parts.items() if value is not None and not _is_integer(value))
        raise WrongKind(f"{name}: expected an integer, got {describe_value(parts[name])}") from error
    except ValueError as error:
        raise expected("step", "an integer other than 0", key.step) from error


def _is_integer(value: Any) -> bool:
    try:
        operator.index(value)  # a tensor has the method, and may refuse
    except TypeError:
        return False
    return True


def as_number(value: Any, name: str) -> float:
    """Take one time or rate as a float; a number too large for a float becomes infinity."""
    if isinstance(value, (str, bytes, bytearray)):  # float() reads text
        raise WrongKind(f"{name}: expected a number, got {describe_value(value)}")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError) as error:
        raise WrongKind(f"{name}: expected a number, got {describe_value(value)}") from error


def find_frame_at(index: FrameIndex, seconds: Any, name: str) -> int:
    """Find the frame played at one time."""
    time = as_number(seconds, "seconds")
    require_times(index, name)
    if not math.isfinite(time):
        raise FrameNotFound(_describe_not_finite(time, name), source=name)
    try:
        return index.index_at(time)
    except FrameNotFound as error:
        raise FrameNotFound(f"{name}: {error}", source=name) from error


def _describe_not_finite(time: float, name: str) -> str:
    return f"{name}: no frame is shown at {time} seconds: seconds must be finite"


def require_times(index: FrameIndex, name: str) -> None:
    """Refuse a stream without usable timestamps; the error names the file."""
    try:
        index.require_timestamps()
    except TimeUnavailable as error:
        raise TimeUnavailable(f"{name}: {error}", source=name) from error


def find_frames_at(index: FrameIndex, seconds: Sequence[float] | npt.ArrayLike, name: str) -> IntArray:
    """Find the frames played at several times."""
    try:
        given = np.asarray(seconds)
        if given.dtype == np.object_ and given.ndim:  # fractions and decimals, for which NumPy has no type
            given = np.array([float(time) for time in given.tolist()], dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise expected("seconds", _TIMES, seconds) from error
    if given.ndim != 1 or given.dtype.kind not in "biuf":
        raise expected("seconds", _TIMES, seconds)
    times = given.astype(np.float64)
    if not np.isfinite(times).all():
        raise NoSuchFrame(_describe_not_finite(times[~np.isfinite(times)][0], name), source=name)
    if not len(times):
        return np.empty(0, dtype=np.int64)
    require_times(index, name)
    try:
        return index.index_at(times)
    except FrameNotFound as error:
        raise NoSuchFrame(f"{name}: {error}", source=name) from error


def find_frames_in_range(index: FrameIndex, start_seconds: float, stop_seconds: float, name: str) -> IntArray:
    """Find the frames shown in [start, stop): the one shown at ``start``, and all that begin before ``stop``."""
    start_seconds, stop_seconds = _check_range(index, start_seconds, stop_seconds, name)
    if start_seconds == stop_seconds:
        return np.empty(0, dtype=np.int64)
    first = index.index_at(start_seconds)
    stop = Timeline.whole(index).count_before(stop_seconds, origin=0)
    # Start and stop may be rounded to the same pts: the frame shown at the start is in the range even then.
    return np.arange(first, max(stop, first + 1), dtype=np.int64)


def resample_frames(
    index: FrameIndex, start_seconds: float, stop_seconds: float, fps: float | Fraction, name: str
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Find the frames shown at start + k / fps; their number is (stop - start) * fps, rounded.

    Returns:
        Ordinals int64 [T], those times in seconds float64 [T], and the seconds between two of them, float64 [T].
    """
    begin, end = _check_range(index, start_seconds, stop_seconds, name)
    if begin == end:
        return np.empty(0, dtype=np.int64), np.empty(0), np.empty(0)
    frequency = as_number(fps, "fps")
    if not 0 < frequency < math.inf:
        raise RefusedValue(f"fps: expected a finite number above 0, got {describe_value(fps)}")
    count = (end - begin) * frequency
    if count > _MAX_RESAMPLED:
        raise RefusedValue(
            f"fps={fps} gives {count:,.0f} frames in one call, more than {_MAX_RESAMPLED:,}: use a lower fps or a "
            "shorter range"
        )
    start, rate = Fraction(begin), fps if isinstance(fps, Fraction) else Fraction(frequency)
    # The number of frames that TorchCodec gives: halves go up.
    times = [start + k / rate for k in range(math.floor(Fraction(count) + Fraction(1, 2)))]
    ordinals = [index.index_at(time) for time in times]
    seconds = np.array([float(time) for time in times], dtype=np.float64)
    return np.array(ordinals, dtype=np.int64), seconds, np.full(len(times), float(1 / rate) if times else 0.0)


def _check_range(index: FrameIndex, start_seconds: Any, stop_seconds: Any, name: str) -> tuple[float, float]:
    start_seconds, stop_seconds = as_number(start_seconds, "start_seconds"), as_number(stop_seconds, "stop_seconds")
    require_times(index, name)
    begin, end = Timeline.whole(index).span_seconds
    if math.isnan(start_seconds):
        raise expected("start_seconds", "a time in seconds", start_seconds)
    if not start_seconds <= stop_seconds:
        raise UsageError(f"stop_seconds: expected at least start_seconds={start_seconds}, got {stop_seconds}")
    if not begin <= start_seconds < end or not stop_seconds <= end:
        raise UsageError(
            f"{name}: the range from start_seconds={start_seconds} to stop_seconds={stop_seconds} is not inside the "
            f"stream: give times from {begin:.6f} s to {end:.6f} s"
        )
    return start_seconds, stop_seconds
