"""Make rows of the media in zip archives and in Parquet files."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framefeed._names import PartName, escape, is_url, make_absolute
from framefeed._shown import show_name
from framefeed._values import DEFAULT_LIMITS, HEAD_BYTES, ByteReader, Limits, read_bytes
from framefeed.archives import LOCAL_READS, NULL, REPLACED, MemberKind, ReadSizes, walk_zip
from framefeed.catalog import PackedFile, is_binary, is_media_struct
from framefeed.errors import MediaError, UnreadableMedia, UsageError
from framefeed.media import MediaSource, has_signature
from framefeed.scanning._list_columns import ListOptions
from framefeed.scanning._list_table import LABEL, PATH_COLUMNS, find_first
from framefeed.scanning._manifests import is_catalog, read_columns
from framefeed.scanning._rows import ALL_MEDIA_SUFFIXES, get_suffix
from framefeed.scanning._tar_rows import ArchiveRows, RowList

MEDIA = "media"
"""Key of ``columns=`` that names the column with the bytes of media."""


def make_zip_rows(container: str, reader: ByteReader, limits: Limits, find_version: Callable[[], str]) -> ArchiveRows:
    """Make a row for each medium in a zip archive, by the endings of names.

    The version of the archive can be found once something of it was read.
    """
    shown, rows = show_name(container), RowList(container)
    for table in walk_zip(reader, shown, limits):
        for row, (name, offset, size, kind) in enumerate(table):
            reason = table.reasons.get(row)
            # The member that holds in its place has the row.
            if get_suffix(name) not in ALL_MEDIA_SUFFIXES or kind == MemberKind.FOLDER or reason == REPLACED:
                continue
            text = PartName("zip", name, container).text
            if reason is None:
                rows.add(text, offset, size)
            else:
                message = f"{shown}: the member {name!r} {reason}"
                rows.add_error(text, UnreadableMedia(message, source=shown, stage="open"))
        if table.damage is not None:
            rows.add_error(container, table.damage.error)
    return rows.finish(version=find_version())


def is_packed(path: str, options: ListOptions) -> bool:
    """Whether a Parquet file at a path holds media; False for a list, and for a file that cannot be read.

    An object that cannot be read is an error here: as a list it would be asked for as a whole.
    """
    try:
        source = MediaSource.of(path, options.storage_options)
        with source.opened() as reader:
            file = PackedFile(reader, path, DEFAULT_LIMITS, source.make_stamp(reader))
            return find_media_column(file, reader, options) is not None
    except MediaError:
        if is_url(path):
            raise
        return False  # Reading it as a list says why.
    except UsageError as error:
        raise UsageError(f"{path}: {error}", source=path) from error


def is_parquet(path: str, options: ListOptions) -> bool:
    """Whether a file can be read as Parquet at all."""
    try:
        with MediaSource.of(path, options.storage_options).opened() as reader:
            PackedFile(reader, path, DEFAULT_LIMITS)
    except MediaError:
        return False
    return True


def find_media_column(file: PackedFile, reader: ByteReader, options: ListOptions) -> str | None:
    """Find the column of media in a Parquet file; None if it is a list."""
    schema = file.schema
    if is_catalog(schema.names):
        return None
    chosen = (options.columns or {}).get(MEDIA)
    if chosen is not None:
        return _check_column(schema, schema.names[chosen] if _is_number(chosen, schema) else str(chosen))
    if options.path_template is not None or "path" in (options.columns or {}):
        return None
    found = [field.name for field in schema if is_media_struct(field.type)]
    texts = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]
    if not found and not {name.strip().lower() for name in texts}.intersection(PATH_COLUMNS):
        found = [field.name for field in schema if is_binary(field.type) and _has_media(file, reader, field.name)]
    ranks = {name: rank for rank, name in enumerate(PATH_COLUMNS)}
    by_name = sorted((ranks[name.lower()], name) for name in found if name.lower() in ranks)
    if len(found) > 1 and not by_name:
        raise UsageError(
            f"its columns {', '.join(map(repr, found))} all hold media: say which one, as in "
            f'columns={{"{MEDIA}": "{found[0]}"}}'
        )
    return by_name[0][1] if by_name else found[0] if found else None


def _is_number(chosen: str | int, schema: pa.Schema) -> bool:
    return isinstance(chosen, int) and -len(schema) <= chosen < len(schema)


def _check_column(schema: pa.Schema, name: str) -> str:
    if name not in schema.names:
        raise UsageError(f"it has no column {name!r}: its columns are {', '.join(map(repr, schema.names))}")
    kind = schema.field(name).type
    if not is_media_struct(kind) and not is_binary(kind):
        raise UsageError(f"column {name!r} holds {kind}: expected one medium a row, as binary or struct<bytes, path>")
    return name


def _has_media(file: PackedFile, reader: ByteReader, column: str) -> bool:
    """Whether the first value of a column that is not null begins as media do."""
    values = file.find_values(column, LOCAL_READS, most_groups=1)
    for row in np.flatnonzero(values.size > 0)[:1].tolist():
        offset, size = int(values.offset[row]), min(int(values.size[row]), HEAD_BYTES)
        if offset >= 0:
            return has_signature(read_bytes(reader, offset, size))
        return has_signature(file.read_value(column, row).slice(0, size).to_pybytes())
    return False


def make_value_rows(
    container: str,
    file: PackedFile,
    column: str,
    options: ListOptions,
    version: str,
    reads: ReadSizes,
    *,
    by_parent: bool = False,
) -> ArchiveRows:
    """Make a row for each value of a column of media, with the columns beside it.

    Where the bytes are null, the path is that of a file, relative to the folder of the options, else to that of the
    Parquet file. With ``by_parent``, media are labelled by the folders of their paths, if no column does it.
    """
    shown, rows, files = show_name(container), RowList(container), set[int]()
    values, paths = file.find_values(column, reads), file.read_paths(column)
    errors = {row: error for (first, last), error in values.errors.items() for row in range(first, last)}
    for row, (offset, size) in enumerate(zip(values.offset.tolist(), values.size.tolist(), strict=True)):
        text = PartName("parquet", f"{column}/{row}", container).text
        path = paths[row]
        if row in errors:
            rows.add_error(text, errors[row])
        elif size != NULL:
            rows.add(text, offset, size)
        elif path:
            files.add(rows.add(_join_path(path, container, options), -1, 0))
        else:
            message = f"{shown}: the value {row} of column {column!r} is null, and has no path: leave the row out"
            rows.add_error(text, UnreadableMedia(message, source=shown, stage="open"))
    columns, classes = _name_classes(file, file.read_columns(column), _leave_out(options, file.schema))
    remark = ""
    if by_parent:
        columns, remark = _label_by_path(columns, paths, files, shown)
    return rows.finish(version=version, columns=columns, files=frozenset(files), classes=classes, remark=remark)


def _label_by_path(columns: pa.Table, paths: list[str | None], files: set[int], shown: str) -> tuple[pa.Table, str]:
    """Label media by the folders of the paths beside them, if no column does; return the columns and a warning."""
    if LABEL in columns.column_names:
        return columns, (
            f"{shown}: the labels are those of the column 'label', which goes before label_from: leave that out, or "
            'give the column another name, as in columns={"class": "label"}'
        )
    folders = [path and escape(os.path.basename(os.path.dirname(path))) for path in paths]
    # Of files the folder on the disk counts, as of all files.
    labels = [None if row in files else folder or None for row, folder in enumerate(folders)]
    named = {name: columns.column(name) for name in columns.column_names}
    columns = pa.table({**named, LABEL: pa.array(labels, pa.string())})
    if any(labels) or len(files) == len(labels):
        return columns, ""
    return columns, (
        f"{shown}: label_from gives no labels, because the paths beside the media have no folders: name a column of "
        'labels, as in columns={"label": "class"}, or leave it out'
    )


def _name_classes(file: PackedFile, table: pa.Table, options: ListOptions) -> tuple[pa.Table, tuple[str, ...]]:
    """Read the columns beside media; labels that are numbers of named classes become these names, -1 none.

    Labels keep their numbers, as positions among the classes; they stay as they are if the call gives integers.
    """
    columns = read_columns(table, options)
    if LABEL not in columns.column_names or options.has_numbered_classes:
        return columns, ()
    at = columns.column_names.index(LABEL)
    names, numbers = file.read_class_names(table.column_names[at]), columns.column(at)
    if not names or not pa.types.is_integer(numbers.type):
        return columns, ()
    odd = find_first(pc.or_(pc.less(numbers, -1), pc.greater_equal(numbers, len(names))))
    if odd is not None:
        column = table.column_names[at]
        raise UsageError(
            f"column {column!r} has the class {numbers[odd]} in row {odd} (from 0), and its ClassLabel has names of 0 "
            f'to {len(names) - 1}: correct the file; or take the column as numbers, with columns={{"class_number": '
            f'"{column}"}}, or with classes= of all numbers'
        )
    known = pc.if_else(pc.less(numbers, 0), None, numbers)
    return columns.set_column(at, LABEL, pa.chunked_array([pa.array(names)]).take(known)), names


def _join_path(path: str, container: str, options: ListOptions) -> str:
    if options.folder is None and is_url(container) and not is_url(path):
        return f"{container.rpartition('/')[0]}/{path}"
    return make_absolute(path, options.folder or os.path.dirname(container))


def _leave_out(options: ListOptions, schema: pa.Schema) -> ListOptions:
    """Leave out the column of media from the options, and name columns that are given by their numbers."""
    named = {
        new: schema.names[old] if _is_number(old, schema) else old
        for new, old in (options.columns or {}).items()
        if new != MEDIA
    }
    return replace(options, columns=named or None, path_template=None)
