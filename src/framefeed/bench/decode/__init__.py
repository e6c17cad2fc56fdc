"""Measure how fast frames of videos are decoded."""

from __future__ import annotations

from framefeed.bench.decode._decode import ROW_SECONDS, DecodeBench, known_rows, run_decode

__all__ = ["ROW_SECONDS", "DecodeBench", "known_rows", "run_decode"]
