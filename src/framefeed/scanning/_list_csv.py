"""Read lists as CSV: find the separator and the header, and report lines that do not fit and quotes left open."""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, partial
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from framefeed._names import escape, escape_invisible, unescape
from framefeed.errors import UsageError
from framefeed.scanning._list_text import (
    MIN_AGREEMENT,
    NUMBER,
    PATH_COLUMNS,
    SAMPLE_LINES,
    URL_COLUMNS,
    ListTable,
    is_media,
    is_path_among,
)
from framefeed.scanning._list_values import (
    SAVE_AS_UTF8,
    find_original_text,
    format_field_count,
    is_number_column,
    loses_text,
    quote,
    shorten,
)

_MIN_ROWS_IN_VALUE = 5
"""So many lines in one value, all with as many fields as the list, are rows: they are no text of several lines."""


def has_line_end(row: Sequence[str]) -> bool:
    """Whether a field of a row contains a line end."""
    return any("\n" in cell for cell in row)


def iterate_rows(text: str, separator: str) -> Iterator[tuple[int, int, list[str] | None]]:
    """Iterate over the rows of CSV, each with the number of its first line and of the line after it, from 0.

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
        text: Text of the whole list.
        separator: Separator of fields.

    Raises:
        UsageError: A value in quotes does not end, or contains rows of the list.
    """
    lines = io.StringIO(text, newline="").readlines()
    width = 0
    for start, end, row in iterate_rows(text, separator):
        is_several = end - start > 1
        if is_several and (
            row is None or _is_damaged(lines[start:end], separator) or _has_nested_rows(row, separator, width)
        ):
            raise UsageError(
                f"line {start + 1} ({quote(lines[start].rstrip())}): the quote that opens here is not closed: close "
                "it, or remove it"
            )
        width = width or len(row or ())


def _is_damaged(lines: Sequence[str], separator: str) -> bool:
    """Whether a quote in the lines of one row is left open, or closed by the opening quote of another value."""
    try:
        list(csv.reader(lines, delimiter=separator, strict=True))
    except csv.Error:
        return True
    return False


def _has_nested_rows(row: Sequence[str], separator: str, width: int) -> bool:
    """Whether a field contains rows of the list: lines of the same width with media files, or many of that width."""
    for cell in row:
        first, *others = cell.split("\n")
        rows = list(csv.reader(others, delimiter=separator))
        wide = [fields for fields in rows if len(fields) == width]
        if width == 1:
            wide = [fields for fields in wide if is_media(first)]
        elif len(rows) >= _MIN_ROWS_IN_VALUE and len(wide) >= len(rows) - 1:
            return True
        if any(is_media(field) for fields in wide for field in fields):
            return True
    return False


_BLOCK_LIMIT = 2**31 - 1


def find_separator(text: str, likely: str) -> str:
    """Find the separator of most lines of CSV; ``likely`` if none is found."""
    for separator in dict.fromkeys((likely, ",", ";", "\t")):
        rows = [row for _, row in _read_sample(text, separator)]
        # An open quote makes one row of many lines.
        widths = [len(row) for row in rows if not has_line_end(row)] or [len(row) for row in rows]
        if widths and widths[0] > 1 and widths.count(widths[0]) >= MIN_AGREEMENT * len(widths):
            return separator
    return likely


def _read_sample(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Read the first rows, each with the number of its last line, without empty lines."""
    for start, end, row in islice(iterate_rows(text, separator), SAMPLE_LINES):
        if row is None and end - start > 1:
            # After an open quote, which `check_quotes` reports.
            return
        if row:
            yield end, row


def read_csv(
    data: bytes, separator: str, binary: Collection[str], required_names: Collection[str], *, is_numbered: bool = False
) -> ListTable:
    """Read CSV with a header or without.

    Args:
        data: The list in UTF-8.
        separator: Separator of fields.
        binary: Names of columns of paths, whose bytes need not be UTF-8.
        required_names: Names of columns that the options use: a first line with one of them is a header.
        is_numbered: The options number the columns: an ambiguous first line is no header.

    Raises:
        UsageError: The first line may or may not be a header; two columns have the same name; no line fits; a quote is
            left open.
    """
    text = os.fsdecode(data)
    sample = list(_read_sample(text, separator))
    if not sample or any(has_line_end(row) for _, row in sample):
        check_quotes(text, separator)
    if not sample:
        return ListTable(pa.table({}))
    if sample[0][1][0].startswith("# "):
        shown = quote(separator.join(sample[0][1]))
        raise UsageError(f"line {sample[0][0]} ({shown}) looks like a comment, and CSV has none: remove it")
    data = _escape_non_utf8(data, text)
    first_line, first = sample[0][0], [escape(cell.strip()) for cell in sample[0][1]]
    has_header = _is_header(first, [row for _, row in sample[1:]], required_names, is_numbered=is_numbered)
    names = first if has_header else [str(number) for number in range(len(first))]
    _check_header(names, first_line)
    line_of = _make_line_finder(text, separator, has_header=has_header)
    invalid_rows: dict[int, pcsv.InvalidRow] = {}

    def skip_invalid_row(row: pcsv.InvalidRow) -> str:
        # Arrow counts rows from 1, including skipped lines, but not other empty lines.
        invalid_rows[row.number - 1 - num_skipped] = row
        return "skip"

    num_skipped = first_line if has_header else 0
    read = partial(
        pcsv.read_csv,
        # One block, because types are inferred from the first block: a word in the last line is no error.
        read_options=pcsv.ReadOptions(
            use_threads=False,
            column_names=names,
            skip_rows=num_skipped,
            block_size=min(max(len(data) + 1, 2**20), _BLOCK_LIMIT),
        ),
        parse_options=pcsv.ParseOptions(
            delimiter=separator, newlines_in_values=True, invalid_row_handler=skip_invalid_row
        ),
    )
    is_path = [name for name in names if name in binary or name.lower() in PATH_COLUMNS]
    # "007" stays "007".
    kinds = dict.fromkeys(is_path, pa.string())
    table = read(io.BytesIO(data), convert_options=pcsv.ConvertOptions(column_types=kinds))
    if any("\n" in invalid.text for invalid in invalid_rows.values()) or any(map(_has_line_end, table.columns)):
        check_quotes(text, separator)
    table, texts = _restore_lossy_numbers(table, lambda options: read(io.BytesIO(data), convert_options=options))
    bad = {
        row: f"line {line_of(row)} ({quote(unescape(invalid.text))}): expected "
        f"{format_field_count(invalid.expected_columns)}, found {invalid.actual_columns}: correct the line"
        for row, invalid in invalid_rows.items()
    }
    if bad and not len(table):
        raise UsageError(f"no line fits: {next(iter(bad.values()))}")
    texts = {at: _insert_null_rows(pa.table({"": text}), bad).column(0) for at, text in texts.items()}
    return ListTable(_insert_null_rows(table, bad), has_header, bad, line_of, texts=texts)


def _escape_non_utf8(data: bytes, text: str) -> bytes:
    """Escape bytes that are not UTF-8, because Arrow does not return the text of lines with them."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return escape(text).encode()
    return data


def _has_line_end(column: pa.ChunkedArray) -> bool:
    return pa.types.is_string(column.type) and bool(pc.any(pc.match_substring(column, "\n")).as_py())


def _check_header(names: Sequence[str], line: int) -> None:
    odd = next((name for name in names if unescape(name) != name), None)
    if odd is not None:
        raise UsageError(
            f"line {line}: the header '{escape_invisible(shorten(unescape(odd)))}' is not UTF-8: {SAVE_AS_UTF8}"
        )
    if len(set(names)) < len(names):
        raise UsageError(
            f"its header has two columns of the same name ({shorten(', '.join(names))}): rename one of them"
        )


def _restore_lossy_numbers(
    table: pa.Table, read: Callable[[pcsv.ConvertOptions], pa.Table]
) -> tuple[pa.Table, dict[int, pa.ChunkedArray]]:
    """Replace numbers by their text if they would lose a part of it, such as leading zeros.

    Returns:
        The table, and the text of columns, by number, whose values would be written differently.
    """
    kept = dict[int, pa.ChunkedArray]()
    is_text = (pa.types.is_string, pa.types.is_null)
    names = [each.name for each in table.schema if not any(is_kind(each.type) for is_kind in is_text)]
    if not names:
        return table, kept
    kinds = dict.fromkeys(names, pa.string())
    texts = read(pcsv.ConvertOptions(include_columns=names, column_types=kinds))
    for name in names:
        at, values, text = table.column_names.index(name), table.column(name), texts.column(name)
        if is_number_column(values.type) and loses_text(values, text):
            table = table.set_column(at, name, text)
            continue
        as_it_stands = find_original_text(values, text)
        if as_it_stands is not None:
            kept[at] = as_it_stands
    return table, kept


def _make_line_finder(text: str, separator: str, *, has_header: bool) -> Callable[[int], int]:
    """Make a function that finds the line of a row; fields may contain line ends, and empty lines are no rows."""

    @cache
    def find_lines() -> list[int]:
        lines = [start + 1 for start, _, row in iterate_rows(text, separator) if row != []]
        return lines[int(has_header) :]

    return lambda row: find_lines()[row]


def _is_header(
    first: Sequence[str], others: Sequence[Sequence[str]], required_names: Collection[str], *, is_numbered: bool
) -> bool:
    """Whether the first line of CSV is a header.

    Raises:
        UsageError: It is ambiguous.
    """
    if any(map(is_media, first)) or any(map(NUMBER.fullmatch, first)):
        return False
    if {cell.lower() for cell in first} & {*PATH_COLUMNS, "label"} or {cell.lower() for cell in first} & {
        name.strip().lower() for name in required_names
    }:
        return True
    # Fields that contain paths in most rows: names of media files, or texts with a slash.
    counts = Counter(at for row in others for at, cell in enumerate(row) if "/" in cell or is_media(cell))
    path_fields = [at for at, count in counts.items() if count >= MIN_AGREEMENT * len(others)]
    if any(is_path_among(first, at) for at in path_fields if at < len(first)):
        return False
    if not {cell.lower() for cell in first}.isdisjoint(URL_COLUMNS):
        return True
    if any(is_media(cell) or NUMBER.fullmatch(cell.strip()) for row in others for cell in row):
        return True
    if is_numbered or not others or len(first) == 1:
        return False
    raise UsageError(
        f"cannot tell whether its first line ({shorten(', '.join(first))}) is a header: name the column of paths, as "
        f'in columns={{"path": "{shorten(first[0])}"}} with a header or columns={{"path": 0}} without one'
    )


def _insert_null_rows(table: pa.Table, bad: Collection[int]) -> pa.Table:
    if not bad:
        return table
    rows, good = [], iter(range(len(table)))
    for number in range(len(table) + len(bad)):
        rows.append(None if number in bad else next(good))
    return table.take(pa.array(rows, pa.int64()))
