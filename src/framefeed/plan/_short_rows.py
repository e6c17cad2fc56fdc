"""Find the videos that are shorter than the clips of a rule: these never start at random, and frames of them repeat."""

from __future__ import annotations

from typing import Any

import numpy as np

from framefeed._arrays import IntArray
from framefeed.plan._clips import CatalogClips
from framefeed.plan._rules import Dense, Rates
from framefeed.plan._tables import describe_source

_OF_PICTURES = {"duration_seconds": "is_null()", "num_frames": "isin([1])"}
"""What is true of still pictures, by column: a method of its field."""


def find_short_rows(clips: CatalogClips) -> tuple[IntArray, IntArray]:
    """Find the planned videos in which no clip fits, from columns of the catalog alone; still pictures have one frame.

    Give the rows of the short videos, and of all, int64 [N]; none if the rule has no length.
    """
    catalog, rule, windows = clips.catalog, clips.rule, clips.windows
    if not isinstance(rule, Dense | Rates) or rule.end is None or rule.policy == "error":
        return np.empty(0, np.int64), np.empty(0, np.int64)
    rows: IntArray = clips.layout.rows  # type: ignore[attr-defined]
    rows = rows[catalog.num_frames[rows] > 1]
    column, end = rule.end
    lengths = catalog.column_values(column)
    if windows is not None:
        starts = np.where(windows.starts > 0, windows.starts, 0.0)
        is_known = ~windows.has_bounds | (column == "duration_seconds")
        lengths = np.where(is_known, np.fmin(windows.ends, lengths) - starts, np.nan)
    return rows[lengths[rows] <= float(end)], rows


def explain_short_rows(clips: CatalogClips) -> str | None:
    """Write a warning if there are short videos, with the filter that leaves them out; else None."""
    catalog, rule = clips.catalog, clips.rule
    rows, videos = find_short_rows(clips)
    if not len(rows):
        return None
    assert isinstance(rule, Dense | Rates) and rule.end is not None
    column, end = rule.end
    length = f"{float(end):g} s" if column == "duration_seconds" else f"{int(end) + 1} frames"
    repeats = "their last frame repeats" if rule.policy == "repeat_last" else "their frames come again from the first"
    start = "no random start, " if getattr(rule, "is_random", False) else ""
    advice = "To leave them out: "
    if len(rows) == len(videos):
        advice = "Ask for shorter clips"
    elif clips.windows is not None:
        advice += "catalog.filter(), by the columns of within=; or ask for shorter clips"
    else:
        has_pictures = bool((catalog.num_frames[clips.layout.rows] == 1).any())  # type: ignore[attr-defined]
        condition = _write_filter(column, end, has_pictures=has_pictures)
        advice += f"import pyarrow.compute; catalog = catalog.filter({condition}); or ask for shorter clips"
    return (
        f"{len(rows)} of {len(videos)} videos are shorter than this rule's {length}: {start}{repeats}, with valid "
        f"False (first {describe_source(catalog, int(rows[0]))}). {advice}"
    )


def _write_filter(column: str, end: Any, *, has_pictures: bool) -> str:
    field = f"pyarrow.compute.field({column!r})"
    is_long = f"{field} > {int(end) if end == int(end) else float(end)}"
    return f"({is_long}) | {field}.{_OF_PICTURES[column]}" if has_pictures else is_long
