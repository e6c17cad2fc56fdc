"""The facts of a catalog as columns: their schema, how they are collected, and how they are read back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from framefeed.errors import UsageError
from framefeed.index.arrow_views import Texts, ragged_view
from framefeed.index.names import printable
from framefeed.index.survey import Finding

IntArray = npt.NDArray[np.int64]
Label = str | int

FACTS: dict[str, pa.DataType] = {
    "source": pa.string(),
    "kind": pa.string(),
    "container": pa.string(),
    "codec": pa.string(),
    "width": pa.int64(),
    "height": pa.int64(),
    "coded_width": pa.int64(),
    "coded_height": pa.int64(),
    "rotation": pa.int64(),
    "mirrored": pa.bool_(),
    "pixel_format": pa.string(),
    "num_frames": pa.int64(),
    "duration_seconds": pa.float64(),
    "average_fps": pa.float64(),
    "is_variable_frame_rate": pa.bool_(),
    "num_key_frames": pa.int64(),
    "bytes": pa.int64(),
    "mtime_ns": pa.int64(),
    "fingerprint": pa.string(),
    "label": pa.dictionary(pa.int32(), pa.string()),
    "error_type": pa.string(),
    "error": pa.string(),
}
"""Columns of every catalog in their order; the label's values are whole numbers where a manifest's labels are."""

INFO_COLUMNS = (
    "kind",
    "container",
    "codec",
    "width",
    "height",
    "coded_width",
    "coded_height",
    "rotation",
    "mirrored",
    "pixel_format",
)
_WHERE_NOT_WHAT = frozenset({"source", "mtime_ns", "error"})
"""Columns that differ between copies of the same media, and so are no part of a catalog's fingerprint."""


def facts_of(finding: Finding) -> dict[str, Any]:
    """Give the facts of one source by column, without source and label."""
    facts: dict[str, Any] = {"fingerprint": finding.fingerprint}
    if finding.info is not None:
        facts |= {name: getattr(finding.info, name) for name in (*INFO_COLUMNS, "bytes")}
        facts |= {
            "num_frames": finding.info.num_frames_from_header,
            "duration_seconds": finding.info.duration_seconds_from_header,
            "average_fps": finding.info.average_fps_from_header,
        }
    if finding.stat is not None:
        facts |= {"bytes": finding.stat.bytes, "mtime_ns": finding.stat.mtime_ns}
    if finding.error is not None:
        facts |= {"error_type": type(finding.error).__name__, "error": printable(str(finding.error))}
    return facts | _facts_of_index(finding)


def _facts_of_index(finding: Finding) -> dict[str, Any]:
    index = finding.index
    if index is None:
        return {}
    facts: dict[str, Any] = {"num_frames": len(index), "num_key_frames": len(index.key_frame_indices)}
    if index.has_timestamps:
        facts |= {
            "duration_seconds": float((index.end_pts - int(index.pts[0])) * index.time_base),
            "is_variable_frame_rate": index.is_variable_frame_rate,
        }
        facts |= {"average_fps": index.average_fps} if index.average_fps is not None else {}
    return facts


class FactsBuilder:
    """Collects the facts of sources, one after the other."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in FACTS if name not in ("source", "label")}

    def append(self, finding: Finding) -> None:
        """Add one source."""
        facts = facts_of(finding)
        for name, column in self._columns.items():
            column.append(facts.get(name))

    def columns(self) -> dict[str, pa.Array]:
        """Give what was collected, by column."""
        return {name: pa.array(values, FACTS[name]) for name, values in self._columns.items()}


def encode_labels(labels: pa.ChunkedArray, classes: Sequence[Label]) -> pa.ChunkedArray:
    """Encode labels as positions in ``classes``; the dictionary holds all of them, also those that no row has."""
    kind = pa.int64() if classes and isinstance(classes[0], int) else pa.string()
    dictionary = pa.array(classes, kind)
    plain = labels.cast(kind).combine_chunks()
    codes = pc.index_in(plain, value_set=dictionary).cast(pa.int32())
    return pa.chunked_array([pa.DictionaryArray.from_arrays(codes, dictionary)])


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Give a dictionary-encoded column's values, any other column as it is."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def label_codes(facts: Facts, classes: Sequence[Label]) -> IntArray:
    """Give each row's label as its position in ``classes``, int64 [R]; -1 where there is none."""
    encoded = encode_labels(decoded(facts.column("label")), classes)
    codes: IntArray = encoded.combine_chunks().indices.cast(pa.int64()).fill_null(-1).to_numpy()
    return codes


def normal_labels(labels: pa.ChunkedArray) -> pa.ChunkedArray:
    """Make labels whole numbers if they are, else strings."""
    return labels.cast(pa.int64() if pa.types.is_integer(labels.type) else pa.string())


def distinct(values: pa.ChunkedArray) -> list[Any]:
    """List the values of a column once each, sorted as Python sorts them; nulls are left out."""
    return sorted(value for value in pc.unique(values).to_pylist() if value is not None)


class Facts:
    """Columns by name, in memory or in a file, each read when it is first asked for.

    A training worker needs few of the columns: of a million files it should hold those alone.

    Args:
        schema: Names and types.
        num_rows: Number of rows.
        read: Reads one column.
    """

    def __init__(self, schema: pa.Schema, num_rows: int, read: Callable[[str], pa.ChunkedArray]) -> None:
        self.schema = schema
        self.num_rows = num_rows
        self._read = read
        self._columns: dict[str, pa.ChunkedArray] = {}
        self._numbers: dict[str, IntArray] = {}
        self._texts: dict[str, Texts] = {}
        self._lock = Lock()

    @classmethod
    def of_table(cls, table: pa.Table) -> Facts:
        """Take a table in memory."""
        return cls(table.schema, table.num_rows, table.column)

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self.schema.names)

    @property
    def extra_names(self) -> list[str]:
        """Names of the manifest's own columns."""
        return [name for name in self.names if name not in FACTS]

    def column(self, name: str) -> pa.ChunkedArray:
        """Read a column.

        Raises:
            UsageError: There is none of this name; the message lists the known.
        """
        if name not in self.names:
            raise UsageError(f"no column {name!r} in this catalog; it has {', '.join(self.names)}")
        with self._lock:
            if name not in self._columns:
                self._columns[name] = self._read(name)
            return self._columns[name]

    def table(self) -> pa.Table:
        """Read all columns."""
        return pa.table({name: self.column(name) for name in self.names})

    def numbers(self, name: str) -> IntArray:
        """Read a column of whole numbers or truth values as int64 [R], nulls as -1."""
        if name not in self._numbers:
            numbers: IntArray = self.column(name).cast(pa.int64()).fill_null(-1).to_numpy()
            numbers.flags.writeable = False
            self._numbers[name] = numbers
        return self._numbers[name]

    def texts(self, name: str) -> Texts:
        """Read a column of strings, quick to look up by row."""
        if name not in self._texts:
            self._texts[name] = Texts(self.column(name))
        return self._texts[name]

    def is_null(self, name: str) -> npt.NDArray[np.bool_]:
        """Tell where a column is null, bool [R]."""
        nulls: npt.NDArray[np.bool_] = self.column(name).is_null().to_numpy()
        return nulls

    @cached_property
    def source_numbers(self) -> IntArray:
        """Number of each row's source among the distinct sources in the order of their first rows, int64 [R].

        The frame tables hold one row for each distinct source, in this order.
        """
        encoded = self.column("source").combine_chunks().dictionary_encode()
        numbers: IntArray = encoded.indices.cast(pa.int64()).to_numpy()
        return numbers


def content_fingerprint(table: pa.Table, settings: Sequence[str]) -> str:
    """Hash what a plan depends on: content, order and columns of the rows, not where the files lie.

    Args:
        table: The facts.
        settings: What else decides: depth, verify, classes.
    """
    digest = hashlib.blake2b(repr(list(settings)).encode(), digest_size=16)
    for name in table.column_names:
        if name not in _WHERE_NOT_WHAT:
            digest.update(f"{name}\n".encode())
            _hash_column(digest, table.column(name))
    return digest.hexdigest()


def _hash_column(digest: Any, column: pa.ChunkedArray) -> None:
    column = decoded(column)
    digest.update(column.is_null().to_numpy().tobytes())
    if pa.types.is_floating(column.type):
        digest.update(column.cast(pa.float64()).fill_null(0.0).to_numpy().tobytes())
    elif pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        digest.update(column.cast(pa.int64()).fill_null(0).to_numpy().tobytes())
    elif pa.types.is_null(column.type):
        return
    else:
        texts = ragged_view(_as_strings(column).cast(pa.large_string()).combine_chunks(), np.uint8)
        digest.update(np.diff(texts.offsets).tobytes())
        digest.update(texts.values[texts.offsets[0] : texts.offsets[-1]] if len(column) else b"")


def _as_strings(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return column.cast(pa.string()).fill_null("")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return pa.chunked_array([[str(value) for value in column.to_pylist()]], pa.string())
