"""Colour tags of streams by their names.

Codes are those of ITU-T H.273 (07/2024), tables 2, 3 and 4; names are FFmpeg's (``libavutil/pixdesc.c``), which its
options take and ffprobe prints. The range is libav's own number.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from framefeed.report import quantities
from framefeed.report.columns import Columns, Counts, IntArray, counted
from framefeed.report.section import Section, grid, paragraph
from framefeed.report.tables import count_list

UNSPECIFIED = "not tagged"
STREAMS_READ = 20_000
"""Frame indexes are read one by one for their tags: of more files, this many are looked at, evenly spaced."""

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
    looked_at, tags = tag_counts(columns)
    videos = quantities.count(len(columns.videos))
    some = f" Of {videos} videos, {quantities.count(looked_at)} evenly spaced ones were looked at."
    told = "What streams say of their colours (ITU-T H.273). Players guess where nothing is tagged."
    figures = [count_list(heading, counts) for heading, counts in tags.items()]
    lead = paragraph(told + (some if looked_at < len(columns.videos) else ""))
    return Section("colour", "Colour tags", (lead, grid(*figures, class_="grid lists")))


def tag_counts(columns: Columns) -> tuple[int, dict[str, Counts]]:
    """Count the colour tags of the videos of a catalog with frame indexes.

    Returns:
        How many videos were looked at, and the counts by heading.
    """
    rows = _spread(columns.videos)
    streams = [columns.catalog.frame_index(row).stream for row in rows.tolist()]
    found = {}
    for heading, (field, names, silent) in TAGS.items():
        codes = np.array([getattr(stream, field) for stream in streams], dtype=np.int64)
        found[heading] = named(codes, names, silent)
    return len(rows), found


def named(codes: IntArray, names: Mapping[int, str], silent: int) -> Counts:
    """Count codes by name; a code that has none is written as a number."""
    values, counts = np.unique(codes, return_counts=True)
    shown = [UNSPECIFIED if code == silent else names.get(code, f"code {code}") for code in values.tolist()]
    return counted(shown, counts.tolist())


def _spread(rows: IntArray) -> IntArray:
    if len(rows) <= STREAMS_READ:
        return rows
    return rows[np.arange(STREAMS_READ) * len(rows) // STREAMS_READ]
