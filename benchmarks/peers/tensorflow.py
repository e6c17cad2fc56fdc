"""TensorFlow over a loader of framefeed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from framefeed.adapters.tensorflow import dataset
from framefeed.load import ClipLoader

VERSIONS = {"tensorflow": tf.__version__}
NAME = "ff.tensorflow.dataset"


def open_epochs(loader: ClipLoader) -> Callable[[], Iterable[Any]]:
    """One dataset, whose iterations are epochs."""
    made = dataset(loader)
    return lambda: made
