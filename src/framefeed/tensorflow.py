"""Not in this version: ``from framefeed.tensorflow import dataset`` says so, as ``ff.tensorflow`` does."""

from __future__ import annotations

from framefeed.errors import NotInThisVersion

raise NotInThisVersion(
    "framefeed.tensorflow is not in this version: ff.ClipLoader gives NumPy arrays, which every framework takes"
)
