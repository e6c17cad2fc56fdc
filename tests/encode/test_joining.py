from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from framefeed.encode import SEGMENT_CONTAINER, VideoOptions, VideoTags, VideoWriter, join_segments, resolve_video
from framefeed.errors import MissingMedia, UnreadableMedia, UnsupportedCodec, UsageError
from framefeed.index import build_index
from framefeed.media import MediaSource
from framefeed.testing import AudioSpec, ClipSpec, write_clip
from tests.encode.videos import (
    BT709,
    LAST,
    PAIRS,
    STEADY,
    TICK,
    TIMES,
    full_after,
    join,
    make_pictures,
    read_packets,
    read_pictures,
    ticks_of,
    times_for,
    write,
    write_segments,
)
from tests.judges import psnr

PICTURES = make_pictures()
EACH_BY_ITSELF = {"mjpeg", "prores", "ffv1"}


def test_the_last_frame_lasts_as_long_as_in_its_segment(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    index = join(path, write_segments(path, PICTURES, TIMES, VideoOptions(), last=7))
    assert index.duration[-1] * index.time_base == 7 * TICK
    assert min(np.diff(TIMES)) > 7


def test_a_segment_that_is_cut_loses_no_frame_silently(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    (segment,) = write_segments(path, PICTURES[:2], TIMES[:2], VideoOptions(), sizes=(2,))
    data = segment.read_bytes()
    expected = join(path, [segment]).pts.tolist()
    num_refused = 0
    for cut in range(1, 80):
        segment.write_bytes(data[:-cut])
        try:
            assert join(path, [segment]).pts.tolist() == expected
        except (UnreadableMedia, UsageError):  # UsageError: of a time without its last digits
            num_refused += 1
    assert num_refused > 40


@pytest.mark.parametrize(("ending", "codec"), PAIRS)
def test_segments_become_the_video_that_is_written_in_one_go(ending: str, codec: str, tmp_path: Path) -> None:
    whole, path = tmp_path / f"whole.{ending}", tmp_path / f"a.{ending}"
    times, options = times_for(ending), VideoOptions(codec)
    last = 3600 if ending == "avi" else LAST
    write(whole, PICTURES, times, options, last=last)
    expected = build_index(whole)

    index = join(path, write_segments(path, PICTURES, times, options, last=last))
    assert index.pts.tolist() == expected.pts.tolist()
    assert index.time_base == expected.time_base
    assert index.duration.tolist() == expected.duration.tolist()
    assert replace(index.stream, extradata=None) == replace(expected.stream, extradata=None)
    assert set(index.key_frame_indices) >= {0, 2, 5}
    pictures = read_pictures(path)
    if codec in EACH_BY_ITSELF:
        assert np.array_equal(pictures, read_pictures(whole))
    else:
        assert psnr(pictures, np.stack(PICTURES)) > 31

    # One segment alone is the same packets, with the same times.
    join(path, write_segments(path, PICTURES, times, options, sizes=(6,), last=last))
    assert read_packets(path) == read_packets(whole)
    assert build_index(path).stream.extradata == expected.stream.extradata
    assert np.array_equal(read_pictures(path), read_pictures(whole))


@pytest.mark.parametrize(("codec", "code"), [("hevc", "hvc1"), ("prores", "apcn"), ("h264", "avc1")])
def test_players_recognise_the_codec(codec: str, code: str, tmp_path: Path) -> None:
    write(tmp_path / "whole.mov", PICTURES, TIMES, VideoOptions(codec))
    join(tmp_path / "a.mov", write_segments(tmp_path / "a.mov", PICTURES, TIMES, VideoOptions(codec)))
    for name in ("whole.mov", "a.mov"):
        with av.open(os.fspath(tmp_path / name)) as container:
            assert container.streams.video[0].codec_context.codec_tag == code


def test_the_description_of_vp9_is_that_of_one_go(tmp_path: Path) -> None:
    write(tmp_path / "whole.mp4", PICTURES, TIMES, VideoOptions("vp9"))
    join(tmp_path / "a.mp4", write_segments(tmp_path / "a.mp4", PICTURES, TIMES, VideoOptions("vp9")))
    boxes = [(tmp_path / name).read_bytes().partition(b"vpcC")[2][:12] for name in ("whole.mp4", "a.mp4")]
    assert boxes[0] == boxes[1]
    assert boxes[0][4:9] != bytes(5)


@pytest.mark.parametrize("ending", ["mp4", "mkv"])
def test_joining_gives_the_same_bytes(ending: str, tmp_path: Path) -> None:
    files = []
    for name in ("a", "b"):
        path = tmp_path / f"{name}.{ending}"
        join(path, write_segments(path, PICTURES, TIMES, VideoOptions()))
        files.append(path.read_bytes())
    assert files[0] == files[1]


def test_tags_reach_the_video(tmp_path: Path) -> None:
    tags = VideoTags(9, 16, 9, 2, Fraction(8, 9))
    for codec in ("h264", "ffv1", "mjpeg"):
        path = tmp_path / "a.mp4"
        join(path, write_segments(path, PICTURES, TIMES, VideoOptions(codec, pixel_format=None), tags))
        write(tmp_path / "b.mp4", PICTURES, TIMES, VideoOptions(codec), tags)
        assert build_index(path).stream == build_index(tmp_path / "b.mp4").stream


@pytest.mark.parametrize("first", [-9000, 0, 90000 * 3600])
def test_times_before_zero_are_shifted_with_the_audio(first: int, tmp_path: Path) -> None:
    source = write_clip(tmp_path / "source.mkv", ClipSpec(num_frames=6), AudioSpec(0.5, "pcm_s16le"))
    times = [first + 3600 * number for number in range(6)]
    for ending in ("mov", "mkv"):
        path = tmp_path / f"a.{ending}"
        index = join(path, write_segments(path, PICTURES, times, VideoOptions()), source)
        shift = max(0, -first)
        assert ticks_of(index) == [pts + shift for pts in times]
        before, after = read_packets(source, "audio"), read_packets(path, "audio")
        assert [data for data, _, _ in after] == [data for data, _, _ in before]
        for (_, was, _), (_, now, _) in zip(before, after, strict=True):
            assert abs(now - was - shift * TICK) <= Fraction(1, 1000)


@pytest.mark.parametrize(
    ("source", "codec", "endings"),
    [
        ("a.mp4", "aac", ("mp4", "mov")),
        ("a.mkv", "aac", ("mp4", "mov", "mkv")),
        ("a.mkv", "libopus", ("mp4", "mkv", "webm")),
        ("a.mkv", "libmp3lame", ("mp4", "mov", "mkv")),
        ("a.mkv", "flac", ("mp4", "mkv")),
        ("a.avi", "libmp3lame", ("mp4", "mkv")),
    ],
)
def test_audio_is_copied_packet_by_packet(source: str, codec: str, endings: tuple[str, ...], tmp_path: Path) -> None:
    clip = write_clip(tmp_path / source, ClipSpec(num_frames=6), AudioSpec(0.7, codec))
    index = build_index(clip)
    times = [int(Fraction(int(pts)) * index.time_base / TICK) for pts in index.pts]
    before = read_packets(clip, "audio")
    for ending in endings:
        path = tmp_path / f"out.{ending}"
        joined = join(path, write_segments(path, PICTURES, times, VideoOptions(), last=3600), clip)
        after = read_packets(path, "audio")
        assert [data for data, _, _ in after] == [data for data, _, _ in before]
        # Matroska counts in milliseconds.
        slack = Fraction(1, 1000) if ending in ("mkv", "webm") else 0
        assert max(abs(now[1] - was[1]) for was, now in zip(before, after, strict=True)) <= slack
        assert abs(after[-1][2] - before[-1][2]) <= slack
        assert np.allclose(joined.pts_seconds, index.pts_seconds, atol=1e-3)


@pytest.mark.parametrize("unit", [Fraction(1, 25), Fraction(1001, 30000), Fraction(1, 10**9)])
def test_ticks_of_the_video_do_not_round_the_audio(unit: Fraction, tmp_path: Path) -> None:
    """The edit list of an MP4 file says where each track begins and ends, in one unit for all tracks."""
    clip = write_clip(tmp_path / "a.ts", ClipSpec(num_frames=6), AudioSpec(0.69, "libmp3lame"))
    segment = _write_one(tmp_path / "0.nut", 0, time_base=unit, ticks=round(Fraction(1, 25) / unit))
    path = tmp_path / "out.mp4"
    index = join(path, [segment], clip)
    assert Fraction(int(index.pts[1])) * index.time_base == round(Fraction(1, 25) / unit) * unit
    before, after = read_packets(clip, "audio"), read_packets(path, "audio")
    assert before[0][1] % unit != 0 or unit < Fraction(1, 10**6)
    assert [data for data, _, _ in after] == [data for data, _, _ in before]
    assert max(abs(now[1] - was[1]) for was, now in zip(before, after, strict=True)) < Fraction(1, 48000)


def test_priming_of_mp4_does_not_part_sound_and_pictures_in_matroska(tmp_path: Path) -> None:
    """FFmpeg 8 does not know how long the priming is, and shifts all of the file: Matroska has no times below 0.

    FFmpeg 9 knows, and writes it beside the times: players leave it out, and the pictures keep their times.
    """
    clip = write_clip(tmp_path / "a.mp4", ClipSpec(num_frames=6), AudioSpec(0.7, "aac"))
    path = tmp_path / "out.mkv"
    index = join(path, write_segments(path, PICTURES, [3600 * n for n in range(6)], VideoOptions()), clip)
    before, after = read_packets(clip, "audio"), read_packets(path, "audio")
    assert before[0][1] == Fraction(-1024, 48000)
    assert abs(index.pts_seconds[0] - after[0][1] - 1024 / 48000) < 1e-3
    with av.open(os.fspath(path)) as container:
        sound = [frame.pts for frame in container.decode(audio=0)]
    assert min(float(index.pts_seconds[0]), sound[0] / 1000) == 0
    assert [data for data, _, _ in after] == [data for data, _, _ in before]


def test_audio_that_a_container_does_not_hold(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "a.mkv", ClipSpec(num_frames=6), AudioSpec(0.3, "aac"))
    for ending, match in (("webm", r"\.webm file does not hold .*aac.*write \.mkv"), ("avi", r"slip.*\.mp4 or \.mkv")):
        path = tmp_path / f"out.{ending}"
        segments = write_segments(path, PICTURES, STEADY, VideoOptions(), last=3600)
        with pytest.raises(UsageError, match=match):
            join_segments(segments, path, audio_from=clip)
        assert not path.exists()


def test_a_source_without_audio(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "a.mkv", ClipSpec(num_frames=6))
    path = tmp_path / "out.mp4"
    segments = write_segments(path, PICTURES, TIMES, VideoOptions())
    join_segments(segments, path)
    silent = path.read_bytes()
    join_segments(segments, path, audio_from=MediaSource.of(clip))
    assert path.read_bytes() == silent


@pytest.mark.parametrize(("tag", "match"), [(b"enca", "its audio is encrypted"), (b"zzzz", "its audio is of a codec")])
def test_audio_that_cannot_be_understood(tag: bytes, match: str, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "a.mp4", ClipSpec(num_frames=6), AudioSpec(0.3, "aac"))
    data = clip.read_bytes()
    assert data.count(b"mp4a") == 1
    data = data.replace(b"mp4a", tag)
    # The description of the elementary stream, which names the codec too, becomes free space.
    clip.write_bytes(data if tag == b"enca" else data.replace(b"esds", b"free"))
    path = tmp_path / "out.mp4"
    segments = write_segments(path, PICTURES, TIMES, VideoOptions())
    with pytest.raises(UnsupportedCodec, match=rf"a\.mp4: {match}.*: leave out the audio") as caught:
        join_segments(segments, path, audio_from=clip)
    assert caught.value.source == os.fspath(clip)
    assert not path.exists()


def _write_one(
    path: Path, first: int, pictures: list[np.ndarray] = PICTURES, ticks: int = 3600, **keywords: object
) -> Path:
    """Write a segment of two pictures, each ``ticks`` long; ``keywords`` replace the writer's arguments."""
    options, tags = resolve_video("a.mp4", VideoOptions(), BT709)
    arguments: dict[str, object] = {"options": options, "tags": tags, "time_base": TICK, "rate": 25}
    with VideoWriter(path, container=SEGMENT_CONTAINER, **(arguments | keywords)) as writer:  # type: ignore[arg-type]
        writer.write(pictures[0], first, ticks)
        writer.write(pictures[1], first + ticks, ticks)
    return path


@pytest.mark.parametrize(
    ("keywords", "what"),
    [
        ({"options": VideoOptions("mpeg4")}, "header|codec"),
        ({"options": VideoOptions("h264", pixel_format="yuv444p")}, "header"),
        ({"tags": VideoTags(1, 1, 6, 1)}, "header"),
        ({"time_base": Fraction(1, 1000)}, "header"),
        ({"rate": 30}, "header"),
        ({"pictures": make_pictures(2, 32, 96)}, "size"),
    ],
)
def test_segments_of_other_settings_are_refused(keywords: dict[str, object], what: str, tmp_path: Path) -> None:
    first = _write_one(tmp_path / "0.nut", 0)
    other = _write_one(tmp_path / "1.nut", 7200, **keywords)  # type: ignore[arg-type]
    with pytest.raises(
        UsageError, match=rf"1\.nut: was written with other settings than .*0\.nut \(another ({what})\)"
    ):
        join_segments([first, other], tmp_path / "a.mp4")
    assert not (tmp_path / "a.mp4").exists()


def test_segments_of_other_parameter_sets_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _write_one(tmp_path / "0.nut", 0)
    with monkeypatch.context() as patch:
        # Another version of an encoder may write others for the same options.
        other = dict(VideoOptions("h264").encoder_options(1), preset="ultrafast")
        patch.setattr(VideoOptions, "encoder_options", lambda self, threads: other)
        second = _write_one(tmp_path / "1.nut", 7200)
    with pytest.raises(UsageError, match=r"1\.nut: was written with other settings .*another parameter sets"):
        join_segments([first, second], tmp_path / "a.mp4")


def test_segments_out_of_order_are_refused(tmp_path: Path) -> None:
    paths = [_write_one(tmp_path / f"{number}.nut", 7200 * number) for number in range(2)]
    for order in ((1, 0), (0, 0)):
        with pytest.raises(UsageError, match=r"begins before .* ends: give the segments in the order"):
            join_segments([paths[number] for number in order], tmp_path / "a.mp4")
    with pytest.raises(UsageError, match="segments: expected at least one"):
        join_segments([], tmp_path / "a.mp4")
    with pytest.raises(UsageError, match=r"a \.webm file does not hold h264"):
        join_segments(paths, tmp_path / "a.webm")
    assert sorted(os.listdir(tmp_path)) == ["0.nut", "1.nut"]


def test_files_that_are_no_whole_segments(tmp_path: Path) -> None:
    whole = _write_one(tmp_path / "0.nut", 0)
    data = whole.read_bytes()
    cases = {
        "video.mp4": None,
        "empty.nut": b"",
        "text.nut": b"no media",
        "half.nut": data[: len(data) // 2],
        "head.nut": data[:300],
        "other.nut": data.replace(b'{"version":1', b'{"version":9'),
        "damaged.nut": data.replace(b'"time_base":[1,90000]', b'"time_base":[1,00000]'),
    }
    write(tmp_path / "video.mp4", PICTURES, TIMES)
    for name, content in cases.items():
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        for segments in ([path], [whole, path]):
            with pytest.raises(UnreadableMedia, match=name) as caught:
                join_segments(segments, tmp_path / "a.mp4")
            assert caught.value.source == os.fspath(path)
        assert not (tmp_path / "a.mp4").exists()
    with pytest.raises(MissingMedia, match=r"none\.nut: no such file"):
        join_segments([whole, tmp_path / "none.nut"], tmp_path / "a.mp4")
    with pytest.raises(MissingMedia, match=r"none\.mkv: no such file"):
        join_segments([whole], tmp_path / "a.mp4", audio_from=tmp_path / "none.mkv")


@pytest.mark.parametrize("share", [0.1, 0.6, 0.99])
def test_a_full_disk_leaves_the_old_video(share: float, tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    segments = write_segments(path, PICTURES, TIMES, VideoOptions("mjpeg", 1))
    join_segments(segments, path)
    size = path.stat().st_size
    path.write_bytes(b"before")
    names = set(os.listdir(tmp_path))
    with full_after(int(size * share)), pytest.raises(UsageError, match=r"cannot write .*a\.mp4: .*make room"):
        join_segments(segments, path)
    assert path.read_bytes() == b"before"
    assert set(os.listdir(tmp_path)) == names
    join_segments(segments, path)
    assert len(build_index(path)) == 6


def test_avi_finds_the_rate_of_segments_that_do_not_name_it(tmp_path: Path) -> None:
    options, tags = resolve_video("a.avi", VideoOptions(), BT709)
    paths = [
        _write_one(tmp_path / f"{number}.nut", 7200 * number, options=options, tags=tags, rate=None)
        for number in range(3)
    ]
    join_segments(paths, tmp_path / "a.avi")
    index = build_index(tmp_path / "a.avi")
    assert (index.time_base, index.pts.tolist()) == (Fraction(1, 25), [0, 1, 2, 3, 4, 5])
