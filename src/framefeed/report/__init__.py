"""HTML pages from a catalog: one file that works offline, drawn and escaped by construction."""

from framefeed.report.writing import write_report

__all__ = ["write_report"]
