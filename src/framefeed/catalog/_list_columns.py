"""Columns of numeric lists that all have one shape: arrays [R, ...], mapped where they are large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from framefeed._arrays import AnyArray, BoolArray, IntArray
from framefeed._compute import pc
from framefeed.catalog._cached_files import map_arrays
from framefeed.catalog._catalog import Catalog
from framefeed.catalog._columns import list_distinct
from framefeed.catalog._text_columns import TextColumn, holds_text, join_texts, read_texts, write_texts
from framefeed.errors import UsageError

# Of fewer, each process reads its own: that costs less than a file in the cache folder.
_MAPPED_ROWS = 50_000


@dataclass(frozen=True, slots=True, eq=False)
class ListColumn:
    """Lists of one shape, one a row of a catalog; what is read of them is copied, the rest stays where it is."""

    values: AnyArray  # [N, ...], in memory or mapped from a file
    rows: IntArray | None = None  # of ``values``, for each row, [R]; None for all in their order

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return self.values.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """(R, ...)."""
        return (len(self), *self.values.shape[1:])

    def __len__(self) -> int:
        return len(self.values) if self.rows is None else len(self.rows)

    def __getitem__(self, rows: int | IntArray) -> AnyArray:
        """Copy the list of a row, or the lists of some rows."""
        copied: AnyArray = np.array(self.values[rows if self.rows is None else self.rows[rows]])
        return copied

    def select(self, rows: IntArray) -> ListColumn:
        """View some rows, in the order given."""
        return ListColumn(self.values, rows if self.rows is None else self.rows[rows])


def read_plan_column(
    catalog: Catalog, name: str, rows: IntArray, *, as_codes: bool = False
) -> AnyArray | ListColumn | TextColumn:
    """Read a column that is delivered with clips: text and lists as they are, others as ``Catalog.column_values`` does.

    The lists of the rows that are planned must have one shape. ``as_codes`` gives the codes of a column of text.
    """
    facts, saved = catalog._data.facts, catalog._saved
    kind = facts.schema.field(name).type if name in facts.names else facts.column(name).type
    if name != "label" and as_codes and (pa.types.is_nested(kind) or not holds_text(kind)):
        raise UsageError(
            f"columns: only a column of text has codes, but {name!r} holds {kind}: give None in place of 'codes'"
        )
    if name != "label" and not as_codes and holds_text(kind):
        return _read_texts(catalog, name)
    if not _is_list(kind):
        return catalog.column_values(name)
    if saved is None or facts.num_rows < _MAPPED_ROWS:
        values, faulty = convert_lists(name, facts.column(name))
    else:
        names = (f"{saved.path} {name}", f"{saved.path} {name} is faulty")

        def write(paths: dict[str, str]) -> None:
            # A column that is mapped is read by the process alone that makes its file.
            for made, array in zip(names, convert_lists(name, facts.read(name)), strict=True):
                if made in paths:
                    with open(paths[made], "wb") as file:
                        np.lib.format.write_array(file, array, allow_pickle=False)

        arrays = map_arrays(dict.fromkeys(names, saved.fingerprint), write)
        values, faulty = (arrays[each] for each in names)
    own = rows if catalog._rows is None else catalog._rows[rows]
    if (wrong := faulty[own]).any():
        row = int(rows[int(wrong.argmax())])
        raise UsageError(
            f"column {name!r}: expected {_describe(values.shape[1:])} in every row, but {np.count_nonzero(wrong)} of "
            f"{len(rows)} planned rows differ, or have a null; the first is row {row} ({catalog.shown_name(row)}): "
            "leave them out with catalog[mask], or write lists of one length, padded to it"
        )
    return ListColumn(values, catalog._rows)


def _read_texts(catalog: Catalog, name: str) -> TextColumn:
    facts, saved = catalog._data.facts, catalog._saved
    if saved is None or facts.num_rows < _MAPPED_ROWS:
        return TextColumn(join_texts(facts.column(name)), catalog._rows)
    made = f"{saved.path} {name} as text"

    def write(paths: dict[str, str]) -> None:
        with open(paths[made], "wb") as file:
            write_texts(facts.read(name), file)

    return TextColumn(read_texts(map_arrays({made: saved.fingerprint}, write)[made]), catalog._rows)


def list_texts(catalog: Catalog, name: str) -> tuple[str, ...]:
    """List the texts of the codes of a column."""
    return tuple(list_distinct(catalog._data.facts.column(name)))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def find_dtype(kind: pa.DataType) -> np.dtype[Any]:
    """Find the type of NumPy of Arrow's numbers and booleans; ``to_pandas_dtype`` of pyarrow 17 needs pandas."""
    dtype: np.dtype[Any] = pa.array([], kind).to_numpy(zero_copy_only=False).dtype
    return dtype


def convert_lists(name: str, column: pa.ChunkedArray) -> tuple[AnyArray, BoolArray]:
    """Convert lists to an array [N, ...]; and find rows with another shape than the first, or a null, bool [N]."""
    kind = column.type
    while _is_list(kind):
        kind = kind.value_type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise UsageError(
            f"column {name!r} holds {column.type}, which is not delivered with clips: lists must be of numbers. It can "
            "be read from catalog.table"
        )
    leaf = find_dtype(kind)
    shape = _find_shape(column)
    faulty = [np.empty(0, np.bool_), *(_find_faulty(chunk, shape) for chunk in column.chunks)]
    values: AnyArray = np.zeros((len(column), *shape), leaf)
    start = 0
    for chunk, is_wrong in zip(column.chunks, faulty[1:], strict=True):
        flat = _filter(chunk, ~is_wrong)
        while _is_list(flat.type):
            flat = flat.flatten()
        stop = start + len(chunk)
        values[start:stop][~is_wrong] = flat.to_numpy(zero_copy_only=False).reshape(-1, *shape)
        start = stop
    return values, np.concatenate(faulty)


def _filter(values: pa.Array, mask: BoolArray) -> pa.Array:
    """Take the lists for which a mask is true."""
    if mask.all():
        return values
    # Of a slice of nested fixed-size lists, pyarrow 26.0 filters and takes others; this copies it to a whole array.
    return pa.concat_arrays([values]).filter(pa.array(mask))


def _find_shape(column: pa.ChunkedArray) -> tuple[int, ...]:
    """Find the shape of the first list."""
    known = column.is_valid().to_numpy()
    if not known.any():
        return (0,)
    value, shape = column[int(known.argmax())].as_py(), list[int]()
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    return tuple(shape)


def _find_faulty(values: pa.Array, shape: tuple[int, ...]) -> BoolArray:
    """Find the rows with another shape, or with a null anywhere, bool [R]."""
    faulty, rows = np.zeros(len(values), np.bool_), np.arange(len(values))
    for length in shape:
        if not _is_list(values.type):
            return np.ones_like(faulty)
        lengths = pc.fill_null(pc.list_value_length(values), -1).to_numpy(zero_copy_only=False)
        faulty[rows[lengths != length]] = True
        is_right = ~faulty[rows]
        values = _filter(values, is_right).flatten()
        rows = np.repeat(rows[is_right], length)
    if values.null_count:
        faulty[rows[values.is_null().to_numpy(zero_copy_only=False)]] = True
    return faulty


def _describe(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} numbers" if len(shape) == 1 else f"numbers of the shape {list(shape)}"
