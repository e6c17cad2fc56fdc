"""Load batches of clips for a training loop: worked on out of order, delivered in order."""

from __future__ import annotations

from framefeed.load._batch import BufferPools, ByStream, ClipBatch, list_streams, map_streams
from framefeed.load._iteration import BatchIterator
from framefeed.load._ledger import Ledger, LedgerEntry, find_failed_source, make_max_failed_error
from framefeed.load._load_clip import load_clip
from framefeed.load._loader import ClipLoader
from framefeed.load._normalise import Normaliser
from framefeed.load._options import (
    MAX_SUBSTITUTES,
    OnError,
    check_cache,
    check_on_error,
    explain_useless_cache,
    wrap_in_cache,
)
from framefeed.load._pending import is_always_raised, suggest_skipping, with_position
from framefeed.load._spec import ArraySpec, BatchSpec, list_arrays
from framefeed.load._stats import LoadStats
from framefeed.load._work import load_batch

__all__ = [
    "MAX_SUBSTITUTES",
    "ArraySpec",
    "BatchIterator",
    "BatchSpec",
    "BufferPools",
    "ByStream",
    "ClipBatch",
    "ClipLoader",
    "Ledger",
    "LedgerEntry",
    "LoadStats",
    "Normaliser",
    "OnError",
    "check_cache",
    "check_on_error",
    "explain_useless_cache",
    "find_failed_source",
    "is_always_raised",
    "list_arrays",
    "list_streams",
    "load_batch",
    "load_clip",
    "make_max_failed_error",
    "map_streams",
    "suggest_skipping",
    "with_position",
    "wrap_in_cache",
]
