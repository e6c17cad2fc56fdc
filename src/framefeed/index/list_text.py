"""Lists as text as tables: what separates fields, whether there is a header, and lines that do not fit."""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from framefeed.errors import UsageError
from framefeed.index.list_lines import NUMBER, Lines, Parts, is_media, parts_of, unquoted
from framefeed.index.names import escape

PATH_COLUMNS = (
    *("source", "path", "file", "video", "image", "filename", "file_name", "filepath", "file_path"),
    *("video_path", "image_path", "img_path", "clip_path"),
)
_SAMPLE = 1000
"""Lines by which a list is recognised."""
_MOST = 0.8
"""Of them, that have to agree: a few may be damaged."""
_BLOCK_LIMIT = 2**31 - 1
_NAME = re.compile(r"[^\W\d][\w .:/()-]*")


@dataclass(frozen=True, slots=True)
class ListTable:
    """A list as columns.

    Attributes:
        table: Its lines; where no header names them, columns are "0", "1", ...
        has_header: Whether columns have names of their own.
        bad: What is wrong with a row, by its number; its values are null.
        line_of: Gives the line of a row in its file, from 1; None where the file has no lines.
    """

    table: pa.Table
    has_header: bool = True
    bad: dict[int, str] = field(default_factory=dict)
    line_of: Callable[[int], int] | None = field(default=None, compare=False)


def in_utf8(data: bytes) -> bytes:
    """Bring a text into UTF-8 without a byte order mark; what is in no known encoding stays."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16").encode("utf-8", "surrogatepass")
    return data.removeprefix(codecs.BOM_UTF8)


def split_lines(lines: Lines) -> ListTable:
    """Take lines apart into a path and the values behind it."""
    found = [parts_of(line) for line in lines.texts]
    separators = [parts.separator.strip(" ") or " " for parts in found if parts]
    separator = max(set(separators), key=separators.count)
    rows = _split_values(found, separator)
    width = max(map(len, filter(None, rows)), key=[len(row) for row in rows if row].count)
    header = _header(lines.texts[0], separator, width) if rows[0] is None else None
    first = 0 if header is None else 1
    bad = {
        number - first: f"{lines.shown(number)}: {_misfit(lines.texts[number], row, width - 1)}"
        for number, row in enumerate(rows)
        if number >= first and (row is None or len(row) != width)
    }
    columns = list(zip(*(row if row and len(row) == width else [None] * width for row in rows[first:]), strict=True))
    names = header or [str(number) for number in range(width)]
    return ListTable(
        pa.table(dict(zip(names, map(_typed, columns), strict=True))),
        has_header=header is not None,
        bad=bad,
        line_of=lambda row: lines.numbers[row + first],
    )


def _misfit(line: str, row: list[str] | None, count: int) -> str:
    """Say what is wrong with a line that is not a path with so many values behind it."""
    wanted = f"expected a path and {count} value{'' if count == 1 else 's'} behind it"
    if row is not None:
        return f"{wanted}, found {len(row) - 1}: correct the line"
    if is_media(unquoted(line)):
        return f"{wanted}, found a path alone: add what is missing, or remove the line"
    return (
        f"{wanted}, found no path with the ending of a media file, such as .mp4 or .jpg: correct the path, or put a "
        'path with another ending into double quotes, as in "a.xyz" 3'
    )


def _split_values(found: list[Parts | None], separator: str) -> list[list[str] | None]:
    """Split what stands behind the paths; blanks separate numbers only, for a label may have several words."""
    if separator == " " and not all(
        NUMBER.fullmatch(word) for parts in found if parts for word in parts.values.split()
    ):
        return [parts and [parts.path, unquoted(parts.values)] for parts in found]
    return [parts and [parts.path, *_split(parts.values, separator)] for parts in found]


def _split(text: str, separator: str) -> list[str]:
    return text.split() if separator == " " else [part.strip(" \"'") for part in text.split(separator)]


def _header(line: str, separator: str, width: int) -> list[str] | None:
    names = _split(line, separator)
    is_header = len(names) == len(set(names)) == width and all(_NAME.fullmatch(name) for name in names)
    return names if is_header else None


def _typed(values: Sequence[str | None]) -> pa.Array:
    """Make a column of integers where all values are, else of floats, else of text."""
    texts = pa.array([None if value is None else escape(value) for value in values], pa.string())
    for kind in (pa.int64(), pa.float64()):
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            continue
    return texts


def split_fields(lines: Lines) -> ListTable:
    """Take lines apart at what separates them all: tabs, commas, semicolons or blanks.

    Raises:
        UsageError: Nothing does.
    """
    for separator in ("\t", ",", ";", " "):
        rows = [_fields(line, separator) for line in lines.texts]
        width = len(rows[0])
        if width > 1 and sum(len(row) == width for row in rows) >= _MOST * len(rows):
            break
    else:
        raise UsageError(
            f"expected lines with fields separated by tabs, commas, semicolons or blanks, found {lines.texts[0]!r}"
        )
    bad = {
        number: f"{lines.shown(number)}: expected {width} fields, found {len(row)}"
        for number, row in enumerate(rows)
        if len(row) != width
    }
    columns = zip(*(row if len(row) == width else [None] * width for row in rows), strict=True)
    table = pa.table({str(at): _typed(column) for at, column in enumerate(columns)})
    return ListTable(table, False, bad, lines.numbers.__getitem__)


def _fields(line: str, separator: str) -> list[str]:
    parts = parts_of(line) if line.startswith('"') else None
    if parts is None or (parts.separator.strip(" ") or " ") != separator:
        return _split(line, separator)
    return [parts.path, *_split(parts.values, separator)]


def separator_of(text: str, likely: str) -> str:
    """Find what separates the fields of most lines of CSV; ``likely`` where nothing else does."""
    for separator in dict.fromkeys((likely, ",", ";", "\t")):
        widths = [len(row) for row in _rows(text, separator)]
        if widths and widths[0] > 1 and widths.count(widths[0]) >= _MOST * len(widths):
            return separator
    return likely


def _rows(text: str, separator: str) -> Iterator[list[str]]:
    for number, row in enumerate(csv.reader(io.StringIO(text, newline=""), delimiter=separator)):
        if number == _SAMPLE:
            return
        if row:
            yield row


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
    first = [escape(cell.strip()) for cell in sample[0]]
    has_header = _is_header(first, sample[1:], wanted, is_numbered=is_numbered)
    names = first if has_header else [str(number) for number in range(len(first))]
    if len(set(names)) < len(names):
        raise UsageError(f"its header has two columns of the same name ({', '.join(names)}): rename one of them")
    bad: dict[int, str] = {}

    def note(row: pcsv.InvalidRow) -> str:
        # Rows count from 1, a header too; empty lines are none.
        bad[row.number - 1 - int(has_header)] = (
            f"row {row.number} ({row.text!r}): expected {row.expected_columns} fields, found {row.actual_columns}"
        )
        return "skip"

    is_path = {name for name in names if name in binary or name.lower() in PATH_COLUMNS}
    held = set(names) if not has_header else is_path
    table = pcsv.read_csv(
        io.BytesIO(data),
        # One block: types are inferred from the first, and a word in the last line must not fail as "not a number".
        read_options=pcsv.ReadOptions(
            use_threads=False,
            column_names=names,
            skip_rows=int(has_header),
            block_size=min(max(len(data) + 1, 2**20), _BLOCK_LIMIT),
        ),
        parse_options=pcsv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=note),
        # As bytes: "007" stays "007", and names need not be UTF-8.
        convert_options=pcsv.ConvertOptions(column_types=dict.fromkeys(held & is_path, pa.binary())),
    )
    if bad and not len(table):
        raise UsageError(f"no line fits: {next(iter(bad.values()))}")
    return ListTable(_with_gaps(table, bad), has_header, bad, partial(_line_of_row, data, separator, has_header))


def _line_of_row(data: bytes, separator: str, has_header: bool, row: int) -> int:
    """Find the line of a row of CSV; its fields may hold line ends, and empty lines are no rows."""
    reader = csv.reader(io.StringIO(os.fsdecode(data), newline=""), delimiter=separator)
    start, number = 0, -int(has_header)
    for fields in reader:
        if fields and number == row:
            break
        start, number = reader.line_num, number + bool(fields)
    return start + 1


def _is_header(
    first: Sequence[str], others: Sequence[Sequence[str]], wanted: Collection[str], *, is_numbered: bool
) -> bool:
    """Whether the first line of CSV names the columns.

    Raises:
        UsageError: It may or may not.
    """
    if any(map(is_media, first)) or any(map(NUMBER.fullmatch, first)):
        return False
    if {cell.lower() for cell in first} & {*PATH_COLUMNS, "label"} or set(first) & set(wanted):
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


def count_media(column: pa.ChunkedArray) -> int:
    """Count the first values of a column that end like the names of media files."""
    kind = column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind)):
        return 0
    sample = pc.drop_null(column.slice(0, _SAMPLE)).to_pylist()
    return sum(is_media(os.fsdecode(value)) for value in sample)
