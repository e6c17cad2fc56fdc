"""Figures of a report: columns of a catalog, numbers as text, and predicted costs.

Columns are read as Arrow and NumPy arrays, each file once, and never row by row.

The cost of reading one frame: a decoder starts at a key frame, so one random frame of a video costs the pictures from
there on. With GOPs of one length g = frames / key frames these are 1, 2 ... g pictures, (g + 1) / 2 on average. GOPs of
unequal lengths cost more; skipped pictures, to which no other refers, cost less. The unit is the megapixel decoded,
because the time of a megapixel differs between codecs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framefeed._arrays import FloatArray, IntArray
from framefeed._cached import cached_property
from framefeed._names import escape_invisible, is_url, unescape
from framefeed._shown import show_name
from framefeed._units import format_scaled
from framefeed.catalog import Catalog
from framefeed.media import source_name


@dataclass(frozen=True, slots=True)
class Counts:
    """Values of files and their counts, the most frequent first; ``unknown`` is the number of files without a value."""

    names: tuple[str, ...]
    counts: tuple[int, ...]
    unknown: int = 0


def count_by_name(names: Sequence[str | None], counts: Sequence[int]) -> Counts:
    """Order counts by frequency, then by name; the name None means unknown."""
    pairs = [(name, count) for name, count in zip(names, counts, strict=True) if name and count]
    pairs.sort(key=lambda pair: (-pair[1], pair[0]))
    unknown = sum(counts) - sum(count for _, count in pairs)
    return Counts(tuple(name for name, _ in pairs), tuple(count for _, count in pairs), unknown)


class Columns:
    """Columns of a catalog; a file in several rows counts once."""

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
        return self._choose_kind("video")

    @cached_property
    def images(self) -> IntArray:
        """Usable rows that are images, int64."""
        return self._choose_kind("image")

    def _choose_kind(self, kind: str) -> IntArray:
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

    def names(self, rows: IntArray) -> list[str]:
        """Name the files of a few rows, without the secrets of URLs."""
        sources = self.texts("source", rows)
        return [source_name(text, row) for text, row in zip(sources, rows.tolist(), strict=True)]

    def counts(self, name: str, rows: IntArray) -> Counts:
        """Count the values of a column of texts among some rows; the empty text counts as unknown."""
        values = pc.value_counts(self.catalog.table.column(name).take(pa.array(rows)).combine_chunks())
        return count_by_name(values.field("values").to_pylist(), values.field("counts").to_pylist())

    @cached_property
    def label_sizes(self) -> tuple[IntArray, int]:
        """Number of rows of each label, int64 [C], and of those without one."""
        codes = self.catalog.column_values("label")
        sizes = np.bincount(codes[codes >= 0], minlength=len(self.catalog.classes))
        return sizes, int(np.count_nonzero(codes < 0))

    @cached_property
    def common_folder(self) -> str:
        """The longest common start of all file names that ends with a slash; empty if there is none."""
        if len(self.files) < 2:
            return ""
        ends = pc.min_max(self.catalog.table.column("source")).as_py()
        first, last = ends["min"] or "", ends["max"] or ""
        if is_url(first) or is_url(last):
            shown = [show_name(text) for text in self.texts("source", self.files)]
            first, last = min(shown), max(shown)
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
    """Predicted costs of files."""

    rows: IntArray  # rows of the files, int64 [F]
    gop: FloatArray  # frames per key frame, float64 [F]; NaN where unknown
    random_megapixels: FloatArray  # megapixels to decode for one random frame, float64 [F]; NaN where unknown
    all_megapixels: FloatArray  # megapixels to decode for all frames in order, float64 [F]; NaN where unknown


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
