"""Measure on the user's own files which way of loading is fastest, and advise."""

from __future__ import annotations

from framefeed.bench.advice._recommend import Recommendation, Setting, list_settings, recommend
from framefeed.bench.advice._session import LEAST_MINUTES, AdviceOptions, is_catalog, measure_all
from framefeed.bench.advice._text import describe_measured, describe_settings

__all__ = [
    "LEAST_MINUTES",
    "AdviceOptions",
    "Recommendation",
    "Setting",
    "describe_measured",
    "describe_settings",
    "is_catalog",
    "list_settings",
    "measure_all",
    "recommend",
]
