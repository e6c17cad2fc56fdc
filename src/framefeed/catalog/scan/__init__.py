"""Make a catalog: list sources, survey them, and store results in a journal meanwhile."""

from __future__ import annotations

from framefeed.catalog.scan._list_columns import ListOptions
from framefeed.catalog.scan._listing import list_roots
from framefeed.catalog.scan._resuming import Tally
from framefeed.catalog.scan._rows import VIDEO_SUFFIXES
from framefeed.catalog.scan._scan import (
    ScanRequest,
    catalog_of,
    count_times,
    fps_of,
    no_media_in,
    scan,
    scanned,
    what_is_lost,
)

__all__ = [
    "VIDEO_SUFFIXES",
    "ListOptions",
    "ScanRequest",
    "Tally",
    "catalog_of",
    "count_times",
    "fps_of",
    "list_roots",
    "no_media_in",
    "scan",
    "scanned",
    "what_is_lost",
]
