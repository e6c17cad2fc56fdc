"""Join the values beside the media of all archives to columns: labels, text, JSON, and parts of names by a template."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from framefeed._names import escape, split_part
from framefeed._shown import show_name
from framefeed.catalog import FACTS
from framefeed.errors import UsageError
from framefeed.scanning._list_columns import ListOptions, rename_chosen
from framefeed.scanning._list_json import to_column, to_texts
from framefeed.scanning._list_table import LABEL, ListTable
from framefeed.scanning._list_template import TemplatePart
from framefeed.scanning._listing import append_columns
from framefeed.scanning._manifests import infer_type, rename_facts
from framefeed.scanning._tar_rows import MOST_JSON_COLUMNS, NUMBER_FIELDS, TEXT_FIELDS, ArchiveRows

KEY, FIELD = "key", "field"
_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
_OWN = (FACTS.keys() - {LABEL}) | {KEY, FIELD}
_DIGITS = re.compile(r"-?[0-9]{1,18}")


def join_columns(
    archives: Sequence[ArchiveRows],
    template: Sequence[TemplatePart],
    rivals: str = "",
    options: ListOptions | None = None,
) -> tuple[pa.Table, list[str]]:
    """Join the columns of archives, in their order: return a table with a row for each of their rows, and warnings.

    Args:
        archives: Rows of each.
        template: Parts of ``path_template``, to fit the names of members; none without one.
        rivals: Arguments that give labels, for the warning that labels of archives go before them; "" without any.
        options: Names of columns of archives in the catalog; those of Parquet files have theirs already.
    """
    remarks = list[str]()
    columns = dict[str, pa.ChunkedArray]()
    if any(rows.keys.null_count < len(rows) for rows in archives):
        columns = {KEY: _chain(rows.keys for rows in archives), FIELD: _chain(rows.fields for rows in archives)}
    labels = _join_texts(archives, "cls")
    own = len(labels) - labels.null_count
    if own:
        columns[LABEL] = labels
        if rivals:
            remarks.append(
                f"{own:,} media in archives have a label beside them (.cls), which goes before {rivals}: leave that "
                "out, or write the archives without .cls"
            )
    for name in (*TEXT_FIELDS, *NUMBER_FIELDS[1:]):
        values = _join_texts(archives, name)
        if values.null_count < len(values):
            columns[name] = values
    for name, values in _fit_names(archives, template).items():
        columns[name] = fill_nulls(columns[name], values) if name in columns else values
    remarks += _add_json(columns, archives)
    if options is not None and options.columns:
        columns = _rename(columns, archives, options)
    for name, values in _join_tables(archives).items():
        new = f"manifest_{name}" if name in (KEY, FIELD) and KEY in columns else name
        columns[new] = fill_nulls(columns[new], values) if new in columns else values
    return pa.table(columns), remarks


def _rename(
    columns: dict[str, pa.ChunkedArray], archives: Sequence[ArchiveRows], options: ListOptions
) -> dict[str, pa.ChunkedArray]:
    """Give columns of archives the names of the options."""
    example = next((rows for rows in archives if rows.columns is None and len(rows.errors) < len(rows)), None)
    if example is None:  # No archive could be read: their rows say why.
        return columns
    try:
        if not columns:
            raise UsageError("it has no columns beside the media")
        renamed = rename_chosen(ListTable(dict(columns), is_table=True), options).columns
        label = renamed.get(LABEL)
        if isinstance(label, pa.ChunkedArray) and pa.types.is_nested(label.type):
            raise UsageError(
                f"column {(options.columns or {}).get(LABEL)!r} holds {label.type}, expected text or numbers"
            )
    except UsageError as error:
        raise UsageError(f"columns= of {show_name(example.container)}: {error}") from error
    return rename_facts({name: column for name, column in renamed.items() if isinstance(column, pa.ChunkedArray)})


def _join_tables(archives: Sequence[ArchiveRows]) -> dict[str, pa.ChunkedArray]:
    """Join the columns of Parquet files; null for the rows of archives."""
    names = dict.fromkeys(name for rows in archives if rows.columns is not None for name in rows.columns.column_names)
    joined = dict[str, pa.ChunkedArray]()
    for name in names:
        parts = [
            rows.columns.column(name)
            if rows.columns is not None and name in rows.columns.column_names
            else pa.chunked_array([pa.nulls(len(rows))])
            for rows in archives
        ]
        column = parts[0]
        for part in parts[1:]:
            column = append_columns(pa.table({name: column}), pa.table({name: part})).column(0)
        joined[name] = column
    return joined


def _chain(arrays: Iterable[pa.Array]) -> pa.ChunkedArray:
    return pa.chunked_array(list(arrays), pa.string())


def _join_texts(archives: Sequence[ArchiveRows], name: str) -> pa.ChunkedArray:
    column = _chain(rows.texts.get(name, pa.nulls(len(rows), pa.string())) for rows in archives)
    if name in NUMBER_FIELDS and pc.all(pc.match_substring_regex(column.drop_null(), _WHOLE)).as_py():
        return column.cast(pa.int64())
    return column


def fill_nulls(column: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    """Fill the nulls of a column from another one; both become text if they are of two types."""
    if pa.types.is_null(column.type) or pa.types.is_null(other.type):
        return column if pa.types.is_null(other.type) else other
    if column.type != other.type:
        column, other = to_texts(column), to_texts(other)
    return pc.coalesce(column, other)


def _fit_names(archives: Sequence[ArchiveRows], template: Sequence[TemplatePart]) -> dict[str, pa.ChunkedArray]:
    """Make columns of the parts of members' names; null where a name does not fit the template."""
    names = [part.name for part in template if part.name is not None]
    if not names:
        return {}
    rows = list[list[str] | None]()
    for archive in archives:
        parts = map(split_part, archive.names)
        rows += [None if part is None else fit_template(template, part.member) for part in parts]
    if rows and not any(rows):
        example = next((part.member for each in archives for part in map(split_part, each.names) if part), "")
        raise UsageError(
            f"path_template fits no member of the archives, such as {example!r}: it must fit the end of the "
            'names, as in "{label}/{id}.mp4"'
        )
    columns = dict[str, pa.ChunkedArray]()
    for number, name in enumerate(names):
        texts = [None if row is None else escape(row[number]) for row in rows]
        columns[name] = infer_type(pa.chunked_array([pa.array(texts, pa.string())]), is_label=name == LABEL)
    return rename_facts({f"manifest_{name}" if name in (KEY, FIELD) else name: each for name, each in columns.items()})


def check_template(template: Sequence[TemplatePart]) -> None:
    """Check that a template can be fitted to names: it has text between its parts."""
    for first, part in pairwise(template):
        if part.name is not None and not part.text:
            raise UsageError(
                f"path_template cannot be fitted to the names of members: put text between {first.field} and "
                f"{part.field}"
            )


def fit_template(template: Sequence[TemplatePart], name: str) -> list[str] | None:
    """Take the values of a template from the end of a name; None if it does not fit.

    Values are taken from the last to the first, each as short as possible, but for the first of a folder or file. The
    time is that of a few searches, whatever the name is.

    >>> fit_template(parse_template("{label}/{id}_{start:06d}.mp4"), "train/cat/a_b_000012.mp4")
    ['cat', 'a_b', '12']
    """
    values = list[str]()
    for part in reversed(template):
        if part.name is None:
            if not name.endswith(part.text):
                return None
            name = name[: len(name) - len(part.text)]
            continue
        folder = name.rfind("/") + 1
        at = name.rfind(part.text) if part.text else folder
        value = name[at + len(part.text) :]
        if at < 0 or not value or "/" in value:
            return None
        if part.spec.endswith("d"):
            if not _DIGITS.fullmatch(value):
                return None
            value = str(int(value))
        values.append(value)
        name = name[:at]
    return values[::-1] if not name or name.endswith("/") else None


def _add_json(columns: dict[str, pa.ChunkedArray], archives: Sequence[ArchiveRows]) -> list[str]:
    """Add the columns of values in JSON; return warnings."""
    names = list(dict.fromkeys(name for rows in archives for name in rows.json))
    own = _OWN | columns.keys() | {LABEL, *TEXT_FIELDS, *NUMBER_FIELDS}
    used = own | set(map(escape, names))
    for name in names[:MOST_JSON_COLUMNS]:
        values = list[object]()
        for rows in archives:
            texts = rows.json[name].to_pylist() if name in rows.json else [None] * len(rows)
            values += [None if text is None else json.loads(text) for text in texts]
        new = escape(name)
        while not new or new in own or (new in used and new != escape(name)):
            new = f"json.{new}"
        used.add(new)
        columns[new] = to_column(values)
    if len(names) <= MOST_JSON_COLUMNS and not any(rows.left_out for rows in archives):
        return []
    return [
        f"the .json members of the archives have over {MOST_JSON_COLUMNS:,} names of values: the first "
        f"{MOST_JSON_COLUMNS:,} are columns, the others are left out"
    ]
