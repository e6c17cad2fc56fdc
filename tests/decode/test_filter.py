"""``filter="bicubic"``: torch's antialiased bicubic of the pixels that are not resized, on every way to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from av.filter import Graph
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter

import framefeed as ff
from framefeed.decode import _convert
from framefeed.decode._convert import Converter
from framefeed.decode._planes import PlaneLayout, make_raw_video_decoder
from framefeed.decode.backends import _engine
from framefeed.index import StreamFacts
from framefeed.request import Filter, OutputSpec
from framefeed.testing import ClipSpec, write_clip
from tests.corpus import corpus_file
from tests.judges import psnr
from tests.makers import plan_of, plan_over
from tests.pictures.made import saved

Picture = npt.NDArray[np.uint8]
FILTERS: tuple[Filter, ...] = ("bilinear", "bicubic")
CUBIC = OutputSpec((37, 50), dimension_order="NHWC", filter="bicubic")
RULE = ff.Uniform(3)
TURNS = [(0, False), (90, False), (180, True), (270, True)]
FORMATS = ["yuv420p", "yuv422p", "yuv444p", "yuvj420p", "yuv410p", "yuv420p10le", "yuv444p12le", "nv12", "gray",
           "rgb24", "bgra", "gbrp", "yuva420p"]  # fmt: skip


@cache
def drawn(height: int, width: int) -> Picture:
    """Smooth colours under noise of single pixels, and a part with hard edges."""
    chance = np.random.default_rng(height * 1000 + width)
    y, x = np.mgrid[:height, :width] / max(height, width)
    waves = [128 + 60 * np.sin(9 * x + 5 * y + phase) * np.cos(7 * y - phase) for phase in range(3)]
    picture = np.stack(waves, axis=2)
    picture[height // 4 : height // 2, width // 4 : width // 2] += chance.normal(0, 25, 3)
    picture += chance.normal(0, 20, picture.shape)
    made: Picture = np.clip(picture, 0, 255).astype(np.uint8)
    made.flags.writeable = False
    return made


def frame_of(picture: Picture, pixel_format: str = "rgb24") -> VideoFrame:
    rgb = VideoFrame.from_ndarray(np.ascontiguousarray(picture), "rgb24")
    return VideoReformatter().reformat(rgb, format=pixel_format, threads=1)


def convert(
    frame: VideoFrame, output: OutputSpec, converter: Converter | None = None, rotation: int = 0, mirrored: bool = False
) -> Picture:
    name = frame.format.name
    stream = StreamFacts(0, "mov", "h264", None, frame.width, frame.height, name, rotation, mirrored)
    out = np.full(output.shape(*stream.displayed), 77, dtype=np.uint8)
    (converter or Converter()).write(frame, stream, output, out)
    return out


def resize_by_torch(picture: Picture, size: tuple[int, int]) -> Picture:
    """Torch's bicubic of [H, W, 3] in floating point, rounded."""
    torch = pytest.importorskip("torch")
    whole = torch.from_numpy(picture.transpose(2, 0, 1).astype(np.float32))[None]
    small = torch.nn.functional.interpolate(whole, size, mode="bicubic", antialias=True, align_corners=False)
    made: Picture = small[0].round().clamp(0, 255).to(torch.uint8).numpy().transpose(1, 2, 0)
    return made


def interlaced_frame() -> VideoFrame:
    layout = PlaneLayout("yuv420p", 384, 256, interlaced=True)
    planes = b"".join(bytes(plane) for plane in frame_of(drawn(256, 384), "yuv420p").planes)
    (frame,) = make_raw_video_decoder(layout).decode(Packet(planes[: layout.nbytes]))
    assert frame.interlaced_frame
    return frame


# --- the converter --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(91, 161), (224, 224), (300, 500)])
@pytest.mark.parametrize("pixel_format", FORMATS)
def test_bicubic_is_torchs_antialiased_bicubic_of_the_whole_pixels(pixel_format: str, size: tuple[int, int]) -> None:
    frame = frame_of(drawn(241, 321), pixel_format)
    whole = convert(frame, OutputSpec(dimension_order="NHWC"))
    expected = resize_by_torch(whole, size)
    got = convert(frame, replace(CUBIC, size=size))
    assert psnr(got, expected) >= 50
    # At its border, swscale repeats the last pixel, and torch leaves out what is outside.
    assert psnr(got[4:-4, 4:-4], expected[4:-4, 4:-4]) >= 60
    assert psnr(convert(frame, replace(CUBIC, size=size, filter="bilinear")), expected) < 48


def test_fields_of_a_picture_are_not_resized_apart() -> None:
    frame = interlaced_frame()
    whole = convert(frame, OutputSpec(dimension_order="NHWC"))
    assert psnr(convert(frame, CUBIC), resize_by_torch(whole, (37, 50))) >= 50


@pytest.mark.parametrize("is_accurate", [False, True])
@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("crop", [None, (0, 0, 60, 90), (5, 8, 31, 22), (2, 4, 64, 80)])
def test_a_bicubic_picture_is_that_of_the_whole_pixels_cropped_and_turned(
    crop: Any, order: Any, is_accurate: bool
) -> None:
    """The law of all of them: whole pixels, as a picture of their own, resized; bit for bit."""
    converter = Converter(is_accurate=is_accurate)
    for pixel_format in FORMATS:
        for shape in ((96, 128), (97, 131)):
            frame = frame_of(drawn(*shape), pixel_format)
            for turn in TURNS[: 4 if shape[0] == 96 else 1]:
                part = convert(frame, OutputSpec(crop=crop, dimension_order="NHWC"), converter, *turn)
                # The filter is applied to the picture as stored.
                stored = np.rot90(part[:, ::-1] if turn[1] else part, -(turn[0] // 90))
                size = (37, 50) if turn[0] % 180 == 0 else (50, 37)
                expected = np.rot90(convert(frame_of(stored), CUBIC, converter), turn[0] // 90)
                got = convert(frame, replace(CUBIC, size=size, crop=crop, dimension_order=order), converter, *turn)
                got = got if order == "NHWC" else got.transpose(1, 2, 0)
                np.testing.assert_array_equal(got, expected[:, ::-1] if turn[1] else expected)


@pytest.mark.parametrize("crop", [None, (5, 8, 31, 22)])
def test_without_a_resize_both_filters_give_the_same_pixels(crop: Any) -> None:
    for pixel_format in FORMATS:
        frame = frame_of(drawn(96, 128), pixel_format)
        whole = OutputSpec(crop=crop)
        expected = convert(frame, whole)
        for output in (replace(whole, filter="bicubic"), OutputSpec(expected.shape[1:], crop, filter="bicubic")):
            np.testing.assert_array_equal(convert(frame, output), expected)


def test_rows_from_bottom_to_top_are_resized_too() -> None:
    graph = Graph()
    source = graph.add("buffer", "video_size=128x96:pix_fmt=rgb24:time_base=1/1")
    graph.link_nodes(source, graph.add("vflip"), graph.add("buffersink")).configure()
    graph.vpush(frame_of(drawn(96, 128)))
    frame = graph.vpull()
    assert frame.planes[0].line_size < 0
    for output in (CUBIC, replace(CUBIC, crop=(3, 5, 60, 70))):
        expected = convert(frame_of(drawn(96, 128)[::-1]), output)
        np.testing.assert_array_equal(convert(frame, output), expected)


def test_colour_tags_of_whole_pixels_change_nothing() -> None:
    pictures = set()
    for matrix, transfer in ((0, 1), (1, 3), (2, 16), (3, 2), (9, 18)):
        for pixel_format in ("rgb24", "gbrp"):
            frame = frame_of(drawn(96, 128), pixel_format)
            frame.colorspace, frame.color_trc, frame.color_primaries = matrix, transfer, matrix
            pictures.add(convert(frame, CUBIC).tobytes())
    assert len(pictures) == 1


@pytest.mark.parametrize("colour", [(255, 255, 255), (0, 0, 0), (255, 0, 0), (0, 0, 255), (200, 30, 40), (1, 254, 77)])
def test_one_colour_stays_that_colour(colour: tuple[int, int, int]) -> None:
    shown = convert(frame_of(np.full((90, 121, 3), colour, np.uint8)), CUBIC)
    assert (shown == colour).all()


def test_pictures_of_an_engine_are_resized_alike() -> None:
    picture = np.array(drawn(97, 131))
    stream = StreamFacts(0, "mov", "h264", None, 131, 97, "yuv420p")
    for crop in (None, (3, 5, 60, 70)):
        output = replace(CUBIC, crop=crop)
        got = np.zeros((37, 50, 3), np.uint8)
        _engine._write(picture, stream, output, got)
        np.testing.assert_array_equal(got, convert(frame_of(picture), output))


def test_one_graph_serves_all_pictures_of_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    make = _convert._make_cubic_graph
    monkeypatch.setattr(_convert, "_make_cubic_graph", lambda *key: made.append(key) or make(*key))
    converter = Converter()
    expected = [convert(frame_of(drawn(96, 128)), replace(CUBIC, size=(rows, 50))) for rows in (20, 30)]
    made.clear()
    for _ in range(5):
        for rows, picture in zip((20, 30), expected, strict=True):
            got = convert(frame_of(drawn(96, 128)), replace(CUBIC, size=(rows, 50)), converter)
            np.testing.assert_array_equal(got, picture)
    assert len(made) == 2


# --- all ways to a picture ------------------------------------------------------------------------


def load(plan: ff.EpochPlan, **options: Any) -> Picture:
    with ff.ClipLoader(plan, batch_size=4, **options) as loader:
        return np.concatenate([batch.data.copy() for batch in loader])


@pytest.mark.parametrize("crop", [None, (3, 5, 40, 41), ff.RandomResizedCrop(20)])
def test_every_way_to_a_frame_gives_the_same_bytes(tmp_path: Path, crop: Any) -> None:
    size = None if isinstance(crop, ff.RandomResizedCrop) else (24, 30)
    plan = plan_of(RULE, size=size, crop=crop, filter="bicubic")
    expected = load(plan, workers=0)
    assert not np.array_equal(load(plan_of(RULE, size=size, crop=crop), workers=0), expected)
    assert np.array_equal(load(plan, workers=2), expected)
    for number in range(2):
        request = plan[number]
        output = request.output
        with ff.VideoDecoder(request.source, size=output.size, crop=output.crop, filter="bicubic") as decoder:
            frames = np.stack([decoder[int(i)] for i in request.indices])
        assert np.array_equal(frames, expected[number])
    for form in ("planes",) if plan.clips.is_random else ("output", "planes"):
        with ff.FrameCache(tmp_path / form, form=form) as cache:
            assert np.array_equal(load(plan, workers=0, cache=cache), expected), form
            with ff.ClipLoader(plan, batch_size=len(plan), workers=0, cache=cache) as loader:
                assert np.array_equal(next(iter(loader)).data, expected), form
                assert loader.stats().counts.frames_decoded == 0, form


@pytest.mark.parametrize("name", ["rotated_90.mp4", "odd_size.mp4", "size_change.ts", "ten_bit.mp4", "interlaced.mp4"])
def test_any_order_gives_the_same_frames(name: str) -> None:
    with ff.VideoDecoder(corpus_file(name), size=(31, 44), filter="bicubic") as decoder:
        in_order = list(decoder)
        for number in (len(in_order) - 1, 3, 0, 7):
            assert np.array_equal(decoder[number], in_order[number])


def test_a_cache_does_not_mix_filters(tmp_path: Path) -> None:
    plans = [plan_of(RULE, size=(24, 30), filter=each) for each in FILTERS]
    expected = [load(plan, workers=0) for plan in plans]
    with ff.FrameCache(tmp_path, form="output") as cache:
        for _ in range(2):
            for plan, clips in zip(plans, expected, strict=True):
                assert np.array_equal(load(plan, workers=0, cache=cache), clips)


def test_frames_without_a_resize_are_stored_once_for_both_filters(tmp_path: Path) -> None:
    with ff.FrameCache(tmp_path, form="output") as cache:
        for each, is_decoded in zip(FILTERS, (True, False), strict=True):
            plan = plan_of(ff.Uniform(2), crop=(0, 0, 20, 30), filter=each, clips_per_video=1)
            with ff.ClipLoader(plan, batch_size=8, workers=0, cache=cache) as loader:
                next(iter(loader))
                assert (loader.stats().counts.frames_decoded > 0) == is_decoded


def test_stills_are_decoded_at_full_size(tmp_path: Path) -> None:
    from PIL import Image

    picture = Image.fromarray(drawn(300, 421))
    for name, form in (("a.jpg", "JPEG"), ("b.png", "PNG")):
        (tmp_path / name).write_bytes(saved(picture, form))
    catalog = ff.scan(tmp_path)
    scaled, exact = (
        plan_over(catalog, ff.Uniform(1), shuffle=False, size=(32, 50), still_quality=quality, filter="bicubic")
        for quality in ("scaled", "exact")
    )
    assert scaled.fingerprint == exact.fingerprint
    assert scaled.state_dict() == exact.state_dict()
    got = load(scaled, workers=0)
    assert np.array_equal(got, load(exact, workers=0))
    for number, name in enumerate(("a.jpg", "b.png")):
        with ff.VideoDecoder(tmp_path / name, dimension_order="NHWC") as decoder:
            expected = resize_by_torch(np.array(decoder[0]), (32, 50))
        assert psnr(got[number, 0].transpose(1, 2, 0), expected) >= 50


@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv422p10le", "yuvj420p"])
def test_frames_of_files_are_near_torchs(tmp_path: Path, pixel_format: str) -> None:
    draw = lambda number: np.ascontiguousarray(np.roll(drawn(240, 426), 9 * number, axis=1))  # noqa: E731
    spec = ClipSpec(num_frames=6, height=240, width=426, pixel_format=pixel_format, draw=draw)
    path = write_clip(tmp_path / "clip.mp4", spec)
    with (
        ff.VideoDecoder(path, dimension_order="NHWC") as whole,
        ff.VideoDecoder(path, dimension_order="NHWC", size=(120, 212), filter="bicubic") as decoder,
    ):
        for number in range(6):
            assert psnr(decoder[number], resize_by_torch(np.array(whole[number]), (120, 212))) >= 50


# --- plans ----------------------------------------------------------------------------------------


def test_the_filter_is_a_part_of_the_fingerprint_and_the_state() -> None:
    bilinear, cubic = (plan_of(size=(24, 30), filter=each) for each in FILTERS)
    assert bilinear.fingerprint == plan_of(size=(24, 30)).fingerprint != cubic.fingerprint
    assert "filter" not in bilinear.state_dict()["options"]
    assert cubic.with_state(cubic.state_dict()).fingerprint == cubic.fingerprint
    with pytest.raises(ff.UsageError, match=r"filter='bilinear'.*here: filter='bicubic'"):
        cubic.with_state(bilinear.state_dict())
    with pytest.raises(ff.UsageError, match=r"filter='bicubic'.*here: filter='bilinear'"):
        bilinear.with_state(cubic.state_dict())


def test_states_of_plans_that_resize_nothing_do_not_name_a_filter() -> None:
    bilinear, cubic = (plan_of(crop=(0, 0, 20, 20), filter=each) for each in FILTERS)
    assert bilinear.state_dict() == cubic.state_dict()


def test_requests_have_the_filter_of_their_output_or_of_the_plan() -> None:
    path = corpus_file("odd_size.mp4")
    own = [ff.DecodeRequest(path, [0], OutputSpec((20, 30), filter=each)) for each in FILTERS]
    plan = ff.plan_requests([ff.DecodeRequest(path, [0])], size=(20, 30), filter="bicubic")
    clips = load(ff.plan_requests(own), workers=0)
    assert not np.array_equal(clips[0], clips[1])
    assert np.array_equal(load(plan, workers=0)[0], clips[1])
    prints = {ff.plan_requests([each]).fingerprint for each in own} | {plan.fingerprint}
    assert len(prints) == 3
    with pytest.raises(ff.UsageError, match="another plan"):
        ff.plan_requests(own[:1]).with_state(ff.plan_requests(own[1:]).state_dict())


def test_the_text_of_a_bilinear_output_is_what_it_was() -> None:
    output = OutputSpec((3, 4))
    assert repr(output) == "OutputSpec(size=(3, 4), crop=None, dimension_order='NCHW')"
    assert repr(replace(output, filter="bicubic")).endswith("'NCHW', filter='bicubic')")


@pytest.mark.parametrize(
    "call",
    [
        lambda path: plan_of(size=(4, 4), filter="cubic"),
        lambda path: ff.plan_requests([ff.DecodeRequest(path, [0])], filter="cubic"),  # type: ignore[arg-type]
        lambda path: ff.VideoDecoder(path, filter="cubic"),  # type: ignore[arg-type]
        lambda _: OutputSpec(filter="cubic"),  # type: ignore[arg-type]
    ],
    ids=["plan_clips", "plan_requests", "VideoDecoder", "OutputSpec"],
)
def test_another_filter_is_refused(call: Callable[[Path], object]) -> None:
    with pytest.raises(ff.UsageError, match=r"filter: expected 'bilinear' or 'bicubic', got the string 'cubic'"):
        call(corpus_file("odd_size.mp4"))
