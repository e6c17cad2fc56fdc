"""Text lists as tables: what separates fields, and lines that do not fit."""

from __future__ import annotations

import codecs
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from framefeed.errors import UsageError
from framefeed.index.list_lines import NUMBER, SAMPLE, Lines, Parts, is_media, parts_of, unquoted
from framefeed.index.list_values import brief, count_fields, typed_and_text

PATH_COLUMNS = (
    *("source", "path", "file", "video", "image", "filename", "file_name", "filepath", "file_path"),
    *("video_path", "image_path", "img_path", "clip_path"),
)
MOST = 0.8
"""Share of the first lines that have to agree: a few may be damaged."""
_Value = TypeVar("_Value")
_NAME = re.compile(r"[^\W\d][\w .:/()-]*")
_ENDING = re.compile(r".+\.\w{1,5}")
_IN_APOSTROPHES = re.compile(r"'([^']*)'")


@dataclass(frozen=True, slots=True)
class ListTable:
    """A list as columns.

    Attributes:
        table: Its lines; where no header names them, columns are "0", "1", ...
        has_header: Whether columns have names of their own.
        bad: What is wrong with a row, by its number; its values are null.
        line_of: Gives the line of a row in its file, from 1; None where the file has no lines.
        not_text: In columns of several types, by their number, the rows whose value is not text, and the value.
        scalars: Columns that hold objects or lists, by their number: the same with null in their place.
        texts: Columns as text, by their number, whose values would be written in another way, such as 1.1 for 1.10.
    """

    table: pa.Table
    has_header: bool = True
    bad: dict[int, str] = field(default_factory=dict)
    line_of: Callable[[int], int] | None = field(default=None, compare=False)
    not_text: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    scalars: Mapping[int, pa.Array] = field(default_factory=dict)
    texts: Mapping[int, pa.ChunkedArray] = field(default_factory=dict)

    def name_of(self, row: int) -> str:
        """Name a row by its line in the file, or by its number where there are no lines."""
        return f"row {row}" if self.line_of is None else f"line {self.line_of(row)}"

    def place(self, row: int) -> str:
        """Name a row for a message."""
        return f"{self.name_of(row)} (from 0)" if self.line_of is None else self.name_of(row)


def in_utf8(data: bytes) -> bytes:
    """Bring a text into UTF-8 without a byte order mark; what is in no known encoding stays."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16").encode("utf-8", "surrogatepass")
    return data.removeprefix(codecs.BOM_UTF8)


def split_lines(lines: Lines) -> ListTable:
    """Take lines apart into a path and the values behind it."""
    found = [parts_of(line) for line in lines.texts]
    separators = [parts.separator.strip(" ") or " " for parts in found if parts]
    separator = _most_common(separators)
    rows = _split_values(found, separator)
    width = _most_common(len(row) for row in rows if row)
    header = _header(lines.texts[0], separator, width) if rows[0] is None else None
    first = 0 if header is None else 1
    bad = {
        number - first: f"{lines.shown(number)}: {_misfit(lines.texts[number], row, width - 1, separator)}"
        for number, row in enumerate(rows)
        if number >= first and (row is None or len(row) != width)
    }
    columns = list(zip(*(row if row and len(row) == width else [None] * width for row in rows[first:]), strict=True))
    names = header or [str(number) for number in range(width)]
    table, texts = _table(names, columns)
    return ListTable(
        table,
        has_header=header is not None,
        bad=bad,
        line_of=lambda row: lines.numbers[row + first],
        texts=texts,
    )


def _table(
    names: Iterable[str], columns: Iterable[Sequence[str | None]]
) -> tuple[pa.Table, dict[int, pa.ChunkedArray]]:
    """Make a table of columns, and give the text of those whose values would be written in another way."""
    typed = [typed_and_text(column) for column in columns]
    table = pa.table(dict(zip(names, (values for values, _ in typed), strict=True)))
    return table, {at: pa.chunked_array([text]) for at, (_, text) in enumerate(typed) if text is not None}


def _most_common(values: Iterable[_Value]) -> _Value:
    return Counter(values).most_common(1)[0][0]


def _misfit(line: str, row: list[str] | None, count: int, separator: str) -> str:
    """Say what is wrong with a line that is not a path with so many values behind it."""
    wanted = f"expected a path and {count} value{'' if count == 1 else 's'} behind it"
    if row is not None and separator == " " and not NUMBER.fullmatch(row[1]):
        return f"expected a path and {count} numbers behind it, found {brief(row[1])}: correct the line"
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
    if separator != " " or _are_numbers(found):
        return [parts and [parts.path, *_values(parts, separator)] for parts in found]
    return [parts and [parts.path, unquoted(parts.values)] for parts in found]


def _values(parts: Parts, separator: str) -> list[str]:
    """Split the values behind a path; a line that holds words among numbers that blanks separate is not split."""
    values = _split(parts.values, separator)
    return values if separator != " " or all(map(NUMBER.fullmatch, values)) else [parts.values]


def _are_numbers(found: list[Parts | None]) -> bool:
    """Whether blanks separate numbers: everywhere, or everywhere but in a few lines that have other numbers too."""
    widths = [_count_numbers(parts.values) for parts in found if parts]
    stray = widths.count(0)
    if not stray:
        return True
    known = [width for width in widths if width]
    is_several = len(known) > 1 and _most_common(known) > 1
    return is_several and stray <= max(1, (1 - MOST) * len(widths))


def _count_numbers(values: str) -> int:
    """Count numbers that blanks separate; 0 where there is anything else."""
    words = values.split()
    return len(words) if all(map(NUMBER.fullmatch, words)) else 0


def _split(text: str, separator: str) -> list[str]:
    return text.split() if separator == " " else [_bare(part) for part in text.split(separator)]


def _bare(text: str) -> str:
    """Remove blanks and quotes around a value; a single apostrophe is part of it, as in '80s."""
    bare = text.strip(' "')
    quoted = _IN_APOSTROPHES.fullmatch(bare) if bare.startswith("'") else None
    return bare if quoted is None else quoted[1].strip()


def _header(line: str, separator: str, width: int) -> list[str] | None:
    names = _split(line, separator)
    is_header = len(names) == len(set(names)) == width and all(_NAME.fullmatch(name) for name in names)
    return names if is_header and not is_path_among(names, 0) else None


def is_path_among(names: Sequence[str], at: int) -> bool:
    """Whether the first line of a list has a path with an unknown ending where others have theirs, and is no header.

    Args:
        names: The fields of the line. If each of several seems to have an ending, they are names such as ``video.id``.
        at: Number of the field where other lines have their path.
    """
    has_ending = [_ENDING.fullmatch(name) is not None for name in names]
    return "/" in names[at] or (has_ending[at] and not (len(names) > 1 and all(has_ending)))


def split_fields(lines: Lines) -> ListTable:
    """Take lines apart at what separates them all: tabs, commas, semicolons or blanks; or each is one field.

    Raises:
        UsageError: Nothing does.
    """
    if not lines.texts:
        return ListTable(pa.table({}), has_header=False)
    for separator in ("\t", ",", ";", " "):
        rows = [_fields(line, separator) for line in lines.texts]
        width = len(rows[0])
        if width > 1 and sum(len(row) == width for row in rows) >= MOST * len(rows):
            break
    else:
        rows = [[line] for line in lines.texts]
        width = 1
        if any(set(line) & set("\t,; ") for line in lines.texts):
            raise UsageError(
                "expected lines with fields separated by tabs, commas, semicolons or blanks, found "
                f"{brief(lines.texts[0])}"
            )
    bad = {
        number: f"{lines.shown(number)}: expected {count_fields(width)}, found {len(row)}: correct the line"
        for number, row in enumerate(rows)
        if len(row) != width
    }
    columns = zip(*(row if len(row) == width else [None] * width for row in rows), strict=True)
    table, texts = _table(map(str, range(width)), columns)
    return ListTable(table, False, bad, lines.numbers.__getitem__, texts=texts)


def _fields(line: str, separator: str) -> list[str]:
    parts = parts_of(line) if line.startswith('"') else None
    if parts is None or (parts.separator.strip(" ") or " ") != separator:
        return _split(line, separator)
    return [parts.path, *_split(parts.values, separator)]


def count_media(column: pa.ChunkedArray) -> int:
    """Count the first values of a column that end like the names of media files."""
    kind = column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind)):
        return 0
    sample = pc.drop_null(column.slice(0, SAMPLE)).to_pylist()
    return sum(is_media(os.fsdecode(value)) for value in sample)
