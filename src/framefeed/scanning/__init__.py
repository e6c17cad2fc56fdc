"""Make a catalog: list sources, survey them, and store results in a journal meanwhile."""

from __future__ import annotations

from framefeed.scanning._braces import expand_braces
from framefeed.scanning._chunks import Chunk, ChunkResult, Survey, surveying_by
from framefeed.scanning._explanations import explain_lost_facts, explain_no_media
from framefeed.scanning._journal import JOURNALED
from framefeed.scanning._list_columns import ListOptions
from framefeed.scanning._listing import list_roots
from framefeed.scanning._rows import VIDEO_SUFFIXES, ScanStats
from framefeed.scanning._scan import (
    ScanRequest,
    check_fps,
    count_times,
    scan,
    scan_roots,
)
from framefeed.scanning._texts import TextForm
from framefeed.scanning._walk import is_glob

__all__ = [
    "JOURNALED",
    "VIDEO_SUFFIXES",
    "Chunk",
    "ChunkResult",
    "ListOptions",
    "ScanRequest",
    "ScanStats",
    "Survey",
    "TextForm",
    "check_fps",
    "count_times",
    "expand_braces",
    "explain_lost_facts",
    "explain_no_media",
    "is_glob",
    "list_roots",
    "scan",
    "scan_roots",
    "surveying_by",
]
