"""Find where every frame of one source is."""

from __future__ import annotations

from framefeed.index._build import Verify, build_index, find_damaged_frames, index_media, packet_start
from framefeed.index._frame_index import (
    DISPOSABLE,
    KEY,
    MISSING_PTS,
    NONE,
    PICKS,
    BuiltFrom,
    ExactTimes,
    FrameIndex,
    PacketTable,
    Pick,
    StreamFacts,
    TimesFrom,
    as_ticks,
    pick_frames,
    reach_of,
    rounding_of,
)
from framefeed.index._joining import frame_starts
from framefeed.index._pictures import holds_pictures, sequence_of, still_index
from framefeed.index._times import TIMES_IN_WORDS

__all__ = [
    "DISPOSABLE",
    "KEY",
    "MISSING_PTS",
    "NONE",
    "PICKS",
    "TIMES_IN_WORDS",
    "BuiltFrom",
    "ExactTimes",
    "FrameIndex",
    "PacketTable",
    "Pick",
    "StreamFacts",
    "TimesFrom",
    "Verify",
    "as_ticks",
    "build_index",
    "find_damaged_frames",
    "frame_starts",
    "holds_pictures",
    "index_media",
    "packet_start",
    "pick_frames",
    "reach_of",
    "rounding_of",
    "sequence_of",
    "still_index",
]
