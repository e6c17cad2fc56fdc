"""``from framefeed.jax import iterate``: framefeed.adapters.jax, as ``ff.jax`` is."""

from __future__ import annotations

import sys

from framefeed.adapters import jax
from framefeed.adapters.jax import DeviceBatches, iterate

__all__ = ["DeviceBatches", "iterate"]

# One module under both names: `ff.jax` stays what it is, whichever of them was imported first.
sys.modules[__name__] = jax
