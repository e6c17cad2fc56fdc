"""The still backend: the law of exactness over pictures, every kind of pixel, every orientation, every damage."""

from __future__ import annotations

import io
import os
import threading
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import ExifTags, Image, ImageFile, ImageOps

from framefeed._values import DEFAULT_LIMITS, Limits
from framefeed.decode._decoder import ClipSlot, Decoder, DecodeReport
from framefeed.decode._registry import AutoDecoder, find_decoder, list_decoders
from framefeed.decode._video_decoder import VideoDecoder
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.decode.backends.still import StillDecoder
from framefeed.errors import (
    CorruptMedia,
    FormatChanged,
    FrameNotFound,
    LimitExceeded,
    MediaError,
    MissingDependency,
    StaleSource,
    UnsupportedCodec,
    UsageError,
)
from framefeed.index import build_index, probe
from framefeed.media import ImageSequence, MediaSource
from framefeed.pictures import QUIET, decode_still
from framefeed.request import OutputSpec
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, read_stamp, read_stamps, write_clip
from tests.corpus import corpus_file
from tests.makers import slot_of
from tests.media.pictures import SIZE, noise, write_folder
from tests.patience import PATIENCE_SECONDS
from tests.pictures.made import WRITES_AVIF, chunk, saved
from tests.reference import read_picture

N = 24


@pytest.fixture(scope="module")
def sequence(tmp_path_factory: pytest.TempPathFactory) -> ImageSequence:
    return ImageSequence(write_folder(tmp_path_factory.mktemp("frames"), N), fps=12)


@pytest.fixture(scope="module")
def decoder(sequence: ImageSequence) -> VideoDecoder:
    return VideoDecoder(sequence)


@pytest.fixture(scope="module")
def everything(decoder: VideoDecoder) -> np.ndarray:
    return decoder[:]


def report_of(
    source: Any, clips: Sequence[Sequence[int]], outputs: Sequence[OutputSpec] = (), **options: Any
) -> tuple[list[ClipSlot], DecodeReport]:
    media, index = MediaSource.of(source), options.pop("index", None) or build_index(source)
    forms = [outputs[number % len(outputs)] if outputs else OutputSpec() for number in range(len(clips))]
    slots = [slot_of(index, clip, form) for clip, form in zip(clips, forms, strict=True)]
    return slots, StillDecoder(**options).decode(media, index, slots)


# --- the law ----------------------------------------------------------------------------------------


def test_all_methods_of_reading_everything_agree(decoder: VideoDecoder, everything: np.ndarray) -> None:
    assert len(decoder) == N
    assert read_stamps(everything) == list(range(N))
    one_by_one = [decoder.get_frame_at(number - N).data for number in range(N)]
    for other in (np.stack(list(decoder)), decoder.get_all_frames().data, decoder.get_frames_in_range(0, N).data,
                  decoder[::-1][::-1], np.stack(one_by_one)):  # fmt: skip
        np.testing.assert_array_equal(other, everything)


@given(st.lists(st.integers(-N, N - 1), max_size=12))
def test_any_order_and_repeats(decoder: VideoDecoder, everything: np.ndarray, numbers: list[int]) -> None:
    batch = decoder.get_frames_at(numbers)
    np.testing.assert_array_equal(batch.data, everything[numbers])
    np.testing.assert_allclose(batch.pts_seconds, [number % N / 12 for number in numbers])
    np.testing.assert_allclose(batch.duration_seconds, [1 / 12] * len(numbers))
    for number in numbers:
        np.testing.assert_array_equal(decoder[number], everything[number])


@given(st.lists(st.lists(st.integers(0, N - 1), min_size=1, max_size=6), min_size=1, max_size=4))
def test_clips_decoded_together(sequence: ImageSequence, everything: np.ndarray, clips: list[list[int]]) -> None:
    forms = [OutputSpec(), OutputSpec(dimension_order="NHWC"), OutputSpec(crop=(3, 5, 20, 30))]
    slots, report = report_of(sequence, clips, forms)
    report.raise_first()
    rights = [lambda all_: all_, lambda all_: all_.transpose(0, 2, 3, 1), lambda all_: all_[:, :, 3:23, 5:35]]
    for number, (clip, slot) in enumerate(zip(clips, slots, strict=True)):
        np.testing.assert_array_equal(slot.out, rights[number % 3](everything)[clip])
    distinct = len({ordinal for clip in clips for ordinal in clip})
    assert report.counts.frames_decoded == report.counts.opens == distinct
    assert report.counts.frames_delivered == sum(map(len, clips))


def test_by_time(decoder: VideoDecoder) -> None:
    assert read_stamp(decoder.get_frame_played_at(0.5).data) == 6
    assert decoder.get_frames_played_at([0.0, 1.99, 0.0834]).indices.tolist() == [0, 23, 1]
    assert decoder.get_frames_played_in_range(0.5, 1.0).indices.tolist() == list(range(6, 12))
    assert decoder.get_all_frames(fps=6).indices.tolist() == list(range(0, 24, 2))
    with pytest.raises(FrameNotFound):
        decoder.get_frame_played_at(2.0)


def test_times_that_are_given(sequence: ImageSequence) -> None:
    times = [0.25 * number**1.5 for number in range(N)]
    with VideoDecoder(ImageSequence(str(sequence.folder), timestamps=times)) as timed:
        batch = timed.get_frames_at([3, 5])
        np.testing.assert_allclose(batch.pts_seconds, [times[3], times[5]], atol=1e-6)
        np.testing.assert_allclose(batch.duration_seconds, [times[4] - times[3], times[6] - times[5]], atol=1e-6)
        assert timed.get_frame_played_at(times[7] - 0.001).indices == 6
        assert timed.metadata.is_variable_frame_rate


def test_metadata(decoder: VideoDecoder) -> None:
    facts = decoder.metadata
    assert (facts.num_frames, facts.height, facts.width) == (N, *SIZE)
    assert (facts.container, facts.codec, facts.built_from, facts.num_key_frames) == (
        "image_sequence",
        "png",
        "packets",
        N,
    )
    assert (facts.average_fps, facts.duration_seconds, facts.bit_rate) == (12, 2, None)


@pytest.mark.parametrize("kind", ["path", "bytes", "file"])
def test_a_still_is_a_video_of_one_frame(kind: str, sequence: ImageSequence) -> None:
    path = Path(str(sequence.folder)) / "img7.png"
    source = {"path": path, "bytes": path.read_bytes(), "file": io.BytesIO(path.read_bytes())}[kind]
    with VideoDecoder(source) as still:
        assert len(still) == 1
        for picture in (still[0], still[-1], next(iter(still)), still[:][0], still.get_frame_played_at(0).data):
            assert read_stamp(picture) == 7
        assert still.get_frames_at([0, 0]).pts_seconds.tolist() == [0, 0]
        assert (still.metadata.container, still.metadata.average_fps) == ("png", None)
        with pytest.raises(FrameNotFound):
            still[1]


@pytest.mark.parametrize(("codec", "pixel_format", "name"), [
    ("png", "rgb24", "a.mov"), ("libx264rgb", "rgb24", "a.mp4"), ("ffv1", "bgr0", "a.mkv"), ("qtrle", "rgb24", "b.mov"),
])  # fmt: skip
def test_a_lossless_video_and_its_frames_as_files_come_out_alike(
    codec: str, pixel_format: str, name: str, tmp_path: Path
) -> None:
    pictures = [noise(96, 128, seed) for seed in range(3)]
    options = {"qp": "0"} if codec == "libx264rgb" else {}
    write_clip(tmp_path / name, ClipSpec(num_frames=3, codec=codec, pixel_format=pixel_format, gop=None, b_frames=None,
                                         codec_options=options, draw=pictures.__getitem__))  # fmt: skip
    for number, picture in enumerate(pictures):
        Image.fromarray(picture).save(tmp_path / f"{number}.png")
    files = ImageSequence(tmp_path, fps=25)
    for form in ({}, {"size": (50, 40)}, {"size": 200}, {"crop": (3, 5, 61, 71)}, {"crop": (3, 5, 61, 71), "size": 32}):
        ours = VideoDecoder(files, **form)[:]
        np.testing.assert_array_equal(ours, VideoDecoder(tmp_path / name, **form)[:])
    np.testing.assert_array_equal(VideoDecoder(files, dimension_order="NHWC")[:], pictures)


# --- which backend ----------------------------------------------------------------------------------


def test_backends_by_name(sequence: ImageSequence) -> None:
    assert isinstance(StillDecoder(), Decoder)
    assert isinstance(find_decoder("auto"), AutoDecoder)
    assert {"pyav", "still"} <= set(list_decoders())
    assert "auto" not in list_decoders()
    video = corpus_file("base.mp4")
    for source, backend in [(sequence, "still"), (sequence, StillDecoder()), (video, "pyav"), (video, PyAVDecoder())]:
        assert read_stamp(VideoDecoder(source, backend=backend)[3]) == 3
        assert read_stamp(VideoDecoder(source, backend="auto")[3]) == 3


def test_the_wrong_backend_is_the_callers_mistake(sequence: ImageSequence) -> None:
    still = Path(str(sequence.folder)) / "img0.png"
    for source, backend, right in [(sequence, "pyav", "still"), (still, "pyav", "still"),
                                   (corpus_file("base.mp4"), "still", "pyav")]:  # fmt: skip
        with pytest.raises(UsageError, match=f'use backend="{right}"'):
            VideoDecoder(source, backend=backend)
        index, slots = build_index(source), [ClipSlot(np.array([0]), OutputSpec(), np.empty((1, 3, 1, 1), np.uint8))]
        with pytest.raises(UsageError, match=f'use backend="{right}"'):
            find_decoder(backend).decode(MediaSource.of(source), index, slots)


def test_frames_that_are_not_there(sequence: ImageSequence) -> None:
    with pytest.raises(FrameNotFound, match="24 frames"):
        report_of(sequence, [[0, N]])
    assert report_of(sequence, [])[1].errors == []


# --- pixels -----------------------------------------------------------------------------------------

GREY = noise()[:, :, 0]
RGBA = np.concatenate([noise(seed=1), noise(seed=2)[:, :, :1]], axis=2)
DEEP = np.random.default_rng(3).integers(0, 65536, (20, 30), dtype=np.uint16)
DEEP[0, :4] = 0, 65535, 128, 129


def three(grey: np.ndarray) -> np.ndarray:
    return np.repeat(grey[:, :, None], 3, axis=2)


PALETTED = Image.fromarray(noise(seed=4)).quantize(32)
CMYK = Image.frombytes("CMYK", RGBA.shape[1::-1], RGBA.tobytes())
CLEAR_PALETTED = Image.fromarray(RGBA).quantize(32)

KINDS: dict[str, tuple[Image.Image, str, np.ndarray]] = {
    "1": (Image.fromarray(GREY).convert("1", dither=0), "PNG", three(np.where(GREY > 127, 255, 0))),
    "L": (Image.fromarray(GREY), "PNG", three(GREY)),
    "L in TIFF": (Image.fromarray(GREY), "TIFF", three(GREY)),
    "LA": (Image.merge("LA", [Image.fromarray(GREY), Image.fromarray(GREY[::-1].copy())]), "PNG", three(GREY)),
    "RGB": (Image.fromarray(RGBA[:, :, :3].copy()), "PNG", RGBA[:, :, :3]),
    "RGB in BMP": (Image.fromarray(RGBA[:, :, :3].copy()), "BMP", RGBA[:, :, :3]),
    "RGBA": (Image.fromarray(RGBA), "PNG", RGBA[:, :, :3]),
    "RGBA in TIFF": (Image.fromarray(RGBA), "TIFF", RGBA[:, :, :3]),
    "P": (PALETTED, "PNG", np.asarray(PALETTED.convert("RGB"))),
    "P in GIF": (PALETTED, "GIF", np.asarray(PALETTED.convert("RGB"))),
    "P with alpha": (CLEAR_PALETTED, "PNG", np.asarray(CLEAR_PALETTED.convert("RGBA"))[:, :, :3]),
    "CMYK": (CMYK, "TIFF", np.asarray(CMYK.convert("RGB"))),
    "I;16": (Image.fromarray(DEEP), "PNG", three(np.floor(DEEP / 257 + 0.5).astype(np.uint8))),
    "I;16 in TIFF": (Image.fromarray(DEEP), "TIFF", three(np.floor(DEEP / 257 + 0.5).astype(np.uint8))),
}


@pytest.mark.filterwarnings("ignore:.*mode.*deprecated:DeprecationWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_I02_I03_I06_every_kind_of_pixel(kind: str, tmp_path: Path) -> None:
    image, form, right = KINDS[kind]
    image.save(tmp_path / "picture", form)
    np.testing.assert_array_equal(VideoDecoder(tmp_path / "picture", dimension_order="NHWC")[0], right)
    files = ImageSequence([tmp_path / "picture"] * 2, fps=1)
    np.testing.assert_array_equal(VideoDecoder(files, dimension_order="NHWC")[:], [right, right])


def test_the_rule_for_16_bits_reaches_both_ends() -> None:
    right = KINDS["I;16"][2]
    assert right[0, :4, 0].tolist() == [0, 255, 0, 1]


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_I03_pixels_without_a_rule_are_refused(dtype: Any, tmp_path: Path) -> None:
    Image.fromarray(np.arange(600, dtype=dtype).reshape(20, 30)).save(tmp_path / "picture.tif")
    with pytest.raises(UnsupportedCodec, match=r"picture\.tif: pixels of kind"):
        VideoDecoder(tmp_path / "picture.tif")[0]


def test_a_bigtiff_is_a_picture_in_scan_and_where_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "big.tif"
    Image.fromarray(RGBA[:, :, :3]).save(path, big_tiff=True)
    assert scan(path).failures == []
    assert probe(path).container == "tiff"
    np.testing.assert_array_equal(VideoDecoder(path, dimension_order="NHWC")[0], RGBA[:, :, :3])


def test_transparency_of_a_colour_is_dropped(tmp_path: Path) -> None:
    Image.fromarray(RGBA[:, :, :3].copy()).save(tmp_path / "picture.png", transparency=(1, 2, 3))
    np.testing.assert_array_equal(VideoDecoder(tmp_path / "picture.png", dimension_order="NHWC")[0], RGBA[:, :, :3])


@pytest.mark.parametrize("form", ["JPEG", "WEBP", *(["AVIF"] if WRITES_AVIF else [])])
def test_lossy_pictures_are_what_pillow_decodes(form: str, tmp_path: Path) -> None:
    Image.fromarray(noise(40, 60)).save(tmp_path / "picture", form)
    with Image.open(tmp_path / "picture") as image:
        right = np.asarray(image.convert("RGB"))
    with VideoDecoder(tmp_path / "picture", dimension_order="NHWC") as still:
        np.testing.assert_array_equal(still[0], right)
        assert still.metadata.codec == {"JPEG": "mjpeg"}.get(form, form.lower())


def test_JPEGs_are_resized_from_all_their_pixels(tmp_path: Path) -> None:
    """Not from what the codec gives when it is asked for an eighth of them, which are other pixels."""
    Image.fromarray(noise(256, 256)).save(tmp_path / "a.jpg")
    with Image.open(tmp_path / "a.jpg") as image:
        image.convert("RGB").save(tmp_path / "a.png")
    small = [VideoDecoder(tmp_path / name, size=(32, 32))[0] for name in ("a.jpg", "a.png")]
    np.testing.assert_array_equal(*small)


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
def test_I04_of_an_animation_the_first_picture_comes(form: str, tmp_path: Path) -> None:
    pictures = [Image.new("RGB", (8, 6), colour) for colour in ((200, 0, 0), (0, 200, 0))]
    more = {"lossless": True} if form == "WEBP" else {}
    pictures[0].save(tmp_path / "a", form, save_all=True, append_images=pictures[1:], **more)
    picture = VideoDecoder(tmp_path / "a", dimension_order="NHWC")[:]
    assert picture.shape == (1, 6, 8, 3)
    assert np.unique(picture.reshape(-1, 3), axis=0).tolist() == [[200, 0, 0]]


def test_I04_an_animation_may_have_a_picture_of_its_own_for_viewers_of_stills(tmp_path: Path) -> None:
    pictures = [Image.new("RGB", (8, 6), colour) for colour in ("red", "lime", "blue")]
    path = tmp_path / "a.apng"
    pictures[0].save(path, save_all=True, append_images=pictures[1:], default_image=True)
    with Image.open(path) as still, VideoDecoder(path) as video:
        assert len(video) == 1
        assert still.convert("RGB").getpixel((0, 0)) == tuple(video[0][:, 0, 0]) == (255, 0, 0)


# --- orientation ------------------------------------------------------------------------------------


def oriented(picture: np.ndarray, orientation: int, form: str) -> bytes:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    return saved(Image.fromarray(picture), form, exif=exif, **({"lossless": True} if form == "WEBP" else {}))


@pytest.mark.parametrize("form", ["PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_I01_every_orientation(orientation: int, form: str) -> None:
    data = oriented(noise(), orientation, form)
    with Image.open(io.BytesIO(data)) as image:
        upright = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    with VideoDecoder(data, dimension_order="NHWC") as still:
        np.testing.assert_array_equal(still[0], upright)
        assert (still.metadata.height, still.metadata.width) == upright.shape[:2]
    cut = VideoDecoder(data, dimension_order="NHWC", crop=(2, 3, 11, 13))
    np.testing.assert_array_equal(cut[0], upright[2:13, 3:16])
    sources = data, saved(Image.fromarray(upright), "PNG")
    for form_asked in ({"size": (9, 14)}, {"crop": (2, 3, 11, 13), "size": 7}):
        turned, plain = (VideoDecoder(one, **form_asked)[0] for one in sources)
        np.testing.assert_array_equal(turned, plain)


def test_I01_each_picture_of_a_sequence_by_its_own_tag(tmp_path: Path) -> None:
    uprights = []
    for orientation in range(1, 9):
        stored = noise(*((20, 30) if orientation < 5 else (30, 20)), seed=orientation)
        data = oriented(stored, orientation, "PNG")
        (tmp_path / f"{orientation}.png").write_bytes(data)
        with Image.open(io.BytesIO(data)) as image:
            uprights.append(np.asarray(ImageOps.exif_transpose(image)))
    with VideoDecoder(ImageSequence(tmp_path, fps=25), dimension_order="NHWC") as decoder:
        np.testing.assert_array_equal(decoder[:], uprights)
        np.testing.assert_array_equal(decoder[5], uprights[5])


@pytest.mark.parametrize(
    "exif", [b"Exif\0\0nonsense", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0MM\0*\0\0\0\x08\xff\xff"]
)
def test_I01_a_broken_tag_turns_nothing(exif: bytes) -> None:
    data = saved(Image.fromarray(noise()), "JPEG", exif=b"Exif\0\0" + exif)
    assert VideoDecoder(data)[0].shape == (3, 20, 30)


# --- damage -----------------------------------------------------------------------------------------


SMALL = Image.fromarray(noise(16, 24))
WHOLE = {
    **{form: saved(SMALL, form) for form in ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", *["AVIF"] * WRITES_AVIF)},
    "progressive JPEG": saved(SMALL, "JPEG", progressive=True),
    "deflated TIFF": saved(SMALL, "TIFF", compression="tiff_deflate"),
}


def pixels_or_none(data: bytes) -> np.ndarray | None:
    try:
        return np.asarray(decode_still(data, "picture", DEFAULT_LIMITS).convert("RGB"))
    except (CorruptMedia, UnsupportedCodec, LimitExceeded):
        return None


@pytest.mark.parametrize("kind", WHOLE)
def test_I05_cut_short_anywhere_it_is_whole_or_an_error(kind: str) -> None:
    data = WHOLE[kind]
    whole = pixels_or_none(data)
    assert whole is not None
    for cut in range(len(data)):
        actual = pixels_or_none(data[:cut])
        assert actual is None or np.array_equal(actual, whole), f"{cut} of {len(data)} bytes give another picture"
    assert pixels_or_none(data[: len(data) // 2]) is None


@pytest.mark.parametrize("kind", WHOLE)
def test_D10_flipped_bytes_give_errors_of_ours_or_pillows_pixels(kind: str, tmp_path: Path) -> None:
    data, generator, path = WHOLE[kind], np.random.default_rng(7), tmp_path / "broken"
    num_compared = 0
    for _ in range(150):
        broken = bytearray(data)
        for position in generator.integers(0, len(data), generator.integers(1, 4)):
            broken[position] = generator.integers(0, 256)
        path.write_bytes(broken)
        pixels = pixels_or_none(bytes(broken))
        if pixels is not None:
            num_compared += 1
            expected = read_picture(path)
            assert expected is not None
            assert np.array_equal(pixels, expected)
    # Checksums tell of all damage to the others.
    assert num_compared > 10 or kind in ("PNG", "deflated TIFF")


def test_I05_pillow_never_fills_pictures_with_grey(monkeypatch: pytest.MonkeyPatch, sequence: ImageSequence) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(UsageError, match="LOAD_TRUNCATED_IMAGES"):
        VideoDecoder(sequence)[0]


def test_S10_other_formats_are_not_even_tried() -> None:
    for data in (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"\x0a\x05\x01\x08" + bytes(124), b""):
        with pytest.raises(CorruptMedia, match="not a picture"):
            decode_still(data, "picture", DEFAULT_LIMITS)


@pytest.mark.parametrize("head", [b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", b"\xff\x0a" + bytes(20)])
def test_I08_begun_pictures_of_plug_ins_are_typed_errors(head: bytes) -> None:
    with pytest.raises((CorruptMedia, MissingDependency), match=r"picture: (is a .*stills|the picture is damaged)"):
        decode_still(head, "picture", DEFAULT_LIMITS)


def test_S04_limits_hold_before_anything_is_allocated() -> None:
    with pytest.raises(LimitExceeded):
        decode_still(corpus_file("bomb.png").read_bytes(), "picture", DEFAULT_LIMITS)
    with pytest.raises(LimitExceeded):
        decode_still(WHOLE["PNG"], "picture", Limits(max_side=23))


def test_S04_pillows_own_limit_is_named_beside_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 8)
    with pytest.raises(LimitExceeded, match=r"set PIL\.Image\.MAX_IMAGE_PIXELS") as raised:
        decode_still(WHOLE["TIFF"], "picture", DEFAULT_LIMITS)
    assert raised.value.limit == "max_pixels"


def test_S04_no_file_is_read_that_is_too_large(sequence: ImageSequence) -> None:
    _, report = report_of(sequence, [[0]], limits=Limits(max_packet_bytes=100))
    assert isinstance(report.errors[0], LimitExceeded)


def test_warnings_of_pillow_are_silenced_and_filters_stay(tmp_path: Path) -> None:
    data = bytearray(WHOLE["PNG"])
    # An animation control chunk of no frames behind IHDR: Pillow warns, and reads the picture.
    data[33:33] = chunk(b"acTL", bytes(8))
    before = list(warnings.filters)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pixels_or_none(bytes(data)) is not None
        with ThreadPoolExecutor(4) as pool:
            assert all(actual is not None for actual in pool.map(pixels_or_none, [bytes(data)] * 40))
    assert list(warnings.filters) == before


def test_D01_a_damaged_file_spoils_only_the_clips_that_want_it(tmp_path: Path) -> None:
    write_folder(tmp_path, 6, suffix=".jpg")
    for number in (1, 4):
        path = tmp_path / f"img{number}.jpg"
        path.write_bytes(path.read_bytes()[:-200])
    sequence = ImageSequence(tmp_path, fps=25)
    slots, report = report_of(sequence, [[0, 2], [1, 2], [4, 3, 1], [4]])
    assert [error and type(error) for error in report.errors] == [None, CorruptMedia, CorruptMedia, CorruptMedia]
    assert [error and error.frames for error in report.errors] == [None, (1,), (1, 4), (4,)]  # type: ignore[attr-defined]
    assert len({id(error) for error in report.errors}) == 4
    assert read_stamps(slots[0].out) == [0, 2]
    assert "img1.jpg" in str(report.errors[1])
    assert report.errors[1] is not None
    assert report.errors[1].source == str(tmp_path)
    with VideoDecoder(sequence) as decoder:
        frames = iter(decoder)
        assert read_stamp(next(frames)) == 0
        with pytest.raises(CorruptMedia, match=r"img1\.jpg.* frame 1"):
            next(frames)
        assert read_stamp(decoder[2]) == 2
    assert len(VideoDecoder(sequence, frame_index=build_index(sequence, "full"))[:]) == 4


def test_another_size_needs_an_output_size(tmp_path: Path) -> None:
    write_folder(tmp_path, 3)
    Image.new("RGB", (50, 40)).save(tmp_path / "img1.png")
    sequence = ImageSequence(tmp_path, fps=25)
    index = build_index(sequence, "none")
    slots, report = report_of(sequence, [[0], [1], [2, 1]], index=index)
    assert [error and type(error) for error in report.errors] == [None, FormatChanged, FormatChanged]
    assert "img1.png: expected a picture of 64x48" in str(report.errors[1])
    assert read_stamps(slots[0].out) == [0]
    _, report = report_of(sequence, [[0, 1]], [OutputSpec(size=(24, 32))], index=index)
    report.raise_first()


@pytest.mark.parametrize("kind", ["sequence", "still"])
def test_D09_a_replaced_file_is_stale(kind: str, tmp_path: Path) -> None:
    write_folder(tmp_path, 3)
    source = ImageSequence(tmp_path, fps=25) if kind == "sequence" else tmp_path / "img1.png"
    position = 1 if kind == "sequence" else 0
    with VideoDecoder(source) as decoder:
        assert read_stamp(decoder[position]) == 1
        (tmp_path / "img1.png").write_bytes((tmp_path / "img2.png").read_bytes() + b"x")
        for ask in (lambda: decoder[position], lambda: decoder.get_frames_at([position])):
            with pytest.raises(StaleSource, match=r"img1\.png"):
                ask()


def test_L01_a_process_that_is_forked_while_pictures_are_read_reads_pictures() -> None:
    data, held = WHOLE["PNG"], threading.Event()
    done = threading.Event()

    def hold() -> None:
        with QUIET.value:
            held.set()
            done.wait(PATIENCE_SECONDS)

    before = list(warnings.filters)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(hold)
        assert held.wait(PATIENCE_SECONDS)
        child = os.fork()
        if not child:
            is_right = pixels_or_none(data) is not None and list(warnings.filters) == before
            os._exit(0 if is_right else 1)
        assert os.waitpid(child, 0)[1] == 0
        done.set()
    assert list(warnings.filters) == before


# --- real pictures ----------------------------------------------------------------------------------


LARGE = 100_000


@pytest.mark.test_all
def test_real_pictures_are_what_pillow_decodes(media_root: Path) -> None:
    """All that both can read; and what one refuses, the other refuses."""
    compared = 0
    for path in sorted((media_root / "image").rglob("*")):
        if not path.is_file() or path.stat().st_size > LARGE:
            continue
        right = read_picture(path)
        try:
            actual = VideoDecoder(path, dimension_order="NHWC")[0]
        except MediaError:
            actual = None
        if right is None or actual is None:
            assert (actual is None) or right is None, path
            continue
        assert np.array_equal(actual, right), path
        compared += 1
    assert compared > 300
