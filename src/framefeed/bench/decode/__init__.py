"""Measure how fast frames of videos are decoded."""

from __future__ import annotations

from framefeed.bench.decode._workloads import DECODE, BenchClip, Workload, check_frames, open_method, workload_row

__all__ = ["DECODE", "BenchClip", "Workload", "check_frames", "open_method", "workload_row"]
