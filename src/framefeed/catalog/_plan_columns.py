"""The columns that plans read of every row of a catalog: in memory, or mapped from a file that workers share.

In the file they are one list, in the last batch of the frame tables, so that each column is contiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from framefeed._arrays import AnyArray, BoolArray, IntArray
from framefeed._cached import cached_property
from framefeed._compute import pc
from framefeed.catalog._arrow import MappedFile, view_numbers, view_ragged
from framefeed.errors import UnreadableMedia

_NUMBERS = ("frame_row", "num_frames", "width", "height", "usable_row")
PROXY_COLUMN = "framefeed_proxy"
"""Path of the proxy of a row: a name that no list of a user has, as it is the file that is opened."""
_HAS_FAILED = "has_failed"

PLAN_COLUMNS = pa.struct(
    [
        pa.field("source", pa.large_string()),
        *(pa.field(name, pa.int64()) for name in _NUMBERS),
        pa.field(_HAS_FAILED, pa.uint8()),
    ]
)
"""Unknown numbers are -1, as is ``frame_row`` without an index; ``usable_row`` lists the rows that can be planned,
padded with -1."""


def make_plan_columns(column: Callable[[str], pa.ChunkedArray]) -> pa.StructArray:
    """Build the columns from those of a catalog.

    The frame tables hold a row for each distinct source with an index, in the order of their first rows.
    """
    known = ("num_frames", "width", "height")
    numbers: dict[str, IntArray] = {name: column(name).cast(pa.int64()).fill_null(-1).to_numpy() for name in known}
    has_failed = column("error_type").is_valid().to_numpy()
    # The header of an animation claims more.
    numbers["num_frames"] = np.where(find_pictures(column("kind")) & ~has_failed, 1, numbers["num_frames"])
    usable = find_usable_rows(has_failed, numbers["num_frames"])
    numbers["usable_row"] = np.concatenate([usable, np.full(len(has_failed) - len(usable), -1, np.int64)])
    numbers["frame_row"] = np.full(len(has_failed), -1, np.int64)
    has_proxy = column(PROXY_COLUMN).is_valid().to_numpy()
    if column("num_key_frames").null_count < len(has_failed) or has_proxy.any():
        sources = number_sources(column("source").combine_chunks())
        has_index = np.zeros(int(sources.max()) + 1, dtype=bool)
        has_index[sources] = column("num_key_frames").is_valid().to_numpy() | has_proxy
        numbers["frame_row"] = number_true(has_index)[sources]
    texts = column("source").cast(pa.large_string()).combine_chunks()
    arrays = [texts, *(pa.array(numbers[name]) for name in _NUMBERS), pa.array(has_failed.astype(np.uint8))]
    return pa.StructArray.from_arrays(arrays, fields=list(PLAN_COLUMNS))


def find_pictures(kinds: pa.ChunkedArray) -> BoolArray:
    """Find the rows of kind "image", bool [R]."""
    is_picture: BoolArray = pc.equal(kinds, "image").fill_null(False).to_numpy()
    return is_picture


def number_sources(texts: pa.Array) -> IntArray:
    """Number the distinct texts in the order of their first rows, int64 [R]."""
    numbers: IntArray = texts.dictionary_encode().indices.cast(pa.int64()).to_numpy()
    return numbers


def number_true(mask: npt.NDArray[np.bool_]) -> IntArray:
    """Number the true elements in their order, int64 [N]; -1 for the others."""
    return np.where(mask, np.cumsum(mask) - 1, -1).astype(np.int64)


def find_usable_rows(has_failed: BoolArray, num_frames: IntArray) -> IntArray:
    """Find the rows without an error that have frames or an unknown number of them, int64 [U]."""
    return np.flatnonzero(~has_failed & (num_frames != 0)).astype(np.int64)


def hash_plan_columns(columns: pa.StructArray) -> dict[str, str]:
    """Hash each column but ``source``, whose texts are read one by one."""
    return {name: xxhash.xxh3_64_hexdigest(values.data) for name, values in _view_columns(columns).items()}


def _view_columns(columns: pa.StructArray) -> dict[str, AnyArray]:
    kinds = {**dict.fromkeys(_NUMBERS, np.int64), _HAS_FAILED: np.uint8}
    return {name: view_numbers(columns.field(name), kind) for name, kind in kinds.items()}


class PlanColumns:
    """The columns by name; nothing is copied. A column from a file is checked when it is first used."""

    def __init__(
        self,
        columns: pa.StructArray,
        num_rows: int,
        num_tables: int,
        name: str,
        file: MappedFile | None = None,
        checksums: Mapping[str, str] | None = None,
    ) -> None:
        self._name = name
        self._checksums = checksums
        self._checked = set[str]()
        self._num_tables = num_tables
        try:
            columns.validate()  # Arrow ends the process at a field of a length below zero.
            if columns.type != PLAN_COLUMNS or len(columns) != num_rows:
                raise ValueError(f"they do not list the {num_rows} rows of the facts")
            self._columns = _view_columns(columns)
            self._sources = view_ragged(columns.field("source"), np.uint8, file)
        except ValueError as error:
            raise self._damaged(str(error)) from error

    def source(self, row: int) -> str:
        """Text of the ``source`` column in a row."""
        try:
            return self._sources.text(row)
        except ValueError as error:  # A UnicodeDecodeError is one too.
            raise self._damaged(f"source of row {row}: {error}") from error

    def numbers(self, name: str) -> IntArray:
        """View "num_frames", "width" or "height", int64 [R]; -1 where unknown."""
        values = self._columns[name]
        if self._checksums is not None and name not in self._checked:
            if xxhash.xxh3_64_hexdigest(values.data) != self._checksums.get(name):
                raise self._damaged(f"the checksum of {name} is another")
            self._checked.add(name)
        return values

    @cached_property
    def frame_rows(self) -> IntArray:
        """Row of the frame tables of each row, int64 [R]; -1 where it has no index."""
        rows = self.numbers("frame_row")
        if not (int(rows.min(initial=0)) >= -1 and int(rows.max(initial=-1)) < self._num_tables):
            raise self._damaged("a row without its frame table")
        return rows

    @cached_property
    def has_failed(self) -> BoolArray:
        """Whether each row has an error, bool [R]."""
        failed: BoolArray = self.numbers(_HAS_FAILED) != 0
        return failed

    @cached_property
    def usable_rows(self) -> IntArray:
        """Rows that can be planned, int64 [U], ascending."""
        listed = self.numbers("usable_row")
        count = int(np.count_nonzero(listed != -1))
        usable = listed[:count]
        if count and not (usable[0] >= 0 and usable[-1] < len(listed) and bool((np.diff(usable) > 0).all())):
            raise self._damaged("its usable rows are out of order")
        return usable

    def _damaged(self, what: Any) -> UnreadableMedia:
        return UnreadableMedia(
            f"{self._name}: damaged frame tables, {what}; delete it and index again", source=self._name, stage="index"
        )
