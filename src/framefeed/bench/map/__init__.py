"""Measure videos that are mapped: every frame through a function, and back to a video."""

from __future__ import annotations

from framefeed.bench.map._routes import WORKERS, X264, Job, time_route
from framefeed.bench.map._rows import LEAST_FRAMES, MAP, Entry, identity_row, lock_row, start_job

__all__ = [
    "LEAST_FRAMES",
    "MAP",
    "WORKERS",
    "X264",
    "Entry",
    "Job",
    "identity_row",
    "lock_row",
    "start_job",
    "time_route",
]
