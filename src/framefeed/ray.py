"""Not in this version: ``from framefeed.ray import dataset`` says so, as ``ff.ray`` does."""

from __future__ import annotations

from framefeed.errors import NotInThisVersion

raise NotInThisVersion(
    "framefeed.ray is not in this version: ff.ClipLoader gives NumPy arrays, which every framework takes"
)
