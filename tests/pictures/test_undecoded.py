"""Pictures that nothing here decodes are UnsupportedCodec, which names the format; of JPEGs a row keeps the size."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from framefeed._values import DEFAULT_LIMITS, Limits, MediaInfo
from framefeed.decode import VideoDecoder
from framefeed.errors import LimitExceeded, MissingDependency, UnreadableMedia, UnsupportedCodec
from framefeed.index import probe
from framefeed.media import MediaSource
from framefeed.pictures import _pillow
from framefeed.pictures._pillow import decode_still, describe_picture
from framefeed.scanning import scan
from tests.pictures.made import exif, saved


def described(data: bytes) -> MediaInfo:
    """What the header claims, of a picture that is refused."""
    with pytest.raises(UnsupportedCodec, match=r"framefeed cannot decode|cannot be converted to RGB"):
        probe(data)
    info, problem = describe_picture(MediaSource.of(data), DEFAULT_LIMITS)
    assert problem is not None
    return info


def with_frame(marker: int, bits: int, **options: bytes) -> bytes:
    """A JPEG of 30 x 20 whose frame header claims another process."""
    data = bytearray(saved(Image.new("RGB", (30, 20), (200, 30, 90)), "JPEG", **options))
    at = data.index(b"\xff\xc0")
    data[at + 1], data[at + 4] = marker, bits
    return bytes(data)


@pytest.mark.parametrize(
    ("marker", "bits", "kind"),
    [
        (0xC1, 12, "12-bit JPEG"),
        (0xC3, 16, "16-bit lossless JPEG"),
        (0xC7, 8, "8-bit lossless JPEG"),
        (0xCB, 8, "8-bit lossless JPEG"),
        (0xC5, 8, "rare process"),
    ],
)
def test_jpeg_of_other_processes(marker: int, bits: int, kind: str) -> None:
    with pytest.raises(UnsupportedCodec, match=kind):
        probe(with_frame(marker, bits))
    info = described(with_frame(marker, bits, exif=b"Exif\0\0" + exif(6)))
    assert (info.width, info.height, info.coded_width, info.rotation) == (20, 30, 30, 270)
    assert (info.container, info.codec, info.kind) == ("jpeg", "mjpeg", "image")


def test_a_row_keeps_its_size_beside_the_error(tmp_path: Path) -> None:
    (tmp_path / "deep.jpg").write_bytes(with_frame(0xC1, 12, exif=b"Exif\0\0" + exif(8)))
    (tmp_path / "float.tiff").write_bytes(saved(Image.fromarray(np.zeros((4, 6), np.float32)), "TIFF"))
    (tmp_path / "sound.png").write_bytes(saved(Image.new("RGB", (3, 2)), "PNG"))
    wanted = {"width": [20, 6, 3], "height": [30, 4, 2], "rotation": [90, 0, 0]}
    for depth in ("frames", "header"):
        for workers in (0, 2):
            catalog = scan(tmp_path, depth=depth, workers=workers)
            assert catalog.table.select([*wanted]).to_pydict() == wanted
            assert catalog.table["error_type"].to_pylist() == ["UnsupportedCodec", "UnsupportedCodec", None]
            assert catalog.usable_rows.tolist() == [2]


PLUGGED = {
    "JPEG XL": bytes.fromhex("ff0a58d30100138802003001b59f") + bytes(8),
    "JPEG XL in boxes": b"\0\0\0\x0cJXL \r\n\x87\n\0\0\0\x14ftypjxl \0\0\0\0jxl ",
    "HEIC": b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + struct.pack(">I4s", 108, b"meta") + b"\0\0grid" + bytes(94),
}
"""Begun pictures that plug-ins decode."""
NAMED = {
    "PAM": b"P7\nWIDTH 3\nHEIGHT 2\nDEPTH 3\nMAXVAL 255\nTUPLTYPE RGB\nENDHDR\n" + bytes(18),
    "PFM": b"PF\n4 5\n-1.0\n" + bytes(240),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_row_names_a_format_that_nothing_decodes(name: str, tmp_path: Path) -> None:
    (tmp_path / "picture.jpg").write_bytes(NAMED[name])
    for depth in ("frames", "header"):
        table = scan(tmp_path, depth=depth, workers=0).table
        assert table["error_type"].to_pylist() == ["UnsupportedCodec"]
        assert f"is a {name} picture" in table["error"][0].as_py()
        assert table["width"].to_pylist() == [None]


def test_no_damaged_header_is_more_than_an_error() -> None:
    rng = np.random.default_rng(0)
    for data in [with_frame(0xC3, 16), *NAMED.values(), *PLUGGED.values()]:
        for cut in range(0, min(len(data), 200), 7):
            check_answer(data[:cut] or b"\xff\x0a")
        for _ in range(100):
            mutant = bytearray(data)
            for at in rng.integers(0, min(len(data), 300), 3).tolist():
                mutant[at] = int(rng.integers(256))
            check_answer(bytes(mutant))


def check_answer(data: bytes) -> None:
    try:
        info, _ = describe_picture(MediaSource.of(data), DEFAULT_LIMITS)
    except (UnsupportedCodec, UnreadableMedia, LimitExceeded, MissingDependency):
        return
    assert info.width > 0 < info.height


def test_a_size_beyond_the_limits_is_one() -> None:
    with pytest.raises(LimitExceeded):
        describe_picture(MediaSource.of(with_frame(0xC3, 16)), Limits(max_side=25))


# --- netpbm and other kinds ---------------------------------------------------------------------------

PNM = {
    "P1": (b"P1\n# a comment\n3 2\n1 0 1\n0 1 0\n", (3, 2)),
    "P2": (b"P2 2 1 255\n7 200\n", (2, 1)),
    "P3": (b"P3\n1 2\n255\n1 2 3  4 5 6\n", (1, 2)),
    "P4": (b"P4\n9 2\n" + bytes([0xF0, 0, 0x0F, 0x80]), (9, 2)),
    "P5": (b"P5\n2 2\n255\n\1\2\3\4", (2, 2)),
    "P6": (b"P6 1 1 255\n\1\2\3", (1, 1)),
}


@pytest.mark.parametrize("name", PNM)
def test_pnm_under_a_wrong_name(name: str, tmp_path: Path) -> None:
    data, size = PNM[name]
    (tmp_path / "photo.jpg").write_bytes(data)
    catalog = scan(tmp_path, verify="full", workers=0)
    assert [(entry.info.container, entry.info.width, entry.info.height) for entry in catalog] == [("ppm", *size)]
    with VideoDecoder(tmp_path / "photo.jpg") as decoder, Image.open(tmp_path / "photo.jpg") as image:
        expected = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
        assert np.array_equal(decoder[0], expected)


def test_pnm_is_found_in_folders(tmp_path: Path) -> None:
    for ending in ("pbm", "pgm", "ppm", "pnm"):
        (tmp_path / f"a.{ending}").write_bytes(PNM["P6"][0])
    assert len(scan(tmp_path, workers=0).usable_rows) == 4


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (b"Pf\n4 5\n-1.0\n" + bytes(80), (4, 5)),
        (b"P5\n2 3\n65535\n" + bytes(12), (2, 3)),
    ],
)
def test_netpbm_that_is_not_decoded_has_its_size(data: bytes, size: tuple[int, int]) -> None:
    info = described(data)
    assert (info.width, info.height) == size


@pytest.mark.parametrize("text", [b"P1 was the first car.\n", b"P3", b"PF", b"P8 1 1\n", b"P6 a b c\n"])
def test_text_that_begins_like_pnm(text: bytes) -> None:
    with pytest.raises(UnreadableMedia):
        probe(text)


@pytest.mark.parametrize(
    ("magic", "name"),
    [
        (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000"),
        (b"\xff\x4f\xff\x51", "JPEG 2000"),
        (b"8BPS", "Photoshop"),
        (b"qoif", "QOI"),
        (b"v/1\x01", "OpenEXR"),
        (b"DDS ", "DDS"),
    ],
)
def test_other_kinds_are_named(magic: bytes, name: str) -> None:
    with pytest.raises(UnsupportedCodec, match=f"is a {name} picture, which framefeed cannot decode"):
        probe(magic + bytes(100))


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("dali_jpeg_lossless/cat-3449999_640_grayscale_12bit.jpg", (640, 426)),
        ("dali_jpeg_lossless/cat-3449999_640_grayscale_16bit.jpg", (640, 426)),
        ("libjpeg-turbo/monkey12.jpg", (149, 227)),
    ],
)
def test_real_pictures(name: str, size: tuple[int, int], media_root: Path) -> None:
    info = described((media_root / "image" / name).read_bytes())
    assert (info.width, info.height) == size


def test_real_heic_as_if_of_tiles(media_root: Path, tmp_path: Path) -> None:
    data = (media_root / "image" / "torchcodec" / "gradient_rotated.heic").read_bytes()
    (tmp_path / "tiles.heic").write_bytes(data.replace(b"hvc1", b"grid"))
    row = scan(tmp_path, workers=0)[0]
    assert row.info is None


@pytest.mark.parametrize("brands", [b"avif\0\0\0\0avifmif1", b"mif1\0\0\0\0mif1avif"])
def test_avif_that_this_pillow_does_not_read_says_which_does(brands: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pillow, "HAS_AVIF", False)
    monkeypatch.setattr(_pillow, "PILLOW_FORMATS", tuple(name for name in _pillow.PILLOW_FORMATS if name != "AVIF"))
    data = b"\0\0\0\x18ftyp" + brands + bytes(300)
    for ask in (probe, lambda data: decode_still(data, "picture", DEFAULT_LIMITS)):
        with pytest.raises(UnsupportedCodec, match=r"install pillow>=11\.3"):
            ask(data)


def test_avif_where_pillow_has_the_plug_in_alone_says_which_pillow_does() -> None:
    # As Pillow 11.2: its plug-in is there, and the library behind it is not.
    program = """if True:
        import sys
        sys.modules["PIL._avif"] = None
        from framefeed.errors import UnsupportedCodec
        from framefeed.index import probe
        try:
            probe(b"\\0\\0\\0\\x18ftypavif\\0\\0\\0\\0avifmif1" + bytes(300))
        except UnsupportedCodec as error:
            print(error)"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    assert "install pillow>=11.3" in run.stdout
