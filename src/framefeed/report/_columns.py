"""Figures of a report: columns of a catalog, numbers as text, predicted costs, histograms and densities.

Columns are read as Arrow and NumPy arrays, each file once, and never row by row.

The cost of reading one frame: a decoder starts at a key frame, so one random frame of a video costs the pictures from
there on. With GOPs of one length g = frames / key frames these are 1, 2 ... g pictures, (g + 1) / 2 on average. GOPs of
unequal lengths cost more; skipped pictures, to which no other refers, cost less. The unit is the megapixel decoded,
because the time of a megapixel differs between codecs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framefeed._arrays import FloatArray, IntArray
from framefeed._cached import cached_property
from framefeed._names import escape_invisible, unescape
from framefeed._units import format_scaled
from framefeed.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Counts:
    """Values of files and their counts, the most frequent first.

    Attributes:
        names: The values.
        counts: Number of files with each value.
        unknown: Number of files without a value.
    """

    names: tuple[str, ...]
    counts: tuple[int, ...]
    unknown: int = 0

    @property
    def total(self) -> int:
        """Number of files."""
        return sum(self.counts) + self.unknown


def count_by_name(names: Sequence[str | None], counts: Sequence[int]) -> Counts:
    """Order counts by frequency, then by name; the name None means unknown."""
    pairs = [(name, count) for name, count in zip(names, counts, strict=True) if name and count]
    pairs.sort(key=lambda pair: (-pair[1], pair[0]))
    unknown = sum(counts) - sum(count for _, count in pairs)
    return Counts(tuple(name for name, _ in pairs), tuple(count for _, count in pairs), unknown)


class Columns:
    """Columns of a catalog; a file in several rows counts once.

    Args:
        catalog: The catalog.

    Attributes:
        catalog: The catalog.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    @cached_property
    def files(self) -> IntArray:
        """First row of each file, int64 [F]."""
        encoded = self.catalog.table.column("source").combine_chunks().dictionary_encode()
        numbers = encoded.indices.to_numpy()
        newest = np.maximum.accumulate(numbers) if len(numbers) else numbers
        return np.flatnonzero(np.diff(newest, prepend=-1)).astype(np.int64)

    @cached_property
    def usable(self) -> IntArray:
        """Rows of files that can be read, int64."""
        return np.intersect1d(self.files, self.catalog.usable_rows, assume_unique=True)

    @cached_property
    def failed(self) -> IntArray:
        """Rows of files with an error, int64."""
        return np.intersect1d(self.files, self.catalog.failed_rows, assume_unique=True)

    @cached_property
    def videos(self) -> IntArray:
        """Usable rows that are videos, int64."""
        return self._of_kind("video")

    @cached_property
    def images(self) -> IntArray:
        """Usable rows that are images, int64."""
        return self._of_kind("image")

    def _of_kind(self, kind: str) -> IntArray:
        is_kind = pc.equal(self.catalog.table.column("kind"), kind).fill_null(False).to_numpy()
        rows: IntArray = self.usable[is_kind[self.usable]]
        return rows

    def numbers(self, name: str, rows: IntArray) -> FloatArray:
        """Read numbers or truth values of some rows, float64; NaN where unknown."""
        column = self.catalog.table.column(name).cast(pa.float64(), safe=False).fill_null(np.nan)
        values: FloatArray = column.to_numpy()[rows]
        return values

    def texts(self, name: str, rows: IntArray) -> list[str]:
        """Read texts of a few rows; empty where unknown."""
        taken = self.catalog.table.column(name).take(pa.array(rows))
        return [text or "" for text in taken.to_pylist()]

    def counts(self, name: str, rows: IntArray) -> Counts:
        """Count the values of a column of texts among some rows; the empty text counts as unknown."""
        values = pc.value_counts(self.catalog.table.column(name).take(pa.array(rows)).combine_chunks())
        return count_by_name(values.field("values").to_pylist(), values.field("counts").to_pylist())

    @cached_property
    def common_folder(self) -> str:
        """The longest common start of all file names that ends with a slash; empty if there is none."""
        if len(self.files) < 2:
            return ""
        ends = pc.min_max(self.catalog.table.column("source")).as_py()
        first, last = ends["min"] or "", ends["max"] or ""
        pairs = enumerate(zip(first, last, strict=False))
        same = next((number for number, (one, other) in pairs if one != other), len(first))
        return first[: first[:same].rfind("/") + 1]


# Characters of a name in a table; the full name is its tooltip.
MAX_NAME = 72
# Characters of a tooltip: more than the longest name that Linux allows.
MAX_TITLE = 5000


def format_count(value: float) -> str:
    """Write a whole number: ``1,234,567``."""
    return f"{round(value):,}"


def format_count_of(number: float, noun: str) -> str:
    """Write a count with its noun: ``1 file``, ``2,000 files``."""
    return f"{format_count(number)} {noun if number == 1 else f'{noun}s'}"


def format_share(part: float, whole: float) -> str:
    """Write a share: ``12.3 %``; only an exact 0 is ``0 %``, and only the whole is ``100 %``."""
    if not whole or not part:
        return "0 %"
    percent = 100 * part / whole
    if part != whole and not 0.05 <= percent < 99.95:
        return "< 0.1 %" if percent < 1 else "> 99.9 %"
    return f"{percent:.1f} %" if part != whole else "100 %"


def format_short(value: float) -> str:
    """Write a large number briefly: ``1.25 M``, ``3.2 G``."""
    return format_scaled(value, ("", "k", "M", "G", "T")).strip()


def format_megapixels(value: float) -> str:
    """Write megapixels: ``2.07 Mpx``, ``1.5 Gpx``."""
    return format_scaled(value, ("Mpx", "Gpx", "Tpx", "Ppx"))


def show_full_name(text: str) -> str:
    """Show a stored name, with unprintable characters escaped."""
    return shorten(escape_invisible(unescape(text)), MAX_TITLE)


def shorten(text: str, length: int) -> str:
    """Leave out the middle of a long text, because names differ at their ends."""
    if len(text) <= length:
        return text
    tail = length * 2 // 5
    return f"{text[: length - tail - 1]}…{text[-tail:]}"


# Median of 93 real H.264 videos on two busy x86-64 cores; a quarter took less than 1.2, a quarter more than 3.5.
MILLISECONDS_PER_MEGAPIXEL = 1.9


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """Predicted costs of files.

    Attributes:
        rows: Rows of the files, int64 [F].
        gop: Frames per key frame, float64 [F]; NaN where unknown.
        random_megapixels: Megapixels to decode for one random frame, float64 [F]; NaN where unknown.
        all_megapixels: Megapixels to decode for all frames in order, float64 [F]; NaN where unknown.
    """

    rows: IntArray
    gop: FloatArray
    random_megapixels: FloatArray
    all_megapixels: FloatArray


def predict_costs(columns: Columns) -> Costs:
    """Predict the costs of all usable files."""
    rows = columns.usable
    frames = columns.numbers("num_frames", rows)
    is_image = np.isin(rows, columns.images)
    frames = np.where(is_image & np.isnan(frames), 1.0, frames)
    gop = compute_gop_lengths(frames, columns.numbers("num_key_frames", rows))
    pictures = np.where(is_image, 1.0, (gop + 1) / 2)
    coded, displayed = (
        columns.numbers(f"{prefix}width", rows) * columns.numbers(f"{prefix}height", rows) for prefix in ("coded_", "")
    )
    megapixels = np.where(np.nan_to_num(coded) > 0, coded, displayed) / 1e6
    return Costs(rows, gop, megapixels * pictures, megapixels * frames)


def compute_gop_lengths(frames: FloatArray, key_frames: FloatArray) -> FloatArray:
    """Compute frames per key frame; a video without key frames is a single GOP, and NaN stays NaN."""
    return frames / np.maximum(key_frames, 1.0)


def find_largest(values: FloatArray, limit: int) -> IntArray:
    """Find the indices of the largest values, largest first, ties in order, without NaN."""
    known = np.flatnonzero(~np.isnan(values))
    order = np.argsort(-values[known], kind="stable")
    return known[order[:limit]]


# Bars of a histogram: more bars are too thin to touch on a phone.
MAX_BINS = 28
MIN_BINS = 6
# Cells along one axis of a density.
MAX_CELLS = 40

# 1, 2, 3, 4, 6, 8, 12 ...: for whole numbers; 480, 720 and 1080 rows fall into different bins.
HALF_OCTAVES = tuple(chain([1.0, 2.0, 3.0], *((2.0**k, 1.5 * 2.0**k) for k in range(2, 26))))
ONE_TWO_FIVE = tuple(factor * 10.0**power for power in range(-6, 16) for factor in (1, 2, 5))
# Seconds in steps of clocks, up to a week.
SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800,
           3600, 7200, 18_000, 36_000, 86_400, 604_800)  # fmt: skip
# Twelfths of an octave: 1:1, 5:4, 4:3, 3:2, 16:9 and 21:9 lie near the middles of bins.
ASPECTS = tuple(2 ** ((step - 0.5) / 12) for step in range(-25, 27))


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Counts of values in half-open bins, and outside of all bins.

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

    def locate(self, value: float) -> float:
        """Find a value's distance from the first edge, in bins; bins are drawn equally wide."""
        return float(np.interp(value, self.edges, np.arange(len(self.edges))))


def make_histogram(values: FloatArray, edges: FloatArray) -> Histogram:
    """Count finite values in bins.

    Args:
        values: float64 [N], without NaN.
        edges: Ascending, float64 [B + 1].
    """
    bins = np.searchsorted(edges, values, side="right")
    counts = np.bincount(bins, minlength=len(edges) + 1).astype(np.int64)
    levels = [0.0, 0.05, 0.5, 0.95, 1.0]
    quantiles = np.quantile(values, levels) if len(values) else np.full(len(levels), np.nan)
    return Histogram(edges, counts[1:-1], int(counts[0]), int(counts[-1]), quantiles.astype(np.float64))


def choose_edges(all_edges: tuple[float, ...], values: FloatArray) -> FloatArray:
    """Choose the edges that cover the values: at least ``MIN_BINS`` bins, at most ``MAX_BINS``.

    Only values beyond the first or last of ``all_edges`` stay outside.
    """
    steps = np.asarray(all_edges, dtype=np.float64)
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


def choose_linear_edges(values: FloatArray) -> FloatArray:
    """Choose round edges from 0, at most ``MAX_BINS`` bins; the highest half per cent of values may lie outside."""
    high = float(np.quantile(values, 0.995)) if len(values) else 1.0
    high = high if high > 0 else 1.0
    step = choose_step(high / (MAX_BINS - 4))
    return np.arange(int(high // step) + 2, dtype=np.float64) * step


def choose_step(least: float) -> float:
    """Find the least step that is 1, 2, 2.5 or 5 times a power of ten, and not below ``least``."""
    power = float(10.0 ** np.floor(np.log10(least)))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= least * (1 - 1e-9))


@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """Counts of files by width and height, in cells of equal size on a logarithmic scale.

    Attributes:
        edges: Edges on both axes, in pixels, float64 [C + 1].
        columns: Number along the width of each cell that is not empty, int64 [Z].
        rows: Number along the height of each such cell, int64 [Z].
        counts: Number of files in each, int64 [Z].
    """

    edges: FloatArray
    columns: IntArray
    rows: IntArray
    counts: IntArray


def make_density(widths: FloatArray, heights: FloatArray) -> Density:
    """Count sizes in cells.

    Args:
        widths: Columns of pixels, at least 1, float64 [N]; N >= 1.
        heights: Rows of pixels, at least 1, float64 [N].
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
        counts: Number of files of each size, int64 [S].
    """

    widths: IntArray
    heights: IntArray
    counts: IntArray

    def __len__(self) -> int:
        return len(self.counts)


def count_sizes(widths: FloatArray, heights: FloatArray) -> Sizes:
    """Count files of each size."""
    packed = widths.astype(np.int64) << 32 | heights.astype(np.int64)
    values, counts = np.unique(packed, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return Sizes(values[order] >> 32, values[order] & 0xFFFFFFFF, counts[order].astype(np.int64))
