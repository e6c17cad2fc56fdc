"""Not in this version: ``from framefeed.dali import external_source`` says so, as ``ff.dali`` does."""

from __future__ import annotations

from framefeed.errors import NotInThisVersion

raise NotInThisVersion(
    "framefeed.dali is not in this version: ff.ClipLoader gives NumPy arrays, which every framework takes"
)
