"""The roll of a catalog: what planning asks about every row, mapped from the file, so that workers share one copy.

It lies in the frame tables' file as the one list of its last batch: each column in one piece, whatever the batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from framefeed._arrays import BoolArray, IntArray
from framefeed._cached import cached_property
from framefeed.catalog._arrow import primitive_view, ragged_view
from framefeed.errors import UnreadableMedia

_NUMBERS = ("frame_row", "num_frames", "width", "height", "usable_row")

ROLL = pa.struct(
    [
        pa.field("source", pa.large_string()),
        *(pa.field(name, pa.int64()) for name in _NUMBERS),
        pa.field("has_failed", pa.uint8()),
    ]
)
"""``frame_row`` is -1 for a row without an index, other unknown numbers are -1 too; ``usable_row`` lists the rows that
can be planned, and after the last of them -1."""


def make_roll(sources: pa.ChunkedArray, numbers: dict[str, IntArray], has_failed: BoolArray) -> pa.StructArray:
    """Put a roll together.

    Args:
        sources: Texts of the ``source`` column, [R].
        numbers: "frame_row", "num_frames", "width" and "height", int64 [R] each.
        has_failed: Rows with an error, bool [R].
    """
    usable = usable_of(has_failed, numbers["num_frames"])
    padded = np.concatenate([usable, np.full(len(has_failed) - len(usable), -1, np.int64)])
    columns = [numbers.get(name, padded) for name in _NUMBERS]
    texts = sources.cast(pa.large_string()).combine_chunks()
    return pa.StructArray.from_arrays(
        [texts, *map(pa.array, columns), pa.array(has_failed.astype(np.uint8))], fields=list(ROLL)
    )


def usable_of(has_failed: BoolArray, num_frames: IntArray) -> IntArray:
    """Rows that can be read, int64 [U]: no error, and at least one frame or an unknown number."""
    return np.flatnonzero(~has_failed & (num_frames != 0)).astype(np.int64)


class Roll:
    """Reads the roll of a file, without a copy and without trust.

    Args:
        columns: As `make_roll` made it, out of a file.
        num_rows: R, which the facts say.
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
            self._numbers = {field: primitive_view(columns.field(field), np.int64) for field in _NUMBERS}
            self._failed = primitive_view(columns.field("has_failed"), np.uint8)
            self._sources = ragged_view(columns.field("source"), np.uint8)
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
