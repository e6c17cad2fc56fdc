"""Streams with bad times and tables: every verification gives the same index, and unknown times stay unknown."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from framefeed.decode import VideoDecoder
from framefeed.errors import FramefeedError, TimeUnavailable
from framefeed.index import Verify
from framefeed.index._build import build_index
from framefeed.index._frame_index import FrameIndex
from framefeed.media import MediaSource, VideoContainer
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, clip_bytes, put_packets, read_stamp, take_packets
from tests.corpus import clip_file
from tests.index.proof_checks import differences
from tests.lengths import either
from tests.pathologies import bitstreams
from tests.pathologies.bitstreams import escape, join_units, split_units, unescape

VERIFY: list[Verify] = ["proof", "ends", "full"]


def index_of(path: Path) -> FrameIndex:
    """Index a file; every verification finds the same frames, times and key frames."""
    full = build_index(path, "full")
    for verify in VERIFY:
        index = build_index(path, verify)
        assert differences(index, full) == [], verify
        assert (index.times_from, index.time_shift) == (full.times_from, full.time_shift)
    return full


def check_times(index: FrameIndex) -> None:
    """Ask for each frame by its time, or for one where there are none."""
    if not index.has_timestamps:
        with pytest.raises(TimeUnavailable):
            index.index_at(0.0)
        return
    assert np.all(np.diff(index.pts) >= 0)
    rises = np.diff(index.pts_seconds) > 0
    is_alone = np.append(rises, True) & np.append(True, rises)
    assert np.array_equal(index.index_at(index.pts_seconds)[is_alone], np.flatnonzero(is_alone))


# --- dts that go backwards --------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["libx264", "mpeg4"])
def test_M07_M23_dts_that_go_backwards_too_are_no_times(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "again.ts"
    late, early = (ClipSpec(30, gop=10, b_frames=2, codec=codec, start_seconds=start) for start in (60, 0))
    path.write_bytes(clip_bytes(late, "mpegts") + clip_bytes(early, "mpegts"))
    with VideoContainer(MediaSource.of(path)) as container:
        dts = [packet.dts for packet in container.packets() if packet.dts is not None]
    assert dts != sorted(dts)
    index = index_of(path)
    assert (index.times_from, index.time_shift, len(index)) == ("none", 0, 60)
    assert np.isnan(index.pts_seconds).sum() in (0, 60)
    check_times(index)
    with VideoDecoder(path) as decoder:
        assert [read_stamp(decoder[number]) for number in (0, 29, 30, 59)] == [0, 29, 0, 29]
        with pytest.raises(TimeUnavailable):
            decoder.get_frame_played_at(0.0)
    assumed = build_index(path, assume_fps=25)
    assert (assumed.times_from, assumed.index_at(1.2)) == ("assumed", 30)


# --- times that jump by 2^33 ------------------------------------------------------------------------


def _later_fragments(clip: bytes, since: int, ticks: int) -> bytes:
    """Add to the decode times of the fragments from one on (ISO/IEC 14496-12 8.8.12)."""
    changed, at = bytearray(clip), 0
    for number in range(clip.count(b"tfdt")):
        at = clip.index(b"tfdt", at) + 4
        assert clip[at] == 1, "a time of 64 bits"
        if number >= since:
            (time,) = struct.unpack_from(">Q", clip, at + 4)
            struct.pack_into(">Q", changed, at + 4, time + ticks)
    return bytes(changed)


@pytest.mark.parametrize("b_frames", [0, 2])
@pytest.mark.parametrize("codec", ["libx264", "mpeg4"])
def test_M10_a_fragment_that_is_2_to_the_33_ticks_later(codec: str, b_frames: int, tmp_path: Path) -> None:
    options = {"movflags": "frag_keyframe+empty_moov+default_base_moof"}
    clip = clip_bytes(ClipSpec(40, gop=10, b_frames=b_frames, codec=codec, container_options=options), "mp4")
    path = tmp_path / "jump.mp4"
    path.write_bytes(_later_fragments(clip, 2, 2**33))
    index = index_of(path)
    assert (index.times_from, len(index)) == ("pts", 40)
    assert (np.diff(index.pts) > 2**32).sum() == 1
    assert index.is_variable_frame_rate
    check_times(index)


@pytest.mark.parametrize("codec", ["libx264", "mpeg4", "libvpx", "libvpx-vp9"])
def test_M10_packets_of_matroska_that_are_2_to_the_33_ticks_later(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "jump.mkv"
    clip = clip_bytes(ClipSpec(40, gop=10, b_frames=None if codec.startswith("libvpx") else 2, codec=codec), "matroska")
    packets, base = take_packets(clip)
    later = [
        replace(packet, pts=(packet.pts or 0) + 2**33, dts=None if packet.dts is None else packet.dts + 2**33)
        for packet in packets[20:]
    ]
    put_packets(path, clip, [*packets[:20], *later], base)
    index = index_of(path)
    assert len(index) == 40
    check_times(index)


# --- one frame --------------------------------------------------------------------------------------

ONE = {
    "libx264": (".mp4", ".mov", ".mkv", ".avi", ".ts", ".flv", ".h264"),
    "libx265": (".mkv", ".ts", ".hevc"),  # libav's MP4 writer wants more packets for its header
    "mpeg4": (".mp4", ".mkv", ".avi"),
    "mpeg2video": (".mpg", ".ts", ".mkv", ".m2v"),
    "libvpx": (".webm", ".ivf", ".mkv"),
    "libvpx-vp9": (".webm", ".ivf", ".mp4"),
    "libsvtav1": (".mp4", ".webm", ".ivf"),
    "mjpeg": (".mkv", ".avi", ".mov"),
    "ffv1": (".mkv", ".avi"),
}


@pytest.mark.parametrize(("codec", "ending"), [(codec, ending) for codec in ONE for ending in ONE[codec]])
def test_M16_a_file_of_one_frame(codec: str, ending: str) -> None:
    pixel_format = "yuvj420p" if codec == "mjpeg" else "yuv420p"
    # With B-frames, x265 takes the decoding time of a single frame from memory that it has not set.
    b_frames = 0 if codec == "libx265" else None
    path = clip_file(f"single_{codec}{ending}", ClipSpec(1, codec=codec, b_frames=b_frames, pixel_format=pixel_format))
    index = index_of(path)
    assert (len(index), index.average_fps, index.key_frame_indices.tolist()) == (1, None, [0])
    check_times(index)
    with VideoDecoder(path) as decoder:
        assert read_stamp(decoder[0]) == read_stamp(decoder[-1]) == 0
        if index.has_timestamps:
            assert decoder.get_frame_played_at(index.pts_seconds[0]).indices == 0


# --- rates of nothing -------------------------------------------------------------------------------


def _with_timing(stream: bytes, declared: tuple[int, int], written: tuple[int, int]) -> bytes:
    """Change num_units_in_tick and time_scale in all parameter sets of a stream of start codes."""
    old, new = (f"{units:032b}{scale:032b}" for units, scale in (declared, written))

    def changed(unit: bytes) -> bytes:
        payload = unescape(unit)
        text = f"{int.from_bytes(payload):0{8 * len(payload)}b}"
        if old not in text:
            return unit
        return escape(int(text.replace(old, new), 2).to_bytes(len(payload)))

    return join_units([changed(unit) for unit in split_units(stream)])


NTSC = Fraction(30_000, 1001)
DECLARED: dict[str, tuple[str, dict[str, str], tuple[int, int]]] = {
    "h264": ("libx264", {"x264-params": "force-cfr=1"}, (1001, 60_000)),
    "hevc": ("libx265", {"x265-params": "hrd=1:vbv-maxrate=500:vbv-bufsize=500:bitrate=500"}, (1001, 30_000)),
}


@pytest.mark.parametrize("written", [(0, 0), (0, 60_000), (1001, 0)])
@pytest.mark.parametrize("name", DECLARED)
def test_M07_a_rate_of_nothing_in_parameter_sets_is_not_declared(
    name: str, written: tuple[int, int], tmp_path: Path
) -> None:
    codec, options, declared = DECLARED[name]
    clip = clip_bytes(ClipSpec(12, codec=codec, fps=NTSC, codec_options=options), name)
    path = tmp_path / f"rate.{name}"
    path.write_bytes(_with_timing(clip, declared, declared))
    assert (index_of(path).times_from, index_of(path).average_fps) == ("rate", float(NTSC))
    path.write_bytes(_with_timing(clip, declared, written))
    index = index_of(path)
    assert (index.times_from, len(index), index.average_fps) == ("none", 12, None)
    check_times(index)
    assert build_index(path, assume_fps=24).times_from == "assumed"


# --- edit lists -------------------------------------------------------------------------------------

_ONCE, _EMPTY = 1 << 16, 2**32 - 1
EDITS: dict[str, list[tuple[int, int, int]]] = {
    "dwell on the first frame, then all": [(800, 0, 0), (2400, 0, _ONCE)],
    "dwell alone": [(2400, 0, 0)],
    "dwell inside a GOP": [(1000, 5 * 512, 0)],
    "nothing, dwell, then a part": [(400, _EMPTY, 0), (800, 10 * 512, 0), (1200, 20 * 512, _ONCE)],
    "all, then dwell on the last frame": [(2400, 0, _ONCE), (800, 59 * 512, 0)],
    "nothing, then all": [(400, _EMPTY, _ONCE), (2400, 0, _ONCE)],
    "twice as fast": [(2400, 0, 2 << 16)],
}


@lru_cache
def _sixty_frames(codec: str) -> bytes:
    return clip_bytes(ClipSpec(60, codec=codec, b_frames=2 if codec == "libx264" else None, gop=10), "mp4")


@pytest.mark.parametrize("codec", ["libx264", "libx265", "libvpx-vp9", "mpeg4"])
@pytest.mark.parametrize("name", EDITS)
def test_M06_edits_that_dwell(name: str, codec: str, tmp_path: Path) -> None:
    clip = _sixty_frames(codec)
    rows = bitstreams.make_table("elst", *EDITS[name])
    path = tmp_path / "dwell.mp4"
    path.write_bytes(bitstreams.replace_box(clip, "moov.trak.edts", bitstreams.make_box("edts", rows)))
    index = index_of(path)
    check_times(index)
    with VideoDecoder(path, frame_index=build_index(path)) as decoder, VideoDecoder(path, frame_index=index) as other:
        np.testing.assert_array_equal(decoder.get_all_frames().data, other.get_all_frames().data)


# --- the law, whatever the tier ---------------------------------------------------------------------


def _no_pts() -> Path:
    return clip_file("law.avi", ClipSpec(50, gop=10, b_frames=2))


def _rate() -> Path:
    return clip_file("law.h264", ClipSpec(50, fps=NTSC, codec_options={"x264-params": "force-cfr=1"}))


def _below_zero(tmp_path: Path) -> Path:
    """An MP4 whose dts begin below 0, and whose pts go backwards in the middle."""
    clip = clip_bytes(ClipSpec(50, gop=10, b_frames=2), "mp4")
    packets, base = take_packets(clip)
    packets[23], packets[24] = replace(packets[23], pts=packets[24].pts), replace(packets[24], pts=packets[23].pts)
    path = tmp_path / "below.mp4"
    put_packets(path, clip, packets, base)
    return path


TIERS: dict[str, Callable[[Path], Path]] = {
    "pts": lambda _: clip_file("law.ts", ClipSpec(50, gop=10, b_frames=2)),
    "dts": lambda _: _no_pts(),
    "rate": lambda _: _rate(),
}


@pytest.mark.parametrize("tier", TIERS)
def test_M24_the_time_of_a_frame_means_the_frame_in_every_tier(tier: str, tmp_path: Path) -> None:
    path = TIERS[tier](tmp_path)
    index = index_of(path)
    assert (index.times_from, len(index)) == (tier, 50)
    check_times(index)
    with VideoDecoder(path) as decoder:
        assert decoder.metadata.average_fps == index.average_fps is not None
        numbers = range(0, 50, 7)
        asked = [decoder.get_frame_played_at(index.pts_seconds[number]).indices for number in numbers]
        assert asked == list(numbers)


@pytest.mark.parametrize("tier", TIERS)
def test_the_average_rate_is_one_in_table_index_and_metadata(tier: str, tmp_path: Path) -> None:
    catalog = scan(TIERS[tier](tmp_path))
    rate = catalog.table.column("average_fps")[0].as_py()
    assert rate is not None
    assert rate == catalog.frame_index(0).average_fps == VideoDecoder(catalog[0]).metadata.average_fps
    assert catalog.table.column("times_from")[0].as_py() == tier


@pytest.mark.slow
@pytest.mark.long
def test_M24_the_time_of_a_frame_means_the_frame_in_real_files(media_root: Path) -> None:
    tiers = set()
    for path in sorted((media_root / "video").rglob("*"))[:: either(short=6, long=1)]:
        try:
            index = build_index(path)
        except FramefeedError:
            continue
        tiers.add(index.times_from)
        check_times(index)
        assert VideoDecoder(path, frame_index=index).metadata.average_fps == index.average_fps, path.name
    assert "pts" in tiers


def test_M07_the_first_frame_of_an_avi_is_played_at_zero() -> None:
    with VideoDecoder(_no_pts()) as decoder:
        assert decoder.frame_index.times_from == "dts"
        frame = decoder.get_frame_played_at(0.0)
        assert (frame.indices, frame.pts_seconds, read_stamp(frame.data)) == (0, 0.0, 0)


def test_M07_dts_that_begin_below_zero_keep_that_beginning(tmp_path: Path) -> None:
    path = _below_zero(tmp_path)
    with VideoContainer(MediaSource.of(path)) as container:
        first = next(container.packets()).dts
    assert first is not None
    assert first < 0
    index = index_of(path)
    assert (index.times_from, int(index.pts[0])) == ("dts", first)
    assert index.index_at(0.0) > 0
    check_times(index)
