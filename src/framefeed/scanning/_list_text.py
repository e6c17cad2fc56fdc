"""Read text lists: skip comments, remove quotes, and split each line into a path and the values after it."""

from __future__ import annotations

import codecs
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from framefeed._names import is_url
from framefeed.errors import UsageError
from framefeed.scanning._list_values import format_field_count, is_text_column, quote, to_typed_column_and_text
from framefeed.scanning._rows import ALL_MEDIA_SUFFIXES, get_suffix

SAMPLE_LINES = 1000
"""Number of lines by which the format of a list is recognized."""
_ENDINGS = "|".join(suffix[1:] for suffix in sorted(ALL_MEDIA_SUFFIXES))
# A run of blanks must match in only one way: otherwise the time would grow with the square of its length.
_SEPARATOR = r"[ \t]*[,;][ \t]*|[ ]*\t[ \t]*|[ ]+"
# The shortest prefix that ends like a media file, the separator, and the values.
_PATH_AND_VALUES = re.compile(rf"(.+?\.(?:{_ENDINGS}))({_SEPARATOR})(\S.*)", re.IGNORECASE)
_HAS_VALUES = re.compile(rf"\.(?:{_ENDINGS})(?:{_SEPARATOR})\S", re.IGNORECASE)
_VALUES = re.compile(rf"({_SEPARATOR})(\S.*)")
# As in CSV, a quote inside quotes is written twice.
_QUOTED = re.compile(rf'"((?:[^"]|"")+)"(?:({_SEPARATOR})(\S.*)|[ \t]*)')

NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?")


class PathAndValues(NamedTuple):
    """A line that is a path with values after it.

    Attributes:
        path: Path without quotes.
        separator: Text between the path and the values.
        values: All values, as one text.
    """

    path: str
    separator: str
    values: str


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a text list, without empty lines and comments.

    Attributes:
        texts: Each line.
        numbers: Number of each line in its file, from 1.
        can_quote: Whether a path may be in quotes: not if NULs separate the paths.
    """

    texts: list[str]
    numbers: Sequence[int]
    can_quote: bool = True

    def shown(self, number: int) -> str:
        """Name a line for a message, as in "line 3 ('a.mp4 1')"."""
        return f"line {self.numbers[number]} ({quote(self.texts[number])})"


def read_lines(data: bytes, folder: str) -> Lines:
    """Split a text into lines, or at NULs if it has any.

    Args:
        data: Text in UTF-8, except for names.
        folder: Folder where relative paths start: a line that begins with # may be the name of a file in it.
    """
    text = os.fsdecode(data)
    if "\0" in text:
        lines = text.split("\0")
    else:
        lines = text.split("\n")
        if all(line.endswith("\r") for line in lines if line):
            lines = [line.removesuffix("\r") for line in lines]
    if not lines[-1]:
        lines.pop()
    may_comment = "\0" not in text and (text.startswith("#") or "\n#" in text)
    if not may_comment and all(lines):
        return Lines(lines, range(1, len(lines) + 1), "\0" not in text)
    kept = [
        number
        for number, line in enumerate(lines)
        if line and not (may_comment and line.startswith("#") and _is_comment(line, folder))
    ]
    return Lines([lines[number] for number in kept], [number + 1 for number in kept], "\0" not in text)


def _is_comment(line: str, folder: str) -> bool:
    parts = split_path_and_values(line)
    path = line if parts is None else parts.path
    if _exists(line, folder) or _exists(path, folder):
        return False
    # "#1.mp4" may be a missing file: it is a comment only if there is a file "1.mp4".
    names_media = is_media(path) and line[1:2] not in "# \t"
    return not names_media or _exists(path[1:], folder)


def _exists(name: str, folder: str) -> bool:
    return os.path.exists(os.path.join(folder, name))


def is_media(name: str) -> bool:
    """Whether a text ends like the name of a media file; a URL may have a query behind that, such as a signature."""
    bare = name.strip()
    ends = [bare, re.split("[?#]", bare)[0]] if is_url(bare) else [bare]
    return any(get_suffix(end) in ALL_MEDIA_SUFFIXES for end in ends)


def split_path_and_values(line: str) -> PathAndValues | None:
    """Split a line into a path and the values after it; None for any other line."""
    quoted = _QUOTED.fullmatch(line) if line.startswith('"') else None
    if quoted is not None:
        return None if quoted[3] is None else PathAndValues(quoted[1].replace('""', '"'), quoted[2], quoted[3])
    # A name between NULs may contain line ends: the pattern cannot match it, and would waste time on it.
    if "\n" in line:
        return None
    word = line.split(maxsplit=1)[0] if is_url(line) and not line[0].isspace() else ""
    if re.search("[?#]", word) and is_url(word) and is_media(word):
        # Commas and semicolons may be part of a query: it ends at a blank.
        match = _VALUES.fullmatch(line, len(word))
        return None if match is None else PathAndValues(word, match[1], match[2])
    match = _PATH_AND_VALUES.fullmatch(line)
    return None if match is None else PathAndValues(match[1].strip('"'), match[2], match[3])


def has_values(lines: Lines) -> bool:
    """Whether most lines are a path with values."""
    sample = lines.texts[:SAMPLE_LINES]
    return bool(sample) and 2 * sum(split_path_and_values(line) is not None for line in sample) >= len(sample)


def check_paths_alone(lines: Lines, folder: str) -> None:
    """Refuse a list of paths in which a line has values after the path.

    Args:
        lines: Lines, mostly without values.
        folder: Folder where relative paths start: a whole line may be the name of a file in it.

    Raises:
        UsageError: A line has values, and is not the name of a file as a whole.
    """
    text = "\n".join(lines.texts)
    has_separator = any(separator in text for separator in " \t,;")
    is_quoted = lines.can_quote and (text.startswith('"') or '\n"' in text)
    if not has_separator or not (is_quoted or is_url(text) or _HAS_VALUES.search(text)):
        return
    has = [split_path_and_values(line) is not None for line in lines.texts]
    for number, line in enumerate(lines.texts):
        if has[number] and (line.startswith('"') or not is_media(line)) and not _exists(line, folder):
            raise UsageError(
                f"{lines.shown(number)} has a value behind its path, but most lines, such as "
                f"{lines.shown(has.index(False))}, are not a path with a known ending and a value: give every line a "
                'path and a value, and put a path with another ending into double quotes, as in "a.xyz" 3; if all '
                "lines are paths alone, put the list into a CSV file with one column"
            )


def unquote_paths(lines: Lines, folder: str) -> list[str]:
    """Remove the quotes around the path of each line.

    Args:
        lines: Lines without values.
        folder: Folder where relative paths start: if it has a file whose name has the quotes, they are kept.
    """
    quoted = [line for line in lines.texts if line.startswith('"') and _QUOTED.fullmatch(line)]
    if not lines.can_quote or not quoted or _exists(quoted[0], folder):
        return lines.texts
    return [unquote(line) for line in lines.texts]


def unquote(text: str) -> str:
    """Remove the double quotes around a text."""
    match = _QUOTED.fullmatch(text) if text.startswith('"') else None
    return text if match is None or match[3] is not None else match[1].replace('""', '"')


def has_several_fields(lines: Sequence[str]) -> bool:
    """Whether lines seem to have several fields, though none of them is the name of a media file."""
    for line in lines[:SAMPLE_LINES]:
        words = re.split(r"[ \t,;]+", line.strip())
        is_numbered = len(words) > 1 and any(map(NUMBER.fullmatch, (words[0], words[-1])))
        if not is_numbered or any(is_media(word) for word in words):
            return False
    return True


PATH_COLUMNS = (
    *("source", "path", "file", "video", "image", "filename", "file_name", "filepath", "file_path"),
    *("video_path", "image_path", "img_path", "clip_path"),
)
URL_COLUMNS = (
    *("url", "uri", "video_url", "image_url", "img_url", "clip_url", "file_url", "media_url"),
    *("clip", "video_file", "image_file"),
)
"""Names of columns of paths, if no column has one of the others or names of media files: a "url" may be a page's."""
MIN_AGREEMENT = 0.8
"""Share of the first lines that must agree; a few may be damaged."""
_Value = TypeVar("_Value")
_NAME = re.compile(r"[^\W\d][\w .:/()-]*")
_ENDING = re.compile(r".+\.\w{1,5}")
_IN_APOSTROPHES = re.compile(r"'([^']*)'")


@dataclass(frozen=True, slots=True)
class ListTable:
    """A list as columns.

    Attributes:
        table: Its lines; without a header, columns are called "0", "1", ...
        has_header: Whether the list names its columns.
        bad: Error of a row, by its number; its values are null.
        line_of: Function from a row to its line in the file, from 1; None if the file has no lines.
        not_text: Column number -> row -> value that is not text, in a column of several types.
        scalars: Column number -> the column with null for objects and lists.
        texts: Column number -> the column as text, if its values would be written differently, such as 1.1 for 1.10.
    """

    table: pa.Table
    has_header: bool = True
    bad: dict[int, str] = field(default_factory=dict)
    line_of: Callable[[int], int] | None = field(default=None, compare=False)
    not_text: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    scalars: Mapping[int, pa.Array] = field(default_factory=dict)
    texts: Mapping[int, pa.ChunkedArray] = field(default_factory=dict)

    def name_row(self, row: int) -> str:
        """Name a row by its line in the file, or by its number if there are no lines."""
        return f"row {row}" if self.line_of is None else f"line {self.line_of(row)}"

    def describe_row(self, row: int) -> str:
        """Name a row in a message."""
        return f"{self.name_row(row)} (from 0)" if self.line_of is None else self.name_row(row)


def to_utf8(data: bytes) -> bytes:
    """Convert a text to UTF-8 without a byte order mark; a text in an unknown encoding is not changed."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16").encode("utf-8", "surrogatepass")
    return data.removeprefix(codecs.BOM_UTF8)


def split_lines(lines: Lines) -> ListTable:
    """Split lines into a path and the values after it."""
    lines_with_values = [split_path_and_values(line) for line in lines.texts]
    separators = [parts.separator.strip(" ") or " " for parts in lines_with_values if parts]
    separator = _find_most_common(separators)
    rows = _split_values(lines_with_values, separator)
    width = _find_most_common(len(row) for row in rows if row)
    header = None
    if rows[0] is None:
        names = _split(lines.texts[0], separator)
        is_header = len(names) == len(set(names)) == width and all(_NAME.fullmatch(name) for name in names)
        header = names if is_header and not is_path_among(names, 0) else None
    first = 0 if header is None else 1
    bad = {
        number - first: f"{lines.shown(number)}: {_describe_misfit(lines.texts[number], row, width - 1, separator)}"
        for number, row in enumerate(rows)
        if number >= first and (row is None or len(row) != width)
    }
    columns = list(zip(*(row if row and len(row) == width else [None] * width for row in rows[first:]), strict=True))
    names = header or [str(number) for number in range(width)]
    table, texts = _make_table(names, columns)
    return ListTable(
        table,
        has_header=header is not None,
        bad=bad,
        line_of=lambda row: lines.numbers[row + first],
        texts=texts,
    )


def _make_table(
    names: Iterable[str], columns: Iterable[Sequence[str | None]]
) -> tuple[pa.Table, dict[int, pa.ChunkedArray]]:
    """Make a table of columns, and return the text of those whose values would be written differently."""
    typed = [to_typed_column_and_text(column) for column in columns]
    table = pa.table(dict(zip(names, (values for values, _ in typed), strict=True)))
    return table, {at: pa.chunked_array([text]) for at, (_, text) in enumerate(typed) if text is not None}


def _find_most_common(values: Iterable[_Value]) -> _Value:
    return Counter(values).most_common(1)[0][0]


def _describe_misfit(line: str, row: list[str] | None, count: int, separator: str) -> str:
    """Explain why a line is not a path with so many values."""
    expectation = f"expected a path and {count} value{'' if count == 1 else 's'} behind it"
    if row is not None and separator == " " and not NUMBER.fullmatch(row[1]):
        return f"expected a path and {count} numbers behind it, found {quote(row[1])}: correct the line"
    if row is not None:
        return f"{expectation}, found {len(row) - 1}: correct the line"
    if is_media(unquote(line)):
        return f"{expectation}, found a path alone: add what is missing, or remove the line"
    return (
        f"{expectation}, found no path with the ending of a media file, such as .mp4 or .jpg: correct the path, or put "
        'a path with another ending into double quotes, as in "a.xyz" 3'
    )


def _split_values(lines_with_values: list[PathAndValues | None], separator: str) -> list[list[str] | None]:
    """Split the values after the paths; blanks separate numbers only, because a label may have several words."""
    if separator == " " and not _is_number_list(lines_with_values):
        return [parts and [parts.path, unquote(parts.values)] for parts in lines_with_values]
    rows = list[list[str] | None]()
    for parts in lines_with_values:
        if parts is None:
            rows.append(None)
            continue
        values = _split(parts.values, separator)
        is_split = separator != " " or all(map(NUMBER.fullmatch, values))
        rows.append([parts.path, *(values if is_split else [parts.values])])
    return rows


def _is_number_list(lines_with_values: list[PathAndValues | None]) -> bool:
    """Whether blanks separate numbers in all lines, or in all but a few lines of a list with several numbers."""
    words_of_lines = [parts.values.split() for parts in lines_with_values if parts]
    # A line with anything but numbers counts as 0.
    widths = [len(words) if all(map(NUMBER.fullmatch, words)) else 0 for words in words_of_lines]
    stray = widths.count(0)
    if not stray:
        return True
    known = [width for width in widths if width]
    is_several = len(known) > 1 and _find_most_common(known) > 1
    return is_several and stray <= max(1, (1 - MIN_AGREEMENT) * len(widths))


def _split(text: str, separator: str) -> list[str]:
    """Split values, and remove blanks and quotes around them; a single apostrophe is part of a value, as in '80s."""
    if separator == " ":
        return text.split()
    bare = [part.strip(' "') for part in text.split(separator)]
    return [part if (quoted := _IN_APOSTROPHES.fullmatch(part)) is None else quoted[1].strip() for part in bare]


def is_path_among(names: Sequence[str], at: int) -> bool:
    """Whether the first line of a list is no header, but has a path with an unknown ending.

    Args:
        names: Fields of the line. If several all seem to have endings, they are names of columns, such as ``video.id``.
        at: Number of the field that is the path in other lines.
    """
    has_ending = [_ENDING.fullmatch(name) is not None for name in names]
    return "/" in names[at] or (has_ending[at] and not (len(names) > 1 and all(has_ending)))


def split_fields(lines: Lines) -> ListTable:
    """Split lines at tabs, commas, semicolons or blanks, whichever separates all of them; or each is one field.

    Raises:
        UsageError: There is no common separator.
    """
    if not lines.texts:
        return ListTable(pa.table({}), has_header=False)
    for separator in ("\t", ",", ";", " "):
        rows = [_split_fields(line, separator) for line in lines.texts]
        width = len(rows[0])
        if width > 1 and sum(len(row) == width for row in rows) >= MIN_AGREEMENT * len(rows):
            break
    else:
        rows = [[line] for line in lines.texts]
        width = 1
        if any(set(line) & set("\t,; ") for line in lines.texts):
            raise UsageError(
                "expected lines with fields separated by tabs, commas, semicolons or blanks, found "
                f"{quote(lines.texts[0])}"
            )
    bad = {
        number: f"{lines.shown(number)}: expected {format_field_count(width)}, found {len(row)}: correct the line"
        for number, row in enumerate(rows)
        if len(row) != width
    }
    columns = zip(*(row if len(row) == width else [None] * width for row in rows), strict=True)
    table, texts = _make_table(map(str, range(width)), columns)
    return ListTable(table, False, bad, lines.numbers.__getitem__, texts=texts)


def _split_fields(line: str, separator: str) -> list[str]:
    parts = split_path_and_values(line) if line.startswith('"') else None
    if parts is None or (parts.separator.strip(" ") or " ") != separator:
        return _split(line, separator)
    return [parts.path, *_split(parts.values, separator)]


def count_media(column: pa.ChunkedArray) -> int:
    """Count the first values of a column that end like the names of media files."""
    kind = column.type
    if not (is_text_column(kind) or pa.types.is_binary(kind)):
        return 0
    sample = pc.drop_null(column.slice(0, SAMPLE_LINES)).to_pylist()
    return sum(is_media(os.fsdecode(value)) for value in sample)
