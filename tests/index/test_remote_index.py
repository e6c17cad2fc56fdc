"""Indexes of URLs: from tables, with few bytes read; without tables, or with possible fields, as for a file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import framefeed as ff
from framefeed.index import Verify
from framefeed.media import BLOCK_BYTES, FINGERPRINT_BLOCK
from framefeed.testing import put_packets, take_packets, write_clip
from tests.codec_clips import CODECS
from tests.corpus import corpus_file
from tests.media.nal_mutants import edit, h264, hevc
from tests.pathologies.bitstreams import find_box
from tests.remote import CountedFiles, stored

_FILLER_BYTES = 50_000
_PIECES = 5
"""The beginning, what lies before and behind the pictures, and head, middle and tail, of which one is the beginning."""
_MOST = _PIECES * (BLOCK_BYTES + FINGERPRINT_BLOCK)


def long_movie(path: Path, codec: str) -> bytes:
    """Write an MP4 file of 5 MB whose packets are mostly filler."""
    kind, make = (b"\x0c", h264) if codec == "h264" else (b"\x4c\x01", hevc)
    filler = kind + b"\xff" * _FILLER_BYTES + b"\x80"
    return edit(make(), range(96), lambda units: [*units, filler]).write(path).read_bytes()


def read_for(data: bytes, ask: Callable[[str], object]) -> int:
    """Count the bytes that are read of an object."""
    with stored(a=data) as (url,):
        ask(url)
        return CountedFiles.fetched


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_a_long_movie_is_indexed_without_its_pictures(codec: str, tmp_path: Path) -> None:
    data = long_movie(tmp_path / "long.mp4", codec)
    start, end = find_box(data, "moov")
    assert len(data) > 4 * (_MOST + end - start)
    for ask in (ff.build_index, ff.probe, ff.VideoDecoder, lambda url: ff.scan([url], workers=0)):
        assert read_for(data, ask) <= _MOST + end - start


def test_a_reader_of_all_packets_is_caught(tmp_path: Path) -> None:
    data = long_movie(tmp_path / "long.mp4", "h264")
    start, end = find_box(data, "moov")
    assert read_for(data, lambda url: ff.build_index(url, "full")) > _MOST + end - start


@pytest.mark.parametrize("name", ["base.mp4", "fragmented.mp4", "faststart.mp4", "edit_list.mp4"])
def test_tables_give_the_frames_that_packets_prove(name: str) -> None:
    data = corpus_file(name).read_bytes()
    with stored(a=data) as (url,):
        index, proved = ff.build_index(url), ff.build_index(data)
    assert index.built_from == "packets"
    for column in ("pts", "duration", "frame_packet", "frame_start", "key_frame_indices"):
        np.testing.assert_array_equal(getattr(index, column), getattr(proved, column))


@pytest.mark.parametrize("codec", ["mpeg4", "mjpeg"])
def test_movies_of_other_codecs_are_indexed_from_tables(codec: str, tmp_path: Path) -> None:
    clip, movie = tmp_path / f"clip{CODECS[codec].suffix}", tmp_path / "clip.mov"
    write_clip(clip, CODECS[codec].spec)
    packets, time_base = take_packets(clip.read_bytes())
    put_packets(movie, clip.read_bytes(), packets, time_base)
    with stored(a=movie.read_bytes()) as (url,):
        index, full = ff.build_index(url), ff.build_index(movie, "full")
    assert index.built_from == "packets"
    np.testing.assert_array_equal(index.pts, full.pts)


@pytest.mark.parametrize("name", ["fields.mp4", "closed_gop.ts", "open_gop.mkv", "fields.mkv"])
def test_what_tables_cannot_say_is_indexed_as_of_a_file(name: str) -> None:
    data = corpus_file(name).read_bytes()
    with stored(a=data) as (url,):
        index, near = ff.build_index(url), ff.build_index(data)
    assert index.built_from == near.built_from != "packets"
    np.testing.assert_array_equal(index.frame_packet, near.frame_packet)


@pytest.mark.parametrize(("verify", "built_from"), [("full", "decode"), ("ends", "packets+ends"), ("none", "packets")])
def test_what_is_asked_for_is_obeyed(verify: Verify, built_from: str) -> None:
    with stored(a=corpus_file("base.mp4").read_bytes()) as (url,):
        assert partial(ff.build_index, verify=verify)(url).built_from == built_from
