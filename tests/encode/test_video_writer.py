from __future__ import annotations

import gc
import io
import os
import re
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from framefeed.encode import SEGMENT_CONTAINER, VideoOptions, VideoTags, VideoWriter, _muxing, resolve_video
from framefeed.encode._codecs import CODECS
from framefeed.errors import UsageError
from framefeed.index import StreamFacts, build_index
from tests.encode.videos import (
    BT709,
    LAST,
    PAIRS,
    STEADY,
    TICK,
    TIMES,
    full_after,
    make_pictures,
    read_packets,
    read_pictures,
    ticks_of,
    times_for,
    write,
)
from tests.judges import psnr
from tests.programs import report_of

PICTURES = make_pictures()
EXACT = VideoOptions(codec="ffv1")
# Least likeness to the pictures at each codec's default quality, in dB.
LIKENESS = {"ffv1": 99, "prores": 37, "mjpeg": 35, "mpeg4": 33, "h264": 33, "hevc": 31, "vp9": 33, "av1": 32}


@pytest.mark.parametrize(("ending", "codec"), PAIRS)
def test_a_container_holds_a_codec(ending: str, codec: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    times = times_for(ending)
    write(path, PICTURES, times, VideoOptions(codec=codec), last=3600 if ending == "avi" else LAST)
    index = build_index(path)
    assert index.stream.codec == codec
    if ending in ("mp4", "mov"):
        assert ticks_of(index) == list(times)
    elif ending == "avi":
        assert ticks_of(index) == [pts - times[0] for pts in times]
    else:
        assert [round(pts / 90) for pts in ticks_of(index)] == [round(pts / 90) for pts in times]
    assert psnr(read_pictures(path), np.stack(PICTURES)) >= LIKENESS[codec]
    if (ending, codec) != ("mp4", "vp9"):  # whose packets libav gives the average duration
        assert index.duration[-1] * index.time_base == (3600 if ending == "avi" else LAST) * TICK
    with av.open(os.fspath(path)) as container:
        stream = container.streams.video[0]
        assert stream.codec_context.has_b_frames is False
        end = times[-1] - times[0] + LAST
        if ending in ("mp4", "mov"):
            assert stream.duration is not None
            assert stream.time_base is not None
            assert stream.duration * stream.time_base == end * TICK


def test_encoders_print_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tiny = make_pictures(1, 2, 2)
    for codec in CODECS:
        write(tmp_path / "a.mkv", PICTURES, TIMES, VideoOptions(codec))
        with suppress(UsageError):  # some encoders have a least size
            write(tmp_path / "b.mkv", tiny, (0,), VideoOptions(codec))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("size", [(2, 2), (14, 64), (64, 14)])
def test_av1_pictures_that_its_encoder_has_no_room_for_are_refused(size: tuple[int, int], tmp_path: Path) -> None:
    """The SVT-AV1 of PyAV 19.0 ends the process for some: they must not reach it."""
    with pytest.raises(UsageError, match="least 16 x 16"):
        write(tmp_path / "a.mkv", make_pictures(1, *size), (0,), VideoOptions("av1"))
    write(tmp_path / "b.mkv", make_pictures(1, 16, 16), (0,), VideoOptions("av1"))


@pytest.mark.parametrize("codec", CODECS)
def test_the_same_pictures_give_the_same_bytes(codec: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / f"{name}.mkv", PICTURES, TIMES, VideoOptions(codec=codec))
    assert (tmp_path / "a.mkv").read_bytes() == (tmp_path / "b.mkv").read_bytes()
    write(tmp_path / "a.mkv", PICTURES[::-1], TIMES, VideoOptions(codec=codec))
    assert (tmp_path / "a.mkv").read_bytes() != (tmp_path / "b.mkv").read_bytes()


@pytest.mark.slow
def test_h264_does_not_depend_on_what_is_in_new_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = set()
    for fill in ("0", "1"):
        monkeypatch.setenv("MALLOC_PERTURB_", fill)  # of glibc: "0" leaves it as it is
        digests.add(report_of("tests.encode.repeated", str(tmp_path / "a.mp4")))
    assert len(digests) == 1


def test_nothing_in_a_file_names_a_version_or_a_date(tmp_path: Path) -> None:
    for ending in ("mp4", "mkv"):
        path = tmp_path / f"a.{ending}"
        write(path, PICTURES, TIMES)
        assert not re.search(rb"Lav[fc]\d", path.read_bytes())
        with av.open(os.fspath(path)) as container:
            assert "creation_time" not in container.metadata


VIEWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "as it is": lambda picture: picture,
    "mirrored": lambda picture: picture[:, ::-1],
    "upside down": lambda picture: picture[::-1],
    "a part": lambda picture: picture[::2, 3:-9],
    "turned": lambda picture: picture.transpose(1, 0, 2),
    "blue first": lambda picture: picture[:, :, ::-1],
    "columns first": np.asfortranarray,
    "one pixel": lambda picture: np.broadcast_to(picture[:1, :1], picture.shape),
    "read-only": lambda picture: np.frombuffer(picture.tobytes(), np.uint8).reshape(picture.shape),
}


@pytest.mark.parametrize("view", VIEWS)
def test_lossless_pictures_of_any_strides_come_back(view: str, tmp_path: Path) -> None:
    pictures = [VIEWS[view](picture) for picture in make_pictures(6, 33, 51)]
    write(tmp_path / "a.mkv", pictures, TIMES, EXACT)
    assert np.array_equal(read_pictures(tmp_path / "a.mkv"), np.stack(pictures))


def test_a_picture_may_be_changed_after_the_call(tmp_path: Path) -> None:
    for options in (VideoOptions(quality=10), EXACT):
        canvas = np.empty_like(PICTURES[0])
        with VideoWriter(tmp_path / "a.mkv", options, BT709, TICK, rate=25) as writer:
            for picture, pts in zip(PICTURES, TIMES, strict=True):
                canvas[:] = picture
                writer.write(canvas, pts, LAST)
                canvas[:] = 0
        write(tmp_path / "b.mkv", PICTURES, TIMES, options)
        assert (tmp_path / "a.mkv").read_bytes() == (tmp_path / "b.mkv").read_bytes()


@pytest.mark.parametrize("full", [1, 2])
@pytest.mark.parametrize("matrix", [1, 2, 5, 6, 7, 9])
def test_decoders_find_the_colours_by_the_tags(matrix: int, full: int, tmp_path: Path) -> None:
    pictures, times = PICTURES[:2], TIMES[:2]
    tags = VideoTags(1, 1, matrix, full)
    for path, options in ((tmp_path / "a.mp4", VideoOptions("h264", 1)), (tmp_path / "a.mkv", VideoOptions("ffv1"))):
        options = replace(options, pixel_format="yuv444p")
        write(path, pictures, times, options, tags)
        stream = build_index(path).stream
        assert (stream.color_space, stream.color_range) == (matrix, full)
        assert (stream.color_primaries, stream.color_transfer) == (1, 1)
        assert psnr(read_pictures(path, 2), np.stack(pictures)) > 43
    # The tags matter: pictures of another matrix or range are far from these.
    for wrong in (VideoTags(1, 1, 6 if matrix in (1, 7, 9) else 1, full), VideoTags(1, 1, matrix, 3 - full)):
        write(tmp_path / "b.mkv", pictures, times, replace(EXACT, pixel_format="yuv444p"), wrong)
        coded = [_planes(path) for path in (tmp_path / "a.mkv", tmp_path / "b.mkv")]
        assert psnr(*coded) < 42


def _planes(path: Path) -> np.ndarray:
    with av.open(os.fspath(path)) as container:
        return np.stack([frame.to_ndarray() for frame in container.decode(video=0)])


@pytest.mark.parametrize("matrix", [1, 6])
def test_pictures_that_were_420_stay_as_they_are(matrix: int, tmp_path: Path) -> None:
    """Decoded and written again, without loss by the codec, 4:2:0 pictures change by rounding alone.

    Of noise, the hardest picture, filters that mix neighbours leave 30 to 35 dB.
    """
    options, tags = VideoOptions("ffv1", pixel_format="yuv420p"), VideoTags(1, 1, matrix, 1)
    noise = np.random.default_rng(1).integers(0, 256, PICTURES[0].shape, dtype=np.uint8)
    for pictures, least in ((PICTURES, 44.5), ([noise], 42)):
        write(tmp_path / "a.mkv", pictures, TIMES[: len(pictures)], options, tags)
        first = read_pictures(tmp_path / "a.mkv", len(pictures))
        write(tmp_path / "b.mkv", list(first), TIMES[: len(pictures)], options, tags)
        assert psnr(first, read_pictures(tmp_path / "b.mkv", len(pictures))) > least


@pytest.mark.parametrize(
    ("ending", "codec", "tags", "expected"),
    [
        ("mp4", "h264", VideoTags(9, 16, 9, 1), (9, 16, 9, 1)),
        ("mp4", "h264", VideoTags(), (2, 2, 2, 0)),
        ("mp4", "h264", VideoTags(1, 13, 0, 2), (1, 13, 1, 1)),  # the source is RGB
        ("mp4", "h264", VideoTags(9, 16, 14, 1), (9, 16, 1, 1)),  # swscale has no ICtCp
        ("mp4", "hevc", VideoTags(3, 255, 3, 1), (2, 2, 2, 1)),  # reserved codes
        ("mp4", "hevc", VideoTags(12, 18, 10, 2), (12, 18, 1, 2)),
        ("mp4", "mpeg4", VideoTags(1, 1, 1, 2), (1, 1, 1, 1)),  # its bitstream cannot name the full range
        ("mov", "prores", VideoTags(1, 1, 1, 2), (1, 1, 1, 1)),
        ("mkv", "ffv1", VideoTags(1, 1, 1, 1), (1, 1, 0, 2)),
        ("avi", "mpeg4", VideoTags(1, 1, 1, 2), (2, 2, 2, 0)),
        ("mkv", "mjpeg", VideoTags(1, 1, 1, 1), (1, 1, 5, 2)),
        ("webm", "vp9", VideoTags(1, 1, 1, 2), (1, 1, 1, 2)),
    ],
)
def test_tags_are_those_that_the_file_can_carry(
    ending: str, codec: str, tags: VideoTags, expected: tuple[int, ...], tmp_path: Path
) -> None:
    path = tmp_path / f"a.{ending}"
    write(path, PICTURES, times_for(ending), VideoOptions(codec), tags)
    stream = build_index(path).stream
    written = (stream.color_primaries, stream.color_transfer, stream.color_space, stream.color_range)
    assert written == expected
    assert psnr(read_pictures(path), np.stack(PICTURES)) >= LIKENESS[codec]


def test_the_shape_of_samples_is_kept_or_refused(tmp_path: Path) -> None:
    tags = replace(BT709, pixel_aspect_ratio=Fraction(16, 11))
    for ending, codec in PAIRS:
        path, options = tmp_path / f"a.{ending}", VideoOptions(codec)
        if ending in ("mkv", "webm", "avi") and codec in ("vp9", "av1", "ffv1", "prores"):
            with pytest.raises(UsageError, match=rf"a \.{ending} file of {codec} .*16:11.*write \.mp4"):
                resolve_video(path, options, tags)
            continue
        write(path, PICTURES[:1], (0,), options, tags)
        with av.open(os.fspath(path)) as container:
            stream = container.streams.video[0]
            next(container.decode(stream))
            assert stream.sample_aspect_ratio == Fraction(16, 11), (ending, codec)


def test_times_are_rounded_to_milliseconds_as_libav_does(tmp_path: Path) -> None:
    picture = np.zeros((32, 32, 3), np.uint8)
    for times, are_apart in (
        ((14, 16), True),
        ((14, 15), True),
        ((16, 24), False),
        ((5, 10), False),
        ((25, 30), False),
    ):
        with VideoWriter(tmp_path / "a.mkv", VideoOptions(), VideoTags(), Fraction(1, 10_000)) as writer:
            writer.write(picture, 0, 1)
            writer.write(picture, times[0], 1)
            with nullcontext() if are_apart else pytest.raises(UsageError, match="fall in one millisecond"):
                writer.write(picture, times[1], 1)
        if are_apart:
            with av.open(str(tmp_path / "a.mkv")) as container:
                assert [packet.pts for packet in container.demux() if packet.size] == [0, 1, 2]


def test_a_turned_source_has_turned_samples() -> None:
    stream = make_stream(rotation=90)
    assert VideoTags.of(stream, Fraction(4, 3)).pixel_aspect_ratio == Fraction(3, 4)
    assert VideoTags.of(replace(stream, rotation=180), Fraction(4, 3)).pixel_aspect_ratio == Fraction(4, 3)
    assert VideoTags.of(stream) == VideoTags(1, 13, 6, 2)


@pytest.mark.parametrize("pixel_format", ["rgb24", "gbrp", "pal8", "RGB"])
def test_a_source_of_rgb_pictures_becomes_bt709(pixel_format: str) -> None:
    stream = replace(make_stream(0), pixel_format=pixel_format, color_space=2, color_range=0)
    tags = VideoTags.of(stream)
    assert (tags.space, tags.range) == (0, 2)
    assert (tags.fit(VideoOptions("h264")).space, tags.fit(VideoOptions("h264")).range) == (1, 1)
    assert VideoTags.of(replace(stream, pixel_format="yuv420p")).space == 2
    assert VideoTags.of(replace(stream, pixel_format="")).space == 2


def test_a_source_of_vp8_has_the_matrix_of_bt601() -> None:
    stream = replace(make_stream(0), codec="vp8", color_space=2)
    assert VideoTags.of(stream).space == 5
    assert VideoTags.of(replace(stream, color_space=1)).space == 1
    assert VideoTags.of(replace(stream, codec="h264")).space == 2


def make_stream(rotation: int) -> StreamFacts:
    return StreamFacts(
        0, "mov", "h264", None, 64, 48, "yuv420p", rotation,
        color_primaries=1, color_transfer=13, color_space=6, color_range=2,
    )  # fmt: skip


@pytest.mark.parametrize("first", [-4500, -1, 0, 1, 90000 * 3600 * 24 * 2])
@pytest.mark.parametrize("ending", ["mp4", "mkv"])
def test_the_first_time_is_kept_unless_negative(ending: str, first: int, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    times = [first + 3600 * number for number in range(6)]
    write(path, PICTURES, times, VideoOptions("mjpeg"))
    tick = 1 if ending == "mp4" else 90
    shift = -first if first < 0 else 0
    assert [round(pts / tick) for pts in ticks_of(build_index(path))] == [round((pts + shift) / tick) for pts in times]


def test_any_time_base(tmp_path: Path) -> None:
    for unit in (Fraction(1001, 30000), Fraction(1, 3), Fraction(2), Fraction(1, 10**9)):
        with VideoWriter(tmp_path / "a.mp4", VideoOptions("mjpeg"), BT709, unit) as writer:
            for number, picture in enumerate(PICTURES):
                writer.write(picture, number * 7, 7)
        index = build_index(tmp_path / "a.mp4")
        assert [Fraction(int(pts)) * index.time_base for pts in index.pts] == [number * 7 * unit for number in range(6)]
        assert int(index.duration[-1]) * index.time_base == 7 * unit


def test_times_that_a_container_cannot_hold(tmp_path: Path) -> None:
    def attempt(name: str, times: tuple[int, ...], match: str, **keywords: float) -> None:
        with pytest.raises(UsageError, match=match):
            write(tmp_path / name, PICTURES, times, VideoOptions("mjpeg"), **keywords)  # type: ignore[arg-type]
        assert not os.listdir(tmp_path)

    attempt("a.avi", TIMES, r"frame 1 comes 0\.033367 s after the first instead of 0\.040000 s: write \.mp4 .* fps=")
    attempt("a.avi", (0, 3600, 7200, 14400, 18000, 21600), r"frame 3 comes 0\.160000 s .* instead of 0\.120000 s")
    attempt("a.avi", STEADY, r"equal distances.*instead of 0\.033333", rate=30)
    attempt("a.avi", STEADY, r"at most 1000 frames a second, and these are 2000: write \.mp4", rate=2000)
    attempt("a.mkv", (0, 100, 120, 300, 400, 500), r"frames 1 and 2 fall in one millisecond.*write \.mp4")
    attempt("a.mp4", (0, 1, 2, 3, 4, 2**40), r"frame 5 comes .* more than a \.mp4 file holds.*write \.mkv")


def test_a_tick_as_long_as_a_frame_hides_no_gap(tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "a.avi", VideoOptions(), BT709, Fraction(1, 25)) as writer:
        writer.write(PICTURES[0], 0, 1)
        writer.write(PICTURES[1], 1, 1)
    writer = VideoWriter(tmp_path / "b.avi", VideoOptions(), BT709, Fraction(1, 25))
    writer.write(PICTURES[0], 0, 1)
    with pytest.raises(UsageError, match=r"frame 1 comes 0\.080000 s"):
        writer.write(PICTURES[1], 2, 1)
    assert os.listdir(tmp_path) == ["a.avi"]


@pytest.mark.parametrize("codec", ["mpeg4", "mjpeg"])
def test_rates_of_any_size_fit_avi(codec: str, tmp_path: Path) -> None:
    for rate in (Fraction(120000, 1001), Fraction(1000), Fraction(1, 10)):
        with VideoWriter(tmp_path / "a.avi", VideoOptions(codec), BT709, 1 / rate) as writer:
            for number, picture in enumerate(PICTURES):
                writer.write(picture, number, 1)
        index = build_index(tmp_path / "a.avi")
        assert (index.time_base, index.pts.tolist()) == (1 / rate, [0, 1, 2, 3, 4, 5])


def test_times_in_milliseconds_of_a_constant_rate_fit_avi(tmp_path: Path) -> None:
    rate = Fraction(30000, 1001)
    times = [round(number * 1000 / rate) for number in range(40)]
    with VideoWriter(tmp_path / "a.avi", VideoOptions(), BT709, Fraction(1, 1000), rate=rate) as writer:
        for number, pts in enumerate(times):
            writer.write(PICTURES[number % 6], pts, 33)
    index = build_index(tmp_path / "a.avi")
    assert index.time_base == 1 / rate
    assert index.pts.tolist() == list(range(40))


@pytest.mark.parametrize(
    ("picture", "given"),
    [
        (PICTURES[0].astype(np.float32), r"float32 \[64, 96, 3\]"),
        (PICTURES[0].astype(np.int64), r"int64 \[64, 96, 3\]"),
        (PICTURES[0][:, :, 0], r"uint8 \[64, 96\]"),
        (np.zeros((64, 96, 4), np.uint8), r"uint8 \[64, 96, 4\]"),
        (PICTURES[0].transpose(2, 0, 1), r"uint8 \[3, 64, 96\]"),
        (PICTURES[0][:0], r"uint8 \[0, 96, 3\]"),
        (PICTURES[0].tolist(), "list"),
        (None, "NoneType"),
    ],
)
def test_arrays_that_are_no_pictures(picture: object, given: str, tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "a.mkv", EXACT, BT709, TICK) as writer:
        writer.write(PICTURES[0], 0, 1)
        with pytest.raises(UsageError, match=rf"picture 1: expected uint8 \[H, W, 3\], got {given}"):
            writer.write(picture, 3600, 1)  # type: ignore[arg-type]
        writer.write(PICTURES[1], 3600, 3600)
    assert np.array_equal(read_pictures(tmp_path / "a.mkv", 2), np.stack(PICTURES[:2]))


def test_pictures_of_another_size_and_times_that_go_back(tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "a.mp4", VideoOptions(), BT709, TICK) as writer:
        writer.write(PICTURES[0], 100, 1)
        with pytest.raises(UsageError, match=r"picture 1 has 96 x 32 pixels.* before it 96 x 64: a video has one size"):
            writer.write(PICTURES[0][:32], 3600, 1)
        for pts in (100, 99, -7):
            with pytest.raises(UsageError, match=rf"pts: expected more than 100 for picture 1, got {pts}"):
                writer.write(PICTURES[0], pts, 1)
        for pts, duration in ((3600.0, 1), (True, 1), (3600, 0), (3600, -1), (3600, 1.5)):
            with pytest.raises(UsageError, match="expected an integer"):
                writer.write(PICTURES[0], pts, duration)
        for pts in (2**63, -(2**70)):
            with pytest.raises(UsageError, match="pts: expected"):
                writer.write(PICTURES[0], pts, 1)
        writer.write(PICTURES[1], np.int64(3600), np.int64(3600))


@pytest.mark.parametrize(("height", "width"), [(63, 96), (64, 95), (1, 1)])
def test_odd_sizes_are_refused_where_samples_are_shared(height: int, width: int, tmp_path: Path) -> None:
    picture = make_pictures(1, height, width)[0]
    with (
        pytest.raises(UsageError, match=rf'have {width} x {height} .*yuv420p.*pixel_format="yuv444p"'),
        VideoWriter(tmp_path / "a.mp4", VideoOptions(), BT709, TICK) as writer,
    ):
        writer.write(picture, 0, 1)
    assert not os.listdir(tmp_path)
    write(tmp_path / "a.mp4", [picture], (0,), VideoOptions(quality=1, pixel_format="yuv444p"))
    assert psnr(read_pictures(tmp_path / "a.mp4", 1), picture[None]) > 40


def test_a_video_of_no_picture_is_an_error(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="no picture was written"),
        VideoWriter(tmp_path / "a.mp4", VideoOptions(), BT709, TICK),
    ):
        pass
    assert not os.listdir(tmp_path)


def test_the_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(b"before")
    writer = VideoWriter(path, VideoOptions(), BT709, TICK)

    def break_off() -> None:
        with writer:
            writer.write(PICTURES[0], 0, 1)
            assert len(os.listdir(tmp_path)) == 2
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["a.mp4"]
    with pytest.raises(UsageError, match="the writer is closed"):
        writer.write(PICTURES[0], 1, 1)
    writer.close()
    writer.discard()

    writer = VideoWriter(path, VideoOptions(), BT709, TICK)
    writer.write(PICTURES[0], 0, 1)
    assert path.read_bytes() == b"before"
    writer.close()
    writer.close()
    writer.discard()
    assert len(build_index(path)) == 1
    assert os.listdir(tmp_path) == ["a.mp4"]


@pytest.mark.parametrize("container", [None, SEGMENT_CONTAINER])
def test_a_forgotten_writer_leaves_nothing(container: str | None, tmp_path: Path) -> None:
    options, tags = resolve_video("a.mp4", VideoOptions(), BT709)

    def forget() -> None:
        VideoWriter(tmp_path / "a.mp4", options, tags, TICK, container=container).write(PICTURES[0], 0, 1)
        gc.collect()

    with pytest.warns(ResourceWarning):
        forget()
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("ending", ["mp4", "mkv", "avi"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_full_disk_leaves_the_old_file(ending: str, share: float, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    write(path, PICTURES, STEADY, VideoOptions("mjpeg", 1))
    size = path.stat().st_size
    path.write_bytes(b"before")
    with full_after(int(size * share)), pytest.raises(UsageError, match=rf"cannot write .*a\.{ending}: .*make room"):
        write(path, PICTURES, STEADY, VideoOptions("mjpeg", 1))
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == [path.name]


def test_bytes_that_the_system_takes_in_parts_are_all_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.mp4", PICTURES, STEADY, VideoOptions("mjpeg"))

    class Slow(io.FileIO):
        def write(self, data: object) -> int:
            return super().write(memoryview(data)[:1000])  # type: ignore[arg-type]

    monkeypatch.setattr("framefeed.encode._muxing.io.FileIO", Slow)
    write(tmp_path / "b.mp4", PICTURES, STEADY, VideoOptions("mjpeg"))
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()


def test_folders_that_do_not_take_the_file(tmp_path: Path) -> None:
    for path in (tmp_path / "missing" / "a.mp4", Path("/proc/a.mp4")):
        with pytest.raises(UsageError, match=r"cannot write .*a\.mp4: .*choose another name"):
            write(path, PICTURES, TIMES)
    (tmp_path / "folder.mp4").mkdir()
    with pytest.raises(UsageError, match=r"cannot write .*folder\.mp4"):
        write(tmp_path / "folder.mp4", PICTURES, TIMES)
    assert os.listdir(tmp_path) == ["folder.mp4"]


def test_names_that_libav_would_read_as_something_else(tmp_path: Path) -> None:
    folder = tmp_path / "http:a%03d"
    folder.mkdir()
    for name in ("b:c|d.mp4", "%d.mkv", os.fsdecode(b"\xff\xfe.mp4"), "\u89c6.MP4"):
        write(folder / name, PICTURES, TIMES, VideoOptions("mjpeg"))
        assert len(build_index(folder / name)) == 6
    assert len(os.listdir(folder)) == 4


def test_what_ffmpeg_refuses_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*a\.mp4: FFmpeg refuses: "):
        write(tmp_path / "a.mp4", make_pictures(1, 2, 2), (0,), VideoOptions("hevc"))
    assert not os.listdir(tmp_path)


def test_key_frames_are_as_far_apart_as_asked(tmp_path: Path) -> None:
    still = [PICTURES[0]] * 6
    for gop, keys in ((1, [0, 1, 2, 3, 4, 5]), (4, [0, 4]), (None, [0])):
        write(tmp_path / "a.mp4", still, TIMES, VideoOptions(gop=gop))
        assert build_index(tmp_path / "a.mp4").key_frame_indices.tolist() == keys


@pytest.mark.parametrize("codec", [codec for codec, rule in CODECS.items() if rule.scale])
def test_a_smaller_quality_number_is_a_better_picture(codec: str, tmp_path: Path) -> None:
    least, most = CODECS[codec].qualities
    sizes, likeness = [], []
    for quality in (least + 1, (least + most) // 2, most):
        write(tmp_path / "a.mkv", PICTURES, TIMES, VideoOptions(codec, quality))
        sizes.append(sum(len(data) for data, _, _ in read_packets(tmp_path / "a.mkv")))
        likeness.append(psnr(read_pictures(tmp_path / "a.mkv"), np.stack(PICTURES)))
    assert sizes == sorted(sizes, reverse=True)
    assert likeness == sorted(likeness, reverse=True)
    assert likeness[0] > likeness[2] + 2


def test_threads_of_the_encoder(tmp_path: Path) -> None:
    for codec in CODECS:
        with VideoWriter(tmp_path / "a.mkv", VideoOptions(codec), BT709, TICK, threads=2) as writer:
            for picture, pts in zip(PICTURES, TIMES, strict=True):
                writer.write(picture, pts, LAST)
        assert psnr(read_pictures(tmp_path / "a.mkv"), np.stack(PICTURES)) >= LIKENESS[codec]


@pytest.mark.parametrize(
    ("keywords", "match"),
    [
        ({"time_base": 0.04}, "time_base: expected a positive Fraction"),
        ({"time_base": Fraction(0)}, "time_base: expected a positive Fraction"),
        ({"time_base": Fraction(1, 10**10)}, "time_base: expected a positive Fraction of 32-bit integers"),
        ({"time_base": Fraction(-1, 25)}, "time_base: expected a positive Fraction"),
        ({"rate": 0}, "rate: expected a positive number"),
        ({"rate": float("nan")}, "rate: expected a positive number"),
        ({"rate": float("inf")}, "rate: expected a positive number"),
        ({"threads": 0}, "threads: expected an integer of at least 1"),
        ({"container": "mpg"}, r"endings \.mp4, \.mov, \.mkv, \.webm, \.avi, got '\.mpg'"),
        ({"container": "nut"}, "codec: .*resolve_video"),
        ({"path": "a"}, "got none"),
        ({"path": 7}, "path: expected a path"),
        ({"options": "h264"}, "options: expected"),
        ({"tags": None}, "tags: expected"),
    ],
)
def test_wrong_arguments(keywords: dict[str, object], match: str) -> None:
    arguments: dict[str, object] = {"path": "a.mp4", "options": VideoOptions(), "tags": BT709, "time_base": TICK}
    with pytest.raises(UsageError, match=match):
        VideoWriter(**(arguments | keywords))  # type: ignore[arg-type]


def test_an_encoder_without_memory_is_no_wrong_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise av.error.ExternalError(542398533, "Generic error in an external library", "avcodec_open2")

    with pytest.raises(UsageError, match="choose another codec"), _muxing.mux_errors("a.mp4"):
        fail()
    monkeypatch.setattr(_muxing, "is_memory_there", lambda nbytes: False)
    with pytest.raises(MemoryError), _muxing.mux_errors("a.mp4"):
        fail()
