"""still_header and image_info on pictures of every kind, against Pillow."""

from __future__ import annotations

import io
import logging
import struct
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image, ImageOps

from framefeed._values import DEFAULT_LIMITS, Limits
from framefeed.decode import VideoDecoder
from framefeed.errors import LimitExceeded, UnreadableMedia, UnsupportedCodec
from framefeed.index import build_index, probe
from framefeed.media import MediaSource
from framefeed.pictures import _pillow
from framefeed.pictures._exif import convert_exif_orientation
from framefeed.pictures._pillow import describe_header, describe_picture, probe_image
from framefeed.pictures._reads import PICTURE_HEAD_BYTES as HEAD_BYTES
from framefeed.pictures._reads import OddHeader
from tests.pictures.made import HEIGHT, WIDTH, made, picture, saved, segment, tiled, with_segments
from tests.pictures.reading import Reads, our_facts, pillow_facts

NAMES = sorted(made())
TIFFS = [name for name in NAMES if name.endswith(".tiff")]
ODD = {"fill bytes.jpeg", "junk.jpeg", "two exif.jpeg", "lossless L.jpeg", "lossless RGB.jpeg", "P.bmp"}
READ_HERE = sorted({*NAMES} - {*ODD, *TIFFS})
WITHOUT_RULE = {f"{mode}{size}.tiff": mode for mode in ("I", "F", "LAB") for size in ("", " big")}


def odd(head: bytes, more: object, size: int) -> None:
    raise OddHeader("all are odd today")


def test_I01_I04_I06_the_header_says_what_pillow_says() -> None:
    others = [name for name in READ_HERE if our_facts(made()[name]) != pillow_facts(made()[name])]
    assert not others


def test_I10_a_tiff_is_described_as_pillow_does() -> None:
    for name in TIFFS:
        info, _ = describe_picture(MediaSource.of(made()[name]), DEFAULT_LIMITS)
        facts = pillow_facts(made()[name])
        assert (info.container, info.codec, info.coded_width, info.coded_height) == ("tiff", "tiff", *facts[1:3]), name
        assert (info.pixel_format, info.num_frames_from_header) == (facts.mode, facts.num_frames), name
        assert (info.rotation, info.mirrored) == convert_exif_orientation(facts.orientation), name


def test_I10_pages_of_a_large_tiff_are_counted_and_a_broken_chain_is_damage() -> None:
    data = bytearray(made()["pages.tiff"]) + bytes(2**22)
    assert probe(bytes(data)).num_frames_from_header == 11
    assert probe(tiled("<", is_ring=True) + bytes(2**22)).num_frames_from_header == 1
    begin = struct.unpack_from("<I", data, 4)[0]
    struct.pack_into("<I", data, begin + 2 + 12 * struct.unpack_from("<H", data, begin)[0], len(data) + 9)
    with pytest.raises(UnreadableMedia, match="damaged picture header"):
        probe(bytes(data))


@pytest.mark.parametrize("missing", [1, 2, 4])
def test_a_tiff_that_ends_with_its_directory_is_one_picture(missing: int) -> None:
    entries = [(256, 4, 4), (257, 4, 4), (258, 3, 8), (259, 3, 1), (262, 3, 1), (273, 4, 8), (278, 4, 4), (279, 4, 16)]
    rows = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in entries)
    data = struct.pack("<4sI16sH", b"II*\0", 24, bytes(range(16)), len(entries)) + rows + bytes(4 - missing)
    assert probe(data).num_frames_from_header == 1
    assert VideoDecoder(data)[0].sum() == 3 * sum(range(16))


def test_I10_pages_without_end_are_not_counted() -> None:
    start = made()["pages.tiff"]
    first = len(start)
    chain = b"".join(struct.pack("<HI", 0, first + 6 * (number + 1)) for number in range(2**16)) + bytes(6)
    data = bytearray(start + chain)
    begin = struct.unpack_from("<I", data, 4)[0]
    struct.pack_into("<I", data, begin + 2 + 12 * struct.unpack_from("<H", data, begin)[0], first)
    assert probe(bytes(data)).num_frames_from_header is None


@pytest.mark.parametrize("name", sorted(ODD))
def test_odd_headers_are_left_to_pillow_and_logged(name: str, caplog: pytest.LogCaptureFixture) -> None:
    data = made()[name]
    with pytest.raises(OddHeader):
        our_facts(data)
    with caplog.at_level(logging.DEBUG, "framefeed.media"):
        info = probe_image(MediaSource.of(data), DEFAULT_LIMITS)
    assert (info.coded_width, info.coded_height) == (WIDTH, HEIGHT)
    assert "left to Pillow" in caplog.text
    assert info.rotation == (270 if name == "two exif.jpeg" else 0)


@pytest.mark.parametrize("name", WITHOUT_RULE)
def test_pixels_without_a_rule_for_rgb_are_refused(name: str) -> None:
    for ask in (probe, build_index):
        with pytest.raises(UnsupportedCodec, match=f"pixels of kind '{WITHOUT_RULE[name]}'") as caught:
            ask(made()[name])
        assert caught.value.source is not None


def test_both_readers_give_the_same_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {}
    for name in READ_HERE:
        (tmp_path / name).write_bytes(made()[name])
        sources = (tmp_path / name, made()[name], io.BytesIO(made()[name]))
        quick[name] = [probe_image(MediaSource.of(source), DEFAULT_LIMITS) for source in sources]
    monkeypatch.setattr(_pillow, "read_still_header", odd)
    for name, infos in quick.items():
        assert infos == [probe_image(MediaSource.of(tmp_path / name), DEFAULT_LIMITS)] * 3, name


def test_reads_are_few_and_only_beyond_the_head() -> None:
    for name in READ_HERE:
        reads = Reads(made()[name])
        reads.header()
        if len(reads.data) < HEAD_BYTES:
            assert reads.calls == [], name
        assert name.endswith(".gif") or sum(reads.calls) <= 2**18, name
        assert len(reads.calls) <= 16, name


def test_pictures_that_begin_with_pixels_need_the_head_alone() -> None:
    for kind, image in [
        ("JPEG", picture("RGB", 300, 300)),
        ("WEBP", picture("RGB", 300, 300)),
    ]:
        reads = Reads(saved(image, kind))
        reads.header()
        assert reads.calls == []


def test_P01_the_displayed_size_is_that_of_the_upright_picture() -> None:
    """Against Pillow's own transposing; corners and size."""
    for name in [name for name in NAMES if "orientation" in name or "exif" in name]:
        info = probe_image(MediaSource.of(made()[name]), DEFAULT_LIMITS)
        with Image.open(io.BytesIO(made()[name])) as image:
            if image.format == "TIFF":
                image.load()  # turns it
            assert (info.width, info.height) == ImageOps.exif_transpose(image).size, name


@pytest.mark.parametrize("tag", range(-1, 10))
def test_P01_orientations_turn_as_pillow_turns(tag: int) -> None:
    pixels = np.arange(6, dtype=np.uint8).reshape(2, 3)
    image = Image.fromarray(pixels)
    image.getexif()[0x0112] = tag
    rotation, mirrored = convert_exif_orientation(tag)
    turned = np.rot90(pixels, rotation // 90)
    np.testing.assert_array_equal(turned[:, ::-1] if mirrored else turned, np.asarray(ImageOps.exif_transpose(image)))


def test_libav_sees_the_same_size() -> None:
    num_read = 0
    for name in [name for name in NAMES if not name.endswith((".tiff", ".webp"))]:
        try:
            with av.open(io.BytesIO(made()[name])) as container:
                stream = container.streams.video[0]
                size = (stream.width, stream.height)
        except (av.FFmpegError, IndexError):
            continue  # libav cannot read it
        if size != (0, 0) and "larger than the screen" not in name:
            assert size == pillow_facts(made()[name])[1:3], name
            num_read += 1
    assert num_read > 150


def test_without_the_size_of_the_file_only_late_exif_is_missed() -> None:
    for name in READ_HERE:
        facts = our_facts(made()[name])
        blind = our_facts(made()[name], knows_size=False)
        assert blind._replace(orientation=facts.orientation) == facts
        assert blind.orientation == facts.orientation or ("late" in name and blind.orientation == 1)


def test_described_headers_keep_the_stored_size() -> None:
    info = describe_header(Reads(made()["exif 6.jpeg"]).header(), 1234)
    assert (info.width, info.height, info.coded_width, info.coded_height) == (HEIGHT, WIDTH, WIDTH, HEIGHT)
    assert (info.bytes, info.codec, info.rotation) == (1234, "mjpeg", 270)


def test_I01_damaged_exif_does_not_lose_the_picture() -> None:
    for payload in (
        b"Exif\0\0nonsense",
        b"Exif\0\0II*\0",
        b"Exif\0\0II*\0\xff\xff\xff\xff",
        b"Exif\0\0MM\0*\0\0\0\x08\xff\xff",
    ):
        info = probe_image(
            MediaSource.of(with_segments(saved(picture(), "JPEG"), segment(0xFFE1, payload))), DEFAULT_LIMITS
        )
        assert (info.width, info.height, info.rotation) == (WIDTH, HEIGHT, 0)


@pytest.mark.parametrize(
    "name", ["RGB.jpeg", "RGB.png", "RGB.gif", "RGB lossy.webp", "P.bmp", "RGB.tiff", "fill bytes.jpeg"]
)
def test_S04_limits_hold(name: str) -> None:
    with pytest.raises(LimitExceeded, match="37x21"):
        probe_image(MediaSource.of(made()[name]), Limits(max_side=30))
