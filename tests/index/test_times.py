"""The source of frame times: the first valid one, for generated streams, broken ones and real files."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from framefeed._values import MISSING_PTS, SourceStat
from framefeed.catalog import Catalog
from framefeed.decode import VideoDecoder
from framefeed.errors import TimeUnavailable, UnreadableMedia, UsageError
from framefeed.index import Verify
from framefeed.index._build import build_index, index_media
from framefeed.index._frame_index import FrameIndex
from framefeed.index._times import DecodingTimes, FrameTimes, assume_rate, find_times
from framefeed.media import MediaSource, VideoContainer, walk_packets
from framefeed.scanning import count_times, scan
from framefeed.testing import ClipSpec, Coded, clip_bytes, put_packets, take_packets, write_clip
from tests.catalog.synthetic import catalog_of_index, same
from tests.corpus import clip_file, corpus_file
from tests.index.rated import with_avi_rate
from tests.index.record_times import FILES, TIMES, times_of
from tests.lengths import either

Ticks = list[int | None]

REAL = json.loads(TIMES.read_text())["files"]
FIXED = ClipSpec(codec_options={"x264-params": "force-cfr=1"})


def ascends(times: Sequence[int | None]) -> bool:
    known = [time for time in times if time is not None]
    return len(known) == len(times) > 0 and known == sorted(known)


# --- the rule, again and slowly -----------------------------------------------------------------------


def from_decoding(frames: Ticks, packets: Ticks) -> list[int] | None:
    """Decoding times of frames: both ends filled with the median step, the first frame at the first packet's."""
    numbers = [number for number, time in enumerate(frames) if time is not None]
    known = [time for time in frames if time is not None]
    sent = [time for time in packets if time is not None]
    if not known or numbers != list(range(numbers[0], numbers[-1] + 1)) or known != sorted(known):
        return None
    given = known if len(known) > 1 else sent
    steps = [after - before for before, after in pairwise(given)]
    unsent = packets.index(sent[0])
    if not steps and (len(known) < len(frames) or unsent):
        return None
    step = int(median(steps)) if steps else 0
    if step < 0:
        return None
    first = sent[0] - step * unsent
    filled = [known[0] + step * (number - numbers[0]) for number in range(numbers[0])] + known
    filled += [known[-1] + step * (number + 1) for number in range(len(frames) - len(filled))]
    return [time - filled[0] + first for time in filled]


def as_ticks(times: Ticks) -> np.ndarray:
    return np.array([MISSING_PTS if time is None else time for time in times], dtype=np.int64)


@pytest.fixture(scope="module")
def timeless() -> Iterator[tuple[VideoContainer, Any]]:
    """A stream that declares no rate."""
    with VideoContainer(MediaSource.of(corpus_file("raw.h264"))) as container:
        yield container, walk_packets(container)


MAYBE = st.integers(-20, 40) | st.integers(-(2**62), 2**62) | st.none()
RISING = st.lists(st.integers(0, 3), max_size=8).map(lambda steps: np.cumsum([5, *steps]).tolist())
HOLED = st.tuples(st.integers(0, 3), RISING, st.integers(0, 3)).map(
    lambda parts: [None] * parts[0] + parts[1] + [None] * parts[2]
)


@given(st.data(), HOLED | RISING | st.lists(MAYBE, min_size=1, max_size=8))
@settings(max_examples=300)
def test_M07_the_first_tier_that_holds(timeless: tuple[VideoContainer, Any], data: st.DataObject, own: Ticks) -> None:
    container, walk = timeless
    frames: Ticks = data.draw((HOLED | RISING | st.lists(MAYBE, min_size=1)).filter(bool))
    frames = (frames * len(own))[: len(own)]
    packets: Ticks = data.draw(HOLED | RISING | st.lists(st.integers(-9, 9), min_size=1))
    given_times = FrameTimes(as_ticks(own), np.ones(len(own), np.int64), Fraction(1, 25))
    result = find_times(container, given_times, walk, DecodingTimes(as_ticks(frames), as_ticks(packets)))
    decoded = from_decoding(frames, packets)
    assert result.time_base == Fraction(1, 25)
    if ascends(own):
        assert (result.times_from, result.pts.tolist(), result.time_shift) == ("pts", own, 0)
    elif decoded is None or max(abs(time) for time in [*decoded, *frames, *packets] if time is not None) > 2**59:
        # Beyond what is taken for a time.
        assert result.times_from in ("none", "dts")
        assert decoded is not None or result.times_from == "none"
    else:
        assert (result.times_from, result.pts.tolist()) == ("dts", decoded)
        shifted = [None if time is None else time + result.time_shift for time in frames]
        assert all(time in (None, there) for time, there in zip(shifted, decoded, strict=True))
    without = find_times(container, given_times, walk, None)
    assert without.times_from == ("pts" if ascends(own) else "none")


def test_an_assumed_rate_is_the_last_resort() -> None:
    none = FrameTimes(as_ticks([None, 3, 1]), np.zeros(3, np.int64), Fraction(1, 90_000), "none")
    assumed = assume_rate(none, Fraction(30_000, 1001))
    assert (assumed.times_from, assumed.time_base) == ("assumed", Fraction(1001, 30_000))
    assert (assumed.pts.tolist(), assumed.duration.tolist()) == ([0, 1, 2], [1, 1, 1])
    assert assume_rate(none, None) is none
    known = FrameTimes(as_ticks([0, 1, 5]), np.zeros(3, np.int64), Fraction(1, 25))
    assert assume_rate(known, Fraction(30)) is known


# --- generated streams --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "times_from", "first", "shift"),
    [
        ("base.mp4", "pts", 0, 0),
        ("duplicate_pts.mkv", "pts", 0, 0),
        ("start_8s.mkv", "pts", 8320, 0),
        ("no_pts.avi", "dts", 0, -2),
        ("mpeg4_bframes.avi", "pts", 1, 0),
        ("packed_b_frames.avi", "dts", 0, -1),
        ("shuffled_pts.mkv", "dts", -80, -80),
        ("negative_pts.mkv", "dts", -400, 0),
        ("sparse_pts.mpg", "none", None, 0),
        ("two_resets.ts", "none", None, 0),
        ("telecine.mpg", "none", None, 0),  # its sequence header declares a rate, and its fields repeat
        ("raw.h264", "none", None, 0),
        ("raw.hevc", "none", None, 0),
    ],
)
def test_M07_M08_M22_where_times_come_from(name: str, times_from: str, first: int | None, shift: int) -> None:
    index = build_index(corpus_file(name))
    assert (index.times_from, index.time_shift) == (times_from, shift)
    assert index.has_timestamps == (first is not None)
    if first is not None:
        assert int(index.pts[0]) == first
        assert np.all(np.diff(index.pts) >= 0)
    assert index.built_from == "decode" or times_from == "pts"


def test_M07_no_pts_in_an_avi_are_the_times_that_were_encoded() -> None:
    index = build_index(corpus_file("no_pts.avi"))
    assert index.pts.tolist() == list(range(100))
    assert index.time_base == Fraction(1, 25)
    assert index.average_fps == 25
    assert index.index_at(0.0) == 0
    assert index.index_at(1.0) == 25
    own = index.packets.pts[index.frame_packet]
    assert (np.diff(own) < 0).sum() > 20, "packets keep their own"


# --- declared rates -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fps", [Fraction(25), Fraction(30_000, 1001)])
@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("fixed.h264", "libx264", {"x264-params": "force-cfr=1"}),
        ("fixed_hrd.h264", "libx264",
         {"x264-params": "nal-hrd=cbr:vbv-maxrate=500:vbv-bufsize=500:bitrate=500:force-cfr=1"}),
        ("fixed.hevc", "libx265", {"x265-params": "hrd=1:vbv-maxrate=500:vbv-bufsize=500:bitrate=500"}),
        ("layers.hevc", "libx265",
         {"x265-params": "hrd=1:vbv-maxrate=500:vbv-bufsize=500:bitrate=500:temporal-layers=2"}),
    ],
)  # fmt: skip
def test_M07_a_rate_that_is_declared_constant(name: str, codec: str, options: dict[str, str], fps: Fraction) -> None:
    spec = ClipSpec(num_frames=40, fps=fps, codec=codec, codec_options=options)
    index = build_index(clip_file(f"{fps.denominator}_{name}", spec))
    assert (index.times_from, index.time_base, index.time_shift) == ("rate", 1 / fps, 0)
    assert index.pts.tolist() == list(range(40))
    assert set(index.duration.tolist()) == {1}
    assert index.pts_seconds.tolist() == [float(number / fps) for number in range(40)]
    assert index.index_at(float(7 / fps)) == 7


def test_M07_two_rates_in_one_stream_are_none(tmp_path: Path) -> None:
    fast = ClipSpec(num_frames=10, fps=50, codec_options=FIXED.codec_options)
    path = tmp_path / "two.h264"
    path.write_bytes(clip_bytes(FIXED, "h264") + clip_bytes(fast, "h264"))
    assert build_index(path).times_from == "none"
    path.write_bytes(clip_bytes(FIXED, "h264") * 2)
    assert build_index(path).times_from == "rate"


def test_M23_a_rate_of_mpeg_2_where_times_begin_again(tmp_path: Path) -> None:
    path = tmp_path / "again.ts"
    path.write_bytes(clip_bytes(ClipSpec(num_frames=30, codec="mpeg2video"), "mpegts") * 2)
    index = build_index(path)
    assert (index.times_from, index.time_base, len(index)) == ("rate", Fraction(1, 25), 60)
    one_more = clip_bytes(ClipSpec(num_frames=30, codec="mpeg2video", fps=30), "mpegts")
    path.write_bytes(path.read_bytes() + one_more)
    assert build_index(path).times_from == "none"


@pytest.mark.parametrize(("rate", "scale"), [(0, 0), (1, 0), (0, 1)])
def test_a_rate_of_nothing_is_no_clock(rate: int, scale: int, tmp_path: Path) -> None:
    """Libav makes up 25 frames a second where an AVI header has no rate, and counts its ticks in them."""
    path = tmp_path / "odd.avi"
    avi = clip_bytes(ClipSpec(num_frames=20), "avi")
    path.write_bytes(with_avi_rate(avi, rate, scale, period=0))
    index = build_index(path)
    assert (index.times_from, len(index)) == ("none", 20)
    assert np.isnan(index.pts_seconds).all()
    with pytest.raises(TimeUnavailable, match="assume_fps"):
        index.index_at(0.0)
    assumed = build_index(path, assume_fps=Fraction(24_000, 1001))
    assert (assumed.times_from, assumed.time_base) == ("assumed", Fraction(1001, 24_000))
    path.write_bytes(with_avi_rate(avi, rate, scale, period=40_000))
    assert build_index(path).times_from == "dts", "the main header says how long a frame lasts"


def backward_ivf(rate: int = 25, scale: int = 1) -> bytes:
    """An IVF file of 20 frames, one of which has the time of an earlier one."""
    ivf = bytearray(clip_bytes(ClipSpec(num_frames=20, codec="libvpx", b_frames=0), "ivf"))
    ivf[16:24] = rate.to_bytes(4, "little") + scale.to_bytes(4, "little")
    at = 32
    for number in range(20):
        time = 4 if number == 10 else number
        ivf[at + 4 : at + 12] = time.to_bytes(8, "little")
        at += 12 + int.from_bytes(ivf[at : at + 4], "little")
    return bytes(ivf)


def test_the_rate_of_an_ivf_header_where_times_go_backwards() -> None:
    index = build_index(backward_ivf(30_000, 1001))
    assert (index.times_from, index.time_base, len(index)) == ("rate", Fraction(1001, 30_000), 20)


@pytest.mark.parametrize(("rate", "scale"), [(0, 0), (1, 0), (0, 1)])
def test_a_rate_of_nothing_in_an_ivf_header_is_refused_by_libav(rate: int, scale: int) -> None:
    with pytest.raises(UnreadableMedia, match="Invalid frame rate"):
        build_index(backward_ivf(rate, scale))


# --- assumed rates ------------------------------------------------------------------------------------


def test_M07_an_assumed_rate_gives_times_to_a_stream_without() -> None:
    index = build_index(corpus_file("raw.h264"), assume_fps=25)
    assert (index.times_from, index.time_base, index.time_shift) == ("assumed", Fraction(1, 25), 0)
    assert index.index_at(1.0) == 25
    assert index.average_fps == 25
    assert build_index(corpus_file("raw.h264"), assume_fps=30000 / 1001).time_base == Fraction(1001, 30_000)


@pytest.mark.parametrize("name", ["base.mp4", "no_pts.avi"])
def test_an_assumed_rate_is_not_used_where_there_are_times_and_that_is_said(name: str) -> None:
    plain = build_index(corpus_file(name))
    with pytest.warns(UserWarning, match=r"assume_fps=50 was not used: the file has times of its own"):
        index = build_index(corpus_file(name), assume_fps=50)
    assert (index.times_from, index.pts.tolist()) == (plain.times_from, plain.pts.tolist())


def test_a_declared_rate_counts_before_an_assumed_one() -> None:
    with pytest.warns(UserWarning, match="times_from='rate'"):
        index = build_index(clip_file("declared.h264", FIXED), assume_fps=50)
    assert index.average_fps == 25


@pytest.mark.parametrize("fps", [0, -1, float("nan"), float("inf"), "fast", 1e300])
def test_a_rate_that_is_none_cannot_be_assumed(fps: Any) -> None:
    with pytest.raises(UsageError, match="assume_fps: expected"):
        build_index(corpus_file("raw.h264"), assume_fps=fps)
    with pytest.raises(UsageError, match="assume_fps: expected"):
        scan(corpus_file("raw.h264"), assume_fps=fps)


# --- broken streams -----------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [ClipSpec(num_frames=1), ClipSpec(num_frames=1, codec="mpeg4", b_frames=2)])
@pytest.mark.parametrize("ending", ["mp4", "mkv", "avi", "ts"])
def test_M16_a_stream_of_one_frame(spec: ClipSpec, ending: str) -> None:
    index = build_index(clip_file(f"one_{spec.codec}.{ending}", spec))
    assert len(index) == 1
    assert index.times_from in ("pts", "dts", "rate")
    assert index.index_at(index.pts_seconds[0]) == 0
    assert index.average_fps is None


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_M07_a_short_avi_whose_frames_come_out_at_the_end(count: int) -> None:
    index = build_index(clip_file(f"short_{count}.avi", ClipSpec(num_frames=count)))
    assert index.pts.tolist() == list(range(index.pts[0], index.pts[0] + count))
    assert index.time_base == Fraction(1, 25)


NEAR_THE_WRAP = {"start_seconds": 95_442, "container_options": {"max_delay": "0"}}
"""2^33 ticks of 90 kHz are 95,443.7 s."""


@pytest.mark.parametrize("b_frames", [0, 2])
@pytest.mark.parametrize("starts", [(0, 1), (1, 0), (1, 1), (1, 0, 1)])
def test_M10_M23_times_that_jump_by_2_to_the_33(starts: tuple[int, ...], b_frames: int, tmp_path: Path) -> None:
    path = tmp_path / "jump.ts"
    specs = [ClipSpec(num_frames=20, gop=10, b_frames=b_frames, **(NEAR_THE_WRAP if at else {})) for at in starts]
    path.write_bytes(b"".join(clip_bytes(spec, "mpegts") for spec in specs))
    index = build_index(path)
    assert len(index) == len(build_index(path, "full")) == 20 * len(starts)
    assert index.times_from in ("pts", "none")
    assert index.has_timestamps == ascends(index.pts.tolist())
    if index.has_timestamps:
        assert index.index_at(index.pts_seconds).tolist() == list(range(len(index)))


def test_M10_times_that_jump_forward_are_taken_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "jump.mkv"
    clip = clip_bytes(ClipSpec(num_frames=40, gop=10, b_frames=2), "matroska")
    packets, base = take_packets(clip)
    put_packets(path, clip, [_moved(packet, 2**33 * (number >= 20)) for number, packet in enumerate(packets)], base)
    index = build_index(path)
    assert (index.times_from, len(index)) == ("pts", 40)
    assert int(index.pts[-1]) > 2**33
    assert index.is_variable_frame_rate
    assert index.index_at(index.pts_seconds).tolist() == list(range(40))
    assert index.index_at(2.0**20) == 19


def _moved(packet: Coded, ticks: int) -> Coded:
    assert packet.pts is not None
    return replace(packet, pts=packet.pts + ticks, dts=None if packet.dts is None else packet.dts + ticks)


# --- catalogs -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed")
    for name in ("base.mp4", "no_pts.avi", "raw.h264"):
        shutil.copy(corpus_file(name), folder / name)
    write_clip(folder / "fixed.h264", FIXED)
    (folder / "text.mp4").write_text("no video")
    Image.new("RGB", (8, 8)).save(folder / "still.png")
    return folder


NAMES = ["base.mp4", "fixed.h264", "no_pts.avi", "raw.h264", "still.png", "text.mp4"]


def test_M07_a_catalog_says_where_times_come_from(mixed: Path, tmp_path: Path) -> None:
    out = tmp_path / "cat.parquet"
    made = scan(mixed, out=out, root=mixed)
    for catalog in (made, Catalog.open(out, mixed), scan(mixed, root=mixed, workers=0)):
        assert catalog.table.column("source").to_pylist() == NAMES
        assert catalog.table.column("times_from").to_pylist() == ["pts", "rate", "dts", "none", None, None]
        assert catalog.table.column("average_fps").to_pylist() == [25, 25, 25, None, None, None]
        assert count_times(catalog) == {"pts": 1, "dts": 1, "rate": 1, "none": 1}
        for row, name in enumerate(NAMES[:4]):
            assert same(catalog.frame_index(row), build_index(mixed / name))
    names = made.table.column_names
    assert names[names.index("num_damaged_frames") + 1] == "times_from"
    assert scan(mixed, depth="header").table.column("times_from").to_pylist() == [None] * 6


def test_M07_a_scan_that_assumes_a_rate(mixed: Path, tmp_path: Path) -> None:
    out = tmp_path / "cat.parquet"
    plain = scan(mixed, out=out, root=mixed)
    assumed = scan(mixed, out=out, root=mixed, assume_fps=12.5)
    assert assumed.table.column("times_from").to_pylist() == ["pts", "rate", "dts", "assumed", None, None]
    assert assumed.table.column("average_fps").to_pylist() == [25, 25, 25, 12.5, None, None]
    assert assumed.fingerprint != plain.fingerprint
    assert Catalog.open(out, mixed).frame_index(3).index_at(1.0) == 12
    assert assumed.verify().ok
    assert scan(mixed, out=out, root=mixed, assume_fps=12.5).fingerprint == assumed.fingerprint
    assert scan(mixed, out=out, root=mixed).fingerprint == plain.fingerprint, "nothing of the other rate is kept"
    out.unlink()
    header = scan(mixed, out=out, root=mixed, depth="header", assume_fps=12.5)
    assert Catalog.open(out, mixed).with_frame_indexes().table.equals(assumed.table)
    assert pickle.loads(pickle.dumps(scan(mixed, depth="header", assume_fps=12.5))).with_frame_indexes()[3].frame_index
    assert not header.has_frame_indexes


def test_a_scan_says_that_an_assumed_rate_was_not_used(mixed: Path) -> None:
    with pytest.warns(UserWarning, match="assume_fps=30 was not used: all readable files have times of their own"):
        scan([mixed / "base.mp4", mixed / "no_pts.avi"], assume_fps=30)


def test_verification_tells_times_of_another_tier(mixed: Path) -> None:
    source = mixed / "no_pts.avi"
    info, index = index_media(source)
    own = index.packets.pts[index.frame_packet]
    false = replace(index, pts=np.sort(own), times_from="pts", time_shift=0)
    stat = SourceStat(source.stat().st_size, source.stat().st_mtime_ns)
    result = catalog_of_index(str(source), info, false, stat).verify()
    assert {difference.what for difference in result.differences} == {"times_from", "time_shift", "pts"}


# --- real files ---------------------------------------------------------------------------------------


def real_index(root: Path, name: str, verify: Verify = "proof") -> tuple[FrameIndex, dict[str, Any]]:
    path = root / "video" / name
    facts = REAL[name]
    if not path.exists() or path.stat().st_size != facts["bytes"]:
        pytest.skip(f"{name} is not the file whose times were recorded: run python -m tests.index.record_times")
    return build_index(path, verify), facts


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "verify"),
    [(name, "proof") for name in FILES] + [(name, "full") for name in [*FILES][:: either(short=5, long=1)]],
)
def test_M07_M22_times_of_real_files_are_those_of_ffprobe(name: str, verify: Verify, media_root: Path) -> None:
    index, facts = real_index(media_root, name, verify)
    pts, dts = (list(times_of(facts[column])) for column in ("pts", "dts"))
    if ascends(pts):
        assert (index.times_from, index.time_shift) == ("pts", 0)
        assert index.pts.tolist() == pts
    else:
        assert (index.times_from, index.built_from) == ("dts", "decode")
        assert int(index.pts[0]) == facts["first_packet_dts"]
        decoded = (index.pts - index.time_shift).tolist()
        assert [time if known is not None else None for time, known in zip(decoded, dts, strict=True)] == dts
        assert np.all(np.diff(index.pts) >= 0)


AVIS = [name for name in FILES if name.endswith(".avi")]


def test_every_real_avi_has_times(media_root: Path) -> None:
    result = sorted(os.fspath(path.relative_to(media_root / "video")) for path in media_root.glob("video/*/*.avi"))
    assert set(result) == set(AVIS), "record them: python -m tests.index.record_times"
    assert len(AVIS) == 10
    catalog = scan([media_root / "video" / name for name in AVIS])
    assert count_times(catalog) == {"pts": 5, "dts": 5}
    for row in range(len(catalog)):
        about = VideoDecoder(catalog[row]).metadata
        assert about.average_fps == catalog.table.column("average_fps")[row].as_py() is not None
        assert about.times_from == catalog.table.column("times_from")[row].as_py()
