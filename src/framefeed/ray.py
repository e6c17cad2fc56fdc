"""``from framefeed.ray import dataset``: framefeed.adapters.ray, as ``ff.ray`` is."""

from __future__ import annotations

import sys

from framefeed.adapters import ray
from framefeed.adapters.ray import collate, dataset, scan

__all__ = ["collate", "dataset", "scan"]

# One module under both names: `ff.ray` stays what it is, whichever of them was imported first.
sys.modules[__name__] = ray
