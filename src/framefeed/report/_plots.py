"""Plots as inline SVG: histograms, with a table of their numbers, and the density of widths and heights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from framefeed.report._columns import (
    Density,
    Histogram,
    Sizes,
    choose_step,
    format_count,
    format_count_of,
    format_share,
)
from framefeed.report._markup import Node, make_element

# Maximum width of a letter of the plots' text, in units of the drawing.
LETTER = 6.2
# Counts that differ by this factor are drawn on a logarithmic scale.
LOG_FROM = 100
# Lowest count on a logarithmic scale, so that a single file has a visible bar.
LOG_FLOOR = 0.6
# Greatest count on a logarithmic scale, as a factor of the greatest count of the plot.
LOG_ROOM = 1.2


@dataclass(frozen=True, slots=True)
class PlotArea:
    """The area of a plot within its drawing.

    Attributes:
        width: Width of the drawing.
        height: Height of the drawing.
        left: Margin for the numbers of the vertical axis.
        right: Margin at the right.
        top: Margin for the name of the vertical axis.
        bottom: Margin for the numbers and the name of the horizontal axis.
    """

    width: float
    height: float
    left: float = 46
    right: float = 10
    top: float = 22
    bottom: float = 36

    @property
    def inner_width(self) -> float:
        """Width of the area."""
        return self.width - self.left - self.right

    @property
    def inner_height(self) -> float:
        """Height of the area."""
        return self.height - self.top - self.bottom

    @property
    def floor(self) -> float:
        """Vertical coordinate of the horizontal axis."""
        return self.height - self.bottom

    @property
    def end(self) -> float:
        """Right end of the horizontal axis."""
        return self.width - self.right


@dataclass(frozen=True, slots=True)
class CountScale:
    """A vertical axis of counts: linear, or logarithmic if they span orders of magnitude.

    Attributes:
        area: Area of the plot.
        most: The greatest count.
        is_log: Whether it is logarithmic.
    """

    area: PlotArea
    most: int
    is_log: bool

    @classmethod
    def of(cls, area: PlotArea, counts: list[int]) -> CountScale:
        """Choose the scale of some counts."""
        present = [each for each in counts if each] or [1]
        return cls(area, max(present), max(present) >= LOG_FROM * min(present))

    def compute_height(self, number: int) -> float:
        """Compute the height of a bar; 0 for none."""
        if not number:
            return 0.0
        top = LOG_ROOM * self.most if self.is_log else self._list_ticks()[-1]
        part = np.log(number / LOG_FLOOR) / np.log(top / LOG_FLOOR) if self.is_log else number / top
        return float(part) * self.area.inner_height

    def draw(self) -> list[Node]:
        """Draw a line and a number for each tick, and the name of the axis."""
        area = self.area
        drawn = [draw_text("files, logarithmic scale" if self.is_log else "files", 2, 11, "name")]
        for tick in self._list_ticks():
            y = area.floor - self.compute_height(tick)
            drawn.append(make_element("line", class_="grid", x1=area.left, x2=area.end, y1=y, y2=y))
            drawn.append(draw_text(format_short_count(tick), area.left - 6, y + 4, "tick", "end"))
        return drawn

    def _list_ticks(self) -> list[int]:
        if self.is_log:
            powers = len(str(self.most))
            return [10**power for power in range(0, powers, 1 + powers // 6)]
        step = max(1, round(choose_step(self.most / 4))) if self.most > 4 else 1
        return [step * number for number in range(-(-self.most // step) + 1)]


def format_short_count(number: int) -> str:
    """Write a round count briefly: ``250``, ``20k``, ``1M``."""
    for suffix, size in (("M", 1_000_000), ("k", 1000)):
        if number >= size:
            return f"{number / size:g}{suffix}"
    return format_count(number)


def draw_text(content: str, x: float, y: float, class_: str, anchor: str = "start") -> Node:
    """Draw a text."""
    return make_element("text", content, class_=class_, x=x, y=y, text_anchor=anchor)


@dataclass(frozen=True, slots=True)
class Axis:
    """Name and labels of a horizontal axis.

    Attributes:
        name: Name of the value, with its unit.
        show: Writes a value.
        marks: Values to write on the axis; by default the edges of bins, as many as fit.
        is_whole: Whether all values are whole numbers, so that a bin is named by its first and last.
    """

    name: str
    show: Callable[[float], str]
    marks: tuple[tuple[float, str], ...] = ()
    is_whole: bool = False

    def name_bin(self, low: float, high: float) -> str:
        """Name a bin: ``10 s to 20 s``; of whole numbers ``8`` or ``8 to 11``."""
        if not self.is_whole:
            return f"{self.show(low)} to {self.show(high)}"
        return self.show(low) if high - low <= 1 else f"{self.show(low)} to {self.show(high - 1)}"


def choose_labels(positions: list[float], labels: list[str]) -> list[int]:
    """Choose labels that do not overlap: every one, every second, and so on, from the first."""
    for stride in range(1, len(labels) + 1):
        chosen = range(0, len(labels), stride)
        gaps = [positions[b] - positions[a] for a, b in pairwise(chosen)]
        widths = [LETTER * (len(labels[a]) + len(labels[b])) / 2 + 5 for a, b in pairwise(chosen)]
        if all(gap >= width for gap, width in zip(gaps, widths, strict=True)):
            return list(chosen)
    return list(range(min(1, len(labels))))


HISTOGRAM = PlotArea(360, 206)
DENSITY = PlotArea(420, 420, left=50, right=34, top=24, bottom=44)
# Shades of a density, from one file to the most files in a cell.
LEVELS = 7
LABELLED_SIZES = 8
# Width of a letter of the names of sizes, in units of the drawing.
BOLD_LETTER = 7.4
DIAGONALS = ((16 / 9, "16:9"), (4 / 3, "4:3"), (1.0, "1:1"), (9 / 16, "9:16"))
_PAST_EDGE = 1e-9


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a histogram.

    Attributes:
        label: Name of the values.
        count: Number of files.
        is_rest: Whether it counts all values beyond one end of the axis.
    """

    label: str
    count: int
    is_rest: bool = False


def make_bars(counted: Histogram, axis: Axis) -> list[Bar]:
    """Make the bars of a histogram from left to right; bars beyond its ends only if there are such values."""
    inner = [
        Bar(axis.name_bin(low, high), size)
        for (low, high), size in zip(pairwise(counted.edges.tolist()), counted.counts.tolist(), strict=True)
    ]
    below = Bar(f"less than {axis.show(float(counted.edges[0]))}", counted.below, is_rest=True)
    above = Bar(f"{axis.show(float(counted.edges[-1]))} or more", counted.above, is_rest=True)
    return [*([below] if below.count else []), *inner, *([above] if above.count else [])]


def draw_histogram(heading: str, counted: Histogram, axis: Axis, unknown: int = 0) -> Node:
    """Draw a histogram with its caption and its numbers.

    Args:
        heading: Heading of the plot.
        counted: The histogram.
        axis: Name and labels of the horizontal axis.
        unknown: Number of files without a value, for the caption.
    """
    bars = make_bars(counted, axis)
    area = HISTOGRAM
    scale = CountScale.of(area, [bar.count for bar in bars])
    step = area.inner_width / len(bars)
    drawn = []
    for number, bar in enumerate(bars):
        if bar.count:
            # At least one unit, which every screen shows.
            height = max(1.0, scale.compute_height(bar.count))
            share = f"{format_count_of(bar.count, 'file')}, {format_share(bar.count, counted.total)}"
            drawn.append(
                make_element(
                    "rect",
                    class_="mark rest" if bar.is_rest else "mark",
                    x=area.left + number * step + step * 0.06,
                    y=area.floor - height,
                    width=step * 0.88,
                    height=height,
                    data_tip=f"{bar.label}: {share}",
                )
            )
    base = make_element("line", class_="axis", x1=area.left, x2=area.end, y1=area.floor, y2=area.floor)
    labels = _draw_tick_labels(counted, axis, step)
    name = draw_text(axis.name, area.left + area.inner_width / 2, area.height - 4, "name", "middle")
    drawing = _make_drawing(f"Histogram: {heading}, {format_count_of(counted.total, 'file')}", area,
                       [*scale.draw(), *drawn, base, *labels, name])  # fmt: skip
    caption = [_describe_histogram(counted, axis), *([f"{format_count(unknown)} unknown"] if unknown else [])]
    return make_figure(heading, drawing, "; ".join(caption), make_numbers_table(bars, counted.total, axis.name))


def make_figure(heading: str, drawing: Node, caption: str, *more: Node, class_: str = "plot") -> Node:
    """Join a heading, a drawing, its caption and more nodes."""
    parts = (make_element("h3", heading), drawing, make_element("p", caption, class_="note"), *more)
    return make_element("figure", *parts, class_=class_)


def make_numbers_table(bars: Sequence[Bar], total: int, name: str) -> Node:
    """Make a table of the numbers of a plot, which a click opens."""
    head = make_element("tr", *(make_element("th", title, scope="col") for title in (name, "files", "share")))
    rows = []
    for bar in bars:
        if bar.count:
            numbers = (format_count(bar.count), format_share(bar.count, total))
            cells = [make_element("td", number, class_="number") for number in numbers]
            rows.append(make_element("tr", make_element("th", bar.label, scope="row"), *cells))
    table = make_element("table", make_element("thead", head), make_element("tbody", *rows), class_="numbers")
    return make_element("details", make_element("summary", "Numbers"), table)


def _draw_tick_labels(counted: Histogram, axis: Axis, step: float) -> list[Node]:
    """Draw the marks of the axis, or the edges of bins, below the axis."""
    area = HISTOGRAM
    begin = area.left + step * bool(counted.below)
    marks = axis.marks or tuple((edge, axis.show(edge)) for edge in counted.edges.tolist())
    low, high = counted.edges[0], counted.edges[-1]
    marks = tuple(mark for mark in marks if low * (1 - _PAST_EDGE) <= mark[0] <= high * (1 + _PAST_EDGE))
    positions = [begin + counted.locate(value) * step for value, _ in marks]
    chosen = choose_labels(positions, [label for _, label in marks])
    drawn = [draw_text(marks[each][1], positions[each], area.floor + 15, "tick", "middle") for each in chosen]
    lines = [
        make_element("line", class_="axis", x1=positions[each], x2=positions[each], y1=area.floor, y2=area.floor + 4)
        for each in chosen
    ]
    return [*drawn, *lines]


def _describe_histogram(counted: Histogram, axis: Axis) -> str:
    if not counted.total:
        return "this value is unknown for all files"
    least, low, median, high, greatest = (axis.show(value) for value in counted.quantiles.tolist())
    if least == greatest:
        return f"{format_count_of(counted.total, 'file')}, all {least}"
    return (
        f"{format_count_of(counted.total, 'file')}; median {median}, 90 % between {low} and {high}, "
        f"least {least}, greatest {greatest}"
    )


def _make_drawing(label: str, area: PlotArea, parts: Sequence[Node]) -> Node:
    return make_element("svg", *parts, viewBox=f"0 0 {area.width:g} {area.height:g}", role="img", aria_label=label)


# --- density --------------------------------------------------------------------------------------


def draw_density(heading: str, cells: Density, sizes: Sizes) -> Node:
    """Draw the numbers of files by width and height, and name the most frequent sizes.

    Args:
        heading: Heading of the plot.
        cells: The counts.
        sizes: Distinct sizes, most frequent first.
    """
    area, plane = DENSITY, _Plane.of(cells)
    levels = choose_shades(cells.counts.tolist())
    order = np.argsort(cells.counts, kind="stable").tolist()
    names = [
        draw_text("width in pixels", area.left + area.inner_width / 2, area.height - 8, "name", "middle"),
        draw_text("height in pixels", 2, 13, "name"),
    ]
    drawn = [plane.draw_cell(cells, each, levels[each]) for each in order]
    parts = [*plane.draw_grid(), *drawn, *plane.draw_diagonals(), *plane.draw_labels(sizes), *names]
    files = format_count_of(int(cells.counts.sum()), "file")
    label = f"Density: {heading}, {files} of {format_count_of(len(sizes), 'size')}"
    drawing = _make_drawing(label, area, parts)
    caption = (
        "Both axes are logarithmic; each shade means a range of counts, shown below. "
        f"Rings mark the most frequent of {format_count(len(sizes))} sizes."
    )
    return make_figure(heading, drawing, caption, _make_legend(cells.counts.tolist()), class_="plot density")


def choose_shades(counts: Sequence[int]) -> list[int]:
    """Choose a shade for each count, 0 to ``LEVELS - 1``, on a logarithmic scale up to the greatest count."""
    bounds = compute_shade_bounds(max(counts))
    return [int(np.searchsorted(bounds, each, side="right")) - 1 for each in counts]


def compute_shade_bounds(most: int) -> list[int]:
    """Compute the least count of each shade; they are distinct, so that few files use few shades."""
    return sorted({round(most ** (level / LEVELS)) for level in range(LEVELS)} | {1})


def _make_legend(counts: list[int]) -> Node:
    bounds = compute_shade_bounds(max(counts))
    ends = [*(each - 1 for each in bounds[1:]), max(counts)]
    items = [
        make_element(
            "li",
            make_element(
                "svg",
                make_element("rect", class_=f"shade{level}", width=14, height=14),
                width=14,
                height=14,
                aria_hidden="true",
            ),
            format_count(low) if low >= high else f"{format_count(low)}–{format_count(high)}",
        )
        for level, (low, high) in enumerate(zip(bounds, ends, strict=True))
    ]
    return make_element(
        "div", make_element("span", "Files in a cell: "), make_element("ul", *items, class_="legend"), class_="note"
    )


@dataclass(frozen=True, slots=True)
class _Plane:
    """The axes of a density: both have the same logarithmic range, so that an aspect ratio is a straight line."""

    low: float
    octaves: float

    @classmethod
    def of(cls, cells: Density) -> _Plane:
        low = float(np.log2(cells.edges[0]))
        return cls(low, float(np.log2(cells.edges[-1])) - low)

    def x(self, pixels: float) -> float:
        return DENSITY.left + (float(np.log2(pixels)) - self.low) / self.octaves * DENSITY.inner_width

    def y(self, pixels: float) -> float:
        return DENSITY.floor - (float(np.log2(pixels)) - self.low) / self.octaves * DENSITY.inner_height

    def draw_cell(self, cells: Density, each: int, level: int) -> Node:
        column, row = int(cells.columns[each]), int(cells.rows[each])
        (left, right), (bottom, top) = (cells.edges[edge : edge + 2].tolist() for edge in (column, row))
        spans = [f"{np.ceil(low):.0f}–{np.ceil(high) - 1:.0f}" for low, high in ((left, right), (bottom, top))]
        return make_element(
            "rect",
            class_=f"mark shade{level}",
            x=self.x(left),
            y=self.y(top),
            width=self.x(right) - self.x(left),
            height=self.y(bottom) - self.y(top),
            data_tip=f"{spans[0]} wide, {spans[1]} high: {format_count_of(int(cells.counts[each]), 'file')}",
        )

    def draw_grid(self) -> list[Node]:
        drawn = []
        powers = range(int(np.ceil(self.low)), int(self.low + self.octaves) + 1)
        for power in powers[:: 1 + len(powers) // 10]:
            pixels, shown = 2.0**power, f"{2**power}"
            x, y = self.x(pixels), self.y(pixels)
            drawn += [
                make_element("line", class_="grid", x1=x, x2=x, y1=DENSITY.top, y2=DENSITY.floor),
                make_element("line", class_="grid", x1=DENSITY.left, x2=DENSITY.end, y1=y, y2=y),
                draw_text(shown, x, DENSITY.floor + 15, "tick", "middle"),
                draw_text(shown, DENSITY.left - 6, y + 4, "tick", "end"),
            ]
        return drawn

    def draw_diagonals(self) -> list[Node]:
        drawn = []
        low, high = 2.0**self.low, 2.0 ** (self.low + self.octaves)
        for aspect, name in DIAGONALS:
            begin, end = (max(low, low * aspect), min(high, high * aspect))
            if begin >= end:
                continue
            ends = {"x1": self.x(begin), "y1": self.y(begin / aspect), "x2": self.x(end), "y2": self.y(end / aspect)}
            drawn.append(make_element("line", class_="diagonal", **ends))
            # Outside the area, at the end of the line: its right or upper edge.
            is_upright = aspect < 1
            x, y = (ends["x2"], DENSITY.top - 5) if is_upright else (DENSITY.end + 4, ends["y2"] + 4)
            drawn.append(draw_text(name, x, y, "tick", "middle" if is_upright else "start"))
        return drawn

    def draw_labels(self, sizes: Sizes) -> list[Node]:
        """Draw rings and names of the most frequent sizes; a name beside its ring, if there is room."""
        drawn: list[Node] = []
        # The names of aspect ratios at the right edge.
        high = 2.0 ** (self.low + self.octaves)
        ends = [self.y(high / aspect) for aspect, _ in DIAGONALS if aspect >= 1]
        taken = [_Box(DENSITY.end + 2, y - 7, DENSITY.width, y + 7) for y in ends]
        rings = []
        for width, height in zip(
            sizes.widths[:LABELLED_SIZES].tolist(), sizes.heights[:LABELLED_SIZES].tolist(), strict=True
        ):
            x, y, name = self.x(width), self.y(height), f"{width}×{height}"
            box = next((box for box in _list_boxes(x, y, len(name) * BOLD_LETTER) if box.is_free(taken)), None)
            if box is None:
                continue
            taken += [box, _Box(x - 4, y - 4, x + 4, y + 4)]
            rings.append(make_element("circle", class_="ring", cx=x, cy=y, r=3.5))
            drawn.append(draw_text(name, box.left + 2, box.bottom - 3, "label"))
        return rings + drawn


@dataclass(frozen=True, slots=True)
class _Box:
    """A rectangle that a label covers."""

    left: float
    top: float
    right: float
    bottom: float

    def is_free(self, taken: Sequence[_Box]) -> bool:
        inside = (
            self.left >= DENSITY.left and self.right <= DENSITY.width and self.top >= 0 and self.bottom <= DENSITY.floor
        )
        return inside and not any(
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
            for other in taken
        )


def _list_boxes(x: float, y: float, length: float) -> list[_Box]:
    width, height = length + 4, 14
    lefts = (x + 6, x - 6 - width)
    tops = (y - height / 2, y - height - 4, y + 4)
    beside = [_Box(left, top, left + width, top + height) for top in tops for left in lefts]
    over = [_Box(x - width / 2, top, x + width / 2, top + height) for top in (y - height - 6, y + 6)]
    return beside + over


def list_aspect_marks() -> tuple[tuple[float, str], ...]:
    """List aspect ratios and their names."""
    pairs = ((9, 16), (3, 4), (1, 1), (4, 3), (16, 9), (21, 9))
    return tuple((width / height, f"{width}:{height}") for width, height in pairs)
