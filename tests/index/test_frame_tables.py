"""Frame tables: exact both ways, zero-copy, and safe against hostile numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from framefeed.errors import FramefeedError, UnreadableMedia
from framefeed.index import frame_tables
from framefeed.index.frame_index import MISSING_PTS, FrameIndex, PacketTable, StreamFacts
from framefeed.index.frame_tables import (
    SCHEMA,
    FrameTableBuilder,
    FrameTables,
    HeaderClaims,
    open_frame_tables,
    write_frame_tables,
)
from framefeed.media.source import SourceIdentity
from tests.index.synthetic import frame_index, same

EMPTY = np.empty(0, np.int64)


def tables(*indexes: FrameIndex | None) -> FrameTables:
    batches: list[pa.RecordBatch] = []
    builder = FrameTableBuilder(batches.append)
    for index in indexes:
        builder.append(index)
    builder.finish()
    return FrameTables(batches)


def saved(path: Path, *indexes: FrameIndex | None) -> FrameTables:
    write_frame_tables(str(path), tables(*indexes).batches, {b"a": b"b"})
    return open_frame_tables(str(path))[0]


def small_stream(**changes: Any) -> StreamFacts:
    return StreamFacts(**{"stream_index": 0, "container": "", "codec": "", "extradata": None, "width": 0, "height": 0,
                          "pixel_format": "", **changes})  # fmt: skip


INDEXES: dict[str, FrameIndex | None] = {
    "everything set": frame_index(),
    "no index": None,
    "one frame": frame_index(1, 1),
    "no frame": frame_index(0, 2),
    "no packets": frame_index(
        3,
        frame_packet=np.full(3, -1),
        frame_start=np.zeros(3, np.int64),
        packets=PacketTable(EMPTY, EMPTY, EMPTY, np.empty(0, np.uint8)),
    ),
    "no times": frame_index(4, pts=np.full(4, MISSING_PTS)),
    "no extradata": frame_index(5, stream=small_stream()),
    "empty extradata": frame_index(5, stream=small_stream(extradata=b"")),
    "no identity": frame_index(6, identity=None),
    "no time of the file": frame_index(6, identity=SourceIdentity(5, None, "x")),
    "time of the file 0": frame_index(6, identity=SourceIdentity(5, 0, "x")),
    "many frames": frame_index(5000, 7),
}


@pytest.mark.parametrize("rows_per_batch", [1, 2, 4096])
def test_round_trip_is_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_per_batch: int) -> None:
    monkeypatch.setattr(frame_tables, "ROWS_PER_BATCH", rows_per_batch)
    read = saved(tmp_path / "x.arrow", *INDEXES.values())
    assert len(read) == len(INDEXES)
    for row, (name, index) in enumerate(INDEXES.items()):
        assert same(read.index(row), index), name


def test_round_trip_covers_every_field() -> None:
    """Each field of the sample differs from its default, so one that is not stored breaks the round trip."""
    index = INDEXES["everything set"]
    assert index is not None
    for value in (index, index.stream):
        for field in fields(value):
            assert getattr(value, field.name) is not field.default, f"{field.name} of the sample is its default"


def test_a_batch_ends_at_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_tables, "BYTES_PER_BATCH", 10_000)
    assert [batch.num_rows for batch in tables(*[frame_index(100)] * 6).batches] == [2, 2, 2]


def test_arrays_are_views_of_the_mapped_file(tmp_path: Path) -> None:
    before = pa.total_allocated_bytes()
    read = saved(tmp_path / "x.arrow", frame_index(200_000))
    index = read.index(0)
    assert index is not None
    for array in (index.pts, index.frame_packet, index.packets.offset, index.packets.flags):
        assert not array.flags.owndata
        assert not array.flags.writeable
    assert pa.total_allocated_bytes() - before < 100_000


def test_a_row_is_read_once_while_it_is_used() -> None:
    read = tables(frame_index())
    assert read.index(0) is read.index(0)


def test_selected_rows_are_copied_in_order() -> None:
    chosen = tables(frame_index(1), None, frame_index(3), frame_index(4)).select([3, 1, 0])
    assert [None if index is None else len(index) for index in map(chosen.index, range(3))] == [4, None, 1]


def test_header_claims_come_back() -> None:
    batches: list[pa.RecordBatch] = []
    builder = FrameTableBuilder(batches.append)
    claims = [HeaderClaims(), HeaderClaims(0, 0.0, 0.0), HeaderClaims(7, 1.5, 30000 / 1001)]
    for claim in claims:
        builder.append(None, claim)
    builder.finish()
    assert [FrameTables(batches).claims(row) for row in range(3)] == claims


@pytest.mark.parametrize("row", [-1, 2])
def test_no_such_row(row: int) -> None:
    with pytest.raises(IndexError):
        tables(frame_index(), None).index(row)


def test_no_rows(tmp_path: Path) -> None:
    assert len(saved(tmp_path / "x.arrow")) == 0


# --- C12: hostile numbers ---------------------------------------------------------------------------


def with_column(name: str, change: Callable[[list[Any]], list[Any]]) -> FrameTables:
    batch = tables(frame_index(3), frame_index(4)).batches[0]
    at = SCHEMA.get_field_index(name)
    column = pa.array(change(batch.column(at).to_pylist()), SCHEMA.field(name).type)
    return FrameTables([batch.set_column(at, SCHEMA.field(name), column)])


HOSTILE: dict[str, tuple[str, Callable[[list[Any]], list[Any]]]] = {
    "time base with denominator 0": ("time_base_denominator", lambda rows: [0, 0]),
    "time base below 0": ("time_base_numerator", lambda rows: [-1, -1]),
    "built from nothing known": ("built_from", lambda rows: ["hope", "hope"]),
    "fewer durations than frames": ("duration", lambda rows: [rows[0][:-1], rows[1][:-1]]),
    "more times than frames": ("pts", lambda rows: [rows[0] + [2**62], rows[1] + [0]]),
    "key frame past the end": ("key_frame_indices", lambda rows: [[2**40], [4]]),
    "key frame below 0": ("key_frame_indices", lambda rows: [[-1], [-(2**63)]]),
    "packet past the end": ("frame_packet", lambda rows: [[2**62] * 3, [6] * 4]),
    "packet below -1": ("frame_packet", lambda rows: [[-2] * 3, [-(2**63)] * 4]),
    "start past the end": ("frame_start", lambda rows: [[5] * 3, [2**63 - 1] * 4]),
    "start below 0": ("frame_start", lambda rows: [[-1] * 3, [-1] * 4]),
    "packet of negative size": ("packet_size", lambda rows: [[-1] * 5, [-(2**40)] * 6]),
    "packet of size 2**63": ("packet_size", lambda rows: [[2**63 - 1] * 5, [2**62] * 6]),
    "packet before the file": ("packet_offset", lambda rows: [[-2] * 5, [-(2**63)] * 6]),
    "fewer flags than packets": ("packet_flags", lambda rows: [b"", b"\1"]),
    "rotation by 45": ("stream_rotation", lambda rows: [45, -90]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_C12_hostile_numbers_are_refused(name: str) -> None:
    read = with_column(*HOSTILE[name])
    for row in (0, 1):
        with pytest.raises(UnreadableMedia, match=f"row {row}"):
            read.index(row)


@pytest.mark.parametrize("offsets", [[0, 2**62, 7], [0, -1, 7], [5, 3, 7], [0, -(2**63), 7], [0, 9, 7]])
def test_C12_offsets_out_of_the_values_are_refused(offsets: list[int]) -> None:
    batch = tables(frame_index(3), frame_index(4)).batches[0]
    lists = pa.Array.from_buffers(
        pa.large_list(pa.int64()), 2, [None, pa.py_buffer(np.array(offsets))], children=[pa.array(np.arange(7))]
    )
    read = FrameTables([batch.set_column(SCHEMA.get_field_index("pts"), SCHEMA.field("pts"), lists)])
    with pytest.raises(UnreadableMedia):
        [read.index(row) for row in (0, 1)]


def test_C12_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    saved(path, frame_index())
    path.write_bytes(path.read_bytes().replace(b"yuv420p10le", b"yuv\xff\xfe0p10le"))
    with pytest.raises(UnreadableMedia, match="row 0"):
        open_frame_tables(str(path))[0].index(0)


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
    saved(path, *INDEXES.values())
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
    saved(path, frame_index(3), None, frame_index(40), frame_index(5))
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
        for index in (index for index in indexes if index is not None):
            assert index.frame_packet.max(initial=-1) < len(index.packets)
            assert index.key_frame_indices.max(initial=-1) < len(index)
    assert 20 < refused < 400
