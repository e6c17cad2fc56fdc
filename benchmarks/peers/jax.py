"""JAX over a loader of framefeed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import jax

from framefeed.adapters.jax import iterate
from framefeed.load import ClipLoader

VERSIONS = {"jax": jax.__version__}
NAME = "ff.jax.iterate"


def open_epochs(loader: ClipLoader) -> Callable[[], Iterable[Any]]:
    """An iterator for each epoch."""
    return partial(iterate, loader)
