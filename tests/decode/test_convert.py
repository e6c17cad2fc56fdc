"""Decoded picture -> RGB: turned, cropped and resized, in the stream's own colours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from framefeed.decode._convert import Converter
from framefeed.decode._decoder import describe_recipe
from framefeed.decode._video_decoder import VideoDecoder
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.errors import FormatChanged, UsageError
from framefeed.index import StreamFacts, build_index
from framefeed.request import OutputSpec
from framefeed.testing import ClipSpec, find_stamp, read_stamp, write_clip
from tests.corpus import clip_file, corpus_file
from tests.decode.damaged import copy_native_planes
from tests.judges import psnr
from tests.lengths import choose_pairs
from tests.makers import open_corpus, slot_of
from tests.media.files import KINDS_OF_PICTURES, readable_path
from tests.reference import packed_planes

Picture = npt.NDArray[np.uint8]


def stream_of(frame: VideoFrame, *, rotation: int = 0, mirrored: bool = False) -> StreamFacts:
    return StreamFacts(0, "mov", "h264", None, frame.width, frame.height, frame.format.name, rotation, mirrored)


def converted(
    frame: VideoFrame, output: OutputSpec | None = None, *, is_accurate: bool = False, **turn: object
) -> Picture:
    """RGB [H, W, 3] of a picture."""
    stream = stream_of(frame, **turn)  # type: ignore[arg-type]
    output = replace(output or OutputSpec(), dimension_order="NHWC")
    out = np.full(output.shape(*stream.displayed), 77, dtype=np.uint8)
    Converter(is_accurate=is_accurate).write(frame, stream, output, out)
    return out


@cache
def natural(height: int, width: int, seed: int = 0) -> Picture:
    """A picture with the spectrum of a photograph, amplitude falling with frequency, and coloured shapes in it."""
    rng = np.random.default_rng(seed)
    rows, columns = np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width)[None]
    falling = 1 / np.maximum(np.hypot(rows, columns), 1 / max(height, width)) ** 1.2
    picture = np.empty((height, width, 3))
    for channel in range(3):
        noise = np.fft.ifft2(np.fft.fft2(rng.standard_normal((height, width))) * falling).real
        picture[..., channel] = 110 + 45 * noise / noise.std()
    y, x = np.mgrid[:height, :width]
    for _ in range(6):
        centre, radius = rng.uniform(0, 1, 2) * (height, width), rng.uniform(0.05, 0.2) * height
        picture[np.hypot(y - centre[0], x - centre[1]) < radius] = rng.uniform(30, 225, 3)
    drawn = np.clip(picture, 16, 235).astype(np.uint8)
    drawn.flags.writeable = False
    return drawn


def frame_of(picture: Picture, pixel_format: str = "yuv444p") -> VideoFrame:
    rgb = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), "rgb24")
    return VideoReformatter().reformat(rgb, format=pixel_format, threads=1)


# --- planes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS_OF_PICTURES)
def test_native_planes_are_the_picture_without_padding(name: str) -> None:
    with av.open(str(readable_path(name))) as container:
        frame = next(container.decode(video=0))
        assert copy_native_planes(frame) == packed_planes(frame)


@pytest.mark.parametrize(
    "pixel_format",
    ["yuv420p", "yuv422p", "yuv444p", "yuv410p", "yuv411p", "yuv440p", "nv12", "nv21", "p010le", "yuyv422", "uyvy422",
     "gray", "gray10le", "rgb24", "bgra", "rgb565le", "gbrp", "gbrp12le", "yuv420p10le", "yuva444p", "monow"],
)  # fmt: skip
@pytest.mark.parametrize(("height", "width"), [(2, 2), (17, 33), (31, 130)])
def test_P09_native_planes_of_odd_sizes(pixel_format: str, height: int, width: int) -> None:
    frame = frame_of(natural(height, width), pixel_format)
    assert copy_native_planes(frame) == packed_planes(frame)


# --- P01: turns -------------------------------------------------------------------------------------

CORNERS = {
    "top left": (255, 0, 0),
    "top right": (0, 255, 0),
    "bottom left": (0, 0, 255),
    "bottom right": (255, 255, 255),
}
TURNS = [(degrees, mirrored) for degrees in (0, 90, 180, 270) for mirrored in (False, True)]


def cornered(height: int, width: int) -> Picture:
    picture = np.full((height, width, 3), 90, dtype=np.uint8)
    rows, columns = height // 4, width // 4
    for name, colour in CORNERS.items():
        top, left = name.split()
        picture[slice(None, rows) if top == "top" else slice(-rows, None),
                slice(None, columns) if left == "left" else slice(-columns, None)] = colour  # fmt: skip
    return picture


def corners_of(picture: Picture) -> dict[str, tuple[int, ...]]:
    """The colour in the middle of each corner's patch, to full steps of 255."""
    height, width, _ = picture.shape
    y, x = height // 8, width // 8
    positions = {
        "top left": (y, x),
        "top right": (y, -1 - x),
        "bottom left": (-1 - y, x),
        "bottom right": (-1 - y, -1 - x),
    }
    return {name: tuple(int(value > 127) * 255 for value in picture[position]) for name, position in positions.items()}


@pytest.fixture(scope="module")
def turned_clips(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, bool], Path]:
    folder = tmp_path_factory.mktemp("turned")
    clips = {}
    for degrees, mirrored in TURNS:
        spec = ClipSpec(num_frames=2, height=64, width=96, b_frames=0, pixel_format="yuv444p", rotation=degrees,
                        mirrored=mirrored, codec_options={"crf": "4"})  # fmt: skip
        rows, columns = spec.displayed_size
        path = folder / f"{degrees}{mirrored}.mp4"
        clips[degrees, mirrored] = write_clip(path, replace(spec, draw=lambda _, r=rows, c=columns: cornered(r, c)))  # type: ignore[misc]
    return clips


@pytest.mark.parametrize(("degrees", "mirrored"), TURNS)
@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("size", [None, (48, 48), 32, (20, 90)])
def test_P01_corners_lie_where_they_are_shown(
    turned_clips: dict[tuple[int, bool], Path],
    degrees: int,
    mirrored: bool,
    order: str,
    size: tuple[int, int] | int | None,
) -> None:
    with VideoDecoder(turned_clips[degrees, mirrored], dimension_order=order, size=size) as decoder:  # type: ignore[arg-type]
        picture = decoder[1] if order == "NHWC" else decoder[1].transpose(1, 2, 0)
        tall = degrees in (90, 270)
        full = (96, 64) if tall else (64, 96)
        short = {32: (48, 32) if tall else (32, 48), None: full}
        assert picture.shape[:2] == (short[size] if not isinstance(size, tuple) else size)
        assert corners_of(picture) == CORNERS


@pytest.mark.parametrize(("degrees", "mirrored"), TURNS)
@pytest.mark.parametrize("corner", CORNERS)
@pytest.mark.parametrize("size", [None, (12, 10)])
def test_P01_a_crop_is_of_the_picture_as_shown(
    turned_clips: dict[tuple[int, bool], Path], degrees: int, mirrored: bool, corner: str, size: tuple[int, int] | None
) -> None:
    rows, columns = (96, 64) if degrees in (90, 270) else (64, 96)
    top = 2 if corner.startswith("top") else rows - 14
    left = 2 if corner.endswith("left") else columns - 14
    with VideoDecoder(turned_clips[degrees, mirrored], crop=(top, left, 12, 12), size=size) as decoder:
        picture = decoder[0]
    assert picture.shape == (3, *(size or (12, 12)))
    inner = picture[:, 3:-3, 3:-3].reshape(3, -1).mean(axis=1)
    assert tuple(int(value > 127) * 255 for value in inner) == CORNERS[corner]


@pytest.mark.parametrize(("degrees", "mirrored"), TURNS)
def test_P01_turning_moves_pixels_and_changes_none(degrees: int, mirrored: bool) -> None:
    frame = frame_of(natural(50, 70), "yuv420p")
    stored, shown = converted(frame), converted(frame, rotation=degrees, mirrored=mirrored)
    upright = np.rot90(stored, degrees // 90)
    np.testing.assert_array_equal(shown, upright[:, ::-1] if mirrored else upright)
    crop = (5, 8, 31, 22)
    part = converted(frame, OutputSpec(crop=crop), rotation=degrees, mirrored=mirrored)
    np.testing.assert_array_equal(part, shown[5:36, 8:30])


@pytest.mark.parametrize("name", ["rotated_90.mp4", "rotated_270_mirrored.mp4", "mirrored.mp4", "rotated_180.mp4"])
def test_P01_a_turned_clip_reads_upright(name: str) -> None:
    with VideoDecoder(corpus_file(name)) as decoder:
        for number in (0, 7, 24):
            reading = find_stamp(decoder[number])
            assert (reading.number, reading.rotation, reading.mirrored) == (number, 0, False)
        assert (decoder.metadata.height, decoder.metadata.width) == decoder[0].shape[1:]


# --- P02: colours -----------------------------------------------------------------------------------

# ITU-T H.273 table 4: Kr and Kb of each matrix.
KR_KB = {"ITU601": (0.299, 0.114), "ITU709": (0.2126, 0.0722), "BT2020": (0.2627, 0.0593)}
MATRIX_NUMBER = {"ITU709": 1, "unspecified": 2, "ITU601": 6, "BT2020": 9}
BARS = np.array([(235, 235, 235), (180, 16, 16), (16, 180, 16), (16, 16, 180), (180, 180, 16), (128, 128, 128),
                 (16, 16, 16), (200, 100, 50)], dtype=np.uint8)  # fmt: skip


def analytic_yuv(rgb: npt.NDArray[np.float64], matrix: str, full_range: bool) -> Picture:
    """ITU-T H.273 8.3, equations 1 to 6 for 8 bits."""
    kr, kb = KR_KB[matrix]
    red, green, blue = (rgb / 255).transpose(2, 0, 1)
    luma = kr * red + (1 - kr - kb) * green + kb * blue
    blue_difference, red_difference = (blue - luma) / (2 * (1 - kb)), (red - luma) / (2 * (1 - kr))
    scale = (255, 255, 0) if full_range else (219, 224, 16)
    planes = [scale[0] * luma + scale[2], scale[1] * blue_difference + 128, scale[1] * red_difference + 128]
    return np.clip(np.round(planes), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("pixel_format", ["yuv444p", "yuv420p"])
@pytest.mark.parametrize("size", [None, (24, 64)])
@pytest.mark.parametrize("full_range", [False, True])
@pytest.mark.parametrize("tag", MATRIX_NUMBER)
def test_P02_colour_bars_by_matrix_and_range(
    tag: str, full_range: bool, size: tuple[int, int] | None, pixel_format: str
) -> None:
    bars = BARS.repeat(16, axis=0)[None].repeat(48, axis=0)
    # A stream that names no matrix is taken for BT.601, as swscale does.
    planes = analytic_yuv(bars.astype(float), "ITU601" if tag == "unspecified" else tag, full_range)
    if pixel_format == "yuv420p":
        flat = [planes[0], planes[1][::2, ::2], planes[2][::2, ::2]]
    else:
        flat = list(planes)
    frame = VideoFrame(128, 48, pixel_format)
    for plane, values in zip(frame.planes, flat, strict=True):
        rows = np.zeros((plane.height, plane.line_size), dtype=np.uint8)
        rows[:, : values.shape[1]] = values
        plane.update(rows.tobytes())
    frame.colorspace = MATRIX_NUMBER[tag]
    frame.color_range = 2 if full_range else 1
    shown = converted(frame, OutputSpec(size=size))
    expected = bars if size is None else BARS.repeat(8, axis=0)[None].repeat(24, axis=0)
    width = expected.shape[1] // len(BARS)
    inner = np.arange(expected.shape[1]) % width
    inner = (inner >= 2) & (inner < width - 2)  # chroma bleeds over the edges of bars
    error = np.abs(shown.astype(int) - expected)[:, inner]
    assert error.max() <= 3
    assert error.mean() <= 1


@pytest.mark.parametrize(("matrix", "number"), [("bt709", 1), ("smpte170m", 6), ("bt2020nc", 9)])
@pytest.mark.parametrize("full_range", [False, True])
def test_P02_the_streams_tags_reach_the_conversion(matrix: str, number: int, full_range: bool, tmp_path: Path) -> None:
    """The same samples under other tags are other colours."""
    pixel_format = "yuvj444p" if full_range else "yuv444p"
    spec = ClipSpec(num_frames=1, b_frames=0, height=48, width=128, pixel_format=pixel_format,
                    codec_options={"crf": "1", "x264-params": f"colormatrix={matrix}"},
                    draw=lambda _: BARS.repeat(16, axis=0)[None].repeat(48, axis=0))  # fmt: skip
    path = write_clip(tmp_path / "bars.mp4", spec)
    with av.open(str(path)) as container:
        frame = next(container.decode(video=0))
        planes = np.stack([np.frombuffer(p, np.uint8).reshape(p.height, -1)[:, :128] for p in frame.planes])
        assert (frame.colorspace, frame.color_range) == (number, 2 if full_range else 1)
    name = {number: name for name, number in MATRIX_NUMBER.items()}[number]
    with VideoDecoder(path, dimension_order="NHWC") as decoder:
        shown = decoder[0].astype(float)
        assert decoder.metadata.color_space == number
    again = analytic_yuv(shown, name, full_range)
    middle = (np.arange(128) % 16 > 3) & (np.arange(128) % 16 < 12)
    clipped = ((shown <= 1) | (shown >= 254)).any(axis=2)  # what fell out of RGB's cube does not come back
    error = np.abs(again.astype(int) - planes)[:, :, middle]
    assert error[:, ~clipped[:, middle]].max() <= 3


def luma_frame(luma: npt.NDArray[np.integer[Any]], pixel_format: str, neutral: int) -> VideoFrame:
    """A picture without colour, of luma samples [H, W]."""
    frame = VideoFrame(luma.shape[1], luma.shape[0], pixel_format)
    for number, plane in enumerate(frame.planes):
        row = luma if number == 0 else np.full((plane.height, plane.width), neutral, luma.dtype)
        samples = np.zeros((plane.height, plane.line_size // luma.itemsize), luma.dtype)
        samples[:, : row.shape[1]] = row
        plane.update(samples.tobytes())
    return frame


def test_P06_ten_bits_are_rounded_to_eight() -> None:
    ramp = np.arange(64, 941, dtype=np.uint16)[None].repeat(4, axis=0)[:, :876]
    grey = converted(luma_frame(ramp, "yuv420p10le", 512))[0].astype(int)
    assert (grey == grey[:, :1]).all(), "no colour"
    exact = (ramp[0].astype(float) - 64) * 255 / 876
    assert np.abs(grey[:, 0] - exact).max() <= 3, "swscale's own roundings"
    assert (np.diff(grey[:, 0]) >= 0).all()


@pytest.mark.parametrize(("transparent", "opaque"), [("yuva420p", "yuv420p"), ("yuva444p", "yuv444p")])
def test_P07_transparency_is_dropped_and_changes_no_colour(transparent: str, opaque: str) -> None:
    one, other = VideoFrame(64, 48, transparent), frame_of(natural(48, 64), opaque)
    for number, plane in enumerate(one.planes):
        samples = bytes(other.planes[number]) if number < 3 else bytes(range(256)) * (plane.buffer_size // 256)
        plane.update(samples)
    np.testing.assert_array_equal(converted(one), converted(other))


@pytest.mark.parametrize("pixel_format", ["rgb24", "bgr24", "gbrp", "gbrp12le", "rgb48be", "rgb48le", "rgba", "bgra",
                                          "argb", "abgr", "rgb565le", "yuv444p", "yuv420p"])  # fmt: skip
@pytest.mark.parametrize("colour", [(200, 30, 40), (30, 200, 40), (30, 40, 200)])
def test_P10_channels_are_red_green_and_blue_whatever_is_stored(
    pixel_format: str, colour: tuple[int, int, int]
) -> None:
    shown = converted(frame_of(np.full((16, 16, 3), colour, np.uint8), pixel_format))
    assert np.abs(shown.astype(int) - colour).max() <= 8, "565 keeps five bits"


@pytest.mark.parametrize("endian", ["le", "be"])
def test_P10_grey_of_ten_bits_is_grey_in_either_order_of_bytes(endian: str) -> None:
    ramp = np.arange(0, 1024, 8, dtype="<u2" if endian == "le" else ">u2")[None].repeat(4, axis=0)
    frame = luma_frame(ramp, f"gray10{endian}", 0)
    frame.color_range = 2
    shown = converted(frame)[0].astype(int)
    assert np.abs(shown - (ramp[0].astype(int) / 4)[:, None]).max() <= 1.5


@pytest.mark.parametrize("plain", ["yuv420p", "yuv422p", "yuv444p"])
@pytest.mark.parametrize("output", [OutputSpec(), OutputSpec(size=(20, 30)), OutputSpec(crop=(3, 5, 20, 30))])
def test_P11_a_jpeg_alias_is_the_plain_format_at_full_range(plain: str, output: OutputSpec) -> None:
    one, other = VideoFrame(64, 48, plain.replace("yuv", "yuvj")), frame_of(natural(48, 64), plain)
    for mine, theirs in zip(one.planes, other.planes, strict=True):
        mine.update(bytes(theirs))
    limited = converted(other, output)
    other.color_range = 2
    np.testing.assert_array_equal(converted(one, output), converted(other, output))
    assert np.abs(limited.astype(int) - converted(one, output)).max() > 4


# --- P04: changes mid-stream ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["size_change.ts", "size_change.h264"])
def test_P04_a_change_of_size_is_an_error_where_it_matters(name: str) -> None:
    with VideoDecoder(corpus_file(name)) as decoder:
        assert [read_stamp(picture) for picture in decoder[:25]] == list(range(25))
        for expected in ([25], [3, 30], range(50)):
            with pytest.raises(FormatChanged, match=r"48.*96.*size=.*map_video.*convert the file"):
                decoder.get_frames_at(list(expected))
        assert read_stamp(decoder[24]) == 24, "a decoder that met the change still reads what is before it"
        with pytest.raises(FormatChanged):
            VideoDecoder(corpus_file(name), crop=(0, 0, 8, 8))[30]


@pytest.mark.parametrize("name", ["size_change.ts", "size_change.h264", "chroma_change.mkv"])
def test_P04_one_size_for_all_brings_all_frames(name: str) -> None:
    with VideoDecoder(corpus_file(name), size=(96, 128)) as decoder:
        assert [read_stamp(picture) for picture in decoder[:]] == list(range(50))
        assert [read_stamp(decoder[number]) for number in (40, 3, 26, 24, 25)] == [40, 3, 26, 24, 25]


# --- P09: sizes -------------------------------------------------------------------------------------


@given(
    st.integers(1, 70), st.integers(1, 70), st.sampled_from(["yuv420p", "yuv422p", "yuv444p", "gray", "yuv420p10le"])
)
def test_P09_every_size_is_filled_to_its_edges(height: int, width: int, pixel_format: str) -> None:
    frame = frame_of(np.full((height, width, 3), 180, dtype=np.uint8), pixel_format)
    shown = converted(frame)
    assert shown.shape == (height, width, 3)
    assert np.abs(shown.astype(int) - 180).max() <= 4, "the last row and column are of the picture too"
    np.testing.assert_array_equal(shown, frame.to_ndarray(format="rgb24"))


def test_P09_clips_of_odd_and_cropped_sizes() -> None:
    for name in ("odd_size.mp4", "cropped.mp4"):
        with VideoDecoder(corpus_file(name)) as decoder:
            shape = (3, decoder.metadata.height, decoder.metadata.width)
            assert decoder[3].shape == shape
            assert read_stamp(decoder[3]) == 3
    assert VideoDecoder(corpus_file("odd_size.mp4"))[0].shape == (3, 97, 131)


# --- crops ------------------------------------------------------------------------------------------

FORMATS = [
    "yuv420p",
    "yuv422p",
    "yuv444p",
    "yuv410p",
    "yuv411p",
    "yuv420p10le",
    "nv12",
    "gray",
    "rgb24",
    "gbrp",
    "yuva420p",
]


@given(
    st.sampled_from(FORMATS),
    st.tuples(st.integers(8, 60), st.integers(8, 60)),
    st.tuples(*[st.floats(0, 1)] * 4),
    st.sampled_from(TURNS),
)
def test_P09_a_crop_is_a_slice_of_the_whole(
    pixel_format: str, shape: tuple[int, int], shares: tuple[float, ...], turn: tuple[int, bool]
) -> None:
    frame = frame_of(natural(*shape), pixel_format)
    whole = converted(frame, rotation=turn[0], mirrored=turn[1])
    rows, columns = whole.shape[:2]
    top, left = int(shares[0] * (rows - 1)), int(shares[1] * (columns - 1))
    height, width = 1 + int(shares[2] * (rows - top - 1)), 1 + int(shares[3] * (columns - left - 1))
    part = converted(frame, OutputSpec(crop=(top, left, height, width)), rotation=turn[0], mirrored=turn[1])
    np.testing.assert_array_equal(part, whole[top : top + height, left : left + width])


CROPS = [
    (0, 0, 96, 128),
    (2, 4, 20, 30),
    (1, 3, 21, 31),
    (7, 10, 16, 16),
    (10, 7, 33, 1),
    (4, 4, 92, 124),
    (5, 5, 91, 123),
]


@pytest.mark.parametrize("crop", CROPS, ids=str)
@pytest.mark.parametrize(
    "name",
    ["base.mp4", "ten_bit.mp4", "interlaced.mp4", "interlaced_mpeg2.mpg", "full_range.avi", "gray.mkv", "amv.avi",
     "alpha.mkv", "planar_rgb.mkv", "cljr.avi", "rotated_180.mp4", "rotated_0.mp4"],
)  # fmt: skip
def test_P09_crops_of_clips_are_slices(name: str, crop: tuple[int, int, int, int]) -> None:
    path = readable_path(name)
    index = build_index(path)
    whole = VideoDecoder(path, frame_index=index)[3]
    part = VideoDecoder(path, frame_index=index, crop=crop)[3]
    top, left, height, width = crop
    np.testing.assert_array_equal(part, whole[:, top : top + height, left : left + width])


@pytest.mark.parametrize("tag", MATRIX_NUMBER)
@pytest.mark.parametrize("full_range", [False, True])
@pytest.mark.parametrize("pixel_format", FORMATS)
def test_P02_a_crop_keeps_the_colours_of_the_stream(pixel_format: str, full_range: bool, tag: str) -> None:
    flat = np.full((48, 64, 3), (180, 60, 100), dtype=np.uint8)
    for picture in (natural(48, 64), flat):
        frame = frame_of(picture, pixel_format)
        frame.colorspace, frame.color_range = MATRIX_NUMBER[tag], 2 if full_range else 1
        whole = converted(frame)
        for top, left, height, width in [(4, 8, 20, 30), (5, 7, 21, 31)]:
            crop, part = (top, left, height, width), whole[top : top + height, left : left + width]
            np.testing.assert_array_equal(converted(frame, OutputSpec(crop=crop)), part)
            resized = converted(frame, OutputSpec(crop=crop, size=(2 * height, 2 * width)))
            if picture is flat:
                assert np.abs(resized.astype(int) - whole[0, 0]).max() <= 3


@pytest.mark.parametrize("crop", [(0, 0, 97, 128), (-1, 0, 5, 5), (90, 0, 7, 8), (0, 0, 0, 5)])
def test_crops_outside_the_picture_are_the_callers_mistake(crop: tuple[int, int, int, int]) -> None:
    with pytest.raises(UsageError):
        VideoDecoder(corpus_file("base.mp4"), crop=crop)[0]


@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv444p"])
@pytest.mark.parametrize("crop", [(40, 60, 100, 120), (41, 61, 101, 121)])
def test_a_resized_crop_is_the_crop_resized(pixel_format: str, crop: tuple[int, int, int, int]) -> None:
    frame = frame_of(natural(200, 260), pixel_format)
    top, left, height, width = crop
    one_pass = converted(frame, OutputSpec(crop=crop, size=(48, 56)))
    part = Image.fromarray(upsampled(frame)[top : top + height, left : left + width])
    assert psnr(one_pass, np.asarray(part.resize((56, 48), Image.Resampling.BILINEAR))) > 40
    # And not that of the picture around it.
    around = converted(frame, OutputSpec(size=(48, 56)))
    assert psnr(one_pass, around) < 25


# --- resizing ---------------------------------------------------------------------------------------


def upsampled(frame: VideoFrame) -> Picture:
    """RGB of a picture with full chroma interpolation and accurate rounding, by libav's own filter."""
    graph = av.filter.Graph()
    source = graph.add_buffer(width=frame.width, height=frame.height, format=frame.format, time_base=Fraction(1, 25))
    scale = graph.add("scale", "flags=bicubic+full_chroma_int+full_chroma_inp+accurate_rnd")
    form, sink = graph.add("format", "pix_fmts=rgb24"), graph.add("buffersink")
    source.link_to(scale)
    scale.link_to(form)
    form.link_to(sink)
    graph.configure()
    frame.pts, frame.time_base = 0, Fraction(1, 25)
    graph.push(frame)
    pulled = graph.pull()
    assert isinstance(pulled, VideoFrame)
    return pulled.to_ndarray()


@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv422p", "yuv444p"])
@pytest.mark.parametrize("shape", [(224, 224), (112, 200), (256, 454)])
def test_P03_resizing_is_close_to_an_antialiased_resize_of_full_chroma_rgb(
    pixel_format: str, shape: tuple[int, int]
) -> None:
    frame = frame_of(natural(480, 854, seed=3), pixel_format)
    ours = converted(frame, OutputSpec(size=shape))
    theirs = Image.fromarray(upsampled(frame)).resize(shape[::-1], Image.Resampling.BILINEAR)
    assert psnr(ours, np.asarray(theirs)) >= 45


def test_P03_without_a_resize_the_pixels_are_pyavs_own() -> None:
    for pixel_format in FORMATS:
        frame = frame_of(natural(90, 130), pixel_format)
        np.testing.assert_array_equal(converted(frame), frame.to_ndarray(format="rgb24"))


PACKED = OutputSpec(dimension_order="NHWC")
CHANGED = {
    "h264.mp4": ClipSpec(num_frames=30, gop=12, b_frames=2),
    "mjpeg.avi": ClipSpec(num_frames=6, codec="mjpeg", pixel_format="yuvj420p", b_frames=0),
    "ffv1.mkv": ClipSpec(num_frames=6, codec="ffv1", gop=6),
    "rgb.mkv": ClipSpec(num_frames=6, codec="libx264rgb", pixel_format="rgb24", gop=6),
    "vp9.webm": ClipSpec(num_frames=12, codec="libvpx-vp9", gop=12),
}


@pytest.mark.parametrize("width", [96, 112, 128, 100, 136])
def test_pixels_that_are_not_copied_are_those_that_are(width: int) -> None:
    for pixel_format in FORMATS:
        frame = frame_of(natural(90, width), pixel_format)
        pixels = Converter().convert(frame, stream_of(frame), PACKED)
        assert (pixels is None) == bool(width % 16 or pixel_format == "rgb24")
        if pixels is None:
            continue
        assert (pixels.flags.c_contiguous, pixels.flags.writeable, pixels.shape) == (True, True, (90, width, 3))
        np.testing.assert_array_equal(pixels, converted(frame))
        before = frame.to_ndarray(format="rgb24")
        pixels[:] = 0
        np.testing.assert_array_equal(frame.to_ndarray(format="rgb24"), before)


@pytest.mark.parametrize(
    "output", [OutputSpec(), replace(PACKED, size=(48, 64)), replace(PACKED, crop=(0, 0, 48, 64))], ids=str
)
def test_pixels_of_another_form_are_written(output: OutputSpec) -> None:
    frame = frame_of(natural(96, 128), "yuv420p")
    assert Converter().convert(frame, stream_of(frame), output) is None
    assert Converter(is_accurate=True).convert(frame, stream_of(frame), PACKED) is None
    for turned in ({"rotation": 90}, {"rotation": 180}, {"mirrored": True}, {"width": 64}):
        other: Any = replace(stream_of(frame), **turned)  # type: ignore[arg-type]
        assert Converter().convert(frame, other, PACKED) is None


@pytest.mark.parametrize("name", CHANGED)
def test_changing_a_frame_changes_no_later_one(name: str) -> None:
    path = clip_file(f"changed_{name}", CHANGED[name])
    whole = VideoDecoder(path, dimension_order="NHWC").get_all_frames().data
    with VideoDecoder(path, dimension_order="NHWC") as decoder:
        for frame, expected in zip(decoder, whole, strict=True):
            np.testing.assert_array_equal(frame, expected)
            frame[:] = 0


@pytest.mark.parametrize("size", [(48, 64), (96, 128), (200, 300), (1, 1), (31, 257)])
@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_sizes_up_and_down(size: tuple[int, int], order: str) -> None:
    with VideoDecoder(corpus_file("base.mp4"), size=size, dimension_order=order) as decoder:  # type: ignore[arg-type]
        picture = decoder[5]
    assert picture.shape == ((3, *size) if order == "NCHW" else (*size, 3))
    if min(size) > 16:
        assert read_stamp(picture) == 5


# --- P05 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["interlaced.mp4", "interlaced_mpeg2.mpg"])
@pytest.mark.parametrize("size", [None, (48, 64)])
def test_P05_interlaced_pictures_are_pictures_and_the_same_each_time(name: str, size: tuple[int, int] | None) -> None:
    reads: list[Callable[[VideoDecoder], Picture]] = [
        lambda decoder: decoder[:].copy(),
        lambda decoder: np.stack(list(decoder)),
        lambda decoder: decoder[::-1][::-1],
    ]
    first, *others = [read(VideoDecoder(corpus_file(name), size=size)) for read in reads]
    assert [read_stamp(picture) for picture in first] == list(range(100))
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_P05_memory_is_wholly_overwritten() -> None:
    frame = frame_of(natural(33, 47), "yuv420p")
    for output in (OutputSpec(), OutputSpec(size=(20, 21)), OutputSpec(crop=(1, 1, 9, 9)), OutputSpec(size=(64, 65))):
        shape = output.shape(33, 47)
        results = []
        for poison in (0, 255):
            out = np.full(shape, poison, dtype=np.uint8)
            Converter().write(frame, stream_of(frame), output, out)
            results.append(out)
        np.testing.assert_array_equal(*results)


def test_one_converter_serves_pictures_of_all_kinds() -> None:
    converter = Converter()
    frames = [frame_of(natural(40 + 7 * n, 60 + 5 * n), FORMATS[n % len(FORMATS)]) for n in range(len(FORMATS))]
    for frame in [*frames, *frames[::-1]]:
        for output in (OutputSpec(), OutputSpec(size=(30, 34)), OutputSpec(crop=(3, 5, 21, 32))):
            out = np.zeros(output.shape(frame.height, frame.width), dtype=np.uint8)
            converter.write(frame, stream_of(frame), output, out)
            np.testing.assert_array_equal(out.transpose(1, 2, 0), converted(frame, output))


def test_memory_of_another_shape_is_refused() -> None:
    frame = frame_of(natural(33, 47))
    with pytest.raises(UsageError, match="expected memory for"):
        Converter().write(frame, stream_of(frame), OutputSpec(), np.zeros((3, 33, 46), dtype=np.uint8))


def test_a_clip_of_one_size_is_not_resized() -> None:
    path = clip_file("square.mp4", ClipSpec(num_frames=2, height=64, width=64, b_frames=0))
    same = VideoDecoder(path, size=(64, 64))[1]
    np.testing.assert_array_equal(same, VideoDecoder(path)[1])


# --- planes straight, and full chroma ----------------------------------------------------------------

SPLIT = ["yuv420p", "yuvj420p", "yuv422p", "yuvj422p", "yuva420p"]


def noise_frame(height: int, width: int, pixel_format: str) -> VideoFrame:
    """Every sample of every plane drawn at random."""
    frame, rng = VideoFrame(width, height, pixel_format), np.random.default_rng(height * 1000 + width)
    for plane in frame.planes:
        plane.update(rng.integers(0, 256, plane.buffer_size, dtype=np.uint8).tobytes())
    return frame


PAINTED = choose_pairs((*range(2, 70), 340, 360, 854, 1080), (2, 7, 34), (1, 2, 5, 9))
"""Width, height, and matrix."""


@pytest.mark.parametrize("pixel_format", SPLIT)
def test_P09_channels_first_has_the_pixels_of_channels_last(pixel_format: str) -> None:
    for width, height, color_space in PAINTED:
        frame = noise_frame(height, width, pixel_format)
        frame.colorspace = color_space
        for crop in (None, (0, 0, height, max(1, width - 3)), (height % 2, 1, height - height % 2, width - 1)):
            apart = np.full(OutputSpec(crop=crop).shape(height, width), 77, np.uint8)
            Converter().write(frame, stream_of(frame), OutputSpec(crop=crop), apart)
            np.testing.assert_array_equal(apart.transpose(1, 2, 0), converted(frame, OutputSpec(crop=crop)))


@pytest.mark.parametrize("pixel_format", SPLIT)
@pytest.mark.parametrize("width", [33, 34, 36, 40, 41, 47, 48])
def test_P09_a_crop_that_cuts_chroma_has_all_its_columns(pixel_format: str, width: int) -> None:
    frame = noise_frame(32, width, pixel_format)
    output = OutputSpec(crop=(1, 1, 30, width - 1), size=(30, 2 * width))
    whole = converted(frame)
    got = converted(frame, output)
    expected = converted(VideoFrame.from_ndarray(whole, "gbrp"), output)
    assert np.abs(got.astype(int) - expected.astype(int)).max() <= 2, "what lies at the right edge is the picture's"


# --- accurate rounding --------------------------------------------------------------------------------


@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuvj420p", "yuv422p", "yuv444p", "nv12", "yuv420p10le", "gray"])
@pytest.mark.parametrize(("height", "width"), [(2, 2), (16, 24), (17, 33), (32, 65)])
def test_P02_accurate_rgb_is_that_of_swscale(pixel_format: str, height: int, width: int) -> None:
    frame = frame_of(natural(height, width), pixel_format)
    flags = Interpolation.BILINEAR | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT
    packed = VideoReformatter().reformat(frame, format="rgb24", interpolation=flags, threads=1).to_ndarray()
    accurate = converted(frame, is_accurate=True)
    assert np.abs(accurate.astype(int) - packed).max() <= 1
    top, left, rows, columns = box = (height // 4, width // 4, height // 2, width // 2)
    part = converted(frame, OutputSpec(crop=box), is_accurate=True)
    assert (part == accurate[top : top + rows, left : left + columns]).all()


def test_P02_accurate_rgb_is_not_darker_than_the_picture() -> None:
    """That of PyAV and TorchCodec, the default, is."""
    frame = frame_of(np.repeat(natural(64, 64)[:, :, :1], 3, axis=2), "yuv420p")
    luma = np.frombuffer(frame.planes[0], np.uint8).reshape(64, -1)[:, :64].astype(float)
    right = ((luma - 16) * 255 / 219).clip(0, 255)
    assert abs((converted(frame, is_accurate=True).mean(axis=2) - right).mean()) < 0.1
    assert (converted(frame).mean(axis=2) - right).mean() < -0.25


def test_accurate_pixels_have_a_recipe_of_their_own() -> None:
    index = build_index(corpus_file("base.mp4"))
    recipes = {describe_recipe(PyAVDecoder(is_accurate=is_accurate), index) for is_accurate in (False, True)}
    assert len(recipes) == 2


def test_accurate_frames_are_the_same_in_order_and_at_random() -> None:
    media, index = open_corpus("base.mp4")
    decoder, output = PyAVDecoder(is_accurate=True), OutputSpec(dimension_order="NHWC")
    in_order = dict(decoder.iter_rgb(media, index, range(len(index)), output))
    slot = slot_of(index, [3, 1, 2], output)
    decoder.decode(media, index, [slot]).raise_first()
    np.testing.assert_array_equal(slot.out, [in_order[ordinal] for ordinal in (3, 1, 2)])
