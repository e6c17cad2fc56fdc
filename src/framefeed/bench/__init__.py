"""Measure framefeed beside its peers."""

from __future__ import annotations

from framefeed.bench._printing import describe_closing, describe_row
from framefeed.bench._runner import Rounds
from framefeed.bench._suites import BenchOptions, Suite, run_suite

__all__ = ["BenchOptions", "Rounds", "Suite", "describe_closing", "describe_row", "run_suite"]
