"""Measure how fast frames of videos are decoded."""

from __future__ import annotations

from framefeed.bench.decode._suite import DECODE

__all__ = ["DECODE"]
