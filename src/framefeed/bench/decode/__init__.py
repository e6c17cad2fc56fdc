"""Measure how fast frames of videos are decoded."""

from __future__ import annotations

from framefeed.bench.decode._workloads import (
    DECODE,
    RULE,
    BenchClip,
    Workload,
    check_frames,
    compare_methods,
    enter_method,
    open_method,
    own_workloads,
    workload_row,
)

__all__ = [
    "DECODE",
    "RULE",
    "BenchClip",
    "Workload",
    "check_frames",
    "compare_methods",
    "enter_method",
    "open_method",
    "own_workloads",
    "workload_row",
]
