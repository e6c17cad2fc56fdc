"""Codecs, containers, pixel formats, rotation; and labels."""

from __future__ import annotations

import numpy as np

from framefeed.report import quantities
from framefeed.report.columns import Columns, Counts, IntArray, counted
from framefeed.report.section import Section, grid, paragraph
from framefeed.report.tables import count_list

SHOWN_LABELS = 20


def formats_section(columns: Columns) -> Section | None:
    """Codecs, containers, pixel formats, rotation."""
    rows = columns.usable
    if not len(rows):
        return None
    return Section(
        "formats",
        "Formats",
        (
            grid(
                count_list("Codec", columns.counts("codec", rows)),
                count_list("Container", _spaced(columns.counts("container", rows))),
                count_list("Pixel format", columns.counts("pixel_format", rows)),
                count_list(
                    "Rotation", _rotations(columns, rows), note="Degrees counter-clockwise, applied for display."
                ),
                class_="grid lists",
            ),
        ),
    )


def _spaced(counts: Counts) -> Counts:
    """Space out libav's names: it names a container by all of its names in one word, which could not be wrapped."""
    return Counts(tuple(name.replace(",", ", ") for name in counts.names), counts.counts, counts.unknown)


def _rotations(columns: Columns, rows: IntArray) -> Counts:
    rotation = np.nan_to_num(columns.numbers("rotation", rows), nan=-1).astype(np.int64)
    mirrored = np.nan_to_num(columns.numbers("mirrored", rows)).astype(np.int64)
    values, counts = np.unique(rotation * 2 + mirrored, return_counts=True)
    names = [_rotation_name(value // 2, bool(value % 2)) for value in values.tolist()]
    return counted(names, counts.tolist())


def _rotation_name(degrees: int, is_mirrored: bool) -> str | None:
    if degrees < 0:
        return None
    return f"{degrees}°, mirrored" if is_mirrored else f"{degrees}°" if degrees else "none"


def labels_section(columns: Columns) -> Section | None:
    """How many rows each label has."""
    classes = [str(label) for label in columns.catalog.classes]
    if not classes:
        return None
    codes = columns.catalog.column_values("label")
    sizes = np.bincount(codes[codes >= 0], minlength=len(classes))
    counts = counted([*classes, None], [*sizes.tolist(), int(np.count_nonzero(codes < 0))])
    least, middle, most = (quantities.count(float(each)) for each in np.quantile(sizes, [0, 0.5, 1]))
    told = f"{quantities.count(len(classes))} labels. Rows of a label: least {least}, median {middle}, most {most}."
    return Section(
        "labels", "Labels", (paragraph(told), count_list("Most frequent labels", counts, limit=SHOWN_LABELS))
    )
