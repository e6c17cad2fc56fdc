"""Histograms and densities: values -> counts, and nothing is lost on the way."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MAX_BINS = 28
"""More bars than this are thinner than a finger on a phone."""
MIN_BINS = 6
MAX_CELLS = 40
"""Cells along one axis of a density."""

HALF_OCTAVES = tuple(chain([1.0, 2.0, 3.0], *((2.0**k, 1.5 * 2.0**k) for k in range(2, 26))))
"""1, 2, 3, 4, 6, 8, 12 ...: for whole numbers; 480, 720 and 1080 rows fall into bins of their own."""
ONE_TWO_FIVE = tuple(factor * 10.0**power for power in range(-6, 16) for factor in (1, 2, 5))
SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800,
           3600, 7200, 18_000, 36_000, 86_400, 604_800)  # fmt: skip
"""Steps that clocks know, up to a week."""
ASPECTS = tuple(2 ** ((step - 0.5) / 12) for step in range(-25, 27))
"""A twelfth of an octave each: 1:1, 5:4, 4:3, 3:2, 16:9 and 21:9 lie near the middles of bins, as musical intervals."""


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Counts of values in half-open bins, and of those beside them.

    Attributes:
        edges: Ascending, float64 [B + 1].
        counts: Values with edges[i] <= value < edges[i + 1], int64 [B].
        below: Values less than the first edge.
        above: Values not less than the last edge.
        quantiles: Least, 5 %, median, 95 % and greatest value, float64 [5]; NaN where there are no values.
    """

    edges: FloatArray
    counts: IntArray
    below: int
    above: int
    quantiles: FloatArray

    @property
    def total(self) -> int:
        """Number of values."""
        return int(self.counts.sum()) + self.below + self.above

    def position(self, value: float) -> float:
        """Where a value lies in units of bins from the first edge; bins are drawn equally wide."""
        return float(np.interp(value, self.edges, np.arange(len(self.edges))))


def histogram(values: FloatArray, edges: FloatArray) -> Histogram:
    """Count finite values in bins.

    Args:
        values: float64 [N], without NaN.
        edges: Ascending, float64 [B + 1].
    """
    places = np.searchsorted(edges, values, side="right")
    counts = np.bincount(places, minlength=len(edges) + 1).astype(np.int64)
    levels = [0.0, 0.05, 0.5, 0.95, 1.0]
    quantiles = np.quantile(values, levels) if len(values) else np.full(len(levels), np.nan)
    return Histogram(edges, counts[1:-1], int(counts[0]), int(counts[-1]), quantiles.astype(np.float64))


def part_of(ladder: tuple[float, ...], values: FloatArray) -> FloatArray:
    """Choose the edges of a ladder that cover the values: at least ``MIN_BINS`` bins, at most ``MAX_BINS``.

    Values beyond the ladder's ends stay outside; those between them never do.
    """
    steps = np.asarray(ladder, dtype=np.float64)
    if not len(values):
        return steps[: MIN_BINS + 1]
    last_edge = len(steps) - 1
    first = max(0, int(np.searchsorted(steps, values.min(), side="right")) - 1)
    last = min(last_edge, max(first + 1, int(np.searchsorted(steps, values.max(), side="right"))))
    missing = max(0, MIN_BINS - (last - first))
    first = max(0, min(first - missing // 2, last_edge - MIN_BINS))
    last = min(last_edge, max(last, first + MIN_BINS))
    stride = -(-(last - first) // MAX_BINS)
    return steps[np.minimum(np.arange(first, last + stride, stride), last_edge)]


def linear_edges(values: FloatArray) -> FloatArray:
    """Choose round edges from 0 on, at most ``MAX_BINS`` bins; the highest half per cent may lie beyond them."""
    high = float(np.quantile(values, 0.995)) if len(values) else 1.0
    high = high if high > 0 else 1.0
    step = nice_step(high / (MAX_BINS - 4))
    return np.arange(int(high // step) + 2, dtype=np.float64) * step


def nice_step(least: float) -> float:
    """Give the least of 1, 2, 2.5, 5 times a power of ten that is not less."""
    power = float(10.0 ** np.floor(np.log10(least)))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= least * (1 - 1e-9))


@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """Files by width and height, in cells that are equally wide on a logarithmic scale.

    Attributes:
        edges: Of both axes, in pixels, float64 [C + 1].
        columns: Number of the cell along the width, int64 [Z], of each cell that is not empty.
        rows: The same along the height, int64 [Z].
        counts: Files in it, int64 [Z].
    """

    edges: FloatArray
    columns: IntArray
    rows: IntArray
    counts: IntArray


def density(widths: FloatArray, heights: FloatArray) -> Density:
    """Count sizes in cells.

    Args:
        widths: Columns of pixels, at least 1, float64 [N]; N >= 1.
        heights: Rows of pixels, likewise.
    """
    low = int(np.floor(np.log2(min(widths.min(), heights.min()))))
    high = int(np.floor(np.log2(max(widths.max(), heights.max())))) + 1
    if high - low < 3:
        low, high = max(0, low - 1), high + 1
    per_octave = next((each for each in (16, 8, 4, 2) if each * (high - low) <= MAX_CELLS), 1)
    edges = 2.0 ** (low + np.arange((high - low) * per_octave + 1) / per_octave)
    columns, rows = (np.searchsorted(edges, sides, side="right") - 1 for sides in (widths, heights))
    cells, counts = np.unique(columns * len(edges) + rows, return_counts=True)
    return Density(edges, cells // len(edges), cells % len(edges), counts.astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """Distinct sizes, most frequent first.

    Attributes:
        widths: int64 [S].
        heights: int64 [S].
        counts: Files of this size, int64 [S].
    """

    widths: IntArray
    heights: IntArray
    counts: IntArray

    def __len__(self) -> int:
        return len(self.counts)


def distinct_sizes(widths: FloatArray, heights: FloatArray) -> Sizes:
    """Count files of each size."""
    packed = widths.astype(np.int64) << 32 | heights.astype(np.int64)
    values, counts = np.unique(packed, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return Sizes(values[order] >> 32, values[order] & 0xFFFFFFFF, counts[order].astype(np.int64))
