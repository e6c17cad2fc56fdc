"""Lists as CSV: what separates fields, whether there is a header, and lines that do not fit."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, partial

import pyarrow as pa
import pyarrow.csv as pcsv

from framefeed.errors import UsageError
from framefeed.index.list_lines import NUMBER, is_media
from framefeed.index.list_text import MOST, PATH_COLUMNS, SAMPLE, ListTable
from framefeed.index.list_values import SAVE_AS_UTF8, is_number_column, loses_text
from framefeed.index.names import escape, unescape, visible

_BLOCK_LIMIT = 2**31 - 1


def separator_of(text: str, likely: str) -> str:
    """Find what separates the fields of most lines of CSV; ``likely`` where nothing else does."""
    for separator in dict.fromkeys((likely, ",", ";", "\t")):
        widths = [len(row) for _, row in _rows(text, separator)]
        if widths and widths[0] > 1 and widths.count(widths[0]) >= MOST * len(widths):
            return separator
    return likely


def _rows(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Give the first rows, each with the number of its last line, without empty lines."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    for number, row in enumerate(reader):
        if number == SAMPLE:
            return
        if row:
            yield reader.line_num, row


def read_csv(
    data: bytes, separator: str, binary: Collection[str], wanted: Collection[str], *, is_numbered: bool = False
) -> ListTable:
    """Read CSV with a header or without.

    Args:
        data: In UTF-8.
        separator: Of fields.
        binary: Columns of paths by name, whose bytes need not be text.
        wanted: Names that are asked for: they make the first line a header.
        is_numbered: Columns are asked for by number: a first line that may be a header or not is none.

    Raises:
        UsageError: It cannot be told whether the first line is a header; columns of one name; no line fits.
    """
    sample = list(_rows(os.fsdecode(data), separator))
    if not sample:
        return ListTable(pa.table({}))
    first_line, first = sample[0][0], [escape(cell.strip()) for cell in sample[0][1]]
    has_header = _is_header(first, [row for _, row in sample[1:]], wanted, is_numbered=is_numbered)
    names = first if has_header else [str(number) for number in range(len(first))]
    _check_header(names, first_line)
    line_of = partial(_line_of, _row_lines(data, separator, has_header=has_header))
    found: dict[int, pcsv.InvalidRow] = {}

    def note(row: pcsv.InvalidRow) -> str:
        # Rows count from 1, and lines that are skipped count too; other empty lines do not.
        found[row.number - 1 - num_skipped] = row
        return "skip"

    num_skipped = first_line if has_header else 0
    read = partial(
        pcsv.read_csv,
        # One block: types are inferred from the first, and a word in the last line must not fail as "not a number".
        read_options=pcsv.ReadOptions(
            use_threads=False,
            column_names=names,
            skip_rows=num_skipped,
            block_size=min(max(len(data) + 1, 2**20), _BLOCK_LIMIT),
        ),
        parse_options=pcsv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=note),
    )
    is_path = [name for name in names if name in binary or name.lower() in PATH_COLUMNS]
    # As bytes: "007" stays "007", and names need not be UTF-8.
    kinds = dict.fromkeys(is_path, pa.binary())
    table = read(io.BytesIO(data), convert_options=pcsv.ConvertOptions(column_types=kinds))
    table = _with_texts(table, lambda options: read(io.BytesIO(data), convert_options=options))
    bad = {
        row: f"line {line_of(row)} ({invalid.text!r}): expected {_fields(invalid.expected_columns)}, found "
        f"{invalid.actual_columns}: correct the line"
        for row, invalid in found.items()
    }
    if bad and not len(table):
        raise UsageError(f"no line fits: {next(iter(bad.values()))}")
    return ListTable(_with_gaps(table, bad), has_header, bad, line_of)


def _check_header(names: Sequence[str], line: int) -> None:
    odd = next((name for name in names if unescape(name) != name), None)
    if odd is not None:
        raise UsageError(f"line {line}: the header '{visible(unescape(odd))}' is not UTF-8: {SAVE_AS_UTF8}")
    if len(set(names)) < len(names):
        raise UsageError(f"its header has two columns of the same name ({', '.join(names)}): rename one of them")


def _with_texts(table: pa.Table, read: Callable[[pcsv.ConvertOptions], pa.Table]) -> pa.Table:
    """Put the text in place of numbers that lose some of it, such as leading zeros."""
    names = [name for name in table.column_names if is_number_column(table.schema.field(name).type)]
    if not names:
        return table
    kinds = dict.fromkeys(names, pa.string())
    texts = read(pcsv.ConvertOptions(include_columns=names, column_types=kinds))
    for name in names:
        if loses_text(table.column(name), texts.column(name)):
            table = table.set_column(table.column_names.index(name), name, texts.column(name))
    return table


def _row_lines(data: bytes, separator: str, *, has_header: bool) -> Callable[[], list[int]]:
    """Give what finds the lines of all rows; fields may hold line ends, and empty lines are no rows."""

    @cache
    def lines() -> list[int]:
        reader = csv.reader(io.StringIO(os.fsdecode(data), newline=""), delimiter=separator)
        found, start = list[int](), 0
        for fields in reader:
            if fields:
                found.append(start + 1)
            start = reader.line_num
        return found[int(has_header) :]

    return lines


def _line_of(lines: Callable[[], list[int]], row: int) -> int:
    return lines()[row]


def _is_header(
    first: Sequence[str], others: Sequence[Sequence[str]], wanted: Collection[str], *, is_numbered: bool
) -> bool:
    """Whether the first line of CSV names the columns.

    Raises:
        UsageError: It may or may not.
    """
    if any(map(is_media, first)) or any(map(NUMBER.fullmatch, first)):
        return False
    if {cell.lower() for cell in first} & {*PATH_COLUMNS, "label"} or {cell.lower() for cell in first} & {
        name.strip().lower() for name in wanted
    }:
        return True
    if any(is_media(cell) or NUMBER.fullmatch(cell.strip()) for row in others for cell in row):
        return True
    if is_numbered or not others or len(first) == 1:
        return False
    raise UsageError(
        f"cannot tell whether its first line ({', '.join(first)}) is a header: name the column of paths, as in "
        f'columns={{"path": "{first[0]}"}} with a header or columns={{"path": 0}} without one'
    )


def _with_gaps(table: pa.Table, bad: Collection[int]) -> pa.Table:
    """Put a row of nulls where each bad line was."""
    if not bad:
        return table
    rows, good = [], iter(range(len(table)))
    for number in range(len(table) + len(bad)):
        rows.append(None if number in bad else next(good))
    return table.take(pa.array(rows, pa.int64()))


def _fields(count: int) -> str:
    return "1 field" if count == 1 else f"{count} fields"
