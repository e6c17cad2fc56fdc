"""Requests in order, work out of order: batches of clips for a training loop."""

from framefeed.load.batch import ClipBatch
from framefeed.load.loader import ClipLoader
from framefeed.load.stats import LoadStats

__all__ = ["ClipBatch", "ClipLoader", "LoadStats"]
