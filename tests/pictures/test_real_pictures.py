"""Every real picture: still_header and image_info against Pillow and libav."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import av
import pytest
from PIL import Image

from framefeed._values import Limits
from framefeed.errors import FramefeedError, MissingDependency, UnreadableMedia
from framefeed.index import probe
from framefeed.media import MediaSource
from framefeed.pictures._pillow import PILLOW_FORMATS, probe_image
from framefeed.pictures._reads import OddHeader
from tests.pictures.made import WRITES_AVIF
from tests.pictures.reading import our_facts, pillow_facts

ENOUGH = Limits(max_side=2**20, max_pixels=2**40)
# Pillow stops at a damaged note beside the pixels, or at a large size; the header is a plain one.
ONLY_OURS = {"png_decompression_dos.png", "unknown_compression_method.png", "decompression_bomb.gif"}
# Pillow finds an odd or damaged EXIF, index of pictures, or marker: it has the last word.
ODD = {
    "invalid-exif.jpg",
    "jpeg_ff00_header.jpg",
    "photoshop-200dpi-broken.jpg",
    "sugarshack_bad_mpo_header.jpg",
    "testimgl.jpg",  # lossless
    "hippopotamus-bad-comment-length.jpeg",
    "neg_x_IDX_76_RAND_1716085892843070121921591_minimized_214.jpg",
}


def _pictures(root: Path) -> Iterator[tuple[Path, bytes]]:
    for path in sorted((root / "image").rglob("*")):
        if path.is_file():
            yield path, path.read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_all_real_pictures_are_as_pillow_says(media_root: Path) -> None:
    counts = {"same": 0, "odd": 0, "refused": 0}
    for path, data in _pictures(media_root):
        try:
            expected = pillow_facts(data)
        except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError):
            expected = None
        try:
            facts = our_facts(data)
        except OddHeader:
            counts["odd"] += expected is not None and expected.container not in ("bmp", "ppm")
            assert expected is None or path.name in ODD or expected.container in ("avif", "bmp", "ppm"), path
            counts["refused"] += expected is None
        else:
            assert facts == expected or (expected is None and path.name in ONLY_OURS), path
            counts["same"] += 1
    assert counts["same"] >= 580
    assert counts["odd"] <= 16 + len(ODD)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_all_real_pictures_are_rows_or_typed_errors(media_root: Path) -> None:
    refused: dict[str, str] = {}
    for path, data in _pictures(media_root):
        try:
            info = probe_image(MediaSource.of(path), ENOUGH)
        except FramefeedError as error:
            refused[path.name] = str(error)
            continue
        assert info.bytes == len(data)
        expected = _size_by_pillow(path)
        assert expected in (None, (info.coded_width, info.coded_height)), path
        # Of HEIC, the plug-in gives the size as displayed; `probe` asks libav.
        if path.name not in ONLY_OURS and path.suffix != ".heic":
            assert _size_by_libav(path) in (None, (0, 0), (info.coded_width, info.coded_height)), path
    assert "zero_bytes.jpg" in refused
    assert all(name in message for name, message in refused.items())
    without_avif = [name for name in refused if name.endswith(".avif") and not WRITES_AVIF]
    assert len(refused) - len(without_avif) <= 25


def _size_by_pillow(path: Path) -> tuple[int, int] | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path, formats=PILLOW_FORMATS) as image:
                return image.size
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError):
        return None


def _size_by_libav(path: Path) -> tuple[int, int] | None:
    try:
        with av.open(str(path)) as container:
            return container.streams.video[0].width, container.streams.video[0].height
    except (av.FFmpegError, IndexError, UnicodeDecodeError):
        return None


@pytest.mark.parametrize(
    ("name", "size", "rotation"), [("gradient.heic", (1280, 720), 0), ("gradient_rotated.heic", (720, 1280), 270)]
)
def test_I08_heic_is_described_by_libav(name: str, size: tuple[int, int], rotation: int, media_root: Path) -> None:
    info = probe(media_root / "image" / "torchcodec" / name)
    assert (info.kind, info.codec, info.width, info.height, info.rotation) == ("image", "hevc", *size, rotation)
    assert info.num_frames_from_header == 1


def test_I08_damaged_heic_of_tiles_is_a_typed_error(media_root: Path) -> None:
    data = (media_root / "image" / "torchcodec" / "gradient.heic").read_bytes()
    assert data.count(b"hvc1") == 1
    with pytest.raises((UnreadableMedia, MissingDependency), match=r"damaged picture header|framefeed\[stills\]"):
        probe(data.replace(b"hvc1", b"grid"))
