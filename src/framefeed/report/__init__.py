"""HTML pages about a catalog: one file that works offline."""

from __future__ import annotations

from framefeed.report._columns import format_data_size
from framefeed.report._page import make_page, write_report

__all__ = [
    "format_data_size",
    "make_page",
    "write_report",
]
