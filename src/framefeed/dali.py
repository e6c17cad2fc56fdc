"""``from framefeed.dali import external_source``: framefeed.adapters.dali, as ``ff.dali`` is."""

from __future__ import annotations

import sys

from framefeed.adapters import dali
from framefeed.adapters.dali import ClipPipeline, ClipSource, PipelineBatches, external_source, iterate, pipeline

__all__ = ["ClipPipeline", "ClipSource", "PipelineBatches", "external_source", "iterate", "pipeline"]

# One module under both names: `ff.dali` stays what it is, whichever of them was imported first.
sys.modules[__name__] = dali
