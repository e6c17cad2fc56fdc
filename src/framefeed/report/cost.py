"""What reading one frame will cost, predicted from facts alone.

A decoder starts at a key frame, so one random frame of a video costs the pictures from there on. With GOPs of one
length g = frames / key frames these are 1, 2 ... g pictures, (g + 1) / 2 on average. GOPs of unequal lengths cost more
than that, and pictures that no other refers to, which are left out, make it less. The unit is the megapixel decoded:
what it takes in time differs from codec to codec.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from framefeed.report.columns import Columns, FloatArray, IntArray

MILLISECONDS_PER_MEGAPIXEL = 1.9
"""The median of 93 real H.264 videos, two busy x86-64 cores; a quarter took less than 1.2, a quarter more than 3.5."""


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """Predicted costs of files.

    Attributes:
        rows: Rows of the files, int64 [F].
        gop: Frames per key frame, float64 [F]; NaN where unknown.
        random_megapixels: To be decoded for one random frame, float64 [F]; NaN where unknown.
        all_megapixels: To be decoded for all frames in order, float64 [F]; NaN where unknown.
    """

    rows: IntArray
    gop: FloatArray
    random_megapixels: FloatArray
    all_megapixels: FloatArray


def costs(columns: Columns) -> Costs:
    """Predict the costs of all usable files."""
    rows = columns.usable
    frames = columns.numbers("num_frames", rows)
    is_image = np.isin(rows, columns.images)
    frames = np.where(is_image & np.isnan(frames), 1.0, frames)
    gop = gop_lengths(frames, columns.numbers("num_key_frames", rows))
    pictures = np.where(is_image, 1.0, (gop + 1) / 2)
    megapixels = _coded_pixels(columns, rows) / 1e6
    return Costs(rows, gop, megapixels * pictures, megapixels * frames)


def gop_lengths(frames: FloatArray, key_frames: FloatArray) -> FloatArray:
    """Frames per key frame; a video without one is a single GOP, and what is unknown stays so."""
    return frames / np.maximum(key_frames, 1.0)


def _coded_pixels(columns: Columns, rows: IntArray) -> FloatArray:
    coded, shown = (
        columns.numbers(f"{prefix}width", rows) * columns.numbers(f"{prefix}height", rows) for prefix in ("coded_", "")
    )
    return np.where(np.nan_to_num(coded) > 0, coded, shown)


def largest(values: FloatArray, limit: int) -> IntArray:
    """Positions of the largest values, largest first, ties in order; NaN is none of them."""
    known = np.flatnonzero(~np.isnan(values))
    order = np.argsort(-values[known], kind="stable")
    return known[order[:limit]]
