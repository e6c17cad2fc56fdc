"""Not in this version: ``from framefeed.jax import iterate`` says so, as ``ff.jax`` does."""

from __future__ import annotations

from framefeed.errors import NotInThisVersion

raise NotInThisVersion(
    "framefeed.jax is not in this version: ff.ClipLoader gives NumPy arrays, which every framework takes"
)
