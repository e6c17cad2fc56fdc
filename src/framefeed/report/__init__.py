"""HTML pages about a catalog, and about what was measured on its files: one file each, which works offline."""

from __future__ import annotations

from framefeed.report._advice import SettingRow, check_advice_page, make_advice_page, write_advice_page
from framefeed.report._page import make_page, write_report

__all__ = ["SettingRow", "check_advice_page", "make_advice_page", "make_page", "write_advice_page", "write_report"]
