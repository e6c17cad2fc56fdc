"""Measure loops over clips: framefeed's loaders, and those of other libraries."""

from __future__ import annotations

from framefeed.bench.load._epochs import (
    LOAD,
    OURS_IN_TORCH,
    OWN_LOOPS,
    PEER_LOOPS,
    EpochMedia,
    choose_loops,
    compare_libraries,
    enter_loops,
)
from framefeed.bench.load._programs import ClipSet, Loop, run_loop

__all__ = [
    "LOAD",
    "OURS_IN_TORCH",
    "OWN_LOOPS",
    "PEER_LOOPS",
    "ClipSet",
    "EpochMedia",
    "Loop",
    "choose_loops",
    "compare_libraries",
    "enter_loops",
    "run_loop",
]
