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
from framefeed.archives import LOCAL_READS, NULL, REMOTE_READS, ColumnChunk, OddPages, ReadSizes, find_plain_values
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
    """List the row groups of the first column."""
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    level = metadata.schema.column(0).max_definition_level
    columns = [metadata.row_group(number).column(0) for number in range(metadata.num_row_groups)]
    return [
        ColumnChunk(
            column.dictionary_page_offset or column.data_page_offset, column.total_compressed_size, column.num_values,
            level,
        )
        for column in columns
    ]  # fmt: skip


def find(data: bytes, reads: ReadSizes = LOCAL_READS) -> list[bytes | None]:
    """Find all values of the first column, and read them by range."""
    values: list[bytes | None] = []
    for chunk in list_chunks(data):
        offset, size = find_plain_values(BytesReader(data), chunk, reads)
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
        assert list_chunks(file.getvalue())[0].max_level == 0
        assert find(file.getvalue()) == [b"a", b"", b"bc"]


def test_few_bytes_of_large_values_are_read() -> None:
    data = write(pa.array([bytes(200_000)] * 50, pa.binary()))
    reader = CountingReader(data)
    find_plain_values(reader, list_chunks(data)[0])
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
    with pytest.raises(OddPages):
        find(data)


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_compressed_pages_that_are_taken_for_plain_ones_are_refused(codec: str, version: str) -> None:
    data = write(pa.array([b"value" * 40] * 30), compression=codec, data_page_version=version)
    with pytest.raises(OddPages):
        find(data)


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
                    offset, size = find_plain_values(BytesReader(bytes(changed)), chunk)
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
        chunk._replace(max_level=0),
        chunk._replace(max_level=3),
    ):
        with pytest.raises(OddPages):
            find_plain_values(BytesReader(data), odd)


@pytest.mark.parametrize("head", [b"\x15" + b"\xff" * 60, b"\x19" * 60, b"\x1c" * 60, b"\x18\xff\xff\xff\x7f" * 20,
                                  b"\x15\x00" * 4000 + b"\x00"])  # fmt: skip
def test_headers_that_do_not_end_are_refused(head: bytes) -> None:
    data = b"PAR1" + head + bytes(2**19)
    with pytest.raises(OddPages):
        find_plain_values(BytesReader(data), ColumnChunk(4, len(data) - 4, 1, 1))
