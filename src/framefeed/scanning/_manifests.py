"""Read manifests: lists of media in text, CSV, JSON or Parquet, whose lines become rows with columns.

A text list has one path per line, or a path with the ending of a media file and values after it, separated by tabs,
commas, semicolons or blanks. A path may be in double quotes; a line that begins with ``#`` is a comment, unless there
is a file of that name. If the list contains NULs (``find -print0``), these separate names instead of line ends, and
there are no comments or quotes. CSV may have a header. JSON is a list of objects, or one object per line. Relative
paths start at the list's folder, or at the folder of the options.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from framefeed._files import stat_regular
from framefeed._names import escape, escape_invisible, is_url, make_absolute, unescape
from framefeed.catalog import FACTS, SourceGroup, decode_dictionary
from framefeed.errors import MissingMedia, UnreadableMedia, UsageError
from framefeed.parallel import try_again_in_shortage
from framefeed.scanning._list_columns import ListOptions, build_paths, find_path_column, rename_columns
from framefeed.scanning._list_csv import find_separator, read_csv
from framefeed.scanning._list_json import read_json
from framefeed.scanning._list_text import (
    Lines,
    ListTable,
    check_paths_alone,
    has_several_fields,
    has_values,
    read_lines,
    split_fields,
    split_lines,
    to_utf8,
    unquote_paths,
)
from framefeed.scanning._list_values import (
    MOST_JSON,
    SAVE_AS_UTF8,
    find_first_not_utf8,
    is_text_column,
    quote,
    shorten,
    to_typed_column_and_text,
)
from framefeed.scanning._rows import get_suffix

_INTEGER = r"^\s*[-+]?\d+\s*$"
_MAX_STRAY_SHARE = 0.2
"""Largest share of labels that can be mistakes: if more are text, the numbers are names of classes too."""
_LABEL = "label"


def reject_nested_labels(listed: ListTable) -> ListTable:
    """Mark rows whose label is an object or a list as bad, and remove the label."""
    if _LABEL not in listed.table.column_names:
        return listed
    at = listed.table.column_names.index(_LABEL)
    labels = listed.table.column(at)
    scalars = listed.scalars.get(at, pa.nulls(len(labels)) if pa.types.is_nested(labels.type) else labels)
    bad = dict[int, str]()
    for row in pc.indices_nonzero(pc.and_(labels.is_valid(), scalars.is_null())).to_pylist():
        label = labels[row].as_py()
        # In a column of several types, an object is already JSON text.
        text = label if isinstance(label, str) else json.dumps(label, default=str)
        bad[row] = (
            f"{listed.describe_row(row)}: the label is {shorten(text, MOST_JSON)}, expected text or a "
            "number: correct or remove it"
        )
    if not bad:
        return listed
    return replace(listed, table=listed.table.set_column(at, _LABEL, scalars), bad={**listed.bad, **bad})


def describe_stray_label(listed: ListTable) -> str | None:
    """Describe a label that is text although the others are integers; None if there is none."""
    if _LABEL not in listed.table.column_names:
        return None
    labels = listed.table.column(_LABEL)
    if not is_text_column(labels.type):
        return None
    is_label = pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(labels), ""), False)
    is_integer = pc.fill_null(pc.match_substring_regex(labels, _INTEGER), False)
    count, integers = pc.sum(is_label).as_py() or 0, pc.sum(is_integer).as_py() or 0
    stray = count - integers
    if not stray or integers < 2 or stray > max(1, _MAX_STRAY_SHARE * count):
        return None
    row = pc.index(pc.and_(is_label, pc.invert(is_integer)), True).as_py()
    first = escape_invisible(shorten(labels[row].as_py()))
    others = f" ({stray - 1} more are text too)" if stray > 1 else ""
    return (
        f"{listed.describe_row(row)}: the label {first!r} is text, but {integers} of {count} labels are "
        f"integers{others}: so all labels are text, and this one is a class of its own: correct it, or remove the line"
    )


def describe_missing_labels(listed: ListTable) -> str | None:
    """Describe rows without a label in a list with a column of labels; None if there are none."""
    if _LABEL not in listed.table.column_names:
        return None
    labels = listed.table.column(_LABEL)
    is_missing = labels.is_null()
    if is_text_column(labels.type):
        is_missing = pc.or_(is_missing, pc.fill_null(pc.equal(labels, ""), False))
    rows = [row for row in pc.indices_nonzero(is_missing).to_pylist() if row not in listed.bad]
    if not rows or len(rows) == len(labels):
        return None
    return (
        f"{listed.describe_row(rows[0])}: the label is empty, as in {len(rows)} of {len(labels)} rows: such rows stay "
        "without a label. If they have none, as in a test set, this is fine: select the other rows before "
        "plan_clips(columns=['label']), with catalog.filter(pc.field('label').is_valid()). If it is a mistake, add the "
        "labels"
    )


TEXT_SUFFIXES = frozenset({".txt", ".lst", ".list"})
CSV_SUFFIXES = frozenset({".csv", ".tsv"})
JSON_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson"})
MANIFEST_SUFFIXES = TEXT_SUFFIXES | CSV_SUFFIXES | JSON_SUFFIXES | {".parquet"}

# Parts of names for which `make_absolute` does more than to put a folder before the name. A false alarm costs only
# time.
_ODD = ("\0", "//", "/./", "/../", "/\n", "/.\n", "/..\n", "\n./", "\n../", "\n.\n", "\n..\n", "\n\n")


@dataclass(frozen=True, slots=True)
class Manifest:
    """The lines of a manifest.

    Attributes:
        group: Path or URL of each line; "" for a line without one.
        columns: The other columns.
        bad: Errors of bad lines, by their names.
        remarks: Warnings: that none of the relative paths exists, a label that is text among integers, rows without a
            label.
    """

    group: SourceGroup
    columns: pa.Table
    bad: dict[str, UnreadableMedia] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def read_manifest(path: str, options: ListOptions | None = None, *, by_parent: bool = False) -> Manifest:
    """Read a manifest; the format depends on its ending.

    Args:
        path: Absolute path.
        options: Options for reading it, or None.
        by_parent: A line without a label gets the name of its folder, and no warning.

    Raises:
        MissingMedia: There is no such file.
        UsageError: It cannot be understood.
    """
    options = options or ListOptions()
    try:
        stat_regular(path)
    except MissingMedia as error:
        raise MissingMedia(
            f"list {path}: there is no such file: check its spelling", source=path, stage="open"
        ) from error
    except UnreadableMedia as error:
        raise UnreadableMedia(f"list {error}", source=path, stage="open") from error
    try:
        listed = try_again_in_shortage(partial(_read_table, path, options), path, "open")
        return listed if isinstance(listed, Manifest) else _convert_table(path, listed, options, by_parent=by_parent)
    except UsageError as error:
        raise UsageError(f"list {path}: {error}", source=path) from error
    except (pa.ArrowException, OSError, UnicodeError, ValueError, csv.Error) as error:
        raise UsageError(f"list {path}: not readable as {get_suffix(path)[1:]}: {error}", source=path) from error


def _read_table(path: str, options: ListOptions) -> ListTable | Manifest:
    """Read a list as columns; a text list of paths alone is a manifest already."""
    suffix = get_suffix(path)
    if suffix == ".parquet":
        table = pq.read_table(path, use_threads=False)
        if b"framefeed" in (table.schema.metadata or {}):
            # A catalog as a manifest: its sources are surveyed again.
            own = [name for name in table.column_names if name in ("source", "label") or name not in FACTS]
            table = table.select(own)
        return ListTable(table)
    data = to_utf8(_read_bytes(path))
    if suffix in JSON_SUFFIXES:
        return read_json(data)
    folder = options.folder or os.path.dirname(path)
    if suffix in CSV_SUFFIXES:
        text = os.fsdecode(data)
        separator = find_separator(text, "\t" if suffix == ".tsv" else ",")
        lines = read_lines(data, folder) if separator not in text else Lines([], [])
        if not has_values(lines):
            columns = options.columns or {}
            is_numbered = any(isinstance(column, int) for column in columns.values())
            path_names = {str(columns.get("path", ""))}
            return read_csv(data, separator, path_names, options.required_names, is_numbered=is_numbered)
    else:
        lines = read_lines(data, folder)
    if has_values(lines):
        return split_lines(lines)
    if options.columns or options.path_template:
        return split_fields(lines)
    if lines.texts and has_several_fields(lines.texts):
        raise UsageError(
            f"its first line ({quote(lines.texts[0])}) seems to hold more than a path: say which field is what, as in "
            'columns={"path": 0, "label": 1}; if it is a path as a whole, put the list into a CSV file with one column'
        )
    check_paths_alone(lines, folder)
    return _make_manifest(path, unquote_paths(lines, folder), pa.table({}), options)


def _read_bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _convert_table(path: str, listed: ListTable, options: ListOptions, *, by_parent: bool) -> Manifest:
    if not listed.table.column_names:
        if get_suffix(path) != ".parquet":
            return Manifest(SourceGroup("", []), listed.table)
        raise UsageError("has no columns: expected one with paths, called path")
    renamed = reject_nested_labels(rename_columns(listed, options))
    listed = replace(listed, bad=renamed.bad)
    if get_suffix(path) in CSV_SUFFIXES and _LABEL in renamed.table.column_names:
        # 'cat ' and 'cat' are one class.
        at = renamed.table.column_names.index(_LABEL)
        listed, renamed = _strip_column(listed, at), _strip_column(renamed, at)
    if options.path_template is not None:
        path_name, (names, bad) = "", _build_names(listed, renamed, options)
        renamed = _parse_numbers(renamed, bad, options)
    else:
        path_name = find_path_column(renamed.table)
        names, bad = _read_names(renamed, path_name)
    renamed = _restore_text(renamed, {"label"})
    renamed = replace(renamed, bad=bad)
    table = renamed.table
    if get_suffix(path) != ".parquet":
        _check_text(renamed, path_name)
    if bad and len(bad) == len(names):
        raise UsageError(f"no line fits: {bad[min(bad)]}")
    new_names = _rename_fact_columns([name for name in table.column_names if name != path_name])
    others = {new: _normalize(table.column(name)) for name, new in new_names.items()}
    manifest = _make_manifest(path, names, pa.table(others), options)
    remarks = [describe_stray_label(renamed)]
    if get_suffix(path) in CSV_SUFFIXES and not by_parent:
        remarks.append(describe_missing_labels(renamed))
    manifest.remarks.extend(f"list {path}: {remark}" for remark in remarks if remark)
    if not bad:
        return manifest
    # Each bad line is a row with its error, under a name of its own.
    paths, errors = list(manifest.group.paths()), dict[str, UnreadableMedia]()
    for row, reason in bad.items():
        paths[row] = f"{path} {renamed.name_row(row)}"
        errors[paths[row]] = UnreadableMedia(f"{path}: {reason}", source=path, stage="open")
    return replace(manifest, group=SourceGroup("", paths), bad=errors)


def _strip_column(listed: ListTable, at: int) -> ListTable:
    name, column = listed.table.column_names[at], listed.table.column(at)
    if not is_text_column(column.type):
        return listed
    return replace(listed, table=listed.table.set_column(at, name, pc.utf8_trim_whitespace(column)))


def _build_names(listed: ListTable, renamed: ListTable, options: ListOptions) -> tuple[list[str], dict[int, str]]:
    """Build the names by the template, and collect the errors of bad lines."""
    names, bad = list[str](), dict(listed.bad)
    # Columns that the template uses as text, and not in a date format such as %Y.
    fields = set(options.template_fields) - {part.name for part in options.template_parts if "%" in part.spec}
    listed, renamed = _restore_text(listed, fields), _restore_text(renamed, fields)
    for row, built in enumerate(build_paths(listed, renamed.table, options)):
        if isinstance(built, UsageError):
            bad.setdefault(row, str(built))
        names.append("" if isinstance(built, UsageError) else built)
    return names, bad


def _restore_text(listed: ListTable, names: Collection[str]) -> ListTable:
    """Replace values that would be written differently, such as 1.1 for 1.10, by the text of the list."""
    table = listed.table
    for at, text in listed.texts.items():
        name = table.column_names[at]
        if name in names:
            table = table.set_column(at, name, text)
    return replace(listed, table=table)


def _parse_numbers(listed: ListTable, bad: Collection[int], options: ListOptions) -> ListTable:
    """Convert columns that the template formats as numbers, and that are text only because of bad lines."""
    table = listed.table
    for name in options.number_fields.intersection(table.column_names if bad else ()):
        if pa.types.is_string(table.schema.field(name).type):
            texts = table.column(name).to_pylist()
            numbers, _ = to_typed_column_and_text([None if row in bad else text for row, text in enumerate(texts)])
            if not pa.types.is_string(numbers.type):
                table = table.set_column(table.column_names.index(name), name, numbers)
    return replace(listed, table=table)


def _read_names(listed: ListTable, path_name: str) -> tuple[list[str], dict[int, str]]:
    column, bad = decode_dictionary(listed.table.column(path_name)), dict(listed.bad)
    if not (_is_string(column.type) or _is_binary(column.type)):
        raise UsageError(
            f'column {path_name!r} holds {column.type}, not paths: name the column of paths in columns={{"path": ...}}'
        )
    values = column.to_pylist()
    names = [os.fsdecode(value) if isinstance(value, bytes) else unescape(value or "") for value in values]
    for row, value in listed.not_text.get(listed.table.column_names.index(path_name), {}).items():
        bad[row] = (
            f"{listed.describe_row(row)}: the path ({path_name!r}) is {value}, expected text: correct or remove it"
        )
    if "" in names:
        for row, name in enumerate(names):
            if not name and row not in bad:
                bad[row] = (
                    f"{listed.describe_row(row)}: the path ({path_name!r}) is missing: add it, or remove the line"
                )
    return names, bad


def _check_text(listed: ListTable, path_name: str) -> None:
    """Check that values, except paths, are UTF-8."""
    for name in listed.table.column_names:
        odd = None if name == path_name else find_first_not_utf8(listed.table.column(name))
        if odd is not None:
            row, value = odd
            raise UsageError(
                f"{listed.describe_row(row)}: the value '{value}' of column {name!r} is not UTF-8: {SAVE_AS_UTF8}"
            )


def _make_manifest(path: str, names: list[str], columns: pa.Table, options: ListOptions) -> Manifest:
    folder, text = options.folder or os.path.dirname(path), "\n".join(["", *names, ""])
    remark = _describe_missing_paths(path, names, folder, options)
    remarks = [] if remark is None else [remark]
    # A name may contain line ends: then the lines of the text are not the names.
    if text.count("\n") == len(names) + 1 and not any(odd in text for odd in _ODD):
        # Fast for a million names: `make_absolute` would only put the folder before each, or before none.
        num_complete = text.count("\n/")
        if num_complete in (0, len(names)) and folder != os.sep:
            return Manifest(SourceGroup("" if num_complete else folder, names), columns, remarks=remarks)
    group = SourceGroup("", [make_absolute(name, folder) for name in names])
    return Manifest(group, columns, remarks=remarks)


def _describe_missing_paths(path: str, names: list[str], folder: str, options: ListOptions) -> str | None:
    """Explain where relative paths start if none of them exists; else None."""
    if is_url(folder):
        return None
    # Stops at the first name that exists, of maybe a million.
    if any(os.path.exists(make_absolute(name, folder)) for name in names if _is_relative(name)):
        return None
    relative = [name for name in names if _is_relative(name)]
    if not relative:
        return None
    example = f"'{shorten(escape_invisible(relative[0]))}'"
    problem = f"none of its {len(relative):,} relative paths exists, for example {example}"
    if len(relative) == 1:
        problem = f"its relative path {example} does not exist"
    ending = ""
    if not any(os.path.splitext(name)[1] for name in relative):
        ending = '; if only their ending is missing, add it: columns={"name": 0}, path_template="{name}.mp4"'
    if options.path_template:
        ending += "; or correct path_template"
    start = f"the folder of the list ({folder})" if options.folder is None else f"root={folder}"
    return (
        f"list {path}: {problem}: relative paths start at {start}; if they start "
        'elsewhere, name that folder: scan(..., root="FOLDER"), on the command line --root FOLDER'
        f"{ending}"
    )


def _is_relative(name: str) -> bool:
    return bool(name) and not name.startswith(os.sep) and not is_url(name)


def _rename_fact_columns(names: Collection[str]) -> dict[str, str]:
    """Choose new names for columns that have the names of facts."""
    facts = FACTS.keys() - {"label"}
    used = set(names) | facts
    new_names = dict[str, str]()
    for name in names:
        new = name
        while new in used and (new != name or new in facts):
            new = f"manifest_{new}"
        used.add(new)
        new_names[name] = new
    return new_names


def _normalize(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column to a type that a Parquet file restores exactly; an empty string becomes null."""
    column = decode_dictionary(column)
    if _is_binary(column.type):
        texts = [None if value is None else escape(os.fsdecode(value)) for value in column.to_pylist()]
        column = pa.chunked_array([pa.array(texts, pa.string())])
    if _is_string(column.type):
        column = column.cast(pa.string())
        return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    if column.type == pa.timestamp("s", getattr(column.type, "tz", None)):
        return column.cast(pa.timestamp("us", column.type.tz))
    return column.cast(pa.time32("ms")) if column.type == pa.time32("s") else column


def _is_string(kind: pa.DataType) -> bool:
    return is_text_column(kind) or bool(pa.types.is_string_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))
