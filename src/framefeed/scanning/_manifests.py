"""Read manifests: lists of media in text, CSV, JSON or Parquet, or Arrow tables, whose lines become rows with columns.

A text list has one path per line, or a path and values behind it. CSV may have a header. JSON is a list of objects, or
one object per line. Relative paths start at the folder of the options, else at that of the list.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from framefeed._files import stat_regular
from framefeed._names import escape, escape_invisible, is_url, make_absolute, split_part, unescape
from framefeed._shown import show_name
from framefeed.catalog import FACTS, OPTIONAL_FACTS, find_odd_text, is_media_struct, take_storage
from framefeed.errors import FramefeedError, MissingMedia, UnreadableMedia, UsageError
from framefeed.media import MediaSource, read_object
from framefeed.parallel import try_again_in_shortage
from framefeed.scanning._list_columns import ListOptions, build_paths, find_path_column, rename_columns
from framefeed.scanning._list_json import read_json, show_json, to_column
from framefeed.scanning._list_table import (
    LABEL,
    SAVE_AS_UTF8,
    Column,
    ListTable,
    find_first,
    has_text,
    quote,
    shorten,
)
from framefeed.scanning._list_text import CSV_SUFFIXES, read_text, to_utf8
from framefeed.scanning._rows import NO_COLUMN_ROW, Listing, SourceGroup, get_suffix, remove_query

TEXT_SUFFIXES = frozenset({".txt", ".lst", ".list"})
JSON_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson"})
MANIFEST_SUFFIXES = TEXT_SUFFIXES | CSV_SUFFIXES | JSON_SUFFIXES | {".parquet"}

# Parts of names for which `make_absolute` does more than to put a folder before the name. A false alarm costs only
# time.
_ODD = ("\0", "//", "/./", "/../", "/\n", "/.\n", "/..\n", "\n./", "\n../", "\n.\n", "\n..\n", "\n\n")

_CATALOG_COLUMNS = {"source", "kind", "codec", "fingerprint", "times_from", "error_type"}
CATALOG_IS_NO_LIST = (
    "is a catalog, not a list of media: open it with ff.Catalog.open. To scan its media again, give the roots that it "
    "was made of, or its table: ff.Catalog.open(path).table"
)
_SLASHES_OF_HOST = 2
"""In the URL of a host or a bucket."""

_INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"
# Not what would lose something: leading zeros, more digits than a float has, or ids such as 12e34567890.
_FLOAT = r"^-?(0|[1-9][0-9]{0,14})?(\.[0-9]*)?(e-[0-9]{1,2})?$"
_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
_TYPES = (
    (_INTEGER, pa.int64()),
    (_FLOAT, pa.float64()),
    (r"^(?i:true|false)$", pa.bool_()),
    (r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", pa.date32()),
    (f"^{_TIME}$", pa.timestamp("us")),
    (f"^{_TIME}Z$", pa.timestamp("us", "UTC")),
)
"""Patterns of text, and the type of a column whose values all fit one: the first that does."""
# Labels are integers also as pandas writes them in a column with gaps, 12.0; but 1.10 and 1.1 are two labels.
_LABEL_TYPES = ((_INTEGER, pa.int64()), (r"^(0|-?[1-9][0-9]{0,14})(\.0)?$", pa.float64()))


class ArrowStream(Protocol):
    """A table of pandas (2.2), polars, pyarrow and others, or one column."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the table."""


def read_manifest(path: str, options: ListOptions | None = None) -> Listing:
    """Read the manifest at an absolute path; the format depends on its ending."""
    options = options or ListOptions()
    name, media = show_name(path), MediaSource.of(path, options.storage_options)
    try:
        if not is_url(path):
            stat_regular(path)
        data = read_object(media, options.limits.max_header_bytes) if is_url(path) else None
    except MissingMedia as error:
        raise MissingMedia(
            f"list {name}: there is no such file: check its spelling", source=name, stage="open"
        ) from error
    except UnreadableMedia as error:
        raise UnreadableMedia(f"list {error}", source=name, stage="open") from error
    try:
        listed = try_again_in_shortage(partial(_read_table, path, data, options), name, "open")
        return _make_listing(name, listed, options, os.path.dirname(remove_query(path)))
    except UsageError as error:
        raise UsageError(f"list {name}: {error}", source=name) from error
    except (pa.ArrowException, OSError, UnicodeError, ValueError) as error:
        suffix = get_suffix(remove_query(path))[1:]
        raise UsageError(f"list {name}: not readable as {suffix}: {error}", source=name) from error


def is_manifest(path: str) -> bool:
    """Whether a path, or a URL before its query, has the ending of a list."""
    return get_suffix(remove_query(path)) in MANIFEST_SUFFIXES and split_part(path) is None


def read_arrow(table: pa.Table, options: ListOptions) -> Listing:
    """Read a table as a manifest; relative paths start at the folder of the options, else at the working folder."""
    try:
        _refuse_bytes(table, options)
        folder = options.folder or os.getcwd()
        return _make_listing(os.path.join(folder, "table"), _take_columns(table), options, folder)
    except UsageError as error:
        raise UsageError(f"table: {error}", source="table") from error
    except (pa.ArrowException, UnicodeError) as error:
        raise UsageError(f"table: cannot be read: {error}", source="table") from error


def _refuse_bytes(table: pa.Table, options: ListOptions) -> None:
    """Refuse media in memory, unless the call says where the paths are: a catalog cannot read them again."""
    if options.path_template is not None or "path" in (options.columns or {}):
        return
    for name, column in zip(table.column_names, map(take_storage, table.columns), strict=True):
        if is_media_struct(column.type) and pc.count(pc.struct_field(column, "bytes")).as_py():
            raise UsageError(
                f"column {name!r} holds the bytes of media, which a catalog cannot read again from memory: write "
                'the table to a file, pyarrow.parquet.write_table(table, "media.parquet", compression="none", '
                "use_dictionary=False), and scan that file; or, if its paths are those of files, say so with "
                f'columns={{"path": "{name}"}}'
            )


def to_table(stream: ArrowStream) -> pa.Table:
    """Read an Arrow stream; one column without a table around it becomes one of the name ""."""
    if isinstance(stream, pa.Table):
        return stream
    column = pa.chunked_array(stream)
    if pa.types.is_struct(column.type):
        return pa.Table.from_struct_array(column)
    return pa.table({"": column})


def _read_table(path: str, given: bytes | None, options: ListOptions) -> ListTable:
    suffix = get_suffix(remove_query(path))
    if suffix == ".parquet":
        source = path if given is None else pa.BufferReader(given)
        if is_catalog(pq.read_schema(source).names):
            raise UsageError(CATALOG_IS_NO_LIST)
        return _take_columns(pq.read_table(source, use_threads=False))
    data = to_utf8(Path(path).read_bytes() if given is None else given)
    return read_json(data) if suffix in JSON_SUFFIXES else read_text(data, suffix, options)


def is_catalog(names: Iterable[str]) -> bool:
    """Whether columns are those of a catalog."""
    return set(names) >= _CATALOG_COLUMNS


def read_columns(table: pa.Table, options: ListOptions) -> pa.Table:
    """Read the columns beside media: with their names and types in the catalog."""
    if not table.column_names:
        return table
    renamed = rename_columns(_take_columns(table), options)
    _check_labels(renamed, {})
    return _convert_columns(renamed, "")


def _take_columns(table: pa.Table) -> ListTable:
    """Take the columns of an Arrow table, each of a type that Parquet files restore exactly."""
    names = table.column_names
    if not names:
        raise UsageError("has no columns: expected one with paths, called path")
    if len(set(names)) < len(names):
        raise UsageError(f"two columns have one name ({shorten(', '.join(names))}): give each another name")
    if FACTS.keys() - set(OPTIONAL_FACTS) <= set(names):
        # The table of a catalog: its sources are surveyed again.
        names = [name for name in names if name in ("source", LABEL) or name not in FACTS]
    for name in names:
        if (odd := find_odd_text(take_storage(table.column(name)))) is not None:
            row, text = odd
            raise UsageError(
                f"row {row} (from 0): the text {quote(text)} of column {name!r} is not UTF-8: correct it, or write the "
                "column as binary"
            )
    columns = {name: _normalize(table.column(name)) for name in names}
    for name, column in columns.items():
        try:  # A column that cannot be written fails here, before hours of scanning.
            pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([pa.field(name, column.type)])).close()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            problem = f"column {name!r} holds {column.type}, which a catalog cannot hold"
            raise UsageError(f"{problem}: leave the column out") from error
    return ListTable(dict(columns), has_header=names != [""], is_table=True)


def _normalize(column: pa.ChunkedArray) -> pa.ChunkedArray:
    column = take_storage(column)
    if pa.types.is_dictionary(column.type):
        # Arrow does not cast dictionaries of views, which polars gives.
        parts = [_normalize(pa.chunked_array([chunk.dictionary])).take(chunk.indices) for chunk in column.chunks]
        empty = _normalize(pa.chunked_array([], column.type.value_type))
        return pa.chunked_array([chunk for part in [empty, *parts] for chunk in part.chunks], empty.type)
    kind = column.type
    if pa.types.is_struct(kind) and {each.name for each in kind} == {"bytes", "path"}:
        return pc.struct_field(column, "path")  # A video or picture of Hugging Face's data sets.
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        # Arrow 17 does not cast views.
        known = pa.string() if pa.types.is_string_view(kind) else pa.binary()
        return pa.chunked_array([pa.array(column.to_pylist(), known)])
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return column.cast(pa.string() if pa.types.is_large_string(kind) else pa.binary())
    if kind == pa.timestamp("s", getattr(kind, "tz", None)):
        return column.cast(pa.timestamp("us", kind.tz))
    return column.cast(pa.time32("ms")) if kind == pa.time32("s") else column


def _make_listing(name: str, listed: ListTable, options: ListOptions, folder: str) -> Listing:
    """Make rows of a list; ``name`` names its bad rows, and relative paths start at ``folder``, if not at ``root``."""
    if not listed.columns:
        return Listing()
    renamed, path_name, bad = rename_columns(listed, options), "", dict(listed.bad)
    if options.path_template is not None:
        built = list(build_paths(listed, renamed, options))
        bad = {row: str(each) for row, each in enumerate(built) if isinstance(each, UsageError)} | bad
        names = ["" if isinstance(each, UsageError) else each for each in built]
    else:
        path_name = find_path_column(renamed)
        names = _read_names(renamed, path_name, bad)
    _check_labels(renamed, bad)
    if bad and len(bad) == len(names) and not listed.is_table:
        raise UsageError(f"no line fits: {bad[min(bad)]}")
    columns = _convert_columns(renamed, path_name)
    start, errors = options.folder or folder, dict[str, FramefeedError]()
    group = _join_folder(names, start)
    if bad:
        # Each bad line is a row with its error, under a name of its own.
        group = SourceGroup("", list(group.paths()))
        for row, reason in bad.items():
            group.names[row] = f"{name} {renamed.name_row(row)}"
            errors[group.names[row]] = UnreadableMedia(f"{name}: {reason}", source=name, stage="open")
    is_relative = any(each and not each.startswith(os.sep) and not is_url(each) for each in names)
    starts = {name: start} if is_relative and not is_url(start) else {}
    has_columns = bool(columns.column_names)
    column_rows = np.arange(len(names)) if has_columns else np.full(len(names), NO_COLUMN_ROW)
    return Listing([group], column_rows, columns, errors, starts)


def _read_names(listed: ListTable, path_name: str, bad: dict[int, str]) -> list[str]:
    """Read the paths, and add the errors of rows without one."""
    column = listed.columns[path_name]
    if not isinstance(column, list) and not has_text(column):
        reason = ""
        if pa.types.is_struct(column.type):
            reason = " (of structs only struct<bytes, path> is read, and none within another one)"
        elif pa.types.is_nested(column.type):
            reason = " (lists of media in one row are not read)"
        raise UsageError(
            f"column {path_name!r} holds {column.type}, not paths{reason}: name the column of paths in "
            'columns={"path": ...}'
        )
    values = column if isinstance(column, list) else column.to_pylist()
    names = [
        value if isinstance(value, str) else os.fsdecode(value) if isinstance(value, bytes) else "" for value in values
    ]
    if "\0" in "".join(names):
        names = [unescape(name) for name in names]
    for row in [row for row, name in enumerate(names) if not name] if "" in names else ():
        problem = "is missing: add it, or remove the line"
        if values[row] not in (None, "", b""):
            problem = f"is {show_json(values[row])}, expected text: correct or remove it"
        bad.setdefault(row, f"{listed.describe_row(row)}: the path ({path_name!r}) {problem}")
    return names


def _check_labels(listed: ListTable, bad: dict[int, str]) -> None:
    """Remove labels that are objects or lists, and add the errors of their rows."""
    labels: Column = listed.columns.get(LABEL, [])
    if not isinstance(labels, list):
        if pa.types.is_nested(labels.type):
            raise UsageError(f"column {LABEL!r} holds {labels.type}, expected text or numbers")
        return
    for row, label in enumerate(labels):
        if isinstance(label, (dict, list)):
            found = f"the label is {show_json(label)}, expected text or a number: correct or remove it"
            bad.setdefault(row, f"{listed.describe_row(row)}: {found}")
            labels[row] = None


def _convert_columns(listed: ListTable, path_name: str) -> pa.Table:
    """Convert the columns beside the paths to their types in the catalog."""
    columns = dict[str, pa.ChunkedArray]()
    for name, column in listed.columns.items():
        if name != path_name:
            values = to_column(column) if isinstance(column, list) else column
            columns[name] = _remove_empty(_infer_type(listed, name, values) if listed.is_text else values)
    return pa.table(rename_facts(columns))


def rename_facts(columns: Mapping[str, pa.ChunkedArray]) -> dict[str, pa.ChunkedArray]:
    """Give columns with the names of facts other names."""
    facts = FACTS.keys() - {LABEL}
    used = columns.keys() | facts
    renamed = dict[str, pa.ChunkedArray]()
    for name, column in columns.items():
        new = name
        while new in used and (new != name or new in facts):
            new = f"manifest_{new}"
        used |= {new}
        renamed[new] = column
    return renamed


def _infer_type(listed: ListTable, name: str, texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert text to a type whose values all are written so."""
    # See `escape`.
    odd = find_first(pc.match_substring(texts, "\0d"))
    if odd is not None:
        value = escape_invisible(shorten(unescape(texts[odd].as_py())))
        raise UsageError(
            f"{listed.describe_row(odd)}: the value '{value}' of column {name!r} is not UTF-8: {SAVE_AS_UTF8}"
        )
    return infer_type(texts, is_label=name == LABEL)


def infer_type(texts: pa.ChunkedArray, *, is_label: bool) -> pa.ChunkedArray:
    """Convert text to a type whose values all are written so; null where it is empty."""
    trimmed = pc.utf8_trim_whitespace(texts)
    trimmed = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)
    values = trimmed.drop_null()
    for pattern, kind in _LABEL_TYPES if is_label else _TYPES:
        if len(values) and pc.all(pc.match_substring_regex(values, pattern)).as_py():
            with suppress(pa.ArrowInvalid):  # "." and 2024-02-30
                return trimmed.cast(kind)
    if not len(values):
        return pa.chunked_array([pa.nulls(len(texts))])
    return trimmed if is_label else texts


def _remove_empty(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Make text of bytes, and null of empty text."""
    if pa.types.is_binary(column.type):
        texts = [None if value is None else escape(os.fsdecode(value)) for value in column.to_pylist()]
        column = pa.chunked_array([pa.array(texts, pa.string())])
    if pa.types.is_string(column.type):
        return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    return column


def _join_folder(names: list[str], folder: str) -> SourceGroup:
    """Make a group of names, each relative to the folder, or absolute, or a URL."""
    text = "\n".join(["", *names, ""])
    # A name may contain line ends: then the lines of the text are not the names.
    # Behind the URL of a folder they may have queries, which no catalog keeps.
    has_queries = is_url(folder) and "?" in text
    if text.count("\n") == len(names) + 1 and not has_queries and not any(odd in text for odd in _ODD):
        # Fast for a million names: `make_absolute` would only put the folder before each, or before none.
        num_complete = text.count("\n/")
        if num_complete in (0, len(names)) and folder != os.sep:
            return SourceGroup("" if num_complete else folder, names)
    join = _join_url if is_url(folder) else make_absolute
    return SourceGroup("", [join(name, folder) for name in names])


def _join_url(name: str, folder: str) -> str:
    """Join a path to the URL of a folder; only ``./`` and ``../`` before it are resolved: keys may have them within."""
    if not name or "\0" in name or is_url(name) or name.startswith(os.sep):
        return name
    while name.startswith(("./", "../")):
        dots, _, name = name.partition("/")
        if dots == ".." and folder.count("/") > _SLASHES_OF_HOST:
            folder = folder.rpartition("/")[0]
    return f"{folder}/{name}"
