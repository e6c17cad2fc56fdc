"""Read and edit boxes, NAL units and bits of test media."""

from __future__ import annotations

from tests.pathologies.bitstreams.bits import BitReader, BitWriter, escape, join_units, split_units, unescape
from tests.pathologies.bitstreams.boxes import AVCC, STBL, find_box, make_box, make_table, read_payload, replace_box
from tests.pathologies.bitstreams.h264 import remove_usability_information, skip_to_usability_flag

__all__ = [
    "AVCC",
    "STBL",
    "BitReader",
    "BitWriter",
    "escape",
    "find_box",
    "join_units",
    "make_box",
    "make_table",
    "read_payload",
    "remove_usability_information",
    "replace_box",
    "skip_to_usability_flag",
    "split_units",
    "unescape",
]
