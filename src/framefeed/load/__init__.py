"""Requests in order, work out of order: batches of clips for a training loop."""

from __future__ import annotations

from framefeed.load._batch import ClipBatch
from framefeed.load._drafts import Memory, placed
from framefeed.load._ledger import Ledger, LedgerEntry, too_many_failed
from framefeed.load._loader import ClipLoader
from framefeed.load._options import OnError, check_on_error
from framefeed.load._stats import LoadStats
from framefeed.load._work import load_batch

__all__ = [
    "ClipBatch",
    "ClipLoader",
    "Ledger",
    "LedgerEntry",
    "LoadStats",
    "Memory",
    "OnError",
    "check_on_error",
    "load_batch",
    "placed",
    "too_many_failed",
]
