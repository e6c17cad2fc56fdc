from __future__ import annotations

import io
import os
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image
from PIL.JpegImagePlugin import get_sampling

import framefeed.encode._stills
from framefeed.encode._stills import (
    StillFormat,
    encode_still,
    list_codec_support,
    make_still_name,
    read_ffmpeg_versions,
    save_still,
)
from framefeed.errors import UsageError

PICTURE = np.random.default_rng(7).integers(0, 256, (48, 65, 3), dtype=np.uint8)
SMOOTH = np.broadcast_to(np.arange(96, dtype=np.uint8)[:, None, None] * 2, (96, 80, 3))


def _read(source: str | Path | bytes) -> np.ndarray:
    with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
        return np.asarray(image)


@pytest.mark.parametrize("picture", [PICTURE, PICTURE[::2, ::-1], PICTURE.transpose(1, 0, 2), PICTURE[:1, :1]])
def test_png_keeps_every_pixel(picture: np.ndarray, tmp_path: Path) -> None:
    assert np.array_equal(_read(encode_still(picture)), picture)
    save_still(tmp_path / "a.png", picture)
    assert np.array_equal(_read(tmp_path / "a.png"), picture)


def test_jpeg_keeps_pixels_nearly(tmp_path: Path) -> None:
    for name in ("a.jpg", "a.JPEG"):
        save_still(tmp_path / name, SMOOTH)
        with Image.open(tmp_path / name) as image:
            assert image.format == "JPEG"
            assert np.abs(np.asarray(image).astype(int) - SMOOTH).max() <= 3
    assert len(encode_still(PICTURE, "JPEG", quality=30)) < len(encode_still(PICTURE, "JPEG"))


def test_jpeg_keeps_colour_at_full_size() -> None:
    with Image.open(io.BytesIO(encode_still(PICTURE, "JPEG"))) as image:
        assert get_sampling(image) == 0  # 4:4:4


def test_webp_keeps_pixels_nearly(tmp_path: Path) -> None:
    # Slow changes of colour: 4:2:0 chroma takes the sharp ones.
    rows, columns = np.mgrid[:96, :80]
    coloured = np.stack([rows * 2, columns * 3, 255 - rows - columns], axis=2).astype(np.uint8)
    save_still(tmp_path / "a.webp", coloured)
    with Image.open(tmp_path / "a.webp") as image:
        assert (image.format, image.mode) == ("WEBP", "RGB")
        assert np.abs(np.asarray(image).astype(int) - coloured).max() <= 8
    assert len(encode_still(PICTURE, "WEBP", quality=30)) < len(encode_still(PICTURE, "WEBP"))


@pytest.mark.parametrize(("form", "longest"), [("JPEG", 65500), ("WEBP", 16383)])
def test_pictures_that_a_format_does_not_hold(form: StillFormat, longest: int) -> None:
    assert _read(encode_still(np.zeros((2, longest, 3), np.uint8), form)).shape == (2, longest, 3)
    with pytest.raises(UsageError, match=rf"{form} holds .*at most {longest} .* got 2 x {longest + 1} .*: use PNG"):
        encode_still(np.zeros((longest + 1, 2, 3), np.uint8), form)


def test_names_sort_as_frames_do() -> None:
    assert make_still_name(37, 1.48) == "frame_000037_1.480000000s.png"
    assert make_still_name(1_234_567, 41152.2333333) == "frame_1234567_41152.233333300s.png"
    assert make_still_name(0, -0.04, ".jpg") == "frame_000000_-0.040000000s.jpg"
    assert make_still_name(5, float("nan")) == "frame_000005.png"


@pytest.mark.parametrize(
    "picture",
    [
        PICTURE.astype(np.float32),
        PICTURE.astype(np.int64),
        PICTURE[:, :, 0],
        PICTURE.transpose(2, 0, 1),
        PICTURE[:0],
        np.zeros((4, 4, 4), np.uint8),
    ],
)
def test_arrays_that_are_no_pictures(picture: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"picture: expected uint8 \[H, W, 3\], got "):
        save_still(tmp_path / "a.png", picture)
    assert not os.listdir(tmp_path)


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a.gif: expected a file name with one of the endings .*, got '.gif'"):
        save_still(tmp_path / "a.gif", PICTURE)
    with pytest.raises(UsageError, match=r"cannot write .*No such file"):
        save_still(tmp_path / "none" / "a.png", PICTURE)
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(UsageError, match="cannot write"):
        save_still(tmp_path / "folder.png", PICTURE)
    assert os.listdir(tmp_path) == ["folder.png"]


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.png"
    save_still(path, SMOOTH)
    for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):

        def fail(*_: object, error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr(framefeed.encode._stills.os, "replace", fail)
        with pytest.raises((UsageError, KeyboardInterrupt)):
            save_still(path, PICTURE)
        monkeypatch.undo()
        assert os.listdir(tmp_path) == ["a.png"]
        assert np.array_equal(_read(path), SMOOTH)


def test_a_name_as_long_as_names_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("n" * 251 + ".png", os.fsdecode(b"caf\xe9.png"), "-o\n.png"):
        save_still(name, PICTURE)
        assert np.array_equal(_read(name), PICTURE)


def test_other_users_may_read_the_file(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        save_still(tmp_path / "a.png", PICTURE)
    finally:
        os.umask(before)
    assert (tmp_path / "a.png").stat().st_mode & 0o777 == 0o644


def test_codecs_of_this_build() -> None:
    listed = list_codec_support(["h264", "mjpeg", "av1", "no such codec"])
    assert listed["h264"]["decoders"] == ["h264"]
    assert "mjpeg" in listed["mjpeg"]["encoders"]
    assert "av1" not in listed["av1"]["decoders"]
    assert listed["no such codec"] == {"decoders": [], "encoders": []}
    for support in listed.values():
        for name in support["decoders"]:
            assert av.Codec(name, "r").is_decoder
        for name in support["encoders"]:
            assert av.Codec(name, "w").is_encoder


def test_versions() -> None:
    listed = read_ffmpeg_versions()
    assert listed["ffmpeg"]
    assert listed["libavcodec"].split(".")[0] == str(av.library_versions["libavcodec"][0])
