"""Find where every frame of one source is."""

from __future__ import annotations

from framefeed.index._build import Verify, build_index, index_media
from framefeed.index._damage import find_damaged_frames, find_packet_start
from framefeed.index._frame_index import (
    BuiltFrom,
    FrameIndex,
    StreamFacts,
    Timeline,
    TimesFrom,
)
from framefeed.index._joining import find_frame_starts
from framefeed.index._picking import NO_PICK, PICKS, ExactTimes, Pick
from framefeed.index._pictures import build_still_index, has_picture_files, make_image_sequence
from framefeed.index._times import TIMES_FROM_IN_WORDS
from framefeed.media import DISPOSABLE, KEY, MISSING_PTS, PacketTable

__all__ = [
    "DISPOSABLE",
    "KEY",
    "MISSING_PTS",
    "NO_PICK",
    "PICKS",
    "TIMES_FROM_IN_WORDS",
    "BuiltFrom",
    "ExactTimes",
    "FrameIndex",
    "PacketTable",
    "Pick",
    "StreamFacts",
    "Timeline",
    "TimesFrom",
    "Verify",
    "build_index",
    "build_still_index",
    "find_damaged_frames",
    "find_frame_starts",
    "find_packet_start",
    "has_picture_files",
    "index_media",
    "make_image_sequence",
]
