"""HTML pages about a catalog: one file that works offline."""

from framefeed.report.writing import write_report

__all__ = ["write_report"]
