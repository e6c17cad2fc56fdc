"""Say the seconds of frames in the form that processors read: a dict for each video, or one rate for a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from framefeed._arrays import FloatArray
from framefeed._checks import check_choice, expected
from framefeed.errors import UsageError
from framefeed.load import ClipBatch

Origin = Literal["video", "window"]

USUAL_FPS = 2.0
_MICROSECONDS = 1e6
_SAME = 1e-6
"""Seconds that differ by less are written alike: texts of seconds have one decimal, indices are microseconds."""


def metadata(batch: ClipBatch | Mapping[str, Any], *, origin: Origin = "video") -> list[dict[str, Any]]:
    """Describe the clips of a batch for ``processor(videos=batch.data, video_metadata=..., do_sample_frames=False)``.

    What a processor computes from each dict, ``frames_indices / fps``, are ``batch.seconds``. Seconds 0, s, 2 s, ...
    are written as the frames 0, 1, 2, ... at 1 / s frames per second; all others in microseconds: ``fps`` is 1,000,000
    then, and ``total_num_frames`` the duration in microseconds, because some processors take the rate of a clip from
    their quotient.

    Args:
        batch: From `ClipLoader`, or from ``ff.torch.list_clips`` of a `ClipDataset`; of clips of one stream.
        origin: What seconds count from: "video" for the file's first frame, "window" for the first second of the clip.

    Returns:
        For each clip a dict with fps (float), frames_indices (list of int), total_num_frames (int), duration (seconds),
        width, height and video_backend.

    Raises:
        UsageError: A clip of the batch failed, its frames have no times, or clips have several streams.
    """
    check_choice("origin", origin, ("video", "window"))
    seconds = _list_seconds(batch)
    ends, clips = (
        batch[name] if isinstance(batch, Mapping) else getattr(batch, name) for name in ("end_seconds", "data")
    )
    sizes = [clip.shape[-2:] for clip in clips]
    return [
        describe_frames(times, float(end), size, origin) for times, end, size in zip(seconds, ends, sizes, strict=True)
    ]


def fps(batch: ClipBatch | Mapping[str, Any]) -> float:
    """Compute the frames per second of the clips of a batch, for processors that take one ``fps=`` a call.

    A clip of one frame agrees with any; if all are, it is 2, the usual rate.

    Raises:
        UsageError: Clips of the batch differ in it, or have no common distance between frames; or as for `metadata`.
    """
    rates = [_find_rate(times) for times in _list_seconds(batch) if len(times) > 1] or [USUAL_FPS]
    if None in rates or not np.allclose(rates, rates[0], rtol=_SAME, atol=0):  # type: ignore[arg-type]
        raise UsageError(
            f"the clips of this batch have {[rate and round(rate, 3) for rate in rates]} frames per second (None: at "
            "unequal distances), and one call of the processor takes one fps=: call it for each clip (batch_size=1), "
            "or plan with ff.WholeVideo(fps=...) without a least or most number of frames"
        )
    return float(rates[0])  # type: ignore[arg-type]


def _list_seconds(batch: ClipBatch | Mapping[str, Any]) -> list[FloatArray]:
    """List the seconds of each clip, float64 [T]."""
    if isinstance(batch, ClipBatch):
        seconds, is_ok, sources = batch.seconds, batch.ok, batch.sources
    elif isinstance(batch, Mapping) and {"seconds", "ok", "source"} <= batch.keys():
        seconds, is_ok, sources = batch["seconds"], batch["ok"], batch["source"]
    else:
        raise expected("batch", "a ClipBatch of ff.ClipLoader, or a dict of ff.torch.list_clips", batch)
    if isinstance(seconds, dict):
        raise UsageError(f"this batch has the streams {list(seconds)}: a processor takes the frames of one")
    listed = [np.asarray(times, np.float64) for times in seconds]
    for slot, times in enumerate(listed):
        source = str(sources[slot])
        if not is_ok[slot]:
            raise UsageError(
                f"clip {slot} of this batch failed, and has no seconds ({source}): use on_error='substitute', or "
                "describe the other clips alone with ff.vlm.describe_frames",
                source=source,
            )
        if np.isnan(times).any():
            raise UsageError(
                f"clip {slot} of this batch, of {source}, has no times: scan with assume_fps=, or leave it out; of "
                "batches that are padded, use ff.torch.list_clips",
                source=source,
            )
    return listed


def _find_rate(seconds: FloatArray) -> float | None:
    """Find the rate of seconds at equal distances; None for others, and for one frame."""
    if len(seconds) < 2 or seconds[-1] <= seconds[0]:
        return None
    rate = (len(seconds) - 1) / float(seconds[-1] - seconds[0])
    grid = seconds[0] + np.arange(len(seconds)) / rate
    return rate if np.abs(seconds - grid).max() < _SAME else None


def describe_frames(
    seconds: FloatArray, end_seconds: float, size: tuple[int, ...], origin: Origin = "video"
) -> dict[str, Any]:
    """Describe frames at some seconds, float64 [T], that are on the screen to ``end_seconds``, of (height, width)."""
    times = seconds - seconds[0] if origin == "window" else seconds
    count, rate = len(times), _find_rate(times)
    duration = end_seconds - float(seconds[0]) if rate is None else count / rate
    duration = duration if duration > 0 else 0.0  # also of a still picture, whose end is NaN
    common = {"duration": duration, "width": int(size[1]), "height": int(size[0]), "video_backend": "framefeed"}
    if rate is not None and abs(times[0]) < _SAME:
        return {"fps": rate, "frames_indices": list(range(count)), "total_num_frames": count, **common}
    return {
        "fps": _MICROSECONDS,
        "frames_indices": np.round(times * _MICROSECONDS).astype(np.int64).tolist(),
        "total_num_frames": max(1, round(duration * _MICROSECONDS)),
        **common,
    }
