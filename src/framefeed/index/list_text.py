"""Lists as text: their encoding, what separates fields, whether there is a header, and lines that do not fit."""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from framefeed.errors import UsageError
from framefeed.index.listing_suffixes import ALL_MEDIA_SUFFIXES, suffix_of
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
_ENDINGS = "|".join(suffix[1:] for suffix in sorted(ALL_MEDIA_SUFFIXES))
# The shortest beginning of a line that ends like a media file, then what separates it from the values behind it.
_PATH_AND_VALUES = re.compile(rf"(.+?\.(?:{_ENDINGS}))([ \t]*[,;\t][ \t]*|[ ]+)(\S.*)", re.IGNORECASE)
_NAME = re.compile(r"[^\W\d][\w .:/()-]*")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?")


@dataclass(frozen=True, slots=True)
class ListTable:
    """A list as columns.

    Attributes:
        table: Its lines; where no header names them, columns are "0", "1", ...
        has_header: Whether columns have names of their own.
        bad: What is wrong with a row, by its number; its values are null.
    """

    table: pa.Table
    has_header: bool = True
    bad: dict[int, str] = field(default_factory=dict)


def in_utf8(data: bytes) -> bytes:
    """Bring a text into UTF-8 without a byte order mark; what is in no known encoding stays."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16").encode("utf-8", "surrogatepass")
    return data.removeprefix(codecs.BOM_UTF8)


def read_lines(data: bytes) -> list[str]:
    """Split a text into lines, or at NULs where it has them; empty ones are left out."""
    text = os.fsdecode(data)
    lines = [line for line in text.split("\0" if "\0" in text else "\n") if line]
    if lines and all(line.endswith("\r") for line in lines):
        lines = [line[:-1] for line in lines if line != "\r"]
    return lines


def has_values(lines: Sequence[str]) -> bool:
    """Whether most lines are the path of a media file with values behind it, and not a path alone."""
    sample = lines[:_SAMPLE]
    return bool(sample) and 2 * sum(map(_has_values, sample)) >= len(sample)


def _has_values(line: str) -> bool:
    return _PATH_AND_VALUES.fullmatch(line) is not None


def split_lines(lines: Sequence[str]) -> ListTable:
    """Take lines apart into a path and the values behind it."""
    found = [_PATH_AND_VALUES.fullmatch(line) for line in lines]
    separators = [match[2].strip(" ") or " " for match in found if match]
    separator = max(set(separators), key=separators.count)
    rows = [None if match is None else [match[1].strip("\"'"), match[3]] for match in found]
    rows = _split_values(rows, separator)
    width = max(map(len, filter(None, rows)), key=[len(row) for row in rows if row].count)
    header = _header(lines[0], separator, width) if rows[0] is None else None
    first = 0 if header is None else 1
    bad = {
        number - first: f"line {number + 1} ({lines[number]!r}): expected a path and {width - 1} values behind it"
        for number, row in enumerate(rows)
        if number >= first and (row is None or len(row) != width)
    }
    columns = list(zip(*(row if row and len(row) == width else [None] * width for row in rows[first:]), strict=True))
    names = header or [str(number) for number in range(width)]
    return ListTable(
        pa.table(dict(zip(names, map(_typed, columns), strict=True))), has_header=header is not None, bad=bad
    )


def _split_values(rows: list[list[str] | None], separator: str) -> list[list[str] | None]:
    """Split what stands behind the paths; blanks separate numbers only, for a label may have several words."""
    if separator == " " and not all(_NUMBER.fullmatch(word) for row in rows if row for word in row[1].split()):
        return rows
    return [row and [row[0], *_split(row[1], separator)] for row in rows]


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


def split_fields(lines: Sequence[str]) -> ListTable:
    """Take lines apart at what separates them all: tabs, commas, semicolons or blanks.

    Raises:
        UsageError: Nothing does.
    """
    for separator in ("\t", ",", ";", " "):
        rows = [_split(line, separator) for line in lines]
        width = len(rows[0])
        if width > 1 and sum(len(row) == width for row in rows) >= _MOST * len(rows):
            break
    else:
        raise UsageError(
            f"expected lines with fields separated by tabs, commas, semicolons or blanks, found {lines[0]!r}"
        )
    bad = {
        number: f"line {number + 1} ({lines[number]!r}): expected {width} fields, found {len(row)}"
        for number, row in enumerate(rows)
        if len(row) != width
    }
    columns = zip(*(row if len(row) == width else [None] * width for row in rows), strict=True)
    return ListTable(pa.table({str(at): _typed(column) for at, column in enumerate(columns)}), False, bad)


def look_like_fields(lines: Sequence[str]) -> bool:
    """Whether lines seem to hold more than a path, though none of them names a media file."""
    return all(_has_suffixless_label(line) for line in lines[:_SAMPLE])


def _has_suffixless_label(line: str) -> bool:
    words = re.split(r"[ \t,;]+", line.strip())
    is_numbered = len(words) > 1 and any(map(_NUMBER.fullmatch, (words[0], words[-1])))
    return is_numbered and not any(is_media(word) for word in words)


def is_media(name: str) -> bool:
    """Whether a text ends like the name of a media file."""
    return suffix_of(name.strip()) in ALL_MEDIA_SUFFIXES


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
    return ListTable(_with_gaps(table, bad), has_header, bad)


def _is_header(
    first: Sequence[str], others: Sequence[Sequence[str]], wanted: Collection[str], *, is_numbered: bool
) -> bool:
    """Whether the first line of CSV names the columns.

    Raises:
        UsageError: It may or may not.
    """
    if any(map(is_media, first)) or any(map(_NUMBER.fullmatch, first)):
        return False
    if {cell.lower() for cell in first} & {*PATH_COLUMNS, "label"} or set(first) & set(wanted):
        return True
    if any(is_media(cell) or _NUMBER.fullmatch(cell.strip()) for row in others for cell in row):
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
