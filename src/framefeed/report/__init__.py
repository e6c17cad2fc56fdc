"""HTML pages about a catalog: one file that works offline."""

from __future__ import annotations

from framefeed.report._columns import data_size
from framefeed.report._page import page, write_report

__all__ = [
    "data_size",
    "page",
    "write_report",
]
