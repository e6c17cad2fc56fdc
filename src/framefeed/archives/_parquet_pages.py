"""Find where the values of a Parquet column lie that is neither compressed nor encoded (``Encodings.md``: PLAIN).

Arrow does not say where pages are. Each begins with a header in Thrift's compact protocol (``parquet.thrift``:
PageHeader), then come the levels that say which values are null, then the values, each behind its length. Where a
column begins stands in the file's metadata; they are read here too, because pyarrow ends the process where they are
damaged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from framefeed._arrays import BoolArray, IntArray
from framefeed._values import ByteReader
from framefeed.archives._thrift import Incomplete, OddStruct, read_byte, read_struct, read_varint
from framefeed.archives._windows import LOCAL_READS, ReadSizes, Window

NULL = -1
"""Size of a value that is null."""
_HEADER_BYTES = 2**12
# Statistics in a header have two values, which writers leave out where they are long.
_MOST_HEADER_BYTES = 2**18
# Two bits of each of 2**27 values.
_MOST_LEVEL_BYTES = 2**25
_LARGEST_VALUE = 2**31

# Fields of FileMetaData, RowGroup, ColumnChunk and ColumnMetaData, and of its Statistics.
_GROUPS, _COLUMNS, _OTHER_FILE, _FACTS = 4, 1, 1, 3
_CODEC, _NUM_VALUES, _UNPACKED_BYTES, _PACKED_BYTES, _DATA_START, _DICTIONARY_START, _STATISTICS = 4, 5, 6, 7, 9, 11, 12
_NULLS, _UNCOMPRESSED = 3, 0
# Fields of PageHeader, and of the headers in it for pages of version 1 and 2.
_KIND, _PAGE_BYTES, _DATA_1, _DATA_2 = 1, 3, 5, 8
_IS_DATA_1, _IS_DATA_2 = 0, 3
_COUNT, _ENCODING_1, _LEVELS_1 = 1, 2, 3
_ENCODING_2, _LEVEL_BYTES, _REPETITION_BYTES = 4, 5, 6
_PLAIN, _RLE = 0, 3


class OddPages(Exception):
    """The values of a column do not lie in the file as they are, or not where its pages say: Arrow must read them."""


class ColumnChunk(NamedTuple):
    """One column of one row group, as the file's metadata describe it."""

    start: int  # first byte of its first page
    size: int  # bytes of its pages
    num_values: int  # values, nulls among them
    unpacked: int  # bytes of its pages when they are uncompressed
    num_nulls: int | None  # of the values; None if it is not known
    is_plain: bool  # it is not compressed, and has no dictionary


def read_column_chunks(metadata: bytes, leaf: int) -> list[ColumnChunk]:
    """Read from a file's metadata where a column is in each row group.

    `OddPages` if they are damaged, or the column is encrypted or in another file. ``leaf`` is the number of the column,
    where structs count as their fields.
    """
    try:
        fields, _ = read_struct(metadata, 0)
        return [_read_chunk(group[_COLUMNS][leaf]) for group in fields[_GROUPS]]
    except (Incomplete, OddStruct, LookupError, TypeError, AttributeError) as error:
        raise OddPages(f"its metadata are damaged: {error!r}") from error


def _read_chunk(column: dict[int, Any]) -> ColumnChunk:
    facts = column[_FACTS]
    starts = [facts[field] for field in (_DATA_START, _DICTIONARY_START) if facts.get(field)]
    num_nulls = facts.get(_STATISTICS, {}).get(_NULLS)
    numbers = (min(starts, default=0), facts[_PACKED_BYTES], facts[_NUM_VALUES], facts[_UNPACKED_BYTES])
    if any(not isinstance(number, int) or not 0 <= number < 2**63 for number in numbers) or _OTHER_FILE in column:
        raise OddPages("its metadata have a column in another file, or nowhere")
    return ColumnChunk(*numbers, num_nulls, facts[_CODEC] == _UNCOMPRESSED and not facts.get(_DICTIONARY_START))


@dataclass(frozen=True, slots=True)
class _Page:
    """A page of values: where its levels and its values lie in the file."""

    count: int
    levels: tuple[int, int]
    values: tuple[int, int]


def find_plain_values(
    reader: ByteReader, chunk: ColumnChunk, max_level: int, reads: ReadSizes = LOCAL_READS
) -> tuple[IntArray, IntArray]:
    """Find the values of a column of byte arrays that is not repeated and not compressed, without reading them.

    `OddPages` if some page is encoded in another way, or values do not fill it. ``max_level`` is the definition level
    of a value that is not null, 0 if none can be.

    Returns:
        First byte in the file, and bytes, or ``NULL``, of each value, int64 [V].
    """
    if not chunk.is_plain:
        raise OddPages("it is compressed, or has a dictionary")
    window = Window(reader, reads)
    at, end = chunk.start, chunk.start + chunk.size
    offset, size = np.zeros(chunk.num_values, np.int64), np.full(chunk.num_values, NULL, np.int64)
    if not 0 < at <= end <= window.end and chunk.num_values:
        raise OddPages("its pages lie beyond the file")
    row = 0
    while row < chunk.num_values:
        page = _read_page(window, (at, end), max_level, row)
        if page.count > chunk.num_values - row:
            raise OddPages("its pages have more values than its metadata")
        is_value = _read_levels(window.read(page.levels[0], page.levels[1] - page.levels[0]), page.count, max_level)
        rows = row + np.flatnonzero(is_value)
        offset[rows], size[rows] = _find_in_page(window, page, len(rows), row)
        row += page.count
        at = page.values[1]
    if row and at != end:
        raise OddPages("something follows its pages")
    return offset, size


def _read_page(window: Window, span: tuple[int, int], max_level: int, taken: int) -> _Page:
    """Read the header of a page."""
    end = span[1]
    fields, start = _read_header(window, *span, taken)
    kind, stop = fields.get(_KIND), start + _get_number(fields, _PAGE_BYTES)
    if stop > end:
        raise OddPages("a page ends beyond its column")
    if kind == _IS_DATA_1:
        header = fields.get(_DATA_1)
        if not isinstance(header, dict) or header.get(_ENCODING_1) != _PLAIN:
            raise OddPages("a page is not PLAIN")
        levels = (start, start)
        if max_level:
            length = int.from_bytes(window.read(start, 4), "little")
            levels = (start + 4, start + 4 + length)
            if header.get(_LEVELS_1) != _RLE:
                raise OddPages("the levels of a page are of an old encoding")
    elif kind == _IS_DATA_2:
        header = fields.get(_DATA_2)
        if not isinstance(header, dict) or header.get(_ENCODING_2) != _PLAIN or header.get(_REPETITION_BYTES, 0):
            raise OddPages("a page is not PLAIN")
        levels = (start, start + _get_number(header, _LEVEL_BYTES))
    else:
        raise OddPages("a page is a dictionary, or of a kind that is not known")
    if levels[1] > stop or levels[1] - levels[0] > _MOST_LEVEL_BYTES:
        raise OddPages("the levels of a page end beyond it")
    return _Page(_get_number(header, _COUNT), levels, (levels[1], stop))


def _get_number(fields: dict[int, Any], field: int) -> int:
    value = fields.get(field)
    if not isinstance(value, int) or not 0 <= value < _LARGEST_VALUE:
        raise OddPages(f"a page header has {value!r} as field {field}")
    return value


def _read_header(window: Window, at: int, end: int, taken: int) -> tuple[dict[int, Any], int]:
    """Read a header's fields; give the byte behind it too."""
    if not 0 <= at - window.base < len(window.data):
        window.move(at, taken)
    count = min(_HEADER_BYTES, len(window.data) - (at - window.base))
    while True:
        try:
            fields, length = read_struct(window.read(at, min(count, end - at)), 0)
            return fields, at + length
        except OddStruct as odd:
            raise OddPages(f"a page header is damaged: {odd}") from odd
        except Incomplete:
            if count >= min(_MOST_HEADER_BYTES, end - at):
                raise OddPages("a page header does not end") from None
            count *= 4


def _read_levels(data: bytes, count: int, max_level: int) -> BoolArray:
    """Read which values of a page are not null, from runs of repeated and of packed levels, bool [V]."""
    is_value = np.ones(count, np.bool_)
    if not max_level:
        return is_value
    width, at, row = max_level.bit_length(), 0, 0
    try:
        while row < count:
            head, at = read_varint(data, at)
            if head & 1:
                stop = at + (head >> 1) * width
                bits = np.unpackbits(np.frombuffer(data[at:stop], np.uint8), bitorder="little")
                levels = bits[: len(bits) // width * width].reshape(-1, width) @ (1 << np.arange(width))
                taken = min(len(levels), count - row)
                is_value[row : row + taken] = levels[:taken] == max_level
            else:
                stop, taken = at + 1, min(head >> 1, count - row)
                is_value[row : row + taken] = read_byte(data, at)[0] == max_level
            at, row = stop, row + taken
    except (Incomplete, OddStruct):
        raise OddPages("the levels of a page are damaged") from None
    return is_value


def _find_in_page(window: Window, page: _Page, count: int, taken: int) -> tuple[list[int], list[int]]:
    """Go from length to length; together the values must fill the page."""
    offsets: list[int] = []
    sizes: list[int] = []
    at, end = page.values
    for number in range(count):
        start = at - window.base
        if not 0 <= start <= len(window.data) - 4:
            if end - at < 4:
                raise OddPages("a page ends before its values")
            window.move(at, taken + number)
            start = 0
        size = int.from_bytes(window.data[start : start + 4], "little")
        offsets.append(at + 4)
        sizes.append(size)
        at += 4 + size
    if at != end:
        raise OddPages("the values of a page do not fill it")
    return offsets, sizes
