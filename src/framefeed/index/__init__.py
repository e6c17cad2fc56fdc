"""Find where every frame of one source is, and what decoding it needs."""

from __future__ import annotations

from framefeed.index._build import build_index, index_media
from framefeed.index._damage import find_damaged_frames, find_packet_start
from framefeed.index._frame_index import (
    BuiltFrom,
    FrameIndex,
    StreamFacts,
    Timeline,
    TimesFrom,
    count_seconds,
    find_end_seconds,
    read_seconds,
)
from framefeed.index._joining import find_frame_starts
from framefeed.index._movie_facts import MP4_FORMAT_NAME
from framefeed.index._picking import NO_PICK, NO_TIMES, PICKS, ExactTimes, Pick
from framefeed.index._pictures import make_image_sequence
from framefeed.index._probe import MIXED, is_still, probe
from framefeed.index._runs import (
    SECONDS_PER_DECODED_PIXEL,
    SECONDS_PER_DELIVERED,
    SECONDS_PER_DELIVERED_PIXEL,
    SECONDS_PER_FILE,
    SECONDS_PER_FILE_PIXEL,
    SECONDS_PER_PICTURE,
    DecodeRun,
    DecodeRuns,
    RunKind,
    plan_runs,
    predict_seconds,
)
from framefeed.index._stills import (
    STILL_TIMELINE,
    build_still_index,
    describe_still_stream,
    has_picture_files,
    has_still_timeline,
    share_still_timeline,
)
from framefeed.index._stream import Verify
from framefeed.index._times import TIMES_FROM_IN_WORDS
from framefeed.index._upright import is_upright
from framefeed.index.proofs._proving import PROOF_RULES

__all__ = [
    "MIXED",
    "MP4_FORMAT_NAME",
    "NO_PICK",
    "NO_TIMES",
    "PICKS",
    "PROOF_RULES",
    "SECONDS_PER_DECODED_PIXEL",
    "SECONDS_PER_DELIVERED",
    "SECONDS_PER_DELIVERED_PIXEL",
    "SECONDS_PER_FILE",
    "SECONDS_PER_FILE_PIXEL",
    "SECONDS_PER_PICTURE",
    "STILL_TIMELINE",
    "TIMES_FROM_IN_WORDS",
    "BuiltFrom",
    "DecodeRun",
    "DecodeRuns",
    "ExactTimes",
    "FrameIndex",
    "Pick",
    "RunKind",
    "StreamFacts",
    "Timeline",
    "TimesFrom",
    "Verify",
    "build_index",
    "build_still_index",
    "count_seconds",
    "describe_still_stream",
    "find_damaged_frames",
    "find_end_seconds",
    "find_frame_starts",
    "find_packet_start",
    "has_picture_files",
    "has_still_timeline",
    "index_media",
    "is_still",
    "is_upright",
    "make_image_sequence",
    "plan_runs",
    "predict_seconds",
    "probe",
    "read_seconds",
    "share_still_timeline",
]
