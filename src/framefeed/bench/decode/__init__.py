"""Measure how fast frames of videos are decoded."""

from __future__ import annotations

from framefeed.bench.decode._suite import DECODE
from framefeed.bench.decode._workloads import BenchClip, Workload, check_frames, open_method, workload_row

__all__ = ["DECODE", "BenchClip", "Workload", "check_frames", "open_method", "workload_row"]
