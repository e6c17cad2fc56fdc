"""Captions of frames on contact sheets."""

from __future__ import annotations

import math

import numpy as np

from framefeed.plan.request import DecodeRequest


def captions(request: DecodeRequest) -> list[str]:
    """Write one caption per frame: its ordinal and its time; or that it is damaged, or stands for one past the end."""
    damaged = np.zeros(len(request), dtype=np.bool_) if request.damaged is None else request.damaged
    columns = (request.ordinals, np.asarray(request.pts_seconds), np.asarray(request.valid), damaged)
    return [_caption(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _caption(ordinal: int, seconds: float, is_valid: bool, is_damaged: bool) -> str:
    if is_damaged:
        return f"#{ordinal}  damaged"
    if not is_valid:
        return f"#{ordinal}  past end"
    return f"#{ordinal}  {seconds:.3f} s" if math.isfinite(seconds) else f"#{ordinal}"
