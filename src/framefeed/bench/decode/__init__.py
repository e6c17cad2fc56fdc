"""Measure how fast frames of videos are decoded."""

from __future__ import annotations

from framefeed.bench.decode._suite import DECODE, ROW_SECONDS

__all__ = ["DECODE", "ROW_SECONDS"]
