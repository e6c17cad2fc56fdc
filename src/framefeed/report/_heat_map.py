"""The heat map: how many files have which width and height, as inline SVG."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat

import numpy as np

from framefeed._arrays import FloatArray, IntArray
from framefeed.report._bars import SMALL_SHARE
from framefeed.report._columns import format_count, format_count_of, format_short
from framefeed.report._markup import Node, make_element

# Cells along one axis.
MAX_CELLS = 40
# Shades, from one file to the most files in a cell.
LEVELS = 7

# The drawing and the square in it, in units of the drawing; its margins hold the names and the numbers of the axes.
SIDE = 420
LEFT, RIGHT, TOP, BOTTOM = 50.0, 386.0, 32.0, 368.0
# Numbers along an axis: more would touch each other.
MAX_TICKS = 8

DIAGONALS = ((16 / 9, "16:9"), (4 / 3, "4:3"), (1.0, "1:1"), (9 / 16, "9:16"))
# On a longer axis the names of the diagonals would touch each other.
MAX_OCTAVES = 14


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Counts of files by width and height, in cells of equal size on a logarithmic scale."""

    edges: FloatArray  # edges on both axes, in pixels, float64 [C + 1]; the first and the last are powers of 2
    counts: IntArray  # number of files by width and height, int64 [C, C]
    num_smaller: int = 0  # number of files that are in no cell, because a side is before the first edge

    @property
    def low(self) -> int:
        """Binary logarithm of the first edge."""
        return round(float(np.log2(self.edges[0])))

    @property
    def octaves(self) -> int:
        """Length of an axis."""
        return round(float(np.log2(self.edges[-1]))) - self.low

    def x(self, pixels: float) -> float:
        """Place a width in the drawing."""
        return LEFT + (float(np.log2(pixels)) - self.low) / self.octaves * (RIGHT - LEFT)

    def y(self, pixels: float) -> float:
        """Place a height in the drawing."""
        return BOTTOM - (float(np.log2(pixels)) - self.low) / self.octaves * (BOTTOM - TOP)


def count_in_cells(widths: FloatArray, heights: FloatArray) -> Cells:
    """Count sizes, float64 [N] of at least 1, in cells; both axes are the same: an aspect ratio is a straight line.

    The axes begin at the 1 % quantile of the shorter sides; smaller pictures are in no cell.
    """
    least = np.quantile(np.minimum(widths, heights), SMALL_SHARE, method="lower")
    low = int(np.floor(np.log2(least)))
    high = int(np.floor(np.log2(max(widths.max(), heights.max())))) + 1
    if high - low < 3:
        low, high = max(0, low - 1), high + 1
    per_octave = next((each for each in (16, 8, 4, 2) if each * (high - low) <= MAX_CELLS), 1)
    edges = 2.0 ** (low + np.arange((high - low) * per_octave + 1) / per_octave)
    counts = np.histogram2d(widths, heights, (edges, edges))[0].astype(np.int64)
    return Cells(edges, counts, len(widths) - int(counts.sum()))


def draw_heat_map(heading: str, cells: Cells) -> Node:
    """Draw the numbers of files by width and height."""
    columns, rows = np.nonzero(cells.counts)
    counts = cells.counts[columns, rows]
    drawing = make_element(
        "svg",
        *_draw_grid(cells),
        *map(_draw_cell, repeat(cells), columns.tolist(), rows.tolist(), choose_shades(counts)),
        *_draw_diagonals(cells),
        _draw_text("width in pixels", (LEFT + RIGHT) / 2, SIDE - 8, "name", "middle"),
        _draw_text("height in pixels", 2, 13, "name"),
        viewBox=f"0 0 {SIDE} {SIDE}",
        role="img",
        aria_label=f"Heat map: {heading}, {format_count_of(int(counts.sum()), 'file')}",
    )
    caption = "Both axes are logarithmic; each shade means a range of counts. Dotted lines are aspect ratios."
    if cells.num_smaller:
        caption += f" Not drawn: {format_count_of(cells.num_smaller, 'file')} with a side below {cells.edges[0]:.0f}."
    note, legend = make_element("p", caption, class_="note"), _make_legend(int(counts.max()))
    return make_element("figure", make_element("h3", heading), drawing, note, legend, class_="plot")


def choose_shades(counts: IntArray) -> list[int]:
    """Choose a shade for each count, 0 to ``LEVELS - 1``, on a logarithmic scale up to the greatest count."""
    shades: list[int] = (np.searchsorted(compute_shade_bounds(int(counts.max())), counts, side="right") - 1).tolist()
    return shades


def compute_shade_bounds(most: int) -> list[int]:
    """Compute the least count of each shade; they are distinct, so that few files use few shades."""
    return sorted({round(most ** (level / LEVELS)) for level in range(LEVELS)} | {1})


def _make_legend(most: int) -> Node:
    bounds = compute_shade_bounds(most)
    ends = [*(each - 1 for each in bounds[1:]), most]
    items = []
    for level, (low, high) in enumerate(zip(bounds, ends, strict=True)):
        rectangle = make_element("rect", class_=f"shade{level}", width=14, height=14)
        sample = make_element("svg", rectangle, width=14, height=14, aria_hidden="true")
        counts = format_count(low) if low >= high else f"{format_count(low)}–{format_count(high)}"
        items.append(make_element("li", sample, counts))
    legend = make_element("ul", *items, class_="legend")
    return make_element("div", make_element("span", "Files in a cell: "), legend, class_="note")


def _draw_cell(cells: Cells, column: int, row: int, level: int) -> Node:
    (left, right), (bottom, top) = (cells.edges[each : each + 2].tolist() for each in (column, row))
    wide, high = (f"{np.ceil(low):.0f}–{np.ceil(end) - 1:.0f}" for low, end in ((left, right), (bottom, top)))
    return make_element(
        "rect",
        class_=f"mark shade{level}",
        x=cells.x(left),
        y=cells.y(top),
        width=cells.x(right) - cells.x(left),
        height=cells.y(bottom) - cells.y(top),
        data_tip=f"{wide} wide, {high} high: {format_count_of(int(cells.counts[column, row]), 'file')}",
    )


def _draw_grid(cells: Cells) -> list[Node]:
    drawn = []
    powers = range(cells.low, cells.low + cells.octaves + 1)
    for power in powers[:: -(-len(powers) // MAX_TICKS)]:
        pixels = 2.0**power
        x, y, shown = cells.x(pixels), cells.y(pixels), format_count(pixels) if pixels < 1e5 else format_short(pixels)
        drawn += [
            make_element("line", class_="grid", x1=x, x2=x, y1=TOP, y2=BOTTOM),
            make_element("line", class_="grid", x1=LEFT, x2=RIGHT, y1=y, y2=y),
            _draw_text(shown, x, BOTTOM + 15, "tick", "middle"),
            _draw_text(shown, LEFT - 6, y + 4, "tick", "end"),
        ]
    return drawn


def _draw_diagonals(cells: Cells) -> list[Node]:
    drawn = []
    low, high = float(cells.edges[0]), float(cells.edges[-1])
    for aspect, name in DIAGONALS if cells.octaves <= MAX_OCTAVES else ():
        begin, end = max(low, low * aspect), min(high, high * aspect)
        x, y = cells.x(end), cells.y(end / aspect)
        line = {"x1": cells.x(begin), "y1": cells.y(begin / aspect), "x2": x, "y2": y}
        drawn.append(make_element("line", class_="diagonal", **line))
        # Outside of the square, at the end of the line: at its upper or its right edge.
        at = (x, TOP - 5, "tick", "middle") if aspect < 1 else (RIGHT + 4, y + 4, "tick")
        drawn.append(_draw_text(name, *at))
    return drawn


def _draw_text(content: str, x: float, y: float, class_: str, anchor: str = "start") -> Node:
    return make_element("text", content, class_=class_, x=x, y=y, text_anchor=anchor)
