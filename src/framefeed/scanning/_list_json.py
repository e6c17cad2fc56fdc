"""Read lists as JSON: a list of objects, or one object per line; a bad one becomes a row with its error."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pyarrow as pa

from framefeed._names import escape
from framefeed.errors import UsageError
from framefeed.scanning._list_text import ListTable
from framefeed.scanning._list_values import MOST_JSON, SAVE_AS_UTF8, quote, shorten

_EXAMPLE = '{"path": "a.mp4", "label": "cat"}'
_MAX_DEPTH = 20
"""Most nested objects and lists in a value: Arrow does not open Parquet files with more than about 40 levels."""


def read_json(data: bytes) -> ListTable:
    """Read a list of objects, or one object per line.

    Args:
        data: The list in UTF-8.

    Raises:
        UsageError: It is neither, or it is not UTF-8.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"line {line} is not UTF-8: {SAVE_AS_UTF8}") from error
    objects, bad, lines = _parse_records(text)
    names = dict.fromkeys(name for each in objects for name in each)
    if objects and not names:
        raise UsageError(f"all of its objects are empty: expected objects such as {_EXAMPLE}")
    columns, not_text, scalars = list[pa.Array](), dict[int, dict[int, str]](), dict[int, pa.Array]()
    for at, name in enumerate(names):
        values = [each.get(name) for each in objects]
        column, others = _make_column(values)
        columns.append(column)
        not_text[at] = others
        if any(isinstance(value, (dict, list)) for value in values):
            scalars[at], _ = _make_column([None if isinstance(value, (dict, list)) else value for value in values])
    return ListTable(
        pa.table(dict(zip(map(escape, names), columns, strict=True))),
        bad=bad,
        line_of=None if lines is None else lines.__getitem__,
        not_text=not_text,
        scalars=scalars,
    )


def _parse_records(text: str) -> tuple[list[dict[str, Any]], dict[int, str], list[int] | None]:
    """Parse the objects of a list; a bad one becomes an empty one.

    Returns:
        Object of each row; error of a row, by its number; and line of each row, from 1, or None if the list is one
        JSON value.
    """
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        return _parse_lines(text, error)
    if isinstance(parsed, dict) and "\n" not in text.strip():
        parsed = [parsed]
    if not isinstance(parsed, list) or (parsed and not any(isinstance(each, dict) for each in parsed)):
        raise UsageError(f"expected a list of objects such as [{_EXAMPLE}, ...], or one object a line")
    bad = {
        row: f"row {row} (from 0): {_describe_non_object(each)}"
        for row, each in enumerate(parsed)
        if not isinstance(each, dict)
    }
    return [{} if row in bad else each for row, each in enumerate(parsed)], bad, None


def _parse_lines(text: str, error: Exception) -> tuple[list[dict[str, Any]], dict[int, str], list[int]]:
    """Parse one object per line, as `_parse_records`.

    Raises:
        UsageError: Most lines are no objects: then it is a damaged list of objects.
    """
    objects, bad, lines = list[dict[str, Any]](), dict[int, str](), list[int]()
    # Not splitlines(): text in JSON may contain other characters that end lines.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        parsed: Any = None
        reason = ""
        try:
            parsed = json.loads(line)
            reason = "" if isinstance(parsed, dict) else _describe_non_object(parsed)
        except (ValueError, RecursionError) as wrong:
            where = str(wrong)
            if isinstance(wrong, json.JSONDecodeError):
                # Its own text counts lines from the beginning of this line.
                where = f"{wrong.msg} at character {wrong.pos + 1}"
            reason = f"not readable as JSON ({where}): {quote(line.strip(), MOST_JSON)}: correct the line"
        if reason:
            bad[len(objects)] = f"line {number}: {reason}"
        objects.append({} if reason else parsed)
        lines.append(number)
    # The last line of a truncated list of objects may be an object.
    if bad and (text.split(maxsplit=1)[0] == "[" or 2 * len(bad) > len(objects)):
        raise UsageError(f"not readable as json: {error}; as one object a line: {next(iter(bad.values()))}") from error
    return objects, bad, lines


def _describe_non_object(parsed: object) -> str:
    return (
        f"expected an object such as {_EXAMPLE}, found {shorten(json.dumps(parsed), MOST_JSON)}: correct or remove it"
    )


def _make_column(values: list[Any]) -> tuple[pa.Array, dict[int, str]]:
    """Make a column of values, and list the rows without text in a column with text.

    Values of several types become text; text and the digits of numbers do not change. Objects and lists that Parquet
    cannot store become JSON text.
    """
    with suppress(ValueError, TypeError, OverflowError, pa.ArrowException):
        # Check the depth first: a column of thousands of levels could overflow the stack.
        column = None if _is_too_deep(values) else pa.array(values)
        if column is not None and not _has_empty_object(column.type):
            return column, {}
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    # Text may contain lone surrogates: json.dumps writes a file name that is not UTF-8 with them.
    column = pa.array([text and escape(text) for text in texts], pa.string())
    has_text = any(isinstance(value, str) for value in values)
    others = {
        row: shorten(str(text), MOST_JSON)
        for row, (text, value) in enumerate(zip(texts, values, strict=True))
        if isinstance(value, (dict, list)) or (has_text and value is not None and not isinstance(value, str))
    }
    return column, others


def _is_too_deep(values: list[Any]) -> bool:
    """Whether objects and lists are nested more deeply than Parquet can store."""
    level = [value for value in values if isinstance(value, (dict, list))]
    for _ in range(_MAX_DEPTH):
        if not level:
            return False
        inner = (each for value in level for each in (value.values() if isinstance(value, dict) else value))
        level = [each for each in inner if isinstance(each, (dict, list))]
    return bool(level)


def _has_empty_object(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return not kind.num_fields or any(_has_empty_object(field.type) for field in kind)
    return pa.types.is_list(kind) and _has_empty_object(kind.value_type)
