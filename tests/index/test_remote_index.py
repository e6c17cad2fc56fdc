"""Indexes of URLs: from tables, with few bytes read; without tables, or with possible fields, as for a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import framefeed as ff
from framefeed.index import Verify
from framefeed.media import BLOCK_BYTES, FINGERPRINT_BLOCK
from framefeed.testing import ClipSpec, clip_bytes, put_packets, take_packets, write_clip
from tests.codec_clips import CODECS
from tests.corpus import corpus_file
from tests.lengths import IS_ALL
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


def packet_codecs() -> dict[str, Callable[[], bytes]]:
    """AV1 and VP9 in MP4 as encoders and muxers make it, and with facts of the container that they do not give."""
    av1, vp9 = ClipSpec(48, codec="libsvtav1", b_frames=None, gop=8), ClipSpec(48, codec="libvpx-vp9", gop=8)
    vp9 = replace(vp9, b_frames=None)
    fragments = {"movflags": "frag_keyframe+empty_moov+default_base_moof"}
    specs = {
        "AV1": av1,
        "AV1, each second a key frame": replace(av1, gop=2),
        "AV1, 10 bits": replace(av1, pixel_format="yuv420p10le"),
        "AV1, fragments": replace(av1, container_options=fragments),
        "AV1, an edit": replace(av1, start_seconds=-0.2, container_options={"avoid_negative_ts": "disabled"}),
        "AV1, turned": replace(av1, rotation=90, mirrored=True),
        "AV1, colours": replace(av1, codec_options={"color_primaries": "bt709", "colorspace": "bt709"}),
        "VP9": vp9,
        "VP9, hidden frames": replace(vp9, codec_options={"auto-alt-ref": "1", "lag-in-frames": "16"}),
        "VP9, two tiles": replace(vp9, width=512, num_frames=12, codec_options={"tile-columns": "1"}),
        "VP9, 4:4:4": replace(vp9, pixel_format="yuv444p"),
        "VP9, fragments": replace(vp9, container_options=fragments),
        "VP9, turned": replace(vp9, rotation=180),
    }
    clips: dict[str, Callable[[], bytes]] = {name: partial(clip_bytes, spec, "mp4") for name, spec in specs.items()}
    clips["VP9, any times"] = _vary_times
    for name, at, value in (("a matrix", 9, 6), ("full range", 6, 0x83)):
        clips[f"VP9, {name} of the container"] = partial(_with_vp9_box, at, value)
    return clips


def _vary_times() -> bytes:
    data = clip_bytes(ClipSpec(5, codec="libvpx-vp9", b_frames=None), "mp4")
    packets, _ = take_packets(data)
    timed = [replace(each, pts=time, dts=time) for each, time in zip(packets, TIMES, strict=True)]
    with TemporaryDirectory() as folder:
        put_packets(Path(folder) / "times.mp4", data, timed, Fraction(1, 10))
        return (Path(folder) / "times.mp4").read_bytes()


TIMES = (0, 1, 4, 5, 9)


def _with_vp9_box(at: int, value: int) -> bytes:
    """Change a byte of a VP9 track's vpcC box (VP Codec ISO Media File Format Binding 1.0, 2.2)."""
    data = bytearray(clip_bytes(ClipSpec(4, codec="libvpx-vp9", b_frames=None), "mp4"))
    data[data.index(b"vpcC") + 4 + at] = value
    return bytes(data)


@pytest.mark.parametrize("make", packet_codecs().values(), ids=packet_codecs().keys())
def test_M11_tables_of_av1_and_vp9_give_the_frames_that_packets_prove(make: Callable[[], bytes]) -> None:
    data = make()
    with stored(a=data) as (url,):
        index, proved = ff.build_index(url), ff.build_index(data)
        assert ff.probe(url) == ff.probe(data)
    assert index.built_from == "packets"
    for column in ("pts", "duration", "frame_packet", "frame_start", "key_frame_indices"):
        np.testing.assert_array_equal(getattr(index, column), getattr(proved, column))
    # Without reading packets it is not known whether they hold parameter sets.
    assert index.stream == proved.stream


@pytest.mark.slow
def test_M11_real_av1_and_vp9_are_indexed_by_url_as_locally(media_root: Path) -> None:
    names = sorted(media_root.glob("video/*/*av1*.mp4")) + sorted(media_root.glob("video/*/*vp9*.mp4"))
    names += sorted(media_root.glob("video/*/sample_with_it35_track.mp4"))
    assert len(names) == 8
    for path in names if IS_ALL else names[1::2]:
        data = path.read_bytes()
        with stored(a=data) as (url,):
            index, proved = ff.build_index(url), ff.build_index(data)
            none = ff.build_index(url, "none")
            numbers = np.random.default_rng(29).permutation(len(proved))[:12].tolist()
            with ff.VideoDecoder(url) as far, ff.VideoDecoder(path) as near:
                np.testing.assert_array_equal(far.get_frames_at(numbers).data, near.get_frames_at(numbers).data)
        assert index.built_from == "packets"
        assert index.stream == proved.stream
        for column in ("pts", "duration", "frame_packet", "frame_start", "key_frame_indices"):
            np.testing.assert_array_equal(getattr(index, column), getattr(proved, column))
            np.testing.assert_array_equal(getattr(index, column), getattr(none, column))


def test_durations_of_vp9_are_those_of_the_tables() -> None:
    """libav's parser gives each packet that of a constant rate."""
    index = ff.build_index(_vary_times())
    assert index.built_from == "packets+proof"
    np.testing.assert_array_equal(index.duration[:-1], np.diff(index.pts))


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


@pytest.mark.filterwarnings("ignore:.* are read to index it:UserWarning")
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
