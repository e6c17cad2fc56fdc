"""Measure how fast collections are scanned."""

from __future__ import annotations

from framefeed.bench.scan._large import make_catalog
from framefeed.bench.scan._media import make_stills, make_videos
from framefeed.bench.scan._suite import FILES, SCAN

__all__ = ["FILES", "SCAN", "make_catalog", "make_stills", "make_videos"]
