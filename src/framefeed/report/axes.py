"""Axes of plots: where a number is drawn, and which numbers are written beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from framefeed.report.binning import nice_step
from framefeed.report.markup import Node, element
from framefeed.report.quantities import count

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
