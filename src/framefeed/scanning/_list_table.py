"""ListTable: the columns of a list, and the errors of its bad lines; and words for messages about lists."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from framefeed._shown import show_text
from framefeed.scanning._rows import ALL_MEDIA_SUFFIXES, get_archive_ending, get_suffix

PATH_COLUMNS = (
    *("source", "path", "file", "video", "image", "filename", "file_name", "filepath", "file_path"),
    *("video_path", "image_path", "img_path", "clip_path"),
)
"""Names of columns that hold the paths, in order of preference."""
URL_COLUMNS = (
    *("url", "uri", "video_url", "image_url", "img_url", "clip_url", "file_url", "media_url"),
    *("clip", "video_file", "image_file"),
)
"""Names that may be those of the paths: a column of names of media files comes before them."""
LABEL = "label"
SAVE_AS_UTF8 = 'save the list as UTF-8 (in Excel: Save As, "CSV UTF-8")'
_SAMPLE_ROWS = 1000
_MOST_SHOWN = 100

Column: TypeAlias = pa.ChunkedArray | list[Any]


@dataclass(frozen=True, slots=True)
class ListTable:
    """A list as columns, before they have their names and types in the catalog."""

    columns: dict[str, Column]  # without a header, the names are "0", "1", ...
    has_header: bool = True
    bad: dict[int, str] = field(default_factory=dict)  # error of a row, by its number
    line_of: Callable[[int], int] | None = None  # from a row to its line in the file, from 1
    is_text: bool = False  # whether numbers are still to be made of the values
    is_table: bool = False  # an Arrow table or a Parquet file, in which no line can be read wrongly

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def name_row(self, row: int) -> str:
        """Name a row by its line in the file, or by its number if there are no lines."""
        return f"row {row}" if self.line_of is None else f"line {self.line_of(row)}"

    def describe_row(self, row: int) -> str:
        """Name a row in a message."""
        return f"{self.name_row(row)} (from 0)" if self.line_of is None else self.name_row(row)


def is_media(name: str) -> bool:
    """Whether a text ends like the name of a media file or an archive; in a URL a query may be behind that."""
    bare = name.strip()
    ends = [bare, re.split("[?#]", bare)[0]]
    return any(get_suffix(end) in ALL_MEDIA_SUFFIXES or get_archive_ending(end) for end in ends)


def count_media(column: Column) -> int:
    """Count the first values of a column that end like the names of media files."""
    if not has_text(column):
        return 0
    sample = column[:_SAMPLE_ROWS]
    values = sample if isinstance(sample, list) else sample.to_pylist()
    return sum(is_media(os.fsdecode(value)) for value in values if isinstance(value, (str, bytes)))


def has_text(column: Column) -> bool:
    """Whether a column may hold text or bytes."""
    return isinstance(column, list) or bool(pa.types.is_string(column.type) or pa.types.is_binary(column.type))


def find_first(is_odd: pa.ChunkedArray) -> int | None:
    """Find the first row of a mask that is True; None if there is none."""
    row = int(pc.index(is_odd, True).as_py())
    return None if row < 0 else row


def quote(text: str, most: int = _MOST_SHOWN) -> str:
    """Quote text for a message, and shorten it to so many characters."""
    return repr(shorten(text, most))


def shorten(text: str, most: int = _MOST_SHOWN) -> str:
    """Shorten text for a message to so many characters."""
    text = show_text(text)
    return text if len(text) <= most else f"{text[:most]}..."
