"""Colour tags of streams by their names.

Codes are those of ITU-T H.273 (07/2024), tables 2, 3 and 4; names are FFmpeg's (``libavutil/pixdesc.c``), which its
options take and ffprobe prints. The range is libav's own number.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from framefeed.report.columns import Columns, Counts, IntArray, counted
from framefeed.report.section import Section, grid, paragraph
from framefeed.report.tables import count_list

UNSPECIFIED = "not tagged"

PRIMARIES = {
    1: "bt709", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "film", 9: "bt2020", 10: "smpte428",
    11: "smpte431", 12: "smpte432", 22: "ebu3213",
}  # fmt: skip
TRANSFERS = {
    1: "bt709", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "linear", 9: "log100", 10: "log316",
    11: "iec61966-2-4", 12: "bt1361e", 13: "iec61966-2-1", 14: "bt2020-10", 15: "bt2020-12", 16: "smpte2084",
    17: "smpte428", 18: "arib-std-b67",
}  # fmt: skip
MATRICES = {
    0: "gbr", 1: "bt709", 4: "fcc", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "ycgco", 9: "bt2020nc",
    10: "bt2020c", 11: "smpte2085", 12: "chroma-derived-nc", 13: "chroma-derived-c", 14: "ictcp", 15: "ipt-c2",
    16: "ycgco-re", 17: "ycgco-ro",
}  # fmt: skip
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
        told = "Colour tags are stored with frame indexes, which this catalog has not: scan with --depth frames."
        return Section("colour", "Colour tags", (paragraph(told),))
    told = "What streams say of their colours (ITU-T H.273). Players guess where nothing is tagged."
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
