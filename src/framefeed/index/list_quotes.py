"""Quotes of CSV that are not closed: they would take up the lines behind them as one value."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from framefeed.errors import UsageError
from framefeed.index.list_lines import is_media
from framefeed.index.list_values import brief

_MANY = 5
"""Lines in one value that are all as wide as the list: text of so many lines has other counts of separators."""


def has_line_end(row: Sequence[str]) -> bool:
    """Whether a field of a row holds a line end."""
    return any("\n" in cell for cell in row)


def rows_of(text: str, separator: str) -> Iterator[tuple[int, int, list[str] | None]]:
    """Give the rows of CSV, each with the number of its first line and of the line behind it, from 0.

    Empty lines are empty rows. A row is None if a field is longer than ``csv.field_size_limit()``.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    start = 0
    while True:
        try:
            row = next(reader, None)
            if row is None:
                return
        except csv.Error:
            row = None
        yield start, reader.line_num, row
        start = reader.line_num


def check_quotes(text: str, separator: str) -> None:
    """Refuse CSV in which a quote is not closed.

    Args:
        text: Of the whole list.
        separator: Of fields.

    Raises:
        UsageError: A value in quotes does not end, or holds rows of the list.
    """
    lines = io.StringIO(text, newline="").readlines()
    width = 0
    for start, end, row in rows_of(text, separator):
        is_several = end - start > 1
        if is_several and (
            row is None or _is_damaged(lines[start:end], separator) or _holds_rows(row, separator, width)
        ):
            raise UsageError(
                f"line {start + 1} ({brief(lines[start].rstrip())}): the quote that opens here is not closed: close "
                "it, or remove it"
            )
        width = width or len(row or ())


def _is_damaged(lines: Sequence[str], separator: str) -> bool:
    """Whether a quote in the lines of one row is not closed, or closed by one that opens another value."""
    try:
        list(csv.reader(lines, delimiter=separator, strict=True))
    except csv.Error:
        return True
    return False


def _holds_rows(row: Sequence[str], separator: str, width: int) -> bool:
    """Whether a field of a row holds rows of the list: lines of its width with media files, or many of its width."""
    for cell in row:
        first, *others = cell.split("\n")
        rows = list(csv.reader(others, delimiter=separator))
        wide = [fields for fields in rows if len(fields) == width]
        if width == 1:
            wide = [fields for fields in wide if is_media(first)]
        elif len(rows) >= _MANY and len(wide) >= len(rows) - 1:
            return True
        if any(is_media(field) for fields in wide for field in fields):
            return True
    return False
