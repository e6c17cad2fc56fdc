"""The roll of a catalog: the columns that plans read of every row, mapped from a file, so that workers share one copy.

It is the only list in the last batch of the frame tables' file, so that each column is contiguous.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from framefeed._arrays import BoolArray, IntArray
from framefeed._cached import cached_property
from framefeed.catalog._arrow import view_numbers, view_ragged
from framefeed.errors import UnreadableMedia

_NUMBERS = ("frame_row", "num_frames", "width", "height", "usable_row")

ROLL = pa.struct(
    [
        pa.field("source", pa.large_string()),
        *(pa.field(name, pa.int64()) for name in _NUMBERS),
        pa.field("has_failed", pa.uint8()),
    ]
)
"""Unknown numbers are -1, as is ``frame_row`` without an index; ``usable_row`` lists the rows that can be planned,
padded with -1."""


def make_roll(sources: pa.ChunkedArray, numbers: dict[str, IntArray], has_failed: BoolArray) -> pa.StructArray:
    """Build a roll.

    Args:
        sources: Texts of the ``source`` column, [R].
        numbers: "frame_row", "num_frames", "width" and "height", int64 [R] each.
        has_failed: Rows with an error, bool [R].
    """
    usable = find_usable_rows(has_failed, numbers["num_frames"])
    padded = np.concatenate([usable, np.full(len(has_failed) - len(usable), -1, np.int64)])
    columns = [numbers.get(name, padded) for name in _NUMBERS]
    texts = sources.cast(pa.large_string()).combine_chunks()
    return pa.StructArray.from_arrays(
        [texts, *map(pa.array, columns), pa.array(has_failed.astype(np.uint8))], fields=list(ROLL)
    )


def find_usable_rows(has_failed: BoolArray, num_frames: IntArray) -> IntArray:
    """Find the rows without an error that have frames or an unknown number of them, int64 [U]."""
    return np.flatnonzero(~has_failed & (num_frames != 0)).astype(np.int64)


class Roll:
    """Reader of the roll in a file; checks its values and copies nothing.

    Args:
        columns: Result of `make_roll`, read from a file.
        num_rows: Number of rows of the facts.
        num_tables: Rows of the frame tables.
        name: Path of the file, for messages.

    Raises:
        UnreadableMedia: It is damaged.
    """

    def __init__(self, columns: pa.StructArray | None, num_rows: int, num_tables: int, name: str) -> None:
        self._name = name
        self._num_tables = num_tables
        try:
            if columns is None or columns.type != ROLL or len(columns) != num_rows:
                raise ValueError(f"they do not list the {num_rows} rows of the facts")
            self._numbers = {field: view_numbers(columns.field(field), np.int64) for field in _NUMBERS}
            self._failed = view_numbers(columns.field("has_failed"), np.uint8)
            self._sources = view_ragged(columns.field("source"), np.uint8)
        except ValueError as error:
            raise self._damaged(str(error)) from error

    def __len__(self) -> int:
        return len(self._failed)

    def __contains__(self, name: object) -> bool:
        return name in self._numbers

    def source(self, row: int) -> str:
        """Text of the ``source`` column in a row."""
        try:
            return self._sources.text(row)
        except ValueError as error:  # A UnicodeDecodeError is one too.
            raise self._damaged(f"source of row {row}: {error}") from error

    def numbers(self, name: str) -> IntArray:
        """View a column of numbers, int64 [R]."""
        return self._numbers[name]

    @cached_property
    def frame_rows(self) -> IntArray:
        """Row of the frame tables of each row, int64 [R]; -1 where it has no index."""
        rows = self._numbers["frame_row"]
        if not (int(rows.min(initial=0)) >= -1 and int(rows.max(initial=-1)) < self._num_tables):
            raise self._damaged("a row without its frame table")
        return rows

    @cached_property
    def has_failed(self) -> BoolArray:
        """Whether each row has an error, bool [R]."""
        failed: BoolArray = self._failed != 0
        return failed

    @cached_property
    def usable_rows(self) -> IntArray:
        """Rows that can be planned, int64 [U], ascending."""
        listed = self._numbers["usable_row"]
        count = int(np.count_nonzero(listed != -1))
        usable = listed[:count]
        if count and not (usable[0] >= 0 and usable[-1] < len(self) and bool((np.diff(usable) > 0).all())):
            raise self._damaged("its usable rows are out of order")
        return usable

    def _damaged(self, what: Any) -> UnreadableMedia:
        return UnreadableMedia(
            f"{self._name}: damaged frame tables, {what}; delete it and index again", source=self._name, stage="index"
        )
