"""Measure loops over clips: framefeed's loaders, and those of other libraries."""

from __future__ import annotations

from framefeed.bench.load._chart import draw_use
from framefeed.bench.load._suite import LOAD

__all__ = ["LOAD", "draw_use"]
