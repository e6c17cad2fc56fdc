"""Frame tables: exact both ways, small, and safe against hostile numbers."""

from __future__ import annotations

import errno
import os
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from framefeed._values import PacketTable
from framefeed.catalog import _frame_rows, _frame_tables
from framefeed.catalog._frame_rows import NUMBER_FIELDS, HeaderClaims, pack_row
from framefeed.catalog._frame_tables import (
    SCHEMA,
    FrameTableBuilder,
    FrameTables,
    hash_frame_tables,
    open_frame_tables,
    write_frame_tables,
)
from framefeed.catalog._plan_columns import PLAN_COLUMNS
from framefeed.errors import FramefeedError, LimitExceeded, ResourceExhausted, UnreadableMedia, UsageError
from framefeed.index import FrameIndex, StreamFacts
from tests.catalog.synthetic import frame_index, same

EMPTY = np.empty(0, np.int64)
NO_ROWS = pa.array([], PLAN_COLUMNS)


def tables(*indexes: FrameIndex) -> FrameTables:
    batches: list[pa.RecordBatch] = []
    builder = FrameTableBuilder(batches.append)
    for index in indexes:
        builder.append(index)
    builder.finish()
    return FrameTables(batches)


def saved(path: Path, *indexes: FrameIndex) -> FrameTables:
    write_frame_tables(str(path), tables(*indexes).batches, {b"a": b"b"}, NO_ROWS)
    return open_frame_tables(str(path))[0]


def small_stream(**changes: Any) -> StreamFacts:
    return StreamFacts(**{"stream_index": 0, "container": "", "codec": "", "extradata": None, "width": 0, "height": 0,
                          "pixel_format": "", **changes})  # fmt: skip


# What one index may hold is drawn in test_frame_rows.
INDEXES = [frame_index(), *(frame_index(count, count) for count in (1, 0, 4, 5, 6, 7, 9, 5000))]


@pytest.mark.parametrize("rows_per_batch", [1, 2, 4096])
def test_round_trip_is_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_per_batch: int) -> None:
    monkeypatch.setattr(_frame_tables, "ROWS_PER_BATCH", rows_per_batch)
    read = saved(tmp_path / "x.arrow", *INDEXES)
    assert len(read) == len(INDEXES)
    for row, index in enumerate(INDEXES):
        assert same(read.index(row), index)


def test_round_trip_covers_every_field() -> None:
    """Each field of the sample differs from its default, so one that is not stored breaks the round trip."""
    index = frame_index()
    for value in (index, index.stream):
        for field in fields(value):
            assert getattr(value, field.name) is not field.default, f"{field.name} of the sample is its default"


def test_a_batch_ends_at_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_frame_tables, "BYTES_PER_BATCH", 3000)  # a random index of 100 frames takes 2.8 kB
    assert [batch.num_rows for batch in tables(*[frame_index(100)] * 6).batches] == [2, 2, 2]


def test_cached_indexes_are_read_only() -> None:
    index = tables(frame_index(20)).index(0)
    packets = index.packets
    for array in (index.pts, index.frame_packet, index.key_frame_indices, packets.offset, packets.pts, packets.flags):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize("limits", [(1, 2**25), (7, 2**25), (65_536, 2**25), (65_536, 1000), (5, 900)])
def test_a_file_does_not_depend_on_the_batches_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int]
) -> None:
    indexes = [frame_index(seed % 40, seed) for seed in range(60)]
    ways = [tables(*indexes)]
    for name, value in zip(("ROWS_PER_BATCH", "BYTES_PER_BATCH"), limits, strict=True):
        monkeypatch.setattr(_frame_tables, name, value)
    ways.append(tables(*indexes))
    ways.append(FrameTables([*tables(*indexes[:13]).batches, *tables(*indexes[13:]).batches]))
    ways.append(FrameTables([ways[0].batches[0].slice(start, 4) for start in range(0, 60, 4)]))
    written = []
    for number, way in enumerate(ways):
        write_frame_tables(str(tmp_path / f"{number}"), way.batches, {}, NO_ROWS)
        written.append((tmp_path / f"{number}").read_bytes())
        assert hash_frame_tables(way) == hash_frame_tables(ways[0])
    assert all(each == written[0] for each in written)
    read = open_frame_tables(str(tmp_path / "0"))[0]
    assert all(same(read.index(row), index) for row, index in enumerate(indexes))
    assert max(batch.num_rows for batch in read.batches) <= limits[0]
    assert hash_frame_tables(read) == hash_frame_tables(ways[0])
    assert hash_frame_tables(read.select(range(59))) != hash_frame_tables(ways[0])


def test_indexes_that_were_read_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_frame_tables, "CACHED_BYTES", 3 * 66_000)
    read = tables(*[frame_index(1000, seed) for seed in range(8)])
    first = read.index(0)
    for row in range(1, 8):
        read.index(row)
    assert read.index(7) is read.index(7)
    assert read.index(0) is not first
    monkeypatch.setattr(_frame_tables, "CACHED_BYTES", 1)
    read = tables(*[frame_index(1000, seed) for seed in range(8)])
    assert read.index(3) is read.index(3), "one that is too large for the limit is kept while nothing follows it"


def test_threads_share_what_one_of_them_read() -> None:
    read = tables(*[frame_index(50, seed) for seed in range(100)])
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda row: same(read.index(row % 100), frame_index(50, row % 100)), range(400)))
    assert all(found)


def resident_bytes(path: Path) -> int:
    """Count the bytes of a mapped file that this process has mapped pages for; proc_pid_smaps(5)."""
    lines = Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace").splitlines()
    headers = [number for number, line in enumerate(lines) if line.endswith(f" {path}")]
    kilobytes = [next(line for line in lines[number:] if line.startswith("Rss:")).split()[1] for number in headers]
    assert headers, "the file is not mapped"
    return 1024 * sum(map(int, kilobytes))


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux says which pages are mapped")
def test_rows_of_a_file_are_read_without_its_pages(tmp_path: Path) -> None:
    read = saved(tmp_path / "x.arrow", *[frame_index(100, seed) for seed in range(10)])
    read.claims(0)  # The columns are checked at the first use.
    assert read.file is not None
    read.file.release()
    for row in range(10):
        assert same(read.index(row), frame_index(100, row))
    assert resident_bytes(tmp_path / "x.arrow") == 0
    read.stream_column("rotation")
    read.built_from()
    assert resident_bytes(tmp_path / "x.arrow") == 0


def test_a_row_of_a_file_that_was_cut_is_damage(tmp_path: Path) -> None:
    read = saved(tmp_path / "x.arrow", *[frame_index(100, seed) for seed in range(10)])
    assert read.index(0) is not None
    os.truncate(tmp_path / "x.arrow", 100)
    with pytest.raises(UnreadableMedia, match=r"x\.arrow: damaged frame table, row 9: the file ends"):
        read.index(9)


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.ENFILE])
def test_a_shortage_while_a_row_is_read_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> bytes:
        raise OSError(number, os.strerror(number))

    read = saved(tmp_path / "x.arrow", frame_index(100))
    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", refuse)
        with pytest.raises(ResourceExhausted, match=r"x\.arrow"):
            read.index(0)
    assert same(read.index(0), frame_index(100))


def test_numbers_of_streams_are_columns() -> None:
    upright = frame_index(2, stream=small_stream(color_primaries=1))
    read = tables(frame_index(1), upright)
    numbers = [field.name for field in fields(StreamFacts) if field.name in NUMBER_FIELDS]
    assert {"rotation", "color_primaries", "color_transfer", "color_space", "color_range", "mirrored"} <= set(numbers)
    for name in numbers:
        column = read.stream_column(name)
        assert column.dtype == np.int64
        assert column.tolist() == [getattr(frame_index(1).stream, name), getattr(upright.stream, name)]
    with pytest.raises(UsageError, match=r"'codec'.*rotation"):
        read.stream_column("codec")
    assert FrameTables([]).stream_column("rotation").tolist() == []


def test_a_number_of_more_than_32_bits_is_refused() -> None:
    with pytest.raises(UsageError, match="32 bits"):
        tables(frame_index(1, stream=small_stream(width=2**31)))


def test_selected_rows_are_copied_in_order() -> None:
    chosen = tables(*map(frame_index, (1, 2, 3, 4))).select([3, 1, 0])
    assert [len(chosen.index(row)) for row in range(3)] == [4, 2, 1]


@pytest.mark.parametrize("row", [-1, 1])
def test_no_such_row(row: int) -> None:
    with pytest.raises(IndexError):
        tables(frame_index()).index(row)


def test_no_rows(tmp_path: Path) -> None:
    assert len(saved(tmp_path / "x.arrow")) == 0


# --- C12: hostile numbers ---------------------------------------------------------------------------


def forced(**values: Any) -> FrameIndex:
    """An index with values that its class would refuse."""
    index = frame_index(3)
    for name, value in values.items():
        object.__setattr__(index, name, value)
    return index


def with_packets(**columns: list[int]) -> FrameIndex:
    packets = frame_index(3).packets
    return frame_index(3, packets=replace(packets, **{name: np.array(each) for name, each in columns.items()}))


HOSTILE: dict[str, FrameIndex] = {
    "time base with denominator 0": forced(time_base=SimpleNamespace(numerator=1, denominator=0)),
    "time base below 0": forced(time_base=SimpleNamespace(numerator=-1, denominator=1)),
    "key frame past the end": frame_index(3, key_frame_indices=np.array([2**40])),
    "key frame right after the end": frame_index(3, key_frame_indices=np.array([0, 3])),
    "key frame below 0": frame_index(3, key_frame_indices=np.array([-(2**63)])),
    "packet past the end": frame_index(3, frame_packet=np.array([0, 1, 2**62])),
    "packet right after the end": frame_index(3, frame_packet=np.array([0, 1, 5])),
    "packet below -1": frame_index(3, frame_packet=np.array([0, -2, 1])),
    "packet of no packets": frame_index(
        3, packets=PacketTable(EMPTY, EMPTY, EMPTY, np.empty(0, np.uint8)), frame_start=np.zeros(3, np.int64)
    ),
    "start past the end": frame_index(3, frame_start=np.array([0, 2**63 - 1, 0])),
    "start right after the end": frame_index(3, frame_start=np.array([0, 0, 5])),
    "start below 0": frame_index(3, frame_start=np.array([-1, 0, 0])),
    "packet of negative size": with_packets(size=[0, 0, 5, -1, 0]),
    "packet of size 2**62": with_packets(size=[0, 0, 5, 2**62, 0]),
    "packet before the file": with_packets(offset=[0, 0, 5, -2, 0]),
    "packet far behind the file": with_packets(offset=[0, 0, 5, 2**63 - 1, 0]),
    "rotation by 45": frame_index(3, stream=small_stream(rotation=45)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_C12_hostile_numbers_are_refused(name: str) -> None:
    read = tables(frame_index(3), HOSTILE[name])
    assert read.index(0) is not None
    with pytest.raises(UnreadableMedia, match="row 1"):
        read.index(1)


def one_row(numbers: bytes, row: bytes) -> FrameTables:
    return FrameTables([pa.RecordBatch.from_pydict({"numbers": [numbers], "row": [row]}, schema=SCHEMA)])


def resealed(numbers: bytes, row: bytes | bytearray) -> FrameTables:
    """A table of the row with the checksum that it should have."""
    checksum = zlib.crc32(row[4:], zlib.crc32(numbers))
    return one_row(numbers, checksum.to_bytes(4, "little") + bytes(row[4:]))


def test_C12_every_flipped_bit_is_noticed() -> None:
    numbers, row = pack_row(frame_index(3), HeaderClaims(7))
    assert same(one_row(numbers, row).index(0), frame_index(3))
    for bit in range(8 * len(numbers + row)):
        damaged = bytearray(numbers + row)
        damaged[bit // 8] ^= 1 << bit % 8
        read = one_row(bytes(damaged[: len(numbers)]), bytes(damaged[len(numbers) :]))
        for ask in (read.index, read.claims):
            with pytest.raises(UnreadableMedia, match="row 0"):
                ask(0)


def test_C12_rows_cut_short_are_refused() -> None:
    numbers, whole = pack_row(frame_index(9), HeaderClaims(7))
    for length in range(5, len(whole)):
        with pytest.raises(UnreadableMedia, match="row 0"):
            resealed(numbers, whole[:length]).index(0)
    for length in range(5):
        with pytest.raises(UnreadableMedia, match="row 0"):
            one_row(numbers, whole[:length]).index(0)


def test_C12_changed_rows_under_a_right_checksum_give_an_error_or_a_sound_index() -> None:
    """Whoever writes a checksum too can lie, but not lead a reader out of its tables."""
    random = np.random.default_rng(5)
    rows = [pack_row(frame_index(size, size), HeaderClaims(size)) for size in (1, 4, 40)]
    refused = 0
    for number in range(1500):
        numbers, row = rows[number % 3]
        damaged = bytearray(row)
        for _ in range(random.integers(1, 4)):
            damaged[random.integers(4, len(damaged))] = random.integers(0, 256)
        try:
            index = resealed(numbers, damaged).index(0)
        except UnreadableMedia:
            refused += 1
            continue
        assert_sound(index)
    assert 200 < refused < 1500


@pytest.mark.parametrize("counts", [(2**32 - 1, 3, 1), (3, 2**32 - 1, 1), (3, 5, 2**32 - 1), (2**25 + 1, 3, 1)])
def test_C12_claims_are_bounded_before_memory_is_taken(counts: tuple[int, int, int]) -> None:
    index = frame_index(3, key_frame_indices=np.array([1]))
    numbers, row = pack_row(index, HeaderClaims())
    # The counts of frames, packets and key frames stand together.
    at = row.index(struct.pack("<III", 3, 5, 1))
    damaged = row[:at] + struct.pack("<III", *counts) + row[at + 12 :]
    with pytest.raises(UnreadableMedia, match="more than 33554432"):
        resealed(numbers, damaged).index(0)


def test_more_frames_than_a_table_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_frame_rows, "MOST_ITEMS", 10)
    tables(frame_index(8))
    with pytest.raises(LimitExceeded, match="up to 10"):
        tables(frame_index(9))


def assert_sound(index: FrameIndex) -> None:
    packets = len(index.packets)
    assert -1 <= index.frame_packet.min(initial=-1) <= index.frame_packet.max(initial=-1) < packets
    assert 0 <= index.frame_start.min(initial=0) <= index.frame_start.max(initial=0) < max(1, packets)
    assert index.key_frame_indices.min(initial=0) >= 0
    assert index.key_frame_indices.max(initial=-1) < len(index)
    assert len(index) or not index.has_timestamps


@pytest.mark.parametrize("offsets", [[0, 2**62, 7], [0, -1, 7], [5, 3, 7], [0, -(2**63), 7], [0, 9, 7]])
def test_C12_offsets_out_of_the_values_are_refused(offsets: list[int]) -> None:
    batch = tables(frame_index(3), frame_index(4)).batches[0]
    rows = pa.Array.from_buffers(
        pa.large_binary(), 2, [None, pa.py_buffer(np.array(offsets)), pa.py_buffer(b"1234567")]
    )
    read = FrameTables([batch.set_column(SCHEMA.get_field_index("row"), SCHEMA.field("row"), rows)])
    for ask in (read.index, read.claims):
        with pytest.raises(UnreadableMedia):
            [ask(row) for row in (0, 1)]
    with pytest.raises(UnreadableMedia):
        read.select([0, 1])


def test_C12_text_that_is_not_utf8_is_refused() -> None:
    numbers, row = pack_row(frame_index(), HeaderClaims())
    assert b"yuv420p10le" in row
    with pytest.raises(UnreadableMedia, match="row 0"):
        resealed(numbers, row.replace(b"yuv420p10le", b"yuv\xff\xfe0p10le")).index(0)


@pytest.mark.parametrize(
    "content", [b"", b"ARROW1\0\0", b"hello", b"ARROW1\0\0" + b"\xff" * 4096 + b"ARROW1", b"\0" * 5000]
)
def test_C12_no_arrow_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.arrow"
    path.write_bytes(content)
    with pytest.raises(UnreadableMedia, match=r"x\.arrow"):
        open_frame_tables(str(path))


def test_C12_a_file_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    saved(path, *INDEXES)
    whole = path.read_bytes()
    for length in range(0, len(whole) - 1, len(whole) // 50):
        path.write_bytes(whole[:length])
        with pytest.raises(UnreadableMedia):
            open_frame_tables(str(path))


def test_C12_another_schema(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    with path.open("wb") as file, pa.ipc.new_file(file, pa.schema([("pts", pa.int64())])):
        pass
    with pytest.raises(UnreadableMedia, match="columns"):
        open_frame_tables(str(path))


def test_C12_flipped_bytes_give_an_error_or_sound_tables(tmp_path: Path) -> None:
    """Nothing else may come out: no crash, no foreign exception, no index that leads out of its tables."""
    path = tmp_path / "x.arrow"
    saved(path, frame_index(3), frame_index(40), frame_index(5))
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    random = np.random.default_rng(12)
    refused = 0
    for _ in range(400):
        damaged = whole.copy()
        damaged[random.integers(0, len(whole), 4)] = random.integers(0, 256, 4)
        path.write_bytes(damaged.tobytes())
        try:
            read = open_frame_tables(str(path))[0]
            indexes = [read.index(row) for row in range(len(read))]
        except FramefeedError:
            refused += 1
            continue
        for row, index in enumerate(indexes):
            assert_sound(index)
            assert same(index, frame_index([3, 40, 5][row]))
    assert 200 < refused <= 400
