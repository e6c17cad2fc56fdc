"""``from framefeed.tensorflow import dataset``: framefeed.adapters.tensorflow, as ``ff.tensorflow`` is."""

from __future__ import annotations

import sys

from framefeed.adapters import tensorflow
from framefeed.adapters.tensorflow import dataset

__all__ = ["dataset"]

# One module under both names: `ff.tensorflow` stays what it is, whichever of them was imported first.
sys.modules[__name__] = tensorflow
