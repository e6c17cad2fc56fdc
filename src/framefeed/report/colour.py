"""Colour tags of streams by their names.

The range is libav's own number.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from framefeed.media.colour_names import MATRICES, PRIMARIES, TRANSFERS
from framefeed.report.columns import Columns, Counts, IntArray, counted
from framefeed.report.section import Section, grid, paragraph
from framefeed.report.tables import count_list

UNSPECIFIED = "not tagged"

RANGES = {1: "tv (limited)", 2: "pc (full)"}

TAGS: Mapping[str, tuple[str, Mapping[int, str], int]] = {
    "Primaries": ("color_primaries", PRIMARIES, 2),
    "Transfer characteristic": ("color_transfer", TRANSFERS, 2),
    "Matrix": ("color_space", MATRICES, 2),
    "Range": ("color_range", RANGES, 0),
}
"""What is shown: field of the stream facts, names of its codes, and the code that says nothing."""


def colour_section(columns: Columns) -> Section | None:
    """Colour tags of the videos."""
    if not len(columns.videos):
        return None
    if not columns.catalog.has_frame_indexes:
        told = "Colour tags are stored with frame indexes, which this catalog does not have: scan with --depth frames."
        return Section("colour", "Colour tags", (paragraph(told),))
    told = "Colour tags of the streams (ITU-T H.273). For streams without tags, players guess."
    figures = [count_list(heading, counts) for heading, counts in tag_counts(columns).items()]
    return Section("colour", "Colour tags", (paragraph(told), grid(*figures, class_="grid lists")))


def tag_counts(columns: Columns) -> dict[str, Counts]:
    """Count the colour tags of the videos of a catalog with frame indexes, by heading."""
    rows, read = columns.videos, columns.catalog.stream_values
    return {heading: named(read(field)[rows], names, silent) for heading, (field, names, silent) in TAGS.items()}


def named(codes: IntArray, names: Mapping[int, str], silent: int) -> Counts:
    """Count codes by name; a code that has none is written as a number, and -1 is unknown."""
    values, counts = np.unique(codes, return_counts=True)
    known = {-1: None, silent: UNSPECIFIED, **names}
    return counted([known.get(code, f"code {code}") for code in values.tolist()], counts.tolist())
