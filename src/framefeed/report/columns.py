"""The columns of a catalog as a report reads them: each file once, as Arrow and NumPy columns, never row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from framefeed._cached import cached_property
from framefeed.index.catalog import Catalog

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Counts:
    """How many files have which value, most frequent first.

    Attributes:
        names: The values.
        counts: Files with each.
        unknown: Files without one.
    """

    names: tuple[str, ...]
    counts: tuple[int, ...]
    unknown: int = 0

    @property
    def total(self) -> int:
        """Number of files."""
        return sum(self.counts) + self.unknown


def counted(names: Sequence[str | None], counts: Sequence[int]) -> Counts:
    """Order counts by frequency, then by name; None is what is not known."""
    pairs = [(name, number) for name, number in zip(names, counts, strict=True) if name and number]
    pairs.sort(key=lambda pair: (-pair[1], pair[0]))
    unknown = sum(counts) - sum(number for _, number in pairs)
    return Counts(tuple(name for name, _ in pairs), tuple(number for _, number in pairs), unknown)


class Columns:
    """Columns of a catalog; a file that several rows name is counted once.

    Args:
        catalog: Read column by column.

    Attributes:
        catalog: As given.
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
        return counted(values.field("values").to_pylist(), values.field("counts").to_pylist())

    @cached_property
    def common_folder(self) -> str:
        """What the names of all files begin with, up to a slash; empty if there is no such thing."""
        if len(self.files) < 2:
            return ""
        ends = pc.min_max(self.catalog.table.column("source")).as_py()
        first, last = ends["min"] or "", ends["max"] or ""
        same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
        return first[: first[:same].rfind("/") + 1]
