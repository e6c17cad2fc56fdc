"""Measure framefeed beside its peers."""

from __future__ import annotations

from framefeed.bench._cache_samples import refuse_pictures
from framefeed.bench._measuring import Rounds
from framefeed.bench._reports import closing_lines, row_lines

__all__ = [
    "Rounds",
    "closing_lines",
    "refuse_pictures",
    "row_lines",
]
