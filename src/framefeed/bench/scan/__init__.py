"""Measure how fast collections are scanned."""

from __future__ import annotations

from framefeed.bench.scan._charts import rates_chart
from framefeed.bench.scan._made_up import make_catalog
from framefeed.bench.scan._media import make_stills, make_videos
from framefeed.bench.scan._reports import scan_closing_lines, scan_row_lines
from framefeed.bench.scan._scan import FILES, ROW_SECONDS, ROWS, ScanBench, run_scan
from framefeed.bench.scan._whole import scan_row

__all__ = [
    "FILES",
    "ROWS",
    "ROW_SECONDS",
    "ScanBench",
    "make_catalog",
    "make_stills",
    "make_videos",
    "rates_chart",
    "run_scan",
    "scan_closing_lines",
    "scan_row",
    "scan_row_lines",
]
