"""Measure the frame cache."""

from __future__ import annotations

from framefeed.bench.cache._pages import forget, measure_disk
from framefeed.bench.cache._sample import refuse_pictures
from framefeed.bench.cache._suite import CACHE, FRAMES
from framefeed.bench.cache._table import describe_table

__all__ = ["CACHE", "FRAMES", "describe_table", "forget", "measure_disk", "refuse_pictures"]
