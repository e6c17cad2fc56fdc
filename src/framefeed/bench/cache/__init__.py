"""Measure the frame cache."""

from __future__ import annotations

from framefeed.bench.cache._pages import forget, measure_disk
from framefeed.bench.cache._reads import enter_stored
from framefeed.bench.cache._sample import plan_random_clips, refuse_pictures, take_sample, video_of
from framefeed.bench.cache._stored import CachedSample, FileSample, Scene, check_stored, count_bytes, exhaust
from framefeed.bench.cache._suite import CACHE, FRAMES
from framefeed.bench.cache._table import describe_table

__all__ = [
    "CACHE",
    "FRAMES",
    "CachedSample",
    "FileSample",
    "Scene",
    "check_stored",
    "count_bytes",
    "describe_table",
    "enter_stored",
    "exhaust",
    "forget",
    "measure_disk",
    "plan_random_clips",
    "refuse_pictures",
    "take_sample",
    "video_of",
]
