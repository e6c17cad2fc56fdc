"""Media in Parquet files: what is found in place, and what is read through Arrow, are the values that Arrow reads."""

from __future__ import annotations

import io
import random
import threading
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from framefeed._values import BytesReader, Limits, SourceStat
from framefeed.archives import LOCAL_READS, NULL
from framefeed.catalog import PackedFile, find_kept_value
from framefeed.errors import CorruptMedia, LimitExceeded, MediaError, MissingMedia, UnreadableMedia
from tests.patience import PATIENCE_SECONDS

MEDIA = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
ROWS = [
    {"bytes": b"first" * 100, "path": "a.mp4"},
    {"bytes": None, "path": "b.mp4"},
    None,
    {"bytes": b"", "path": None},
    {"bytes": b"last" * 50, "path": "c.mp4"},
] * 3
VALUES = [row and row["bytes"] for row in ROWS]
WRITTEN: dict[str, dict[str, Any]] = {
    "plain": {"compression": "none", "use_dictionary": False},
    "plain, pages of version 2": {"compression": "none", "use_dictionary": False, "data_page_version": "2.0"},
    "as pandas writes": {},
    "dictionary": {"compression": "none"},
    "zstd": {"compression": "zstd", "use_dictionary": False},
    "delta": {"compression": "none", "use_dictionary": False, "column_encoding": {"video.bytes": "DELTA_BYTE_ARRAY"}},
    "without statistics": {"write_statistics": False},
    "as datasets writes": {
        "compression": {"video.bytes": "none", "video.path": "snappy", "label": "snappy"},
        "use_dictionary": ["video.path", "label"],
        "column_encoding": {"video.bytes": "PLAIN"},
        "write_page_index": True,
        "use_content_defined_chunking": True,
    },
}


def write(rows: list[Any], kind: pa.DataType = MEDIA, **options: Any) -> bytes:
    """Write a file with a column of media and labels."""
    file = io.BytesIO()
    table = pa.table({"video": pa.array(rows, kind), "label": list(range(len(rows)))})
    pq.write_table(table, file, **{"row_group_size": 4} | options)
    return file.getvalue()


def open_packed(data: bytes, limits: Limits | None = None) -> PackedFile:
    return PackedFile(BytesReader(data), "x.parquet", limits or Limits())


def read(data: bytes, column: str = "video") -> list[bytes | None]:
    """Read all values: in place, or through Arrow."""
    packed = open_packed(data)
    found = packed.find_values(column, LOCAL_READS)
    assert not found.errors
    values: list[bytes | None] = []
    for row, (offset, size) in enumerate(zip(found.offset.tolist(), found.size.tolist(), strict=True)):
        if size == NULL:
            values.append(None)
            continue
        assert packed.find_value(column, row, LOCAL_READS) == (offset, size)
        value = data[offset : offset + size] if offset >= 0 else packed.read_value(column, row).to_pybytes()
        assert len(value) == size
        values.append(value)
    return values


@pytest.mark.parametrize("written", WRITTEN)
def test_values_are_those_that_arrow_reads(written: str) -> None:
    data = write(ROWS, **WRITTEN[written])
    assert read(data) == VALUES
    packed = open_packed(data)
    assert packed.read_paths("video") == [row and row["path"] for row in ROWS]
    assert packed.read_columns("video").to_pydict() == {"label": list(range(len(ROWS)))}
    has_found = bool((packed.find_values("video", LOCAL_READS).offset >= 0).any())
    assert has_found == (written.startswith("plain") or written == "as datasets writes")


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()])
@pytest.mark.parametrize("written", ["plain", "as pandas writes"])
def test_columns_of_bytes(kind: pa.DataType, written: str) -> None:
    values = [b"one" * 99, None, b"", b"two"]
    assert read(write(values, kind, **WRITTEN[written])) == values
    assert open_packed(write(values, kind)).read_paths("video") == [None] * 4


def test_a_row_group_is_read_once_for_values_that_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    data = write([{"bytes": b"%d" % row, "path": None} for row in range(8)])
    packed = open_packed(data)
    reads = []
    original = PackedFile.read_group

    def count(self: PackedFile, column: str, group: int) -> pa.ChunkedArray:
        reads.append(group)
        return original(self, column, group)

    monkeypatch.setattr(PackedFile, "read_group", count)
    for row in range(8):
        assert packed.read_value("video", row).to_pybytes() == b"%d" % row
    assert reads == [0, 1]
    open_packed(data).read_value("video", 7)
    assert reads == [0, 1, 1]


def test_values_of_several_files_are_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [open_packed(write([{"bytes": b"%d" % number, "path": None}])) for number in range(2)]
    original, others = PackedFile.read_group, [files[1]]

    def read_while_another_does(self: PackedFile, column: str, group: int) -> pa.ChunkedArray:
        for other in others[:]:
            others.remove(other)
            thread = threading.Thread(target=other.find_values, args=(column, LOCAL_READS))
            thread.start()
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()
        return original(self, column, group)

    monkeypatch.setattr(PackedFile, "read_group", read_while_another_does)
    assert files[0].find_values("video", LOCAL_READS).size.tolist() == [1]
    assert not others


@pytest.mark.parametrize(("column", "row"), [("absent", 0), ("video", -1), ("video", 15), ("video", 1), ("label", 0)])
def test_values_that_are_not_there_are_missing(column: str, row: int) -> None:
    with pytest.raises(MissingMedia, match=r"^x\.parquet: has (no value|a null|no bytes)"):
        open_packed(write(ROWS)).read_value(column, row)
    with pytest.raises(MissingMedia):
        open_packed(write(ROWS)).find_value(column, row, LOCAL_READS)


def test_lists_of_media_are_not_values() -> None:
    with pytest.raises(MissingMedia, match="no bytes in column 'video'"):
        open_packed(write([[b"1", b"2"]], pa.list_(pa.binary()))).find_values("video", LOCAL_READS)


def test_C16_a_row_group_larger_than_the_limit_is_an_error_of_its_rows() -> None:
    rows = [{"bytes": bytes(10), "path": None}] * 4 + [{"bytes": bytes(range(256)) * 4, "path": None}] * 4
    data = write(rows, use_dictionary=False, compression="zstd")
    packed = open_packed(data, Limits(max_row_group_bytes=1000))
    found = packed.find_values("video", LOCAL_READS)
    assert list(found.errors) == [(4, 8)]
    with pytest.raises(LimitExceeded, match=r"limits=ff\.Limits\(max_row_group_bytes=\.\.\.\)"):
        raise found.errors[4, 8]
    with pytest.raises(LimitExceeded):
        packed.read_value("video", 4)
    assert packed.read_value("video", 3).to_pybytes() == bytes(10)
    assert (
        not open_packed(write(rows, **WRITTEN["plain"]), Limits(max_row_group_bytes=1))
        .find_values("video", LOCAL_READS)
        .errors
    )


def test_C16_what_is_in_memory_obeys_the_limits_of_each_reader() -> None:
    data, stamp = write(ROWS), "x.parquet, a version of this test"
    reader = _Timed(data)
    PackedFile(reader, "x.parquet", Limits(), stamp).read_value("video", 0)
    assert find_kept_value(stamp, "video", 0, Limits()) is not None
    small = Limits(max_row_group_bytes=100)
    assert find_kept_value(stamp, "video", 0, small) is None
    for find in (lambda file: file.read_value("video", 0), lambda file: file.find_value("video", 0, LOCAL_READS)):
        with pytest.raises(LimitExceeded, match="max_row_group_bytes=100"):
            find(PackedFile(reader, "x.parquet", small, stamp))
    with pytest.raises(LimitExceeded, match="max_header_bytes=100"):
        PackedFile(reader, "x.parquet", Limits(max_header_bytes=100), stamp)


class _Timed(BytesReader):
    """Has a time, so that what is read of it is kept."""

    def stat(self) -> SourceStat:
        return SourceStat(super().stat().bytes, 1)


def test_C16_metadata_and_rows_are_bounded() -> None:
    data = write(ROWS)
    with pytest.raises(LimitExceeded, match="max_members=14"):
        open_packed(data, Limits(max_members=14))
    with pytest.raises(LimitExceeded, match="metadata of"):
        open_packed(data, Limits(max_header_bytes=100))
    with pytest.raises(LimitExceeded, match="metadata of"):
        open_packed(data[:-8] + b"\xff\xff\xff\x7fPAR1")


@pytest.mark.parametrize("data", [b"", b"PAR1", b"text" * 100, write(ROWS)[:-1], b"PAR1" + bytes(100) + b"PAR1"])
def test_what_is_no_parquet_file_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableMedia if not data.endswith(b"PAR1") else MediaError, match=r"^x\.parquet: "):
        open_packed(data)


@pytest.mark.parametrize("written", ["plain", "zstd", "as pandas writes"])
def test_damaged_files_give_typed_errors(written: str) -> None:
    data, rng = write(ROWS, **WRITTEN[written]), random.Random(written)
    failures = 0
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            changed[rng.randrange(4, len(data))] = rng.randrange(256)
        try:
            packed = open_packed(bytes(changed))
            if "video" in packed.schema.names:
                found = packed.find_values("video", LOCAL_READS)
                assert (found.offset + found.size <= len(data)).all()
                for row in range(packed.num_rows):
                    packed.read_value("video", row)
        except MediaError:
            failures += 1
    assert failures


def test_a_column_that_is_cut_off_is_the_error_of_its_rows() -> None:
    data = bytearray(write(ROWS, use_dictionary=False, compression="zstd"))
    chunk = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(1).column(0)
    start = chunk.data_page_offset
    data[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    found = open_packed(bytes(data)).find_values("video", LOCAL_READS)
    assert list(found.errors) == [(4, 8)]
    with pytest.raises(CorruptMedia, match=r"x\.parquet: cannot be read as Parquet \(.*copy it again"):
        raise found.errors[4, 8]
