"""Bars: one line for each value or range of values, with its count, its share of all, and a bar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np

from framefeed._arrays import FloatArray
from framefeed._units import format_number, format_seconds, format_share
from framefeed.report._columns import Counts, format_count, format_count_of, shorten, show_full_name
from framefeed.report._markup import Node, make_element

MAX_VALUES = 12
# Characters of a label; the full text is its tooltip.
MAX_LABEL = 96
# Bars of a histogram, less those beyond its ends: as many lines as a phone shows at once.
MAX_BINS = 28
# Share of the files whose values may lie before an axis.
SMALL_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Bar:
    """One line of a plot: a value or several, and the number of files, or what else is summed up.

    ``is_rest``: it sums up values that have no line of their own, or that are unknown.
    """

    label: str
    amount: float
    is_rest: bool = False


def draw_bars(
    heading: str,
    bars: Sequence[Bar],
    *,
    unit: str = "",
    show: Callable[[float], str] = format_count,
    note: str | None = None,
    is_compact: bool = False,
) -> Node:
    """Draw bars; the longest fills its line. Together they are the whole, of which each has a share.

    ``unit`` is what the labels say, for the heading. ``is_compact`` draws a bar beside its label, which must then be
    short, and not below.
    """
    total, most = sum(bar.amount for bar in bars), max((bar.amount for bar in bars), default=0)
    lines = []
    for bar in bars:
        full = show_full_name(bar.label)
        short = shorten(full, MAX_LABEL)
        label = make_element("bdi", short, class_="value", title=None if short == full else full)
        mark = None
        if bar.amount:
            # Even the smallest bar can be seen.
            width = f"{max(100 * bar.amount / most, 0.6):.1f}%"
            mark = make_element("rect", class_=f"mark{' rest' * bar.is_rest}", width=width, height="100%", rx=2)
        numbers = (show(bar.amount), format_share(bar.amount, total, decimals=1))
        spans = (make_element("span", number, class_="number") for number in numbers)
        lines.append(make_element("li", label, make_element("svg", mark, class_="line", aria_hidden="true"), *spans))
    shown = make_element("ul", *lines, class_="bars") if lines else make_element("p", "nothing to count", class_="note")
    title = make_element("h3", heading, make_element("span", unit, class_="unit") if unit else None)
    remark = None if note is None else make_element("p", note, class_="note")
    return make_element("figure", title, shown, remark, class_="values compact" if is_compact else "values")


def draw_counts(
    heading: str, counts: Counts, *, limit: int = MAX_VALUES, unit: str = "", note: str | None = None
) -> Node:
    """Draw counted values; those after the first ``limit`` are one bar, and unknown ones are another."""
    return draw_bars(heading, list_bars(counts.names, counts.counts, limit, counts.unknown), unit=unit, note=note)


def list_bars(
    names: Sequence[str], amounts: Sequence[float], limit: int, unknown: float = 0, others: str = "more"
) -> list[Bar]:
    """Make a bar of each of the first values, one of all others together, and one of the amount without a value.

    Names after the first ``limit`` are not read; ``others`` is the noun of the values without a bar of their own.
    """
    rest = amounts[limit:]
    bars = [Bar(name, amount) for name, amount in zip(names[:limit], amounts[:limit], strict=True)]
    bars += [Bar(f"{format_count(len(rest))} {others}", sum(rest), is_rest=True)] if rest else []
    return bars + ([Bar("unknown", unknown, is_rest=True)] if unknown else [])


# --- histograms -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Axis:
    """The bins of a histogram, and their names."""

    unit: str
    # All edges that bins may have, ascending: the same for all catalogs, so that reports can be compared.
    edges: tuple[float, ...]
    show: Callable[[float], str] = format_number
    names: tuple[tuple[float, str], ...] = ()  # names of some values, for the bins in which they lie
    is_whole: bool = False  # whether all values are whole numbers, so that a bin is named by its first and last

    def name_bin(self, low: float, high: float) -> str:
        """Name a bin: ``10 s to 20 s``; of whole numbers ``8`` or ``8 to 11``; with names ``1.73 to 1.83 (16:9)``."""
        if self.is_whole:
            return self.show(low) if high - low <= 1 else f"{self.show(low)} to {self.show(high - 1)}"
        names = ", ".join(name for value, name in self.names if low <= value < high)
        return f"{self.show(low)} to {self.show(high)}" + (f" ({names})" if names else "")


# 1, 2, 3, 4, 6, 8, 12 ...: 480, 720 and 1080 rows fall into different bins.
HALF_OCTAVES = tuple(chain([1.0, 2.0, 3.0], *((2.0**k, 1.5 * 2.0**k) for k in range(2, 26))))
ONE_TWO_FIVE = tuple(factor * 10.0**power for power in range(-6, 16) for factor in (1, 2, 5))
# Seconds in steps of clocks, up to a week.
SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800,
           3600, 7200, 18_000, 36_000, 86_400, 604_800)  # fmt: skip
# 23.976 and 24, 25 and 29.97, and 30 fall into three bins.
RATES = (1, 2, 5, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100, 120, 150, 200, 250, 500, 1000)
# Twelfths of an octave: 1:1, 5:4, 4:3, 3:2, 16:9 and 21:9 lie near the middles of bins.
ASPECTS = tuple(2 ** ((step - 0.5) / 12) for step in range(-25, 27))
ASPECT_NAMES = tuple(
    (width / height, f"{width}:{height}")
    for width, height in ((9, 16), (2, 3), (3, 4), (4, 5), (1, 1), (5, 4), (4, 3), (3, 2), (16, 9), (21, 9))
)

PIXELS = Axis("pixels", HALF_OCTAVES, format_count, is_whole=True)
MEGAPIXELS = Axis("megapixels", ONE_TWO_FIVE)
ASPECT = Axis("width : height", ASPECTS, names=ASPECT_NAMES)
DURATION = Axis("", SECONDS, format_seconds)


def draw_histogram(heading: str, values: FloatArray, axis: Axis) -> Node:
    """Draw the counts of values in bins, with a summary; each value is in one bar.

    Of the values, one a file, float64 [N], what is not finite and positive is unknown.
    """
    known = values[np.isfinite(values) & (values > 0)]
    bars = count_in_bins(known, axis) if len(known) else []
    if len(known) < len(values):
        bars.append(Bar("unknown", len(values) - len(known), is_rest=True))
    return draw_bars(heading, bars, unit=axis.unit, note=_describe_values(known, axis.show), is_compact=True)


def count_in_bins(values: FloatArray, axis: Axis) -> list[Bar]:
    """Count values in half-open bins; the bars beyond the ends are made only if there are such values."""
    edges = choose_edges(axis.edges, values)
    below, *counts, above = np.histogram(values, np.concatenate([[-np.inf], edges, [np.inf]]))[0].tolist()
    bars = [
        Bar(axis.name_bin(low, high), count)
        for (low, high), count in zip(pairwise(edges.tolist()), counts, strict=True)
    ]
    if below:
        bars.insert(0, Bar(f"less than {axis.show(float(edges[0]))}", below, is_rest=True))
    if above:
        bars.append(Bar(f"{axis.show(float(edges[-1]))} or more", above, is_rest=True))
    return bars


def choose_edges(all_edges: Sequence[float], values: FloatArray) -> FloatArray:
    """Choose the edges that cover the values, for at most ``MAX_BINS`` bins; there must be a value.

    Values stay outside if they are beyond the first or last of ``all_edges``, or far below the others: bins begin at
    the 1 % quantile, or a few files of one frame would fill the plot with empty lines.
    """
    steps = np.asarray(all_edges, dtype=np.float64)
    least = np.quantile(values, SMALL_SHARE, method="lower")
    first = max(0, int(np.searchsorted(steps, least, side="right")) - 1)
    last = min(len(steps) - 1, max(first + 1, int(np.searchsorted(steps, values.max(), side="right"))))
    stride = max(1, -(-(last - first) // MAX_BINS))
    return np.append(steps[first:last:stride], steps[last])


def _describe_values(values: FloatArray, show: Callable[[float], str]) -> str:
    if not len(values):
        return "This value is unknown for all files."
    files = format_count_of(len(values), "file")
    least, low, median, high, greatest = map(show, np.quantile(values, [0.0, 0.05, 0.5, 0.95, 1.0]).tolist())
    if least == greatest:
        return f"{files}, all {least}"
    return f"{files}; median {median}, 90 % between {low} and {high}, least {least}, greatest {greatest}"
