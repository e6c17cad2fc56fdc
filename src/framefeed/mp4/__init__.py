"""Read the boxes of MP4 files to sample tables, edits and fragments; bytes to facts, without libav."""

from __future__ import annotations

from framefeed.mp4._boxes import (
    BOX_COST,
    COUNTED_KINDS,
    FREE_BOXES,
    OddMovie,
    TooManyBoxes,
    read_layout,
    require_box,
    unpack,
)
from framefeed.mp4._description import (
    check_stated_size,
    find_codec,
    read_length_size,
    read_packet_video,
    read_video,
)
from framefeed.mp4._edits import apply_edits, check_shown, read_edit_ticks
from framefeed.mp4._fragments import Fragments, MovieSegmentIndex, TrackRun, read_fragments
from framefeed.mp4._movie import IDENTITY, Movie, Track
from framefeed.mp4._nal_scan import scan_packets
from framefeed.mp4._samples import (
    MAX_DELTA,
    check_counts,
    check_locations,
    read_first_size,
    read_movie,
    read_pairs,
    read_samples,
)

__all__ = [
    "BOX_COST",
    "COUNTED_KINDS",
    "FREE_BOXES",
    "IDENTITY",
    "MAX_DELTA",
    "Fragments",
    "Movie",
    "MovieSegmentIndex",
    "OddMovie",
    "TooManyBoxes",
    "Track",
    "TrackRun",
    "apply_edits",
    "check_counts",
    "check_locations",
    "check_shown",
    "check_stated_size",
    "find_codec",
    "read_edit_ticks",
    "read_first_size",
    "read_fragments",
    "read_layout",
    "read_length_size",
    "read_movie",
    "read_packet_video",
    "read_pairs",
    "read_samples",
    "read_video",
    "require_box",
    "scan_packets",
    "unpack",
]
