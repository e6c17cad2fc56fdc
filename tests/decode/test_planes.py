"""Pictures as bytes and back: what a cache stores of a decoder's pictures converts to the decoder's pixels."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest
from av.video.format import VideoFormat, names
from av.video.frame import VideoFrame
from hypothesis import given
from hypothesis import strategies as st

from framefeed._values import Limits
from framefeed.decode._planes import (
    CHROMA_LOCATIONS,
    RGB_PLANAR,
    PlaneLayout,
    copy_planes,
    describe_layout,
    make_output_layout,
    rebuild_picture,
)
from framefeed.decode.backends.still import convert_to_rgb
from framefeed.errors import MediaError, UsageError
from framefeed.pictures import decode_still
from framefeed.request import OutputSpec
from framefeed.testing import ClipSpec
from tests.corpus import clip_file, corpus_file
from tests.decode.rebuilding import aligned, differences, rebuilt, some_frames
from tests.lengths import either
from tests.media.files import KINDS_OF_PICTURES, readable_path
from tests.programs import run_python
from tests.reference import packed_planes

SOFTWARE_FORMATS = sorted(name for name in names if VideoFormat(name).components)


def painted(pixel_format: str, width: int, height: int, seed: int = 0) -> VideoFrame:
    """A picture of arbitrary samples, padding included."""
    frame = VideoFrame(width, height, pixel_format)
    rng = np.random.default_rng(seed)
    for plane in frame.planes:
        plane.update(rng.integers(0, 60, plane.buffer_size, dtype=np.uint8).tobytes())
    return frame


def copied(frame: VideoFrame) -> np.ndarray:
    planes = np.full(describe_layout(frame).nbytes, 99, np.uint8)
    copy_planes(frame, planes)
    return planes


# --- bytes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "height"), [(16, 16), (33, 17), (1, 1), (6, 5)])
def test_planes_are_packed_as_raw_video_is(width: int, height: int) -> None:
    for pixel_format in SOFTWARE_FORMATS:
        frame = painted(pixel_format, width, height)
        layout = describe_layout(frame)
        assert (layout.pixel_format, layout.width, layout.height) == (pixel_format, width, height)
        assert copied(frame).tobytes() == packed_planes(frame), pixel_format


@pytest.mark.parametrize("offset", [0, 1])
def test_a_picture_of_bytes_has_these_bytes(offset: int) -> None:
    for pixel_format in SOFTWARE_FORMATS:
        for width, height in ((64, 4), (33, 17), (1, 1), (66, 3), (31, 2)):
            layout = PlaneLayout(pixel_format, width, height)
            data = aligned(layout.nbytes + 1)[offset : offset + layout.nbytes]
            data[:] = np.random.default_rng(1).integers(0, 60, layout.nbytes, dtype=np.uint8)
            frame = rebuild_picture(layout, data)
            assert (frame.format.name, frame.width, frame.height) == (pixel_format, width, height)
            np.testing.assert_array_equal(copied(frame), data)


def test_pictures_are_views_where_swscale_reads_no_byte_beyond_them() -> None:
    layout = PlaneLayout("yuv420p", 128, 16)
    data = aligned(layout.nbytes + 1)
    here, moved = data[:-1], data[1:]
    assert np.shares_memory(np.frombuffer(rebuild_picture(layout, here).planes[0], np.uint8), here)
    assert not np.shares_memory(np.frombuffer(rebuild_picture(layout, moved).planes[0], np.uint8), moved)
    narrow = PlaneLayout("yuv420p", 120, 16)
    data = aligned(narrow.nbytes)
    assert not np.shares_memory(np.frombuffer(rebuild_picture(narrow, data).planes[0], np.uint8), data)


def test_a_picture_keeps_the_memory_that_it_is_a_view_of() -> None:
    layout = PlaneLayout("gray", 64, 64)
    data = aligned(layout.nbytes)
    data[:] = 5
    data.flags.writeable = False
    frame = rebuild_picture(layout, data)
    del data
    np.empty(layout.nbytes + 64, np.uint8)[:] = 77
    assert (copied(frame) == 5).all()


def test_P05_pictures_that_end_where_memory_ends_are_converted() -> None:
    run = run_python("-m", "tests.decode.guarded", "in place")
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) >= 100


def test_P05_reading_beyond_the_end_is_seen() -> None:
    assert run_python("-m", "tests.decode.guarded", "overrun").returncode < 0


def test_memory_of_another_size_is_refused() -> None:
    frame = painted("yuv420p", 16, 16)
    layout = describe_layout(frame)
    nbytes = layout.nbytes
    for memory in (np.zeros(nbytes - 1, np.uint8), np.zeros(nbytes, np.int8), np.zeros((2, nbytes // 2), np.uint8),
                   np.zeros(2 * nbytes, np.uint8)[::2]):  # fmt: skip
        with pytest.raises(UsageError):
            copy_planes(frame, memory)
        with pytest.raises(UsageError):
            rebuild_picture(layout, memory)
    with pytest.raises(UsageError, match="output"):
        rebuild_picture(PlaneLayout(RGB_PLANAR, 2, 2), np.zeros(12, np.uint8))


# --- the law ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS_OF_PICTURES)
def test_rebuilt_pictures_convert_to_the_same_pixels(name: str) -> None:
    for frame in some_frames(readable_path(name), (0, 3)):
        assert differences(frame) == []


def test_rebuilt_pictures_of_every_pixel_format_convert_to_the_same_pixels() -> None:
    # Those that swscale does not read at all.
    left_out = {"bgr4", "rgb4", "rgb96be", "rgb96le", "rgba128be", "rgba128le", "v30xbe", "x2bgr10be", "x2rgb10be",
                "xv30be", "y210be", "y212be", "y216be"}  # fmt: skip
    unread = ("yaf", "gbrap32", "gray32", "rgbaf32")
    for pixel_format in SOFTWARE_FORMATS:
        if pixel_format not in left_out and not pixel_format.startswith(unread):
            for size in ((33, 18), (32, 16)):
                frame = painted(pixel_format, *size)
                assert differences(frame) == [] or not describe_layout(frame).is_settled, pixel_format


@pytest.mark.parametrize("location", range(1, len(CHROMA_LOCATIONS)))
@pytest.mark.parametrize("interlaced", [False, True])
def test_properties_that_swscale_reads_are_kept(location: int, interlaced: bool) -> None:
    for pixel_format in ("yuv420p", "nv12", "yuv422p", "yuv410p", "yuv420p10le", "yuyv422", "yuva420p"):
        for width in (16, 20, 50):
            layout = PlaneLayout(pixel_format, width, 40, 9, 1, interlaced, location)
            planes = np.random.default_rng(0).integers(0, 255, layout.nbytes, dtype=np.uint8)
            frame = rebuild_picture(layout, planes)
            # The middle of a cell is what swscale assumes where nothing is said.
            actual = 0 if CHROMA_LOCATIONS[location] == "center" else location
            assert describe_layout(frame) == replace(layout, chroma_location=actual)
            np.testing.assert_array_equal(copied(frame), planes)
            assert differences(frame) == []


@pytest.mark.parametrize(
    "pixel_format", ["yuv420p", "yuv422p", "yuv410p", "yuv440p", "yuv444p", "nv12", "gray", "yuv420p10le"]
)
def test_interlaced_pictures_without_a_last_row_of_chroma_are_not_settled(pixel_format: str) -> None:
    unlike = set()
    for height in range(8, 40):
        layout = PlaneLayout(pixel_format, 48, height, interlaced=True)
        planes = np.random.default_rng(0).integers(16, 235, layout.nbytes, dtype=np.uint8)
        frame = rebuild_picture(layout, planes)
        if layout.is_settled:
            assert differences(frame) == []
        else:
            unlike.add(height % 8)
    chroma_rows = {"yuv420p": {2, 6}, "yuv440p": {2, 6}, "nv12": {2, 6}, "yuv420p10le": {2, 6}, "yuv410p": {2, 3, 4}}
    assert unlike == chroma_rows.get(pixel_format, set())


def _dropping(**attributes: int) -> Callable[[VideoFrame], VideoFrame]:
    """Rebuild as if an attribute were not stored."""

    def rebuild(frame: VideoFrame) -> VideoFrame:
        return rebuild_picture(replace(describe_layout(frame), **attributes), copied(frame))

    return rebuild


def _swapping(frame: VideoFrame) -> VideoFrame:
    """Rebuild with the chroma planes the wrong way round."""
    layout, planes = describe_layout(frame), copied(frame)
    luma, chroma = np.split(planes, [layout.planes[0][0] * layout.planes[0][1]])
    return rebuild_picture(layout, np.concatenate([luma, *np.split(chroma, 2)[::-1]]))


def _keeping_padding(frame: VideoFrame) -> VideoFrame:
    """Rebuild of the decoder's memory as it lies, cut to size."""
    layout = describe_layout(frame)
    memory = np.concatenate([np.frombuffer(plane, np.uint8) for plane in frame.planes])
    return rebuild_picture(layout, memory[: layout.nbytes].copy())


def _coloured(**tags: int) -> VideoFrame:
    layout = PlaneLayout("yuv420p", 46, 36, **tags)  # type: ignore[arg-type]
    return rebuild_picture(layout, np.random.default_rng(3).integers(0, 255, layout.nbytes, dtype=np.uint8))


WRONG = {
    "the matrix is dropped": (_dropping(color_space=2), _coloured(color_space=1)),
    "the range is dropped": (_dropping(color_range=0), _coloured(color_range=2)),
    "the scan is dropped": (_dropping(interlaced=False), _coloured(interlaced=True)),
    "the chroma location is dropped": (_dropping(chroma_location=0), _coloured(chroma_location=1)),
    "planes are swapped": (_swapping, _coloured()),
    "padding is kept": (_keeping_padding, _coloured()),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rebuilders_are_caught(name: str) -> None:
    rebuild, frame = WRONG[name]
    assert differences(frame) == []
    assert differences(frame, rebuild)


def test_a_decoders_chroma_location_matters_where_pictures_are_resized() -> None:
    frame = next(some_frames(corpus_file("base.mp4"), (3,)))
    assert CHROMA_LOCATIONS[describe_layout(frame).chroma_location] == "left"
    assert {bool(each.output.size) for each in differences(frame, _dropping(chroma_location=0))} == {True}


def test_looking_at_a_picture_does_not_change_it() -> None:
    frame = next(some_frames(clip_file("tiny.mp4", ClipSpec(num_frames=2, height=32, width=32, b_frames=0)), (1,)))
    before = (packed_planes(frame), frame.pts, frame.time_base, frame.colorspace, frame.color_range)
    frame.pts = before[1]
    describe_layout(frame)
    rebuilt(frame)
    assert before == (packed_planes(frame), before[1], frame.time_base, frame.colorspace, frame.color_range)


def test_threads_do_not_share_what_rebuilds() -> None:
    frames = [_coloured(chroma_location=number % 7, interlaced=bool(number % 2)) for number in range(24)]
    alone = [(describe_layout(frame).text, copied(rebuilt(frame)).tobytes()) for frame in frames]
    with ThreadPoolExecutor(4) as threads:
        together = list(
            threads.map(lambda frame: (describe_layout(frame).text, copied(rebuilt(frame)).tobytes()), frames)
        )
    assert together == alone


# --- real media -------------------------------------------------------------------------------------


@pytest.mark.test_all
@pytest.mark.slow
@pytest.mark.long
def test_rebuilt_pictures_of_real_videos_convert_to_the_same_pixels(media_root: Path) -> None:
    smallest: dict[object, tuple[VideoFrame, Path]] = {}
    for path in sorted(path for path in media_root.glob("video/*/**/*") if path.is_file())[:: either(short=4, long=1)]:
        try:
            frames = list(some_frames(path, (1,)))
        except (av.FFmpegError, IndexError):
            continue
        for frame in frames:
            layout = describe_layout(frame)
            kind = (layout.pixel_format, layout.color_space, layout.color_range, layout.interlaced)
            key = (*kind, layout.chroma_location, layout.width % 32)
            if key not in smallest or layout.nbytes < describe_layout(smallest[key][0]).nbytes:
                smallest[key] = frame, path
    assert len(smallest) > either(short=10, long=40)
    for frame, path in smallest.values():
        assert differences(frame) == [], path


@pytest.mark.test_all
@pytest.mark.slow
def test_rebuilt_stills_convert_to_the_same_pixels(media_root: Path) -> None:
    sizes = set()
    for path in sorted(path for path in media_root.glob("image/*/**/*") if path.is_file()):
        if path.stat().st_size > 300_000 or "bomb" in path.name:
            continue
        try:
            pixels = convert_to_rgb(decode_still(path.read_bytes(), path.name, Limits(max_pixels=10**6)), path.name)
        except MediaError:
            continue
        if pixels.shape not in sizes and len(sizes) < 60:
            sizes.add(pixels.shape)
            assert differences(VideoFrame.from_ndarray(pixels, "rgb24")) == [], path
    assert len(sizes) > 20


# --- layouts ----------------------------------------------------------------------------------------

LAYOUTS = st.builds(
    PlaneLayout,
    pixel_format=st.sampled_from([*SOFTWARE_FORMATS, RGB_PLANAR]),
    width=st.integers(1, 5000),
    height=st.integers(1, 5000),
    color_space=st.integers(0, 255),
    color_range=st.integers(0, 2),
    interlaced=st.booleans(),
    chroma_location=st.integers(0, 6),
)


@given(LAYOUTS)
def test_a_layout_is_one_line_of_text(layout: PlaneLayout) -> None:
    assert PlaneLayout.parse(layout.text) == layout
    assert layout.nbytes == sum(rows * row_bytes for rows, row_bytes in layout.planes) > 0


@pytest.mark.parametrize(
    "text",
    ["", "yuv420p", "yuv420p 16x16 2 0 p", "yuv420p 16x16 2 0 p 0 ", " yuv420p 16x16 2 0 p 0", "yuv420p 16x16 2 0 x 0",
     "yuv420p 16X16 2 0 p 0", "yuv420p 016x16 2 0 p 0", "yuv420p +16x16 2 0 p 0", "yuv420p 16x16 2 0 p 7",
     "yuv420p 16x16 2 3 p 0", "yuv420p 16x16 256 0 p 0", "yuv420p 16x16 -1 0 p 0", "yuv420p 0x16 2 0 p 0",
     "yuv420p 16x-16 2 0 p 0", "yuv420p 16385x16 2 0 p 0", "yuv420p 16384x16384 2 0 p 0", "yuv420p 1e3x16 2 0 p 0",
     "vaapi 16x16 2 0 p 0", "cuda 16x16 2 0 p 0", "YUV420P 16x16 2 0 p 0", "gray8 16x16 2 0 p 0", "x 16x16 2 0 p 0",
     "yuv420p 1_6x16 2 0 p 0", "yuv420p \u0661\u0666x16 2 0 p 0", "yuv420p\x00 16x16 2 0 p 0",
     "yuv420p 16x16 2 0 p 0\n",
     "yuv420p " + "9" * 5000 + "x16 2 0 p 0"],
)  # fmt: skip
def test_other_lines_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        PlaneLayout.parse(text)


def test_outputs_have_layouts_too() -> None:
    planar = make_output_layout(OutputSpec(size=(30, 40)), 100, 200)
    assert (planar.pixel_format, planar.height, planar.width, planar.nbytes) == (RGB_PLANAR, 30, 40, 3600)
    packed = make_output_layout(OutputSpec(crop=(1, 2, 31, 41), dimension_order="NHWC"), 100, 200)
    assert (packed.pixel_format, packed.height, packed.width) == ("rgb24", 31, 41)
    assert packed.planes == ((31, 123),)
    assert make_output_layout(OutputSpec(), 100, 200).planes == ((100, 200),) * 3
