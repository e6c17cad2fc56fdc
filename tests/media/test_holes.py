"""Containers with a hole of 100 GB: what libav reads in search of the next packet is bounded, by bytes and by time."""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from pathlib import Path

import pytest

from framefeed._values import Limits
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import LimitExceeded
from framefeed.index import build_index, probe
from framefeed.media._libav_input import LibavInput
from framefeed.media._source import MediaSource
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, clip_bytes

FORMATS = {"avi": "avi", "mkv": "matroska", "flv": "flv", "mpg": "mpeg"}
SMALL = Limits(max_header_bytes=2**23, max_packet_bytes=2**20)
PATIENT = Limits(max_header_bytes=2**50, max_packet_bytes=2**50)


def with_hole(path: Path, begin: int | None) -> None:
    """Write a clip with a hole of 100 GB from a byte on, which takes no room on the disk."""
    codec = "mpeg1video" if path.suffix == ".mpg" else "libx264"
    data = clip_bytes(ClipSpec(num_frames=12, codec=codec), FORMATS[path.suffix[1:]])
    begin = len(data) if begin is None else begin
    path.write_bytes(data[:begin])
    os.truncate(path, 10**11)
    with path.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write(data[begin:])


@pytest.mark.parametrize("ending", FORMATS)
def test_S04_a_header_without_end_names_its_limit(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"hole.{ending}"
    with_hole(path, 300)
    for ask in (probe, build_index):
        with pytest.raises(LimitExceeded, match="max_header_bytes") as caught:
            ask(path, limits=SMALL)
        assert caught.value.limit == "max_header_bytes"


def test_S04_a_hole_between_packets_names_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "hole.mkv"
    with_hole(path, None)
    with pytest.raises(LimitExceeded, match="max_packet_bytes") as caught:
        build_index(path, limits=SMALL)
    assert caught.value.limit == "max_packet_bytes"


@pytest.mark.parametrize("depth", ["frames", "header"])
def test_S04_a_deadline_is_a_row_and_is_tried_again(tmp_path: Path, depth: str) -> None:
    path, out = tmp_path / "hole.avi", tmp_path / "cat.parquet"
    with_hole(path, 300)
    made = scan(path, out=out, depth=depth, limits=PATIENT, deadline_seconds=0.05)
    assert [kind for _, kind, _ in made.failures] == ["LimitExceeded"]
    assert "took longer than 0.05 s (deadline_seconds)" in made.failures[0][2]
    again = scan(path, out=out, depth=depth, limits=SMALL)
    assert "max_header_bytes" in again.failures[0][2]  # it was opened again, as it was not found out what it is


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_deadline_is_a_number_of_seconds(tmp_path: Path, seconds: float) -> None:
    with pytest.raises(ValueError, match="deadline_seconds must be more than 0"):
        scan(tmp_path, deadline_seconds=seconds)


def test_a_catalog_of_other_limits_is_not_believed(tmp_path: Path) -> None:
    out = tmp_path / "cat.parquet"
    (tmp_path / "a.mp4").write_bytes(clip_bytes(ClipSpec(num_frames=3), "mp4"))
    assert len(scan(tmp_path / "a.mp4", out=out, limits=Limits(max_side=64)).failures) == 1
    assert not scan(tmp_path / "a.mp4", out=out).failures
    assert len(scan(tmp_path / "a.mp4", out=out, limits=Limits(max_side=64)).failures) == 1


def test_a_seek_without_an_index_may_read_the_whole_file(tmp_path: Path) -> None:
    """Live Matroska has no index: libav reads all packets up to the one that is sought."""
    path, limits = tmp_path / "live.mkv", Limits(max_packet_bytes=2**16)
    live = ClipSpec(
        num_frames=200, height=240, width=320, codec="mjpeg", pixel_format="yuvj420p", gop=None, b_frames=None,
        container_options={"live": "1"},
    )  # fmt: skip
    path.write_bytes(clip_bytes(live, "matroska"))
    assert path.stat().st_size > 8 * limits.max_packet_bytes
    index = build_index(path, limits=limits)
    decoder = PyAVDecoder(limits=limits)
    assert [ordinal for ordinal, _ in decoder.iter_native(MediaSource.of(path), index, [180])] == [180]


def test_bytes_of_one_large_read_count_once(tmp_path: Path) -> None:
    path = tmp_path / "attachments.mkv"
    path.write_bytes(b"\x1a\x45\xdf\xa3" + bytes(2**22))
    limits = Limits(max_header_bytes=2**21)
    source = LibavInput(MediaSource.of(path))
    source.bound_header(limits, path.read_bytes()[:8])
    assert len(source.read(2**20)) == 2**20  # as an attachment is read
    source.raise_error()
    for _ in range(2**21 // 8 // 2**15 + 8):  # as a search reads
        source.read(2**15)
    with pytest.raises(LimitExceeded, match="max_header_bytes"):
        source.raise_error()
    source.close_reader()


def test_a_read_that_fails_keeps_nothing_alive(tmp_path: Path) -> None:
    path = tmp_path / "hole.avi"
    with_hole(path, 300)
    gc.collect()
    before = [each for each in gc.get_objects() if type(each) is LibavInput]
    gc.disable()
    try:
        with suppress(LimitExceeded):
            build_index(path, limits=SMALL)
        after = [each for each in gc.get_objects() if type(each) is LibavInput]
    finally:
        gc.enable()
    assert after == before


def test_limits_reach_every_file_of_a_scan(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(clip_bytes(ClipSpec(num_frames=3), "mp4"))
    (tmp_path / "b.mkv").write_bytes(clip_bytes(ClipSpec(num_frames=3), "matroska"))
    made = scan(tmp_path, limits=Limits(max_side=64))
    assert [kind for _, kind, _ in made.failures] == ["LimitExceeded"] * 2
    assert not scan(tmp_path).failures
