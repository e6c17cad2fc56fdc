"""Captions of frames on contact sheets."""

from __future__ import annotations

import math

import numpy as np

from framefeed.plan.request import DecodeRequest


def captions(request: DecodeRequest) -> list[str]:
    """One caption a frame: its ordinal and its time; or that the frame stands in for one past the end."""
    columns = (request.ordinals, np.asarray(request.pts_seconds), np.asarray(request.valid))
    return [_caption(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _caption(ordinal: int, seconds: float, is_valid: bool) -> str:
    if not is_valid:
        return f"#{ordinal}  past end"
    return f"#{ordinal}  {seconds:.3f} s" if math.isfinite(seconds) else f"#{ordinal}"
