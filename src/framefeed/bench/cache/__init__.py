"""Measure the frame cache."""

from __future__ import annotations

from framefeed.bench.cache._cache import FRAMES, PAIRS, ROW_SECONDS, ROWS, CacheBench, run_cache
from framefeed.bench.cache._reports import cache_closing_lines, cache_row_lines

__all__ = [
    "FRAMES",
    "PAIRS",
    "ROWS",
    "ROW_SECONDS",
    "CacheBench",
    "cache_closing_lines",
    "cache_row_lines",
    "run_cache",
]
