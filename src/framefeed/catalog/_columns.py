"""Collect the facts of sources as columns, and read them back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import RLock
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from framefeed._arrays import BoolArray, IntArray
from framefeed._cached import cached_property
from framefeed._checks import expected
from framefeed._compute import pc
from framefeed._nearest import did_you_mean
from framefeed._per_process import PerProcess
from framefeed.catalog._arrow import Ragged, view_ragged
from framefeed.catalog._plan_columns import PROXY_COLUMN, PlanColumns, find_pictures, make_plan_columns
from framefeed.catalog._still_facts import StillFacts
from framefeed.errors import UsageError
from framefeed.index import MP4_FORMAT_NAME
from framefeed.media import SEQUENCE_CONTAINER

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
    "num_damaged_frames": pa.int64(),
    "times_from": pa.string(),
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
    "source_offset": pa.int64(),
    "source_version": pa.string(),
    "changes_size": pa.bool_(),
    PROXY_COLUMN: pa.string(),
}
"""Columns of every catalog in their order; the label's values are whole numbers where a manifest's labels are."""
LOCATION_FACTS = ("source_offset", "source_version", PROXY_COLUMN)
"""Those that only catalogs with objects by URL, with parts of other files or with proxies have."""
OPTIONAL_FACTS = (*LOCATION_FACTS, "changes_size")
"""Those that catalogs have where a row has a value; others need not know them."""

SURVEYED = pa.schema([(name, kind) for name, kind in FACTS.items() if name not in ("source", "label", PROXY_COLUMN)])
"""Columns of a survey: the facts of a catalog, without those that come from the listing."""
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
_SHOWN_CLASSES = 5
_LOCATION_COLUMNS = frozenset({"source", "mtime_ns", "error", *LOCATION_FACTS, "text_version"})
"""Columns that differ between copies of the same media, and are left out of a catalog's fingerprint."""


def encode_labels(labels: pa.ChunkedArray, classes: Sequence[Label]) -> pa.ChunkedArray:
    """Encode labels as numbers in ``classes``; the dictionary holds all classes, also unused ones."""
    kind = pa.int64() if classes and isinstance(classes[0], int) else pa.string()
    dictionary = pa.array(classes, kind)
    plain = labels.cast(kind).combine_chunks()
    codes = pc.index_in(plain, value_set=dictionary).cast(pa.int32())
    return pa.chunked_array([pa.DictionaryArray.from_arrays(codes, dictionary)])


def decode_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decode a dictionary-encoded column; return any other column unchanged."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def compute_label_codes(column: pa.ChunkedArray, classes: Sequence[Label]) -> IntArray:
    """Compute the number of each row's label in ``classes``, int64 [R]; -1 without a label."""
    if not pa.types.is_dictionary(column.type):
        column = encode_labels(column, classes)
    codes = np.full(len(column), -1, np.int64)
    start = 0
    for chunk in column.chunks:
        # Each chunk of a file may have its own dictionary; the last code, -1, is that of nulls.
        encoded = encode_labels(pa.chunked_array([chunk.dictionary]), classes).combine_chunks().indices
        chunk_codes = np.append(encoded.fill_null(-1).to_numpy(zero_copy_only=False), -1)
        indices = chunk.indices.fill_null(len(chunk_codes) - 1).to_numpy(zero_copy_only=False)
        codes[start : start + len(chunk)] = chunk_codes[indices]
        start += len(chunk)
    return codes


def normalize_labels(labels: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert labels to integers if possible, else to strings.

    If one label is missing, pandas and others write integers as 0.0, 1.0, 10.0; as text, 10.0 would sort before 2.0.
    """
    if pa.types.is_floating(labels.type):
        with suppress(pa.ArrowInvalid):
            return labels.cast(pa.int64())
    return labels.cast(pa.int64() if pa.types.is_integer(labels.type) else pa.string())


def check_classes(classes: object) -> tuple[Label, ...]:
    """Check the list of all labels, in the order of their numbers, and convert it to a tuple."""
    what = "a list of all labels in the order of their numbers, all strings or all integers, each once"
    if hasattr(classes, "classes") and not isinstance(classes, type):
        kind = type(classes).__name__
        raise UsageError(f"classes: expected {what}, got a {kind}: give its list, as in classes=train_catalog.classes")
    # A set has another order in each run.
    if not isinstance(classes, (Sequence, np.ndarray)) or isinstance(classes, (str, bytes)):
        raise expected("classes", what, classes)
    labels = tuple(classes.tolist() if isinstance(classes, np.ndarray) else classes)
    if {type(each) for each in labels} not in ({str}, {int}) or len(set(labels)) < len(labels):
        raise expected("classes", what, list(labels))
    return labels


def find_classes(labels: pa.ChunkedArray, classes: Sequence[Label] | None) -> tuple[Label, ...]:
    """List all labels in the order of their numbers: ``classes`` if given, else the distinct labels, sorted."""
    used = tuple(list_distinct(labels))
    if classes is None:
        return used
    known_labels = set(classes)
    missing = [label for label in used if label not in known_labels]
    if missing:
        known = ", ".join(map(repr, classes[:_SHOWN_CLASSES])) + (", ..." if len(classes) > _SHOWN_CLASSES else "")
        advice = "give classes= all labels, in the same spelling"
        if type(missing[0]) is not type(classes[0]):
            kinds = ("a string", "an integer") if isinstance(missing[0], str) else ("an integer", "a string")
            advice = (
                f"{missing[0]!r} is {kinds[0]}, and {classes[0]!r} is {kinds[1]}: give classes= all labels, each as "
                f"{kinds[0]}"
            )
        raise UsageError(
            f"classes: {len(missing):,} of the {len(used):,} labels found are not in it, for example {missing[0]!r} "
            f"(it has {known}); {advice} (on the command line: name a catalog with all labels in --classes-of, or "
            "leave it out)"
        )
    return tuple(classes)


def list_distinct(values: pa.ChunkedArray) -> list[Any]:
    """List the distinct values of a column, sorted, without nulls."""
    return sorted(value for value in pc.unique(values).to_pylist() if value is not None)


def get_fact(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Get a column of a catalog's table; nulls for one that only some catalogs have."""
    if name in table.column_names:
        return table.column(name)
    return pa.chunked_array([pa.nulls(table.num_rows, FACTS[name])])


class Facts:
    """The columns of a catalog, in memory or in a file; each is read at its first use.

    A training worker uses few columns, and should hold only these of a million files. The columns for plans may be
    mapped from a file.
    """

    def __init__(
        self,
        schema: pa.Schema,
        num_rows: int,
        read: Callable[[str], pa.ChunkedArray],
        plan_columns: PlanColumns | None = None,
    ) -> None:
        self.schema = schema
        self.num_rows = num_rows
        self._read = read
        self._plan_columns = plan_columns
        self._columns: dict[str, pa.ChunkedArray] = {}
        # Reentrant: a finalizer may read a column while another one is read.
        self._lock = PerProcess(RLock)

    @classmethod
    def of_table(cls, table: pa.Table) -> Facts:
        return cls(table.schema, table.num_rows, table.column)

    @property
    def names(self) -> list[str]:
        return list(self.schema.names)

    @property
    def extra_names(self) -> list[str]:
        """Names of the manifest's own columns."""
        return [name for name in self.names if name not in FACTS]

    def column(self, name: str) -> pa.ChunkedArray:
        """Read a column; the message of the UsageError for a name that there is not lists the known."""
        with self._lock.value:
            if name not in self._columns:
                if name in OPTIONAL_FACTS and name not in self.names:
                    return pa.chunked_array([pa.nulls(self.num_rows, FACTS[name])])
                if name not in self.names:
                    known, meant = ", ".join(self.names), did_you_mean(str(name), self.names)
                    raise UsageError(f"this catalog has no column {name!r}: its columns are {known}{meant}")
                self._columns[name] = self._read(name)
            return self._columns[name]

    def read(self, name: str) -> pa.ChunkedArray:
        """Read a column, and keep nothing of it."""
        with self._lock.value:
            if name in OPTIONAL_FACTS and name not in self.names:
                return pa.chunked_array([pa.nulls(self.num_rows, FACTS[name])])
            return self._columns[name] if name in self._columns else self._read(name)

    @cached_property
    def needs_no_index(self) -> BoolArray:
        """Whether each row is a picture that libav does not decode: its facts are all that its index has, bool [R]."""
        is_libav: BoolArray = pc.equal(self.column("container"), MP4_FORMAT_NAME).fill_null(False).to_numpy()
        return find_pictures(self.column("kind")) & ~is_libav

    def table(self) -> pa.Table:
        """Read all columns."""
        return pa.table({name: self.column(name) for name in self.names})

    def find_proxy(self, row: int) -> str | None:
        """Find the path of a row's proxy; None for a row that has none."""
        return (self._proxies.text(row) or None) if self.has_proxies else None

    @cached_property
    def has_proxies(self) -> bool:
        """Whether some rows are read from proxies."""
        return PROXY_COLUMN in self.schema.names

    @cached_property
    def _proxies(self) -> Ragged:
        return view_ragged(self.read(PROXY_COLUMN).cast(pa.large_string()).fill_null("").combine_chunks(), np.uint8)

    @property
    def plan_columns(self) -> PlanColumns:
        """The columns that plans read of every row."""
        if self._plan_columns is not None:  # each clip asks
            return self._plan_columns
        with self._lock.value:
            if self._plan_columns is None:
                made = make_plan_columns(self.read)  # which keeps none of them
                self._plan_columns = PlanColumns(made, self.num_rows, self.num_rows, "the catalog in memory")
            return self._plan_columns

    @cached_property
    def stills(self) -> StillFacts:
        """The columns that the frame indexes of pictures are made from."""
        return StillFacts(self.column, self.needs_no_index)


def find_first_rows(numbers: IntArray) -> IntArray:
    """Find the first row of each source by the result of `number_sources`, int64 [S], ascending."""
    return np.unique(numbers, return_index=True)[1]


def count_one_frame(table: pa.Table) -> pa.Table:
    """Count one frame in each readable picture, as a scan at depth "frames" does, whatever its header claims."""
    is_one = find_pictures(table.column("kind")) & table.column("error_type").is_null().to_numpy()
    counts = pc.if_else(pa.array(is_one), pa.scalar(1, pa.int64()), table.column("num_frames"))
    return table.set_column(table.column_names.index("num_frames"), "num_frames", counts)


def content_fingerprint(table: pa.Table, settings: Sequence[str]) -> str:
    """Hash everything that a plan depends on: content, order and columns of the rows, but not the files' locations."""
    digest = xxhash.xxh3_128(repr(list(settings)).encode())
    for name in table.column_names:
        if name not in _LOCATION_COLUMNS:
            digest.update(f"{name}\n".encode())
            hash_column(digest, table.column(name))
    return digest.hexdigest()


def hash_column(digest: xxhash.xxh3_128, column: pa.ChunkedArray) -> None:
    """Add the values of a column to a hash, independently of its chunks and encoding."""
    digest.update(column.is_null().to_numpy())
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_floating(kind):
        digest.update(decode_dictionary(column).cast(pa.float64()).fill_null(0.0).to_numpy())
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        digest.update(decode_dictionary(column).cast(pa.int64()).fill_null(0).to_numpy())
    elif not pa.types.is_null(kind):
        lengths, values = xxhash.xxh3_128(), xxhash.xxh3_128()
        for chunk in column.chunks:
            # Lengths and texts are hashed apart, so that the cuts between chunks do not count.
            texts = view_ragged(_to_strings(decode_dictionary(pa.chunked_array([chunk]))).combine_chunks(), np.uint8)
            lengths.update(np.diff(texts.offsets).data)
            if len(chunk):
                values.update(texts.values[texts.offsets[0] : texts.offsets[-1]].data)
        digest.update(lengths.digest() + values.digest())


def _to_strings(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return column.cast(pa.large_string()).fill_null("")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return pa.chunked_array([[str(value) for value in column.to_pylist()]], pa.large_string())


_PLAIN_JPEG_CONTAINERS = pa.array(["jpeg", "mpo", SEQUENCE_CONTAINER])


def has_jpegs(table: pa.Table) -> bool:
    """Whether a row of a catalog's table is a JPEG picture, or an image sequence that begins with one."""
    is_still = pc.is_in(table["container"], value_set=_PLAIN_JPEG_CONTAINERS)
    found: bool | None = pc.any(pc.and_(pc.equal(table["codec"], "mjpeg"), is_still)).as_py()
    return bool(found)
