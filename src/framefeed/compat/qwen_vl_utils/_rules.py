"""Choose frames and sizes by the rules of qwen-vl-utils 0.0.14, from exact counts and times."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fractions import Fraction
from math import ceil, floor, isnan
from typing import Any

import torch

from framefeed._arrays import IntArray
from framefeed._checks import check_integer, expected, is_finite
from framefeed.errors import UsageError
from framefeed.index import ExactTimes, FrameIndex, Timeline
from framefeed.request import PixelBudget, Size, read_bounds

# Frames that become tokens together; counts are multiples of it.
PAIR = 2
_FPS, _LEAST_FRAMES, _MOST_FRAMES = 2.0, 4, 768
# Tokens, each of factor x factor pixels: of a picture, and of a frame of a video.
_PICTURE_TOKENS, _FRAME_TOKENS = (4, 16_384), (128, 768)


def smart_resize(
    height: int, width: int, factor: int, min_pixels: float | None = None, max_pixels: float | None = None
) -> Size:
    """Choose (height, width) as `ff.PixelBudget` does; without limits, of 4 to 16,384 times factor x factor pixels."""
    least, most = (tokens * check_integer("factor", factor, least=1) ** 2 for tokens in _PICTURE_TOKENS)
    least, most = check_number("min_pixels", min_pixels, least), check_number("max_pixels", max_pixels, most)
    if not min(check_number("height", height), check_number("width", width)) > 0:
        raise expected("height, width", "numbers above 0", (height, width))
    budget = PixelBudget(factor, Fraction(least) if least > 0 else None, Fraction(most))
    return budget.fit(height, width)[0]


def smart_nframes(ele: Mapping[str, Any], total_frames: int, video_fps: float) -> int:
    """Choose how many frames are taken, an even number: by ``nframes``; or ``fps``, ``min_frames``, ``max_frames``."""
    if "fps" in ele and "nframes" in ele:
        raise UsageError("Only accept either `fps` or `nframes`: leave out one of them")
    count: int
    if "nframes" in ele:
        count = round(check_number("nframes", ele["nframes"]) / PAIR) * PAIR
    else:
        least = ceil(check_number("min_frames", ele.get("min_frames", _LEAST_FRAMES)) / PAIR) * PAIR
        most = floor(check_number("max_frames", ele.get("max_frames", min(_MOST_FRAMES, total_frames))) / PAIR) * PAIR
        wanted = total_frames / video_fps * check_number("fps", ele.get("fps", _FPS))
        count = floor(min(max(wanted, least), most, total_frames) / PAIR) * PAIR
    if not PAIR <= count <= total_frames:
        raise UsageError(f"nframes: expected {PAIR} to {total_frames}, the number of frames, got {count}")
    return count


def find_size(ele: Mapping[str, Any], height: int, width: int, factor: int, num_frames: int | None = None) -> Size:
    """Choose the size of a picture, or of each frame of a video; an element's own size has the limits of pictures."""
    if "resized_height" in ele and "resized_width" in ele:
        return smart_resize(ele["resized_height"], ele["resized_width"], factor)
    least, most = ele.get("min_pixels"), ele.get("max_pixels")
    if num_frames is not None:
        few, many = (tokens * factor**2 for tokens in _FRAME_TOKENS)
        least = check_number("min_pixels", least, few)
        # The variable is qwen-vl-utils' own: tokens that a model may have.
        tokens = int(float(os.environ.get("MODEL_SEQ_LEN", 128_000)))
        total = check_number("total_pixels", ele.get("total_pixels"), tokens * factor**2 * 0.9)
        limit = max(min(many, total / num_frames * PAIR), int(least * 1.05))
        most = min(check_number("max_pixels", most, limit), limit)
    return smart_resize(height, width, factor, least, most)


def choose_frames(ele: Mapping[str, Any], index: FrameIndex, factor: int) -> tuple[IntArray, Size, float]:
    """Choose the frame numbers of an element, int64 [T], their size, and their number per second.

    Of a part of the video, in seconds from the first frame, the frames at both ends are included.
    """
    start, end = ele.get("video_start"), ele.get("video_end")
    whole, (begin, last) = Timeline.whole(index), read_bounds("video_start, video_end", start, end)
    first, stop = 0 if isnan(begin) else whole.count_before(begin), len(index)
    if not isnan(last):
        stop = 1 + int(whole.pick(whole.to_ticks(ExactTimes.of([last])), "previous")[0][0])
    if stop - first < PAIR:
        raise UsageError(
            f"expected at least {PAIR} frames from video_start={start} to video_end={end}, got {max(0, stop - first)} "
            f"of {len(index)}"
        )
    window = Timeline(index, first, stop)
    rate = float(len(window) / ((window.end_pts - window.origin) * index.time_base))
    count = smart_nframes(ele, len(window), rate)
    numbers: IntArray = torch.linspace(window.first, window.stop - 1, count).round().long().numpy()
    return numbers, find_size(ele, *index.stream.displayed, factor, count), count / len(window) * rate


def check_number(name: str, value: Any, default: Any = None) -> Any:
    """Check a number of an element; None stands for the default."""
    value = default if value is None else value
    if not is_finite(value):
        raise expected(name, "a number", value)
    return value
