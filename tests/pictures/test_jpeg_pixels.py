"""JPEG by simplejpeg: the pixels of Pillow at full and reduced size, or left to Pillow; nothing allocated for a lie."""

from __future__ import annotations

import io
import struct
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

import framefeed as ff
from framefeed._values import DEFAULT_LIMITS, Limits
from framefeed.errors import LimitExceeded, MediaError
from framefeed.pictures._jpeg_pixels import decode_jpeg
from framefeed.pictures._pillow import decode_still
from tests.pictures.made import WRITES_MPO, exif, lossless_jpeg, made, picture, saved, segment, with_segments

REDUCTIONS = (1, 2, 4, 8)
SIZES = ((16, 16), (17, 33), (64, 48), (37, 21), (333, 100), (97, 250))
LEFT_TO_PILLOW = {
    "CMYK.jpeg",
    "progressive CMYK.jpeg",
    "fill bytes.jpeg",
    "junk.jpeg",
    "two exif.jpeg",
    "lossless L.jpeg",
    "lossless RGB.jpeg",
}


def by_pillow(data: bytes, reduction: int = 1) -> np.ndarray:
    """Decode, reduce and turn a JPEG by Pillow alone."""
    with warnings.catch_warnings(action="ignore"), Image.open(io.BytesIO(data)) as image:
        image.draft(None, tuple(max(1, side // reduction) for side in image.size))  # type: ignore[arg-type]
        return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))


def check_same(data: bytes, reduction: int) -> None:
    pixels = decode_jpeg(data, "a.jpg", DEFAULT_LIMITS, reduction)
    assert pixels is not None
    assert np.array_equal(pixels, by_pillow(data, reduction))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("subsampling", [0, 1, 2, "4:1:1"])
def test_pixels_are_those_of_pillow(size: tuple[int, int], subsampling: int | str, reduction: int) -> None:
    image = picture("RGB", *size)
    for options in ({}, {"progressive": True}, {"restart_marker_rows": 1}, {"quality": 30}):
        check_same(saved(image, "JPEG", subsampling=subsampling, **options), reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_I06_gray_pictures_have_three_equal_channels(reduction: int) -> None:
    check_same(saved(picture("L", 64, 40), "JPEG"), reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("tag", range(10))
def test_I01_pictures_are_turned_upright(tag: int, reduction: int) -> None:
    data = with_segments(saved(picture("RGB", 48, 32), "JPEG"), segment(0xFFE1, b"Exif\0\0" + exif(tag)))
    check_same(data, reduction)


@pytest.mark.parametrize("tag", range(10))
def test_I01_pictures_one_pixel_wide_or_high_are_turned_too(tmp_path: Path, tag: int) -> None:
    for size in ((1, 9), (9, 1), (1, 1)):
        data = with_segments(saved(picture("RGB", *size), "JPEG"), segment(0xFFE1, b"Exif\0\0" + exif(tag)))
        (tmp_path / "a.jpg").write_bytes(data)
        with ff.VideoDecoder(tmp_path / "a.jpg") as decoder:
            assert np.array_equal(decoder[0].transpose(1, 2, 0), by_pillow(data))


@pytest.mark.parametrize("name", [name for name in made() if name.endswith(".jpeg")])
def test_every_kind_has_the_pixels_of_pillow_or_is_left_to_it(name: str) -> None:
    data = made()[name]
    pixels = decode_jpeg(data, name, DEFAULT_LIMITS)
    assert (pixels is None) == (name in LEFT_TO_PILLOW)
    if pixels is not None:
        assert np.array_equal(pixels, np.asarray(decode_still(data, name, DEFAULT_LIMITS).convert("RGB")))


@pytest.mark.skipif(not WRITES_MPO, reason="this Pillow writes MPO files that it does not read")
def test_the_first_picture_of_an_mpo_is_decoded() -> None:
    check_same(made()["mpo.jpeg"], 2)


@pytest.mark.parametrize("data", [saved(picture(), "PNG"), saved(picture(), "GIF"), b"", b"\xff\xd8", b"\xff\xd8\xff"])
def test_I09_other_formats_are_left_to_pillow(data: bytes) -> None:
    assert decode_jpeg(data, "a.jpg", DEFAULT_LIMITS) is None


@pytest.mark.parametrize("options", [{}, {"progressive": True}])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_I05_cut_pictures_are_left_to_pillow(options: dict[str, bool], reduction: int) -> None:
    data = saved(picture("RGB", 64, 48), "JPEG", **options)
    for length in range(2, len(data) - 2, max(1, len(data) // 200)):
        assert decode_jpeg(data[:length], "a.jpg", DEFAULT_LIMITS, reduction) is None


def test_S04_a_claim_of_65500_x_65500_is_refused_before_memory_is_allocated() -> None:
    data = bytearray(saved(picture("RGB", 16, 16), "JPEG"))
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 9] = struct.pack(">HH", 65_500, 65_500)
    assert len(data) < 2000
    tracemalloc.start()
    try:
        with pytest.raises(LimitExceeded, match=r"a\.jpg.*65500x65500"):
            decode_jpeg(bytes(data), "a.jpg", DEFAULT_LIMITS, 8)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_limits_hold_for_the_full_size_of_a_reduced_picture() -> None:
    data = saved(picture("RGB", 64, 48), "JPEG")
    with pytest.raises(LimitExceeded):
        decode_jpeg(data, "a.jpg", Limits(max_pixels=64 * 47), 8)
    assert decode_jpeg(data, "a.jpg", Limits(max_pixels=64 * 48), 8) is not None


def test_a_size_that_simplejpeg_understands_otherwise_is_left_to_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = (saved(picture("RGB", side, side), "JPEG") for side in (16, 64))
    decode = simplejpeg.decode_jpeg
    for one, other in ((small, large), (large, small)):
        monkeypatch.setattr(
            simplejpeg, "decode_jpeg", lambda _, *args, other=other, **options: decode(other, *args, **options)
        )
        assert decode_jpeg(one, "a.jpg", DEFAULT_LIMITS) is None


@pytest.mark.parametrize("mode", ["L", "RGB"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_lossless_pictures_which_turbojpeg_does_not_reduce_are_left_to_pillow(mode: str, reduction: int) -> None:
    # simplejpeg would write the whole picture into memory for the reduced one.
    assert decode_jpeg(lossless_jpeg(picture(mode, 64, 48)), "a.jpg", DEFAULT_LIMITS, reduction) is None


@settings(max_examples=300)
@given(st.data())
def test_changed_bytes_give_the_picture_of_pillow_or_are_left_to_it(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["RGB.jpeg", "progressive RGB.jpeg", "exif 6.jpeg", "L.jpeg", "restarts.jpeg"]))
    changed = bytearray(made()[name])
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(2, len(changed) - 1))] = data.draw(st.integers(0, 255))
    limits, whole = Limits(max_pixels=1 << 20), bytes(changed)
    try:
        pixels = decode_jpeg(whole, name, limits)
    except LimitExceeded:
        return
    if pixels is None:
        return
    try:
        expected = decode_still(whole, name, limits).convert("RGB")
    except MediaError as error:
        raise AssertionError("Pillow refuses a picture that was decoded") from error
    assert np.array_equal(pixels, np.asarray(expected))
