"""Read a column of numbers, or lists of numbers, as flat arrays; and count rows by how their index was built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from framefeed._arrays import FloatArray, IntArray
from framefeed._compute import pc
from framefeed.catalog._catalog_rows import CatalogRows, read_arrow_column, read_built_from_codes
from framefeed.errors import UsageError
from framefeed.index import BuiltFrom

_REMEDY = (
    'Lists of numbers can come from JSON Lines ({"path": "a.mp4", "frame": [1, 5, 9]}) or Parquet; or make the '
    "requests yourself, with plan_requests"
)
_EXPECTED = "expected integers (frame numbers) or floats (seconds), one number or a list of numbers per row"


@dataclass(frozen=True, slots=True, eq=False)
class RowLists:
    """Numbers of each row: row r has ``values[offsets[r]:offsets[r + 1]]``."""

    values: IntArray | FloatArray  # [V]; undefined where a row has a null
    offsets: IntArray  # [R + 1]
    has_null: npt.NDArray[np.bool_]  # whether a row is null or NaN, or one of its numbers is, [R]

    @classmethod
    def of(cls, catalog: CatalogRows, name: str) -> RowLists:
        column = read_arrow_column(catalog, name)
        offsets = np.arange(len(column) + 1, dtype=np.int64)
        has_null = column.is_null().to_numpy(zero_copy_only=False)
        kind = column.type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
            offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
            column = pc.list_flatten(column)
        kind = column.type
        values: IntArray | FloatArray
        if pa.types.is_null(kind) or pa.types.is_floating(kind):
            values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy()
        elif pa.types.is_integer(kind):
            try:
                values = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
            except pa.ArrowInvalid as error:
                raise UsageError(f"column {name!r} holds a number that cannot be a frame number: {error}") from None
        else:
            raise UsageError(f"column {name!r} holds {_describe_column(column)}: {_EXPECTED}. {_REMEDY}")
        missing = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        rows_of_values = np.repeat(np.arange(len(has_null)), np.diff(offsets))
        has_null = has_null | (np.bincount(rows_of_values, missing, len(has_null)) > 0)
        return cls(values, offsets, has_null)

    def __len__(self) -> int:
        return len(self.has_null)

    @property
    def lengths(self) -> IntArray:
        """Numbers of each row, int64 [R]."""
        return np.diff(self.offsets)

    def take(self, rows: IntArray) -> RowLists:
        """Copy the lists of some rows, in the order given."""
        lengths = self.lengths[rows]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
        indices = np.arange(offsets[-1]) + np.repeat(self.offsets[rows] - offsets[:-1], lengths)
        return RowLists(self.values[indices], offsets, self.has_null[rows])


def _describe_column(column: pa.Array) -> str:
    known = column.drop_null()
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if is_text:
        # The value that makes a column text, rather than a number beside it.
        odd = known.filter(pc.invert(pc.match_substring_regex(known, r"^\s*[-+]?\d+(\.\d*)?\s*$")))
        known = odd if len(odd) else known
    example = f" such as {str(known[0].as_py())[:40]!r}" if len(known) else ""
    return f"text{example}" if is_text else f"{column.type}{example}"


BUILT_FROM_IN_WORDS: Mapping[BuiltFrom, str] = {
    "packets+proof": "reading the headers of all packets",
    "packets": "listing the packets or pictures, without verifying them",
    "packets+ends": "listing the packets, and decoding both ends of the video",
    "decode": "decoding all frames",
}
"""Descriptions of ``FrameIndex.built_from`` for people; that of the default ``verify`` first."""


def count_built_from(catalog: CatalogRows, rows: IntArray | None = None) -> dict[BuiltFrom, int]:
    """Count rows by ``built_from``, by default those that can be read; pictures, which have no index, do not count."""
    codes = read_built_from_codes(catalog)[catalog.usable_rows if rows is None else rows]
    counts = np.bincount(codes[codes >= 0], minlength=len(BUILT_FROM_IN_WORDS)).tolist()
    count_of = dict(zip(get_args(BuiltFrom), counts, strict=True))
    return {built_from: count_of[built_from] for built_from in BUILT_FROM_IN_WORDS if count_of[built_from]}
