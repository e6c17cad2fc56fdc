"""Measure videos that are mapped: every frame through a function, and back to a video."""

from __future__ import annotations

from framefeed.bench.map._suite import MAP

__all__ = ["MAP"]
