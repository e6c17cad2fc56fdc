"""Damaged and hostile headers: a typed refusal or libav's own answer, in bounded time and memory."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from framefeed._values import BytesReader, Limits
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.mp4._boxes import OddMovie, TooManyBoxes
from framefeed.mp4._samples import read_movie
from tests.index.comparing import answer, answer_of_libav, differences, opened
from tests.lengths import IS_ALL
from tests.mp4.movies import MovieSpec, coded, movie_bytes, right_offsets
from tests.pathologies.bitstreams import AVCC, find_box, make_box, make_table

BASE = MovieSpec(ctts=right_offsets(), edits=[(800, 40)], chunks=[7, 7, 10], sync=coded()[2])
HUGE = 0xFFFFFFFF
MOST_MEMORY = 16 * 2**20
PARAMETERS = 42
"""Bytes at the end of an avcC box that are parameter sets."""


@pytest.mark.parametrize("header_first", [False, True])
def test_a_file_cut_at_any_byte_is_left_to_libav(header_first: bool) -> None:
    whole = movie_bytes(MovieSpec(ctts=BASE.ctts, edits=BASE.edits, header_first=header_first))
    assert opened(whole) is not None
    assert not [cut for cut in range(8, len(whole)) if opened(whole[:cut]) is not None]


@pytest.mark.parametrize("header_first", [False, True])
def test_a_cut_file_is_answered_as_libav_would(header_first: bool) -> None:
    whole = movie_bytes(MovieSpec(ctts=BASE.ctts, header_first=header_first))
    for cut in range(16, len(whole), 97 if IS_ALL else 251):
        assert differences(answer(whole[:cut]), answer_of_libav(whole[:cut])) == [], cut


@given(st.data())
def test_flipped_bytes_of_a_header_never_give_another_answer_than_libav(data: st.DataObject) -> None:
    whole = bytearray(movie_bytes(BASE))
    start, end = find_box(bytes(whole), "moov")
    behind = find_box(bytes(whole), AVCC)[1]  # parameter sets are believed: only decoding shows that they are wrong
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(start, end - 1).filter(lambda at: not behind - PARAMETERS <= at < behind))
        whole[at] = data.draw(st.integers(0, 255))
    flipped = bytes(whole)
    assert differences(answer(flipped), answer_of_libav(flipped)) == []


@given(st.data())
def test_flipped_bytes_of_parameter_sets_give_what_decoding_gives_or_a_typed_refusal(data: st.DataObject) -> None:
    whole = bytearray(movie_bytes(BASE))
    start, end = find_box(bytes(whole), AVCC)
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(start, end - 1))] = data.draw(st.integers(0, 255))
    flipped = bytes(whole)
    proved, full = answer(flipped, "proof").index, answer(flipped, "full").index
    assert differences(full, answer_of_libav(flipped, "full").index) == []
    if isinstance(proved, FrameIndex) and isinstance(full, FrameIndex):
        assert proved.frame_packet.tolist() == full.frame_packet.tolist()
    else:
        assert proved == full


WRONG_TABLES = {
    "a chunk before the first": make_table("stsc", (0, 24, 1)),
    "chunks that begin late": make_table("stsc", (2, 24, 1)),
    "chunks of nothing": make_table("stsc", (1, 0, 1)),
    "chunks of too many samples": make_table("stsc", (1, HUGE, 1)),
    "chunks of another description": make_table("stsc", (1, 24, 2)),
    "chunks in no order": make_table("stsc", (1, 24, 1), (1, 24, 1)),
    "an endless table of chunks": make_box("stsc", struct.pack(">II", 0, HUGE)),
    "more sizes than bytes": make_box("stsz", struct.pack(">III", 0, 0, HUGE)),
    "endless samples of one size": make_box("stsz", struct.pack(">III", 0, 1, HUGE)),
    "a huge sample": make_box("stsz", struct.pack(">III24I", 0, 0, 24, HUGE, *range(1, 24))),
    "empty samples": make_box("stsz", struct.pack(">III24I", 0, 0, 24, *[0] * 24)),
    "sizes of three bits": make_box("stz2", struct.pack(">III24B", 0, 3, 24, *range(24))),
    "a chunk beyond the file": make_table("stco", (1 << 31,)),
    "a chunk before the file": make_box("co64", struct.pack(">IIQ", 0, 1, 1 << 63)),
    "two tables of chunks": make_table("stco", (40,)) + make_table("stco", (40,)),
    "endless times": make_table("stts", (HUGE, 1)),
    "times that overflow": make_table("stts", (HUGE, HUGE), (HUGE, HUGE)),
    "times for fewer samples": make_table("stts", (23, 20)),
    "no time between samples": make_table("stts", (24, 0)),
    "negative times": make_table("stts", (24, HUGE)),
    "huge composition times": make_table("ctts", (24, 1 << 30), version=1),
    "composition times of no sample": make_table("ctts", (0, 40), (24, 40)),
    "composition times of fewer samples": make_table("ctts", (20, 40)),
    "a key frame 0": make_table("stss", (0,), (1,)),
    "key frames in no order": make_table("stss", (9,), (1,)),
    "a key frame past the end": make_table("stss", (1,), (25,)),
    "no key frame": make_table("stss"),
    "an unknown version": make_box("stts", struct.pack(">IIII", 9 << 24, 1, 24, 20)),
}


@pytest.mark.parametrize("wrong", WRONG_TABLES.values(), ids=WRONG_TABLES.keys())
def test_a_wrong_table_is_answered_as_libav_would(wrong: bytes) -> None:
    kind = wrong[4:8].decode()
    kind = {"stz2": "stsz", "co64": "stco"}.get(kind, kind)
    data = movie_bytes(MovieSpec(ctts=BASE.ctts, tables={kind: wrong}))
    tracemalloc.start()
    try:
        found = opened(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MOST_MEMORY
    assert found is None
    assert differences(answer(data), answer_of_libav(data)) == []


@given(
    stts=st.lists(st.tuples(st.integers(0, HUGE), st.integers(0, HUGE)), max_size=4),
    stsc=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 2)), max_size=4),
    stco=st.lists(st.tuples(st.integers(0, 6000)), max_size=4),
)
@example(stts=[(24, 20)], stsc=[(1, 12, 1)], stco=[(40,), (40,)])
def test_tables_of_any_numbers_are_answered_as_libav_would(
    stts: list[tuple[int, int]], stsc: list[tuple[int, int, int]], stco: list[tuple[int]]
) -> None:
    wrong = {"stts": make_table("stts", *stts), "stsc": make_table("stsc", *stsc), "stco": make_table("stco", *stco)}
    data = movie_bytes(MovieSpec(tables=wrong))
    if opened(data) is not None:
        assert differences(answer(data), answer_of_libav(data)) == []


def _refused(data: bytes) -> str:
    with pytest.raises(OddMovie) as odd:
        read_movie(BytesReader(data), len(data))
    return str(odd.value)


def test_boxes_of_odd_sizes_are_refused() -> None:
    whole = movie_bytes(MovieSpec())
    start, _ = find_box(whole, "moov")
    for size in (0, 1, 2, 7, len(whole), 0x7FFFFFFF, HUGE):
        for path in ("moov", "moov.trak", "moov.trak.mdia.minf.stbl", "moov.trak.mdia.minf.stbl.stsz"):
            at, end = find_box(whole, path)
            if size == 0 and path == "moov":
                continue  # to the end of the file, which is where it ends
            odd = bytearray(whole)
            struct.pack_into(">I", odd, at, size)
            assert _refused(bytes(odd)), (size, path, end)
    claimed = whole[:start] + struct.pack(">I4sQ", 1, b"moov", 1 << 62) + whole[start + 8 :]
    assert _refused(claimed)


def test_boxes_inside_each_other_without_end_are_refused() -> None:
    nested = b""
    for _ in range(5000):
        nested = make_box("trak", nested)
    assert _refused(make_box("ftyp", b"isom\0\0\0\0") + make_box("mdat", b"1234") + make_box("moov", nested))


def test_too_many_boxes_are_refused() -> None:
    many = make_box("free", b"") * 70_000
    with pytest.raises(TooManyBoxes):
        _refused(make_box("ftyp", b"isom\0\0\0\0") + many)
    assert _refused(
        make_box("ftyp", b"isom\0\0\0\0") + make_box("mdat", b"1") + make_box("moov", make_box("free", b"") * 5000)
    )


def test_a_header_larger_than_the_limits_is_not_read() -> None:
    data = movie_bytes(MovieSpec())
    with pytest.raises(OddMovie, match="huge"):
        read_movie(BytesReader(data), len(data), Limits(max_header_bytes=100))


def test_a_compressed_header_is_refused() -> None:
    head = make_box("ftyp", b"qt  \0\0\0\0") + make_box("mdat", b"1234")
    assert "cmov" in _refused(
        head + make_box("moov", make_box("cmov", make_box("dcom", b"zlib") + make_box("cmvd", b"\0" * 20)))
    )


def test_a_file_that_gets_shorter_while_it_is_read_is_refused() -> None:
    data = movie_bytes(MovieSpec())
    with pytest.raises(OddMovie):
        read_movie(BytesReader(data[:-10]), len(data))


def test_the_reason_for_libav_is_logged(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    path = tmp_path / "odd.mp4"
    path.write_bytes(movie_bytes(MovieSpec(tables={"stss": make_table("stss")})))
    with caplog.at_level("DEBUG", "framefeed.media"):
        assert opened(path) is None
    assert f"{path}: read through libav: key frames in no order, or none" in caplog.text
    assert MediaSource.of(path).name in caplog.text
