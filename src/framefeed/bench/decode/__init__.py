"""Measure how fast frames of videos are decoded."""

from __future__ import annotations

from framefeed.bench.decode._workloads import (
    DECODE,
    BenchClip,
    Workload,
    check_frames,
    open_method,
    own_workloads,
    workload_row,
)

__all__ = ["DECODE", "BenchClip", "Workload", "check_frames", "open_method", "own_workloads", "workload_row"]
