"""Read lists as JSON: a list of objects, or one object per line; a bad one becomes a row with its error."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa

from framefeed._names import escape
from framefeed.errors import UsageError
from framefeed.scanning._list_table import SAVE_AS_UTF8, ListTable, quote, shorten

_EXAMPLE = '{"path": "a.mp4", "label": "cat"}'
_WIDS = "wids-shard-index-v1"
_MOST_LEVELS = 20
"""Of lists in lists: Arrow does not open Parquet files with more than about 40 levels."""
MOST_JSON = 60
"""Maximum number of characters of a value in a message."""


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
    try:
        rows, line_of = json.loads(text), None
    except (ValueError, RecursionError) as error:
        rows, line_of = _parse_lines(text, error)
    if isinstance(rows, dict) and rows.get("__kind__") == _WIDS:
        rows = _list_shards(rows)
    elif isinstance(rows, dict) and "\n" not in text.strip():
        rows = [rows]
    if not isinstance(rows, list) or (rows and not any(isinstance(row, dict) for row in rows)):
        raise UsageError(f"expected a list of objects such as [{_EXAMPLE}, ...], or one object a line")
    listed = ListTable({}, line_of=line_of)
    bad = {
        number: f"{listed.describe_row(number)}: {_explain_bad_row(row)}: correct or remove it"
        for number, row in enumerate(rows)
        if not isinstance(row, dict)
    }
    objects = [row if isinstance(row, dict) else {} for row in rows]
    names = dict.fromkeys(name for each in objects for name in each)
    if objects and not names:
        raise UsageError(f"all of its objects are empty: expected objects such as {_EXAMPLE}")
    columns = {escape(name): [each.get(name) for each in objects] for name in names}
    return ListTable(dict(columns), bad=bad, line_of=line_of)


def _list_shards(index: dict[str, Any]) -> list[Any]:
    """List the shards of an index of wids, which has their names alone, and no offsets."""
    shards = index.get("shardlist")
    if not isinstance(shards, list):
        raise UsageError(f"it is an index of wids ({_WIDS}) without a shardlist: expected a list of objects with url")
    return [{"path": shard.get("url")} if isinstance(shard, dict) else shard for shard in shards]


class _BadLine(Exception):
    """A line that is no JSON."""


def _parse_lines(text: str, error: Exception) -> tuple[list[Any], Callable[[int], int]]:
    """Parse one value per line; return the values, and the line of each, from 1.

    If most lines are no objects, it is a damaged list of objects, which is a UsageError.
    """
    rows, lines = list[Any](), list[int]()
    # Not splitlines(): text in JSON may contain other characters that end lines.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError) as wrong:
            # Its own text counts lines from the beginning of this line.
            at = f"{wrong.msg} at character {wrong.pos + 1}" if isinstance(wrong, json.JSONDecodeError) else wrong
            rows.append(_BadLine(f"not readable as JSON ({at}): {quote(line.strip(), MOST_JSON)}"))
        lines.append(number)
    bad = [number for number, row in enumerate(rows) if not isinstance(row, dict)]
    # The last line of a truncated list of objects may be an object.
    if bad and (text.split(maxsplit=1)[0] == "[" or 2 * len(bad) > len(rows)):
        first = f"line {lines[bad[0]]}: {_explain_bad_row(rows[bad[0]])}"
        raise UsageError(f"not readable as json: {error}; as one object a line: {first}") from error
    return rows, lines.__getitem__


def _explain_bad_row(row: object) -> str:
    return str(row) if isinstance(row, _BadLine) else f"expected an object such as {_EXAMPLE}, found {show_json(row)}"


def show_json(value: object) -> str:
    """Write a value for a message."""
    return shorten(json.dumps(value, default=str), MOST_JSON)


def to_column(values: list[Any]) -> pa.ChunkedArray:
    """Make a column of the values of JSON: numbers, texts, truth values, and lists of them.

    Values of several types become text; text and the digits of numbers do not change. Objects, and lists that Parquet
    cannot store, become JSON text.
    """
    with suppress(ValueError, TypeError, OverflowError, pa.ArrowException):
        # Check the depth first: a column of thousands of levels could overflow the stack.
        if not _is_nested(values):
            return pa.chunked_array([pa.array(values)])
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    # Text may contain lone surrogates: json.dumps writes a file name that is not UTF-8 with them.
    return pa.chunked_array([pa.array([text and escape(text) for text in texts], pa.string())])


def to_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column to text; objects and lists become JSON."""
    if not pa.types.is_nested(column.type):
        return column.cast(pa.string())
    texts = [None if value is None else json.dumps(value, default=str) for value in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])


def _is_nested(values: list[Any]) -> bool:
    """Whether objects, or lists of more than ``_MOST_LEVELS``, are among values."""
    for _ in range(_MOST_LEVELS):
        if any(isinstance(value, dict) for value in values):
            return True
        values = [each for value in values if isinstance(value, list) for each in value]
    return any(isinstance(value, (dict, list)) for value in values)
