"""Measure the frame cache."""

from __future__ import annotations

from framefeed.bench.cache._pages import forget, measure_disk
from framefeed.bench.cache._sample import plan_random_clips, refuse_pictures, video_of
from framefeed.bench.cache._stored import exhaust
from framefeed.bench.cache._suite import CACHE, FRAMES
from framefeed.bench.cache._table import describe_table

__all__ = [
    "CACHE",
    "FRAMES",
    "describe_table",
    "exhaust",
    "forget",
    "measure_disk",
    "plan_random_clips",
    "refuse_pictures",
    "video_of",
]
