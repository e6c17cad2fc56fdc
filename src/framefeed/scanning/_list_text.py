"""Read lists as text: CSV, and lines with a path alone or a path and values behind it.

The first line says how all are read: what separates the values, and whether it is a header. In a text list a line that
begins with ``#`` is a comment.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from framefeed._names import escape, escape_invisible, is_url, unescape
from framefeed.errors import UsageError
from framefeed.scanning._list_columns import ListOptions
from framefeed.scanning._list_table import (
    LABEL,
    PATH_COLUMNS,
    SAVE_AS_UTF8,
    URL_COLUMNS,
    Column,
    ListTable,
    is_media,
    quote,
    shorten,
)
from framefeed.scanning._rows import LISTED_ENDINGS

CSV_SUFFIXES = frozenset({".csv", ".tsv"})
_KNOWN_NAMES = frozenset({*PATH_COLUMNS, *URL_COLUMNS, LABEL})
_ENDINGS = rf"\.(?:{'|'.join(re.escape(ending[1:]) for ending in sorted(LISTED_ENDINGS))})"
_SEPARATOR_BEHIND_PATH = re.compile(rf"{_ENDINGS}[ ]*([,;\t]|[ ]\S)", re.IGNORECASE)
_QUOTES = r'"(?:[^"]|"")+"'
_NUMBER = r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
# A path with the ending of a media file, or a URL with a query behind it.
_MEDIA_PATH = rf"(?i)^(?P<c0>{_QUOTES}|.+?{_ENDINGS}(?:[?#]\S*)?)"
_OPEN_QUOTE = "the quote that opens here is not closed: close it, or remove it"
_BLOCK_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Lines:
    """Lines of a list, with bytes that are not UTF-8 escaped; and the number of each in its file, from 1."""

    texts: list[str]
    numbers: Sequence[int]

    def skip(self, count: int) -> _Lines:
        return _Lines(self.texts[count:], self.numbers[count:])

    def select(self, *, has_comments: bool) -> _Lines:
        """Leave out empty lines, and maybe comments."""
        if all(self.texts) and not (has_comments and "\n#" in "\n" + "\n".join(self.texts)):
            return self
        kept = [at for at, text in enumerate(self.texts) if text and not (has_comments and text.startswith("#"))]
        return _Lines([self.texts[at] for at in kept], [self.numbers[at] for at in kept])

    def describe(self, at: int) -> str:
        """Name a line for a message, as in "line 3 ('a.mp4 1')"."""
        return f"line {self.numbers[at]} ({quote(unescape(self.texts[at]))})"


def to_utf8(data: bytes) -> bytes:
    """Convert a text to UTF-8 without a byte order mark; a text in an unknown encoding is not changed."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        data = data.decode("utf-16").encode("utf-8", "surrogatepass")
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise UsageError(
            f"line {line} has a NUL character: write one path a line (find without -print0), and {SAVE_AS_UTF8}"
        )
    return data.removeprefix(codecs.BOM_UTF8)


def read_text(data: bytes, suffix: str, options: ListOptions) -> ListTable:
    """Read a text list or CSV in UTF-8, but for names, which may have any bytes."""
    is_csv = suffix in CSV_SUFFIXES
    texts = escape(os.fsdecode(data.replace(b"\r\n", b"\n"))).removesuffix("\n").split("\n")
    whole = _Lines(texts, range(1, len(texts) + 1))
    lines = whole.select(has_comments=not is_csv)
    if not lines.texts:
        return ListTable({}, has_header=False)
    separator = _find_separator(lines.texts[0], suffix, options)
    if is_csv and separator != " ":
        # A value in quotes may contain empty lines: only those before the first row are left out.
        lines = whole.skip(lines.numbers[0] - 1)
    cells, num_lines = _split_first_row(lines, separator)
    has_header = _is_header(cells, options)
    if has_header:
        _check_header(cells, lines.numbers[0])
        lines = lines.skip(num_lines)
    if separator is None:
        has_quotes = '"' in "".join(lines.texts)
        paths: Column = _remove_quotes(_to_array(lines.texts)) if has_quotes else lines.texts
        listed = ListTable({cells[0] if has_header else "0": paths})
    elif separator == " ":
        listed = _split_at_blanks(lines, cells if has_header else None)
    else:
        listed = _read_csv(lines, separator, cells if has_header else [str(at) for at in range(len(cells))])
    line_of = listed.line_of or lines.numbers.__getitem__
    columns = listed.columns
    if not is_csv and separator is not None:
        columns = {name: _remove_quotes(pc.utf8_trim_whitespace(column)) for name, column in columns.items()}
    return ListTable(dict(columns), has_header, listed.bad, line_of, is_text=True)


def _to_array(texts: Sequence[str]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(texts, pa.string())])


def _remove_quotes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Remove the double quotes around values; a quote inside of them is written twice, as in CSV."""
    if not pc.any(pc.starts_with(column, '"')).as_py():
        return column
    is_quoted = pc.match_substring_regex(column, rf"^{_QUOTES}[ \t]*$")
    bare = pc.replace_substring(pc.replace_substring_regex(column, r'^"(.*)"[ \t]*$', r"\1"), '""', '"')
    return pc.if_else(is_quoted, bare, column)


# --- the first line ---------------------------------------------------------------------------------------


def _find_separator(line: str, suffix: str, options: ListOptions) -> str | None:
    """Find what separates values by the first line; None if each line is a path alone."""
    bare = re.sub(_QUOTES, "x.mp4", line).strip()
    behind_path = _SEPARATOR_BEHIND_PATH.search(bare)
    if behind_path is not None:
        return behind_path[1][0]
    is_alone = is_media(bare)
    if is_url(bare):
        # Commas and semicolons may be part of the query of a URL: it ends at a blank.
        bare = bare.removeprefix(bare.split(maxsplit=1)[0])
        is_alone = not bare
    has_options = bool(options.columns or options.path_template)
    likely = {".csv": ",", ".tsv": "\t"}.get(suffix)
    for separator in (likely, "\t", ",", ";"):
        if separator is not None and separator in bare and (likely or has_options or not is_alone):
            return separator
    words = line.split() or [""]
    may_split = has_options or re.fullmatch(_NUMBER, words[-1]) or not _KNOWN_NAMES.isdisjoint(map(str.lower, words))
    return " " if len(words) > 1 and not is_alone and may_split else likely


def _split_first_row(lines: _Lines, separator: str | None) -> tuple[list[str], int]:
    """Split the first row; return its cells, and the number of its lines."""
    if separator is None or separator == " ":
        cells = lines.texts[0].split() if separator else lines.texts[:1]
        return [cell.strip('"') for cell in cells], 1
    reader = csv.reader((f"{text}\n" for text in lines.texts), delimiter=separator, strict=True)
    try:
        cells = next(reader)
    except csv.Error as error:
        raise UsageError(f"{lines.describe(0)}: {_OPEN_QUOTE}") from error
    return [cell.strip() for cell in cells], reader.line_num


def _is_header(cells: Sequence[str], options: ListOptions) -> bool:
    if any(map(is_media, cells)):
        return False
    required = {name.strip().lower() for name in options.required_names if not name.isdecimal()}
    if not (_KNOWN_NAMES | required).isdisjoint(cell.lower() for cell in cells):
        return True
    if options.has_numbers or any("/" in cell or re.fullmatch(_NUMBER, cell) for cell in cells):
        return False
    shown = shorten(unescape(", ".join(cells)))
    raise UsageError(
        f"cannot tell whether its first line ({shown}) is a header: name the column of paths, as in "
        f'columns={{"path": "{shorten(unescape(cells[0]))}"}} with a header or columns={{"path": 0}} without one'
    )


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


# --- values behind a path ---------------------------------------------------------------------------------


def _split_at_blanks(lines: _Lines, header: list[str] | None) -> ListTable:
    """Split lines into a path and the numbers behind it; if there are none in the first, into a path and a text."""
    if not lines.texts:
        return ListTable(dict.fromkeys(header or [], _to_array([])))
    words = lines.texts[0].split()
    is_number = [re.fullmatch(_NUMBER, word) is not None for word in words]
    count = len(words) - 1 if all(is_number[1:]) else is_number[::-1].index(False)
    is_media_list = _SEPARATOR_BEHIND_PATH.search(lines.texts[0]) is not None
    if count:
        path = _MEDIA_PATH if is_media_list else rf"^(?P<c0>{_QUOTES}|.*\S)"
        values = "".join(rf"[ \t]+(?P<c{at}>{_NUMBER})" for at in range(1, count + 1))
        expected = f"a path and {count} number{'s' * (count > 1)} behind it"
    else:
        path = _MEDIA_PATH if is_media_list else rf"^(?P<c0>{_QUOTES}|\S+)"
        values, expected = r"[ \t]+(?P<c1>\S.*)", "a path and a text behind it"
    names = header or [str(at) for at in range(max(count, 1) + 1)]
    if len(names) != max(count, 1) + 1:
        raise UsageError(f"its header has {len(names)} columns, but {lines.describe(0)} is {expected}")
    if is_media_list:
        expected += " (a path without the ending of a media file in double quotes)"
    parts = pc.extract_regex(pa.array(lines.texts, pa.string()), rf"{path}{values}[ \t]*$")
    bad = {
        row: f"{lines.describe(row)}: expected {expected}: correct the line"
        for row in pc.indices_nonzero(parts.is_null()).to_pylist()
    }
    columns = [pa.chunked_array([column]) for column in parts.flatten()]
    return ListTable(dict(zip(names, columns, strict=True)), bad=bad)


# --- CSV --------------------------------------------------------------------------------------------------


def _read_csv(lines: _Lines, separator: str, names: Sequence[str]) -> ListTable:
    """Read the rows of CSV as text."""
    invalid = dict[int, pcsv.InvalidRow]()

    def skip_invalid_row(row: pcsv.InvalidRow) -> str:
        invalid[row.number - 1] = row
        return "skip"

    data = "\n".join(lines.texts).encode()
    if not data.strip():
        return ListTable(dict.fromkeys(names, _to_array([])))
    table = pcsv.read_csv(
        io.BytesIO(data),
        # One block, because a row must not be longer than a block.
        read_options=pcsv.ReadOptions(
            use_threads=False, column_names=names, block_size=min(max(len(data) + 1, 2**20), _BLOCK_LIMIT)
        ),
        parse_options=pcsv.ParseOptions(
            delimiter=separator, newlines_in_values=True, invalid_row_handler=skip_invalid_row
        ),
        # "007" stays "007".
        convert_options=pcsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    )
    if len(table) + len(invalid) < len(lines.texts) - lines.texts.count(""):
        for start, end, is_whole in _iterate_rows(lines, separator):
            # A quote stays open over the end of its line, to the end of the list or up to another value.
            if not is_whole and end - start > 1:
                raise UsageError(f"{lines.describe(start)}: {_OPEN_QUOTE}")

    @cache
    def find_lines() -> list[int]:
        return [lines.numbers[start] for start, _, _ in _iterate_rows(lines, separator)]

    def line_of(row: int) -> int:
        return find_lines()[row]

    bad = {
        row: f"line {line_of(row)} ({quote(unescape(each.text))}): expected {each.expected_columns} "
        f"field{'s' * (each.expected_columns > 1)}, found {each.actual_columns}: correct the line"
        for row, each in invalid.items()
    }
    if bad:  # Rows of nulls in their place.
        is_null = np.zeros(len(table) + len(bad), np.bool_)
        is_null[list(bad)] = True
        table = table.take(pa.array(np.cumsum(~is_null) - 1, mask=is_null))
    return ListTable(dict(zip(names, table.columns, strict=True)), bad=bad, line_of=line_of)


def _iterate_rows(lines: _Lines, separator: str) -> Iterator[tuple[int, int, bool]]:
    """Iterate over the rows of CSV: number of the first line, from 0, of the line behind, and whether it is whole."""
    reader = csv.reader((f"{text}\n" for text in lines.texts), delimiter=separator, strict=True)
    start = 0
    while True:
        try:
            row, is_whole = next(reader, None), True
        except csv.Error:
            row, is_whole = ["?"], False
        if row is None:
            return
        if row:
            yield start, reader.line_num, is_whole
        start = reader.line_num
