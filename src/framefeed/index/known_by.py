"""How the frames of a catalog are known, counted and in words, for scan, doctor and the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import numpy as np

from framefeed.index.catalog_rows import CatalogRows, IntArray, built_from_codes
from framefeed.index.frame_index import BuiltFrom

KNOWN_BY_IN_WORDS: Mapping[BuiltFrom, str] = {
    "packets+proof": "reading the headers of all packets",
    "packets": "listing the packets or pictures, without verifying them",
    "packets+ends": "listing the packets, and decoding both ends of the video",
    "decode": "decoding all frames",
}
"""What each ``FrameIndex.built_from`` means, for people; the default of ``verify`` first."""


def count_known_by(catalog: CatalogRows, rows: IntArray | None = None) -> dict[BuiltFrom, int]:
    """Count rows by how their frames are known; rows without an index, such as pictures, are not counted.

    Args:
        catalog: At any depth; without frame indexes nothing is counted.
        rows: Which rows; None for those that can be read.
    """
    codes = built_from_codes(catalog)[catalog.usable_rows if rows is None else rows]
    counts = np.bincount(codes[codes >= 0], minlength=len(KNOWN_BY_IN_WORDS)).tolist()
    found = dict(zip(get_args(BuiltFrom), counts, strict=True))
    return {built_from: found[built_from] for built_from in KNOWN_BY_IN_WORDS if found[built_from]}
