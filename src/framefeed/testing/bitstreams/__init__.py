"""Read and edit boxes, NAL units and bits of test media."""

from __future__ import annotations

from framefeed.testing.bitstreams._bits import BitReader, BitWriter, escape, join_units, split_units, unescape
from framefeed.testing.bitstreams._boxes import AVCC, STBL, box, find, payload_of, replace, table
from framefeed.testing.bitstreams._h264 import skip_to_usability_flag, without_usability_information

__all__ = [
    "AVCC",
    "STBL",
    "BitReader",
    "BitWriter",
    "box",
    "escape",
    "find",
    "join_units",
    "payload_of",
    "replace",
    "skip_to_usability_flag",
    "split_units",
    "table",
    "unescape",
    "without_usability_information",
]
