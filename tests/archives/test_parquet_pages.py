"""Values found by the pages of a Parquet file are those that Arrow reads; other columns are refused, not misread."""

from __future__ import annotations

import io
import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed._values import BytesReader
from framefeed.archives import (
    LOCAL_READS,
    NULL,
    REMOTE_READS,
    ColumnChunk,
    OddPages,
    ReadSizes,
    find_plain_values,
    read_column_chunks,
)
from tests.archives.tars import CountingReader

MEDIA = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
READS = [LOCAL_READS, REMOTE_READS, ReadSizes(16, 64, 0)]
CHUNKED = {"min_chunk_size": 256, "max_chunk_size": 1024, "norm_level": 0}


def write(column: pa.Array, **options: Any) -> bytes:
    """Write a file of one column."""
    file = io.BytesIO()
    options = {"compression": "none", "use_dictionary": False} | options
    pq.write_table(pa.table({"media": column}), file, **options)
    return file.getvalue()


def list_chunks(data: bytes) -> list[ColumnChunk]:
    """List the row groups of the first column, and compare with what pyarrow says of them."""
    size = int.from_bytes(data[-8:-4], "little")
    chunks = read_column_chunks(data[-8 - size : -8], 0)
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    columns = [metadata.row_group(number).column(0) for number in range(metadata.num_row_groups)]
    assert [chunk[1:4] for chunk in chunks] == [
        (column.total_compressed_size, column.num_values, column.total_uncompressed_size) for column in columns
    ]
    assert [chunk.num_nulls for chunk in chunks] == [
        column.statistics.null_count if column.statistics else None for column in columns
    ]
    return chunks


def get_level(data: bytes) -> int:
    """Definition level of a value of the first column."""
    level: int = pq.ParquetFile(io.BytesIO(data)).metadata.schema.column(0).max_definition_level
    return level


def find(data: bytes, reads: ReadSizes = LOCAL_READS, *, is_believed: bool = False) -> list[bytes | None]:
    """Find all values of the first column, and read them by range."""
    values: list[bytes | None] = []
    for chunk in list_chunks(data):
        chunk = chunk._replace(is_plain=chunk.is_plain or is_believed)
        offset, size = find_plain_values(BytesReader(data), chunk, get_level(data), reads)
        values += [
            None if count == NULL else data[at : at + count]
            for at, count in zip(offset.tolist(), size.tolist(), strict=True)
        ]
    return values


def read(data: bytes) -> list[bytes | None]:
    """Read them by Arrow."""
    values = pq.read_table(io.BytesIO(data)).column(0).to_pylist()
    return [value["bytes"] if isinstance(value, dict) else value for value in values]


VALUES = st.lists(st.none() | st.binary(max_size=9) | st.integers(0, 3000).map(bytes), max_size=60)


@given(
    VALUES,
    st.sampled_from([pa.binary(), pa.large_binary(), MEDIA]),
    st.sampled_from(["1.0", "2.0"]),
    st.booleans(),
    st.sampled_from([1, 7, 1000]),
    st.sampled_from(READS),
)
def test_values_are_those_that_arrow_reads(
    values: list[bytes | None], kind: pa.DataType, version: str, is_chunked: bool, group: int, reads: ReadSizes
) -> None:
    if kind == MEDIA:
        rows = [None if value == b"" else {"bytes": value, "path": "a.mp4"} for value in values]
        column = pa.array(rows, kind)
    else:
        column = pa.array(values, kind)
    data = write(
        column,
        data_page_version=version,
        data_page_size=500,
        write_batch_size=3,
        row_group_size=group,
        use_content_defined_chunking=CHUNKED if is_chunked else False,
        write_page_index=is_chunked,
    )
    assert find(data, reads) == read(data)


def test_a_column_without_nulls_has_no_levels() -> None:
    table = pa.table({"media": pa.array([b"a", b"", b"bc"])}, pa.schema([pa.field("media", pa.binary(), False)]))
    for version in ("1.0", "2.0"):
        file = io.BytesIO()
        pq.write_table(table, file, compression="none", use_dictionary=False, data_page_version=version)
        assert get_level(file.getvalue()) == 0
        assert find(file.getvalue()) == [b"a", b"", b"bc"]


def test_few_bytes_of_large_values_are_read() -> None:
    data = write(pa.array([bytes(200_000)] * 50, pa.binary()))
    reader = CountingReader(data)
    find_plain_values(reader, list_chunks(data)[0], 1)
    assert sum(count for _, count in reader.requests) < 51 * LOCAL_READS.least + LOCAL_READS.most


@pytest.mark.parametrize(
    "options",
    [
        {"use_dictionary": True},
        {"use_dictionary": True, "dictionary_pagesize_limit": 10, "write_batch_size": 1},
        {"column_encoding": "DELTA_LENGTH_BYTE_ARRAY"},
        {"column_encoding": "DELTA_BYTE_ARRAY"},
    ],
)
def test_other_encodings_are_refused(options: dict[str, Any]) -> None:
    data = write(pa.array([b"some", b"values", b"values"]), **options)
    for is_believed in (False, True):
        with pytest.raises(OddPages):
            find(data, is_believed=is_believed)


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_compressed_pages_that_are_taken_for_plain_ones_are_refused(codec: str, version: str) -> None:
    data = write(pa.array([b"value" * 40] * 30), compression=codec, data_page_version=version)
    for is_believed in (False, True):
        with pytest.raises(OddPages):
            find(data, is_believed=is_believed)


def test_any_changed_byte_of_pages_gives_ranges_inside_or_is_refused() -> None:
    rng = random.Random(6)
    for version in ("1.0", "2.0"):
        data = write(pa.array([b"first", None, b"second" * 9, b""] * 3, MEDIA.field("bytes").type),
                     data_page_version=version, data_page_size=40, write_batch_size=2)  # fmt: skip
        chunk = list_chunks(data)[0]
        right = find(data)
        different = 0
        for at in range(chunk.start, chunk.start + chunk.size):
            for value in {0, 0xFF, 0x80, data[at] ^ 1, rng.randrange(256)} - {data[at]}:
                changed = bytearray(data)
                changed[at] = value
                try:
                    offset, size = find_plain_values(BytesReader(bytes(changed)), chunk, 1)
                except OddPages:
                    different += 1
                    continue
                known = size >= 0
                assert (offset[known] >= chunk.start).all()
                assert (offset[known] + size[known] <= chunk.start + chunk.size).all()
                assert len(size) == len(right)
        assert different > chunk.size // 2


def test_metadata_that_lie_are_refused() -> None:
    data = write(pa.array([b"first", b"second"]))
    chunk = list_chunks(data)[0]
    for odd in (
        chunk._replace(start=0),
        chunk._replace(start=chunk.start + 1),
        chunk._replace(size=chunk.size - 1),
        chunk._replace(size=10**9),
        chunk._replace(num_values=1),
        chunk._replace(num_values=3),
        chunk._replace(is_plain=False),
    ):
        with pytest.raises(OddPages):
            find_plain_values(BytesReader(data), odd, 1)
    for level in (0, 3):
        with pytest.raises(OddPages):
            find_plain_values(BytesReader(data), chunk, level)


def test_any_changed_byte_of_metadata_gives_numbers_or_is_refused() -> None:
    data, rng = write(pa.array([b"first", None, b"second"], MEDIA.field("bytes").type)), random.Random(7)
    metadata = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    for at in range(len(metadata)):
        for value in {0, 0xFF, 0x80, 0x19, metadata[at] ^ 1, rng.randrange(256)}:
            changed = metadata[:at] + bytes([value]) + metadata[at + 1 :]
            try:
                chunks = read_column_chunks(changed, 0)
            except OddPages:
                continue
            assert all(number >= 0 for chunk in chunks for number in chunk[:4])
    for cut in range(len(metadata)):
        with pytest.raises(OddPages):
            read_column_chunks(metadata[:cut], 0)
    with pytest.raises(OddPages):
        read_column_chunks(metadata, 1)


@pytest.mark.parametrize("head", [b"\x15" + b"\xff" * 60, b"\x19" * 60, b"\x1c" * 60, b"\x18\xff\xff\xff\x7f" * 20,
                                  b"\x15\x00" * 4000 + b"\x00"])  # fmt: skip
def test_headers_that_do_not_end_are_refused(head: bytes) -> None:
    data = b"PAR1" + head + bytes(2**19)
    with pytest.raises(OddPages):
        find_plain_values(BytesReader(data), ColumnChunk(4, len(data) - 4, 1, 0, None, True), 1)
