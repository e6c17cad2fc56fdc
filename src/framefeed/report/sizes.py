"""Resolutions and aspect ratios."""

from __future__ import annotations

import numpy as np

from framefeed.report import quantities
from framefeed.report.axes import Axis
from framefeed.report.binning import (
    ASPECTS,
    HALF_OCTAVES,
    ONE_TWO_FIVE,
    Sizes,
    density,
    distinct_sizes,
    histogram,
    part_of,
)
from framefeed.report.columns import Columns, Counts, FloatArray
from framefeed.report.markup import Node
from framefeed.report.plots import aspect_marks, density_plot, histogram_plot
from framefeed.report.section import Section, grid, paragraph
from framefeed.report.tables import count_list

SHOWN_SIZES = 8
MAX_SIDE = 2**24
"""Wider than any file that a scan lets pass; what a damaged catalog says beyond it counts as unknown."""


def sizes_section(columns: Columns) -> Section | None:
    """Resolutions and aspect ratios, as displayed."""
    widths, heights = (columns.numbers(name, columns.usable) for name in ("width", "height"))
    known = (np.minimum(widths, heights) >= 1) & (np.maximum(widths, heights) <= MAX_SIDE)
    unknown = int(np.count_nonzero(~known))
    widths, heights = widths[known], heights[known]
    if not len(widths):
        return None
    sizes = distinct_sizes(widths, heights)
    pixels = Axis("pixels", quantities.count, is_whole=True)
    aspect = histogram(widths / heights, part_of(ASPECTS, widths / heights))
    aspect_plot = histogram_plot(
        "Aspect ratio", aspect, Axis("width : height", quantities.number, aspect_marks()), unknown
    )
    area = widths * heights / 1e6
    return Section(
        "sizes",
        "Sizes",
        (
            paragraph(_shapes(widths, heights) + " Sizes are as displayed, after rotation."),
            grid(
                density_plot("Width and height", density(widths, heights), sizes),
                grid(_common_sizes(sizes), aspect_plot, class_="stack"),
                class_="pair",
            ),
            grid(
                histogram_plot("Width", histogram(widths, part_of(HALF_OCTAVES, widths)), pixels, unknown),
                histogram_plot("Height", histogram(heights, part_of(HALF_OCTAVES, heights)), pixels, unknown),
                histogram_plot(
                    "Area", histogram(area, part_of(ONE_TWO_FIVE, area)), Axis("megapixels", quantities.number), unknown
                ),
            ),
        ),
    )


def _shapes(widths: FloatArray, heights: FloatArray) -> str:
    total = len(widths)
    parts = {
        "landscape": int(np.count_nonzero(widths > heights)),
        "portrait": int(np.count_nonzero(widths < heights)),
        "square": int(np.count_nonzero(widths == heights)),
    }
    return ", ".join(f"{quantities.share(number, total)} {name}" for name, number in parts.items()) + "."


def _common_sizes(sizes: Sizes) -> Node:
    columns = (sizes.widths.tolist(), sizes.heights.tolist(), sizes.counts.tolist())
    names = [f"{width}×{height}" for width, height, _ in zip(*columns, strict=True)][:SHOWN_SIZES]
    shown = sizes.counts[:SHOWN_SIZES].tolist()
    rest = [f"{quantities.count(len(sizes) - SHOWN_SIZES)} other sizes"] if len(sizes) > SHOWN_SIZES else []
    counts = Counts((*names, *rest), (*shown, *([int(sizes.counts[SHOWN_SIZES:].sum())] if rest else [])))
    return count_list("Most frequent sizes", counts, limit=SHOWN_SIZES + 1)
