"""Columns of text: read by row, in memory or mapped from a file that all processes share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import pyarrow as pa

from framefeed._arrays import AnyArray, IntArray
from framefeed._compute import pc
from framefeed.catalog._columns import decode_dictionary
from framefeed.errors import UsageError


@dataclass(frozen=True, slots=True, eq=False)
class TextColumn:
    """Text, or a list of texts, of each row; what is read of it is decoded, the rest stays where it is."""

    values: pa.Array  # texts, [N]: strings, or lists of strings
    rows: IntArray | None = None  # of ``values``, for each row, [R]; None for all in their order

    @classmethod
    def of(cls, name: str, values: Any) -> TextColumn:
        """Make a column of a list of str, of None, or of lists of str, all of which UTF-8 must hold."""
        is_list = any(isinstance(value, (list, tuple)) for value in values)
        kind = pa.list_(pa.large_string()) if is_list else pa.large_string()
        try:
            return cls(pa.array(list(values), kind))
        except (pa.ArrowException, UnicodeError, TypeError) as error:
            raise UsageError(f"columns[{name!r}]: expected text, None or lists of text, got {error}") from error

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(object)

    @property
    def has_lists(self) -> bool:
        """Whether rows have lists of texts."""
        return bool(pa.types.is_nested(self.values.type))

    @property
    def shape(self) -> tuple[int | None, ...]:
        """(R,), or of lists (R, None)."""
        return (len(self), None) if self.has_lists else (len(self),)

    def __len__(self) -> int:
        return len(self.values) if self.rows is None else len(self.rows)

    def __getitem__(self, rows: Any) -> Any:
        """Read the text of a row, or a list of those of some rows, int64 [n]; None for null."""
        own = rows if self.rows is None else self.rows[rows]
        return self.values.take(pa.array(own)).to_pylist() if np.ndim(own) else self.values[int(own)].as_py()

    def select(self, rows: IntArray) -> TextColumn:
        """View some rows, in the order given."""
        return TextColumn(self.values, rows if self.rows is None else self.rows[rows])

    def list_distinct(self) -> tuple[str, ...]:
        """List the distinct texts, sorted, without null."""
        return tuple(sorted(text for text in pc.unique(self.values).to_pylist() if text is not None))

    def find_nulls(self, rows: IntArray) -> IntArray:
        """Select those of some rows that have no text, int64."""
        if not self.values.null_count:
            return rows[:0]
        is_null: AnyArray = self.values.is_null().to_numpy(zero_copy_only=False)
        return rows[is_null[rows if self.rows is None else self.rows[rows]]]


def holds_text(kind: pa.DataType) -> bool:
    """Whether a column of Arrow holds text, or lists of text; one without any value is taken for text."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return not pa.types.is_nested(kind.value_type) and holds_text(kind.value_type)
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)
    return any(test(kind) for test in tests)


def join_texts(column: pa.ChunkedArray) -> pa.Array:
    """Join the chunks of a column of text, whose offsets have 64 bits then."""
    plain = decode_dictionary(column)
    kind = pa.list_(pa.large_string()) if pa.types.is_nested(plain.type) else pa.large_string()
    chunks = plain.cast(kind).chunks
    # One chunk is not copied.
    joined: pa.Array = chunks[0] if len(chunks) == 1 else pa.concat_arrays([pa.array([], kind), *chunks])
    return joined


def write_texts(column: pa.ChunkedArray, file: IO[bytes]) -> None:
    """Write a column of text to a NPY file, as bytes, uint8 [N], that `read_texts` maps."""
    table = pa.table({"text": join_texts(column)})

    def write(sink: Any) -> None:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)

    sink = pa.MockOutputStream()  # counts
    write(sink)
    header = {"descr": "|u1", "fortran_order": False, "shape": (sink.size(),)}
    np.lib.format.write_array_header_1_0(file, header)
    write(pa.PythonFile(file, "w"))


def read_texts(data: AnyArray) -> pa.Array:
    """Read texts from the array of `write_texts`, which is not copied."""
    column = pa.ipc.open_stream(pa.py_buffer(data)).read_all().column(0)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


class Texts(Mapping[str, tuple[Any, ...]]):
    """Texts of the codes of columns, by name; each column's are listed when they are asked for."""

    def __init__(self, makers: Mapping[str, Any]) -> None:
        self._makers = dict(makers)
        self._made: dict[str, tuple[Any, ...]] = {}

    def __getitem__(self, name: str) -> tuple[Any, ...]:
        if name not in self._made:
            self._made[name] = tuple(self._makers[name]())
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def __repr__(self) -> str:
        return f"Texts of {list(self)}"
