"""Measure framefeed beside its peers: the runner, and what suites are made of, those of ``/benchmarks`` too."""

from __future__ import annotations

from framefeed.bench._frames import NUM_FRAMES, OUR_METHOD, OURS, SEED, Reference, psnr, spread_ordinals
from framefeed.bench._media import BenchVideo, MediaStore, write_clip_in_time
from framefeed.bench._printing import describe_closing, describe_row
from framefeed.bench._processes import count_cpu_seconds, descendants, read_busy_seconds, read_family_clocks
from framefeed.bench._runner import (
    METRICS,
    NO_TIME,
    Comparison,
    Contender,
    Figure,
    Findings,
    Reading,
    Rounds,
    Row,
    Run,
    Timings,
    compare_times,
    median_interval,
    ready,
    run_row,
    settle,
    take_time,
)
from framefeed.bench._suites import Begin, BenchOptions, MakeRow, Suite, describe_machine, run_suite
from framefeed.bench.advice import Recommendation, recommend
from framefeed.bench.baselines import SIZE

__all__ = [
    "METRICS",
    "NO_TIME",
    "NUM_FRAMES",
    "OURS",
    "OUR_METHOD",
    "SEED",
    "SIZE",
    "Begin",
    "BenchOptions",
    "BenchVideo",
    "Comparison",
    "Contender",
    "Figure",
    "Findings",
    "MakeRow",
    "MediaStore",
    "Reading",
    "Recommendation",
    "Reference",
    "Rounds",
    "Row",
    "Run",
    "Suite",
    "Timings",
    "compare_times",
    "count_cpu_seconds",
    "descendants",
    "describe_closing",
    "describe_machine",
    "describe_row",
    "median_interval",
    "psnr",
    "read_busy_seconds",
    "read_family_clocks",
    "ready",
    "recommend",
    "run_row",
    "run_suite",
    "settle",
    "spread_ordinals",
    "take_time",
    "write_clip_in_time",
]
