"""Convert values of lists to numbers if they lose nothing, and shorten and check text for messages."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from framefeed._names import escape, escape_invisible, unescape
from framefeed._shown import show_text

SAVE_AS_UTF8 = 'save the list as UTF-8 (in Excel: Save As, "CSV UTF-8")'

# Texts that would lose something as numbers: leading zeros ("0x10" is 16 for Arrow), digits, or a part of an id that
# looks like an exponent ("12e34567890").
_LEADING_ZERO = r"^\s*[-+]?0[0-9xX]"
_INEXACT = r"^\s*[-+]?[0-9]+([0-9]{15}|[eE][0-9])"
_ESCAPED = "\\x00d[89a-f][0-9a-f]{2}"
# Integers as pandas writes them in a column with gaps.
_WHOLE = r"^-?[0-9]+(\.0)?$"
_MOST_SHOWN = 100
MOST_JSON = 60
"""Maximum number of characters of an object in a message."""
_NUMBER_FORMATS = tuple("bcdeEfFgGnoxX%")
_INTEGER = re.compile(r"\s*[+-]?\d+(\.0*)?\s*")
_FLOAT = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*")


def quote(text: str, most: int = _MOST_SHOWN) -> str:
    """Quote text for a message, and shorten it to so many characters."""
    return repr(shorten(text, most))


def shorten(text: str, most: int = _MOST_SHOWN) -> str:
    """Shorten text for a message to so many characters."""
    text = show_text(text)
    return text if len(text) <= most else f"{text[:most]}..."


def format_field_count(count: int) -> str:
    """Write how many fields a line has."""
    return "1 field" if count == 1 else f"{count} fields"


def to_typed_column_and_text(values: Sequence[str | None]) -> tuple[pa.Array, pa.Array | None]:
    """Make a column of integers if all values are integers, else of floats if possible, else of text.

    Returns:
        The column, and its text as `find_original_text`.
    """
    texts = pa.array([None if value is None else escape(value) for value in values], pa.string())
    for kind in (pa.int64(), pa.float64()):
        try:
            numbers = texts.cast(kind)
        except pa.ArrowInvalid:
            continue
        return (texts, None) if loses_text(numbers, texts) else (numbers, find_original_text(numbers, texts))
    return texts, None


def is_number_column(kind: pa.DataType) -> bool:
    """Whether a column of a CSV file was read as numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def loses_text(numbers: pa.Array | pa.ChunkedArray, texts: pa.Array | pa.ChunkedArray) -> bool:
    """Whether reading texts as numbers would lose leading zeros, digits, or a value such as 1e100000000.

    Args:
        numbers: The column as integers or floats.
        texts: The same as text.
    """
    if pc.any(pc.match_substring_regex(texts, _LEADING_ZERO)).as_py():
        return True
    if not pa.types.is_floating(numbers.type):
        return False
    is_inexact = pc.any(pc.match_substring_regex(texts, _INEXACT)).as_py()
    return bool(is_inexact or pc.any(pc.invert(pc.is_finite(numbers))).as_py())


def find_original_text(
    values: pa.Array | pa.ChunkedArray, texts: pa.Array | pa.ChunkedArray
) -> pa.Array | pa.ChunkedArray | None:
    """Return the text of a column if some values would be written differently, such as 1.1 for 1.10; else None.

    Args:
        values: The column as numbers, truth values, dates or times.
        texts: The same as text.
    """
    bare = pc.if_else(values.is_valid(), pc.utf8_trim_whitespace(texts), pa.scalar(None, pa.string()))
    if is_number_column(values.type):
        if pa.types.is_floating(values.type) and pc.all(pc.match_substring_regex(bare, _WHOLE)).as_py():
            return None
        if not pc.any(pc.not_equal(values.cast(pa.string()), bare)).as_py():
            return None
    return bare


def is_text_column(kind: pa.DataType) -> bool:
    """Whether a column holds text that Arrow's functions take."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def find_first_not_utf8(column: pa.ChunkedArray) -> tuple[int, str] | None:
    """Find the first value that is not UTF-8; return its row, and the value for a message."""
    if pa.types.is_string(column.type):
        row = pc.index(pc.match_substring_regex(column, _ESCAPED), True).as_py()
        return None if row < 0 else (row, escape_invisible(shorten(unescape(column[row].as_py()))))
    if pa.types.is_binary(column.type):
        for row, value in enumerate(column.to_pylist()):
            text = (value or b"").decode("utf-8", "surrogateescape")
            if escape(text) != text:
                return row, escape_invisible(shorten(text))
    return None


def is_number_format(spec: str) -> bool:
    """Whether a format of ``str.format`` is for numbers, such as ``06d``, ``.2f`` and ``06``."""
    return spec[-1:] in _NUMBER_FORMATS or spec.startswith("0")


class ListText(str):
    """Text of a list that fits a number format of ``str.format`` if it is a number: ``"7"`` fits ``{:06d}``."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        if not is_number_format(spec):
            return super().__format__(spec)
        if _INTEGER.fullmatch(self):
            return format(int(self.partition(".")[0]), spec)
        if _FLOAT.fullmatch(self):
            return format(float(self), spec)
        raise ValueError(f"{spec!r} is a format of numbers")
