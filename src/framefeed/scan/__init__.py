"""Make a catalog: list sources, survey them, and store results in a journal meanwhile."""

from __future__ import annotations

from framefeed.scan._journal import JOURNALED
from framefeed.scan._list_columns import ListOptions
from framefeed.scan._listing import list_roots
from framefeed.scan._rows import VIDEO_SUFFIXES, ScanStats
from framefeed.scan._scan import (
    ScanRequest,
    check_fps,
    count_times,
    explain_lost_facts,
    explain_no_media,
    scan,
    scan_roots,
)
from framefeed.scan._walk import is_glob

__all__ = [
    "JOURNALED",
    "VIDEO_SUFFIXES",
    "ListOptions",
    "ScanRequest",
    "ScanStats",
    "check_fps",
    "count_times",
    "explain_lost_facts",
    "explain_no_media",
    "is_glob",
    "list_roots",
    "scan",
    "scan_roots",
]
