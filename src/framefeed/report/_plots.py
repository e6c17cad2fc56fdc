"""Plots as inline SVG: histograms, and the density of widths and heights. Each has its numbers in a table beside it.

Axes of plots: where a number is drawn, and which numbers are written beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from framefeed.report._columns import Density, Histogram, Sizes, count, count_of, nice_step, share
from framefeed.report._markup import Node, element, elements

LETTER = 6.2
"""Width of a letter of the plots' text, in units of the drawing; a little too wide rather than too narrow."""
LOG_FROM = 100
"""Counts that differ by this factor are drawn on a logarithmic scale."""
LOG_FLOOR = 0.6
"""Where a logarithmic scale of counts begins, so that a single file is a bar that can be seen."""
LOG_ROOM = 1.2
"""A logarithmic scale ends above the greatest count by this factor."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The rectangle that a plot draws in, within a drawing.

    Attributes:
        width: Of the drawing.
        height: Of the drawing.
        left: Margin for the numbers of the vertical axis.
        right: Margin.
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
        """Width of the rectangle."""
        return self.width - self.left - self.right

    @property
    def inner_height(self) -> float:
        """Height of the rectangle."""
        return self.height - self.top - self.bottom

    @property
    def floor(self) -> float:
        """Where the horizontal axis lies."""
        return self.height - self.bottom

    @property
    def end(self) -> float:
        """Where the horizontal axis ends."""
        return self.width - self.right


@dataclass(frozen=True, slots=True)
class CountScale:
    """A vertical axis of counts: linear, or logarithmic where they span orders of magnitude.

    Attributes:
        frame: What it is drawn beside.
        most: The greatest count.
        is_log: Whether it is logarithmic.
    """

    frame: Frame
    most: int
    is_log: bool

    @classmethod
    def of(cls, frame: Frame, counts: list[int]) -> CountScale:
        """Choose the scale for some counts."""
        present = [each for each in counts if each] or [1]
        return cls(frame, max(present), max(present) >= LOG_FROM * min(present))

    def height(self, number: int) -> float:
        """Height of a bar; 0 for none."""
        if not number:
            return 0.0
        top = LOG_ROOM * self.most if self.is_log else self._ticks()[-1]
        part = np.log(number / LOG_FLOOR) / np.log(top / LOG_FLOOR) if self.is_log else number / top
        return float(part) * self.frame.inner_height

    def drawing(self) -> list[Node]:
        """The axis: a line and a number for each tick, and its name."""
        frame = self.frame
        drawn = [text("files, logarithmic scale" if self.is_log else "files", 2, 11, "name")]
        for tick in self._ticks():
            y = frame.floor - self.height(tick)
            drawn.append(element("line", class_="grid", x1=frame.left, x2=frame.end, y1=y, y2=y))
            drawn.append(text(short_count(tick), frame.left - 6, y + 4, "tick", "end"))
        return drawn

    def _ticks(self) -> list[int]:
        if self.is_log:
            powers = len(str(self.most))
            return [10**power for power in range(0, powers, 1 + powers // 6)]
        step = max(1, round(nice_step(self.most / 4))) if self.most > 4 else 1
        return [step * number for number in range(-(-self.most // step) + 1)]


def short_count(number: int) -> str:
    """Write a round count briefly: ``250``, ``20k``, ``1M``."""
    for suffix, size in (("M", 1_000_000), ("k", 1000)):
        if number >= size:
            return f"{number / size:g}{suffix}"
    return count(number)


def text(content: str, x: float, y: float, class_: str, anchor: str = "start") -> Node:
    """Draw a text."""
    return element("text", content, class_=class_, x=x, y=y, text_anchor=anchor)


@dataclass(frozen=True, slots=True)
class Axis:
    """What a horizontal axis says.

    Attributes:
        name: What is measured, and in which unit.
        show: How a value is written.
        marks: Values to be written on the axis; by default the edges of bins, as many as there is room for.
        is_whole: Whether all values are whole numbers, so that a bin is written with its last one.
    """

    name: str
    show: Callable[[float], str]
    marks: tuple[tuple[float, str], ...] = ()
    is_whole: bool = False

    def span(self, low: float, high: float) -> str:
        """Name a bin: ``10 s to 20 s``; of whole numbers ``8`` or ``8 to 11``."""
        if not self.is_whole:
            return f"{self.show(low)} to {self.show(high)}"
        return self.show(low) if high - low <= 1 else f"{self.show(low)} to {self.show(high - 1)}"


def spaced(positions: list[float], labels: list[str]) -> list[int]:
    """Choose the labels that leave room for each other: every one, every second, and so on, from the first."""
    for stride in range(1, len(labels) + 1):
        chosen = range(0, len(labels), stride)
        gaps = [positions[b] - positions[a] for a, b in pairwise(chosen)]
        widths = [LETTER * (len(labels[a]) + len(labels[b])) / 2 + 5 for a, b in pairwise(chosen)]
        if all(gap >= width for gap, width in zip(gaps, widths, strict=True)):
            return list(chosen)
    return list(range(min(1, len(labels))))


HISTOGRAM = Frame(360, 206)
DENSITY = Frame(420, 420, left=50, right=34, top=24, bottom=44)
LEVELS = 7
"""Shades of a density, from one file to the most in a cell."""
LABELLED_SIZES = 8
BOLD_LETTER = 7.4
"""Width of a letter of the names of sizes, in units of the drawing."""
DIAGONALS = ((16 / 9, "16:9"), (4 / 3, "4:3"), (1.0, "1:1"), (9 / 16, "9:16"))
_PAST_EDGE = 1e-9


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a histogram.

    Attributes:
        label: Which values it counts.
        count: How many there are.
        is_rest: Whether it stands for all values beyond an end of the axis.
    """

    label: str
    count: int
    is_rest: bool = False


def bars_of(counted: Histogram, axis: Axis) -> list[Bar]:
    """Name the bars of a histogram from left to right; those beyond its ends only where there are such values."""
    inner = [
        Bar(axis.span(low, high), size)
        for (low, high), size in zip(pairwise(counted.edges.tolist()), counted.counts.tolist(), strict=True)
    ]
    below = Bar(f"less than {axis.show(float(counted.edges[0]))}", counted.below, is_rest=True)
    above = Bar(f"{axis.show(float(counted.edges[-1]))} or more", counted.above, is_rest=True)
    return [*([below] if below.count else []), *inner, *([above] if above.count else [])]


def histogram_plot(heading: str, counted: Histogram, axis: Axis, unknown: int = 0) -> Node:
    """Draw a histogram with its caption and its numbers.

    Args:
        heading: What it shows.
        counted: Its bars.
        axis: How values are written.
        unknown: Files whose value is not known, which the caption mentions.
    """
    bars = bars_of(counted, axis)
    frame = HISTOGRAM
    scale = CountScale.of(frame, [bar.count for bar in bars])
    step = frame.inner_width / len(bars)
    drawn = [
        _bar(bar, frame.left + place * step, step, scale, counted.total) for place, bar in enumerate(bars) if bar.count
    ]
    base = element("line", class_="axis", x1=frame.left, x2=frame.end, y1=frame.floor, y2=frame.floor)
    labels = _tick_labels(counted, axis, step)
    name = text(axis.name, frame.left + frame.inner_width / 2, frame.height - 4, "name", "middle")
    drawing = _drawing(f"Histogram: {heading}, {count_of(counted.total, 'file')}", frame,
                       [*scale.drawing(), *drawn, base, *labels, name])  # fmt: skip
    caption = [_summary(counted, axis), *([f"{count(unknown)} unknown"] if unknown else [])]
    return figure(heading, drawing, "; ".join(caption), numbers_table(bars, counted.total, axis.name))


def figure(heading: str, drawing: Node, caption: str, *more: Node, class_: str = "plot") -> Node:
    """Put a drawing under a heading, with its caption and whatever belongs to it."""
    parts = (element("h3", heading), drawing, element("p", caption, class_="note"), *more)
    return elements("figure", parts, class_=class_)


def numbers_table(bars: Sequence[Bar], total: int, name: str) -> Node:
    """The numbers behind a plot, folded away."""
    head = element("tr", *(element("th", title, scope="col") for title in (name, "files", "share")))
    rows = [
        element("tr", element("th", bar.label, scope="row"), *_count_cells(bar.count, total))
        for bar in bars
        if bar.count
    ]
    table = element("table", element("thead", head), elements("tbody", rows), class_="numbers")
    return element("details", element("summary", "Numbers"), table)


def _count_cells(number: int, total: int) -> list[Node]:
    return [element("td", shown, class_="number") for shown in (count(number), share(number, total))]


def _bar(bar: Bar, x: float, step: float, scale: CountScale, total: int) -> Node:
    # Never thinner than what a screen can show.
    height = max(1.0, scale.height(bar.count))
    return element(
        "rect",
        class_="mark rest" if bar.is_rest else "mark",
        x=x + step * 0.06,
        y=scale.frame.floor - height,
        width=step * 0.88,
        height=height,
        data_tip=f"{bar.label}: {count_of(bar.count, 'file')}, {share(bar.count, total)}",
    )


def _tick_labels(counted: Histogram, axis: Axis, step: float) -> list[Node]:
    """Write edges below the axis, or the marks that the axis names, and "less" and "more" below the outer bars."""
    frame = HISTOGRAM
    begin = frame.left + step * bool(counted.below)
    marks = axis.marks or tuple((edge, axis.show(edge)) for edge in counted.edges.tolist())
    low, high = counted.edges[0], counted.edges[-1]
    marks = tuple(mark for mark in marks if low * (1 - _PAST_EDGE) <= mark[0] <= high * (1 + _PAST_EDGE))
    places = [begin + counted.position(value) * step for value, _ in marks]
    chosen = spaced(places, [label for _, label in marks])
    drawn = [text(marks[each][1], places[each], frame.floor + 15, "tick", "middle") for each in chosen]
    lines = [
        element("line", class_="axis", x1=places[each], x2=places[each], y1=frame.floor, y2=frame.floor + 4)
        for each in chosen
    ]
    return [*drawn, *lines]


def _summary(counted: Histogram, axis: Axis) -> str:
    if not counted.total:
        return "this value is unknown for all files"
    least, low, median, high, greatest = (axis.show(value) for value in counted.quantiles.tolist())
    if least == greatest:
        return f"{count_of(counted.total, 'file')}, all {least}"
    return (
        f"{count_of(counted.total, 'file')}; median {median}, 90 % between {low} and {high}, "
        f"least {least}, greatest {greatest}"
    )


def _drawing(label: str, frame: Frame, parts: Sequence[Node]) -> Node:
    return elements("svg", parts, viewBox=f"0 0 {frame.width:g} {frame.height:g}", role="img", aria_label=label)


# --- density --------------------------------------------------------------------------------------


def density_plot(heading: str, cells: Density, sizes: Sizes) -> Node:
    """Draw how many files have which width and height, with the most frequent sizes named.

    Args:
        heading: What it shows.
        cells: The counts.
        sizes: Distinct sizes, most frequent first.
    """
    frame, plane = DENSITY, _Plane.of(cells)
    levels = shades(cells.counts.tolist())
    order = np.argsort(cells.counts, kind="stable").tolist()
    drawn = [plane.cell(cells, each, levels[each]) for each in order]
    parts = [*plane.grid(), *drawn, *plane.diagonals(), *plane.labels(sizes), *_names(frame)]
    label = f"Density: {heading}, {count_of(int(cells.counts.sum()), 'file')} of {count_of(len(sizes), 'size')}"
    drawing = _drawing(label, frame, parts)
    caption = (
        "Both axes are logarithmic; each shade means a range of counts, shown below. "
        f"Rings mark the most frequent of {count(len(sizes))} sizes."
    )
    return figure(heading, drawing, caption, _legend(cells.counts.tolist()), class_="plot density")


def shades(counts: Sequence[int]) -> list[int]:
    """Give each count a shade, 0 to ``LEVELS - 1``, on a logarithmic scale that ends with the greatest."""
    bounds = shade_bounds(max(counts))
    return [int(np.searchsorted(bounds, each, side="right")) - 1 for each in counts]


def shade_bounds(most: int) -> list[int]:
    """The least count of each shade; distinct, so that few files use few shades."""
    return sorted({round(most ** (level / LEVELS)) for level in range(LEVELS)} | {1})


def _legend(counts: list[int]) -> Node:
    bounds = shade_bounds(max(counts))
    ends = [*(each - 1 for each in bounds[1:]), max(counts)]
    items = [
        element(
            "li",
            element(
                "svg",
                element("rect", class_=f"shade{level}", width=14, height=14),
                width=14,
                height=14,
                aria_hidden="true",
            ),
            count(low) if low >= high else f"{count(low)}–{count(high)}",
        )
        for level, (low, high) in enumerate(zip(bounds, ends, strict=True))
    ]
    return element("div", element("span", "Files in a cell: "), elements("ul", items, class_="legend"), class_="note")


@dataclass(frozen=True, slots=True)
class _Plane:
    """Both axes of a density: the same logarithmic range on each, so that an aspect ratio is a straight line."""

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

    def cell(self, cells: Density, each: int, level: int) -> Node:
        column, row = int(cells.columns[each]), int(cells.rows[each])
        (left, right), (bottom, top) = (cells.edges[at : at + 2].tolist() for at in (column, row))
        spans = [f"{np.ceil(low):.0f}–{np.ceil(high) - 1:.0f}" for low, high in ((left, right), (bottom, top))]
        return element(
            "rect",
            class_=f"mark shade{level}",
            x=self.x(left),
            y=self.y(top),
            width=self.x(right) - self.x(left),
            height=self.y(bottom) - self.y(top),
            data_tip=f"{spans[0]} wide, {spans[1]} high: {count_of(int(cells.counts[each]), 'file')}",
        )

    def grid(self) -> list[Node]:
        drawn = []
        powers = range(int(np.ceil(self.low)), int(self.low + self.octaves) + 1)
        for power in powers[:: 1 + len(powers) // 10]:
            pixels, shown = 2.0**power, f"{2**power}"
            x, y = self.x(pixels), self.y(pixels)
            drawn += [
                element("line", class_="grid", x1=x, x2=x, y1=DENSITY.top, y2=DENSITY.floor),
                element("line", class_="grid", x1=DENSITY.left, x2=DENSITY.end, y1=y, y2=y),
                text(shown, x, DENSITY.floor + 15, "tick", "middle"),
                text(shown, DENSITY.left - 6, y + 4, "tick", "end"),
            ]
        return drawn

    def diagonals(self) -> list[Node]:
        drawn = []
        low, high = 2.0**self.low, 2.0 ** (self.low + self.octaves)
        for aspect, name in DIAGONALS:
            begin, end = (max(low, low * aspect), min(high, high * aspect))
            if begin >= end:
                continue
            ends = {"x1": self.x(begin), "y1": self.y(begin / aspect), "x2": self.x(end), "y2": self.y(end / aspect)}
            drawn.append(element("line", class_="diagonal", **ends))
            # Outside, where the line meets the right edge or the top one.
            is_upright = aspect < 1
            x, y = (ends["x2"], DENSITY.top - 5) if is_upright else (DENSITY.end + 4, ends["y2"] + 4)
            drawn.append(text(name, x, y, "tick", "middle" if is_upright else "start"))
        return drawn

    def _named_ends(self) -> list[_Box]:
        """Where the names of aspect ratios stand at the right edge."""
        high = 2.0 ** (self.low + self.octaves)
        ends = [self.y(high / aspect) for aspect, _ in DIAGONALS if aspect >= 1]
        return [_Box(DENSITY.end + 2, y - 7, DENSITY.width, y + 7) for y in ends]

    def labels(self, sizes: Sizes) -> list[Node]:
        """Name the most frequent sizes, those that find room: beside their place, on one of its four sides."""
        drawn: list[Node] = []
        taken = self._named_ends()
        rings = []
        for width, height in zip(
            sizes.widths[:LABELLED_SIZES].tolist(), sizes.heights[:LABELLED_SIZES].tolist(), strict=True
        ):
            x, y, name = self.x(width), self.y(height), f"{width}×{height}"
            box = next((box for box in _boxes(x, y, len(name) * BOLD_LETTER) if box.is_free(taken)), None)
            if box is None:
                continue
            taken += [box, _Box(x - 4, y - 4, x + 4, y + 4)]
            rings.append(element("circle", class_="ring", cx=x, cy=y, r=3.5))
            drawn.append(text(name, box.left + 2, box.bottom - 3, "label"))
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


def _boxes(x: float, y: float, length: float) -> list[_Box]:
    width, height = length + 4, 14
    lefts = (x + 6, x - 6 - width)
    tops = (y - height / 2, y - height - 4, y + 4)
    beside = [_Box(left, top, left + width, top + height) for top in tops for left in lefts]
    over = [_Box(x - width / 2, top, x + width / 2, top + height) for top in (y - height - 6, y + 6)]
    return beside + over


def _names(frame: Frame) -> list[Node]:
    return [
        text("width in pixels", frame.left + frame.inner_width / 2, frame.height - 8, "name", "middle"),
        text("height in pixels", 2, 13, "name"),
    ]


def aspect_marks() -> tuple[tuple[float, str], ...]:
    """Aspect ratios that have names, and these."""
    pairs = ((9, 16), (3, 4), (1, 1), (4, 3), (16, 9), (21, 9))
    return tuple((width / height, f"{width}:{height}") for width, height in pairs)
