"""HTML pages about a catalog: one file that works offline."""

from __future__ import annotations

from framefeed.report._page import make_page, write_report

__all__ = ["make_page", "write_report"]
