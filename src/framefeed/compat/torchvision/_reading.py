"""Read a whole video, or the frames between two times."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from framefeed._checks import check_choice, expected, is_number
from framefeed.compat.torchvision._video_clips import check_format, make_silence, order_frames
from framefeed.decode import VideoDecoder
from framefeed.errors import UsageError
from framefeed.index import FrameIndex, index_media

_NANOSECOND = Fraction(1, 10**9)
_UNITS = ("pts", "sec")


def read_video(
    filename: Any,
    start_pts: float | Fraction = 0,
    end_pts: float | Fraction | None = None,
    pts_unit: str = "pts",
    output_format: str = "THWC",
) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
    """Decode the frames of a video from one time to another, both included.

    If no frame begins at ``start_pts``, the one before it comes first.

    Args:
        filename: Path or URL.
        start_pts: Time of the first frame in ``pts_unit``.
        end_pts: Time of the last frame; None takes all to the end.
        pts_unit: "pts" counts ticks of the stream's time base, "sec" seconds.
        output_format: "THWC" or "TCHW".

    Returns:
        The frames, uint8 [T, H, W, C] or [T, C, H, W]; empty sound, float32 [1, 0]; and a dict with ``video_fps``.

    Raises:
        MediaError: The video cannot be read.
        UsageError: An argument is wrong, such as an end before the start.
        TimeUnavailable: Times are given, but the video has none.
    """
    order = check_format(output_format)
    check_choice("pts_unit", pts_unit, _UNITS)
    start, end = _check_times(start_pts, end_pts)
    info, index = index_media(filename)
    if pts_unit == "sec":
        start = _to_ticks(start, index.time_base, math.floor)
        end = None if end is None else _to_ticks(end, index.time_base, math.ceil)
    frames = _find_range(index, start, end)
    video = torch.empty((0, 1, 1, 3), dtype=torch.uint8)
    if frames:
        with VideoDecoder(filename, dimension_order="NHWC", frame_index=index) as decoder:
            video = torch.from_numpy(decoder[frames.start : frames.stop])
    rate = info.average_fps_from_header or index.average_fps
    return order_frames(video, order), make_silence(), {} if rate is None else {"video_fps": rate}


def read_video_timestamps(filename: Any, pts_unit: str = "pts") -> tuple[list[Any], float | None]:
    """Find the times of all frames of a video; as a rule without decoding one.

    Args:
        filename: Path or URL.
        pts_unit: "pts" gives ticks of the stream's time base, int; "sec" gives seconds, Fraction.

    Returns:
        The times, and the mean rate in frames per second.

    Raises:
        MediaError: The video cannot be read.
        TimeUnavailable: It has no times.
    """
    check_choice("pts_unit", pts_unit, _UNITS)
    info, index = index_media(filename)
    index.require_timestamps()
    ticks = index.pts.tolist()
    times = [tick * index.time_base for tick in ticks] if pts_unit == "sec" else ticks
    return times, info.average_fps_from_header or index.average_fps


def _check_times(start: Any, end: Any) -> tuple[Fraction, Fraction | None]:
    if not is_number(start) or not math.isfinite(start):
        raise expected("start_pts", "a number", start)
    if end is not None and (not is_number(end) or math.isnan(end)):
        raise expected("end_pts", "a number, or None", end)
    if end is not None and end < start:
        raise UsageError(f"end_pts: expected at least start_pts, got start_pts={start} and end_pts={end}")
    return Fraction(start), None if end is None or math.isinf(end) else Fraction(end)


def _to_ticks(seconds: Fraction, time_base: Fraction, to_integer: Any) -> Fraction:
    """Convert seconds to ticks; a time within 1 ns of a tick means that tick, as everywhere in framefeed."""
    exact = seconds / time_base
    nearest = round(exact)
    return Fraction(nearest if abs(exact - nearest) * time_base <= _NANOSECOND else to_integer(exact))


def _find_range(index: FrameIndex, start: Fraction, end: Fraction | None) -> range:
    if start <= 0 and end is None:
        return range(len(index))
    index.require_timestamps()
    first = 0
    if start > 0:
        first = int(np.searchsorted(index.pts, math.ceil(start)))
        if first and (first == len(index) or index.pts[first] != start):
            first -= 1
    stop = len(index) if end is None else int(np.searchsorted(index.pts, math.floor(end), side="right"))
    return range(first, max(stop, first))
