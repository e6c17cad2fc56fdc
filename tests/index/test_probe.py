"""What headers claim, and how a picture is turned."""

from __future__ import annotations

import io
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from framefeed.errors import EmptyVideo, NoVideoStream, UnreadableMedia, UnsupportedCodec
from framefeed.index._probe import probe
from framefeed.index._upright import convert_display_matrix
from framefeed.testing import ClipSpec, clip_bytes
from tests.corpus import corpus_file
from tests.media.encrypted import encrypted_clip
from tests.media.files import CODEC_CLIPS, READABLE, readable_path
from tests.reference import kept_reference


@pytest.mark.parametrize("name", READABLE)
def test_the_probed_picture_is_that_of_the_first_frame(name: str) -> None:
    path = readable_path(name)
    info = probe(path)
    size, pixel_format, _ = kept_reference(path).frames[0].planes.split()
    width, height = map(int, size.split("x"))
    turned = info.rotation in (90, 270)
    assert (info.width, info.height) == ((height, width) if turned else (width, height))
    assert info.coded_width >= width
    assert info.coded_height >= height
    assert info.pixel_format == pixel_format
    assert info.kind == "video"
    assert info.bytes == path.stat().st_size


@pytest.mark.parametrize("name", CODEC_CLIPS)
def test_codecs_have_their_own_names(name: str) -> None:
    codec = name.partition(".")[0].removesuffix("_rgb")
    # Lossless JPEG is MJPEG to its container, and packed samples are raw video.
    names = {"vc2": "dirac", "ljpeg": "mjpeg", "v308": "rawvideo", "v408": "rawvideo", "v410": "rawvideo"}
    assert probe(readable_path(name)).codec == names.get(codec, codec)


def test_M01_claims_are_named_as_claims() -> None:
    info = probe(corpus_file("header_count.avi"))
    assert info.num_frames_from_header == 1000
    info = probe(corpus_file("base.mp4"))
    assert info.num_frames_from_header == 100
    assert info.average_fps_from_header == 25.0
    assert info.duration_seconds_from_header == pytest.approx(4.0)
    assert "mp4" in info.container


def test_M17_a_rate_that_is_no_float() -> None:
    assert probe(corpus_file("ntsc.mp4")).average_fps_from_header == float(Fraction(30000, 1001))


def test_P09_coded_and_shown_sizes() -> None:
    info = probe(corpus_file("cropped.mp4"))
    assert info.coded_width % 16 == info.coded_height % 16 == 0
    assert (info.width % 16, info.height % 16) != (0, 0)
    odd = probe(corpus_file("odd_size.mp4"))
    assert (odd.height, odd.width) == (97, 131)


@pytest.mark.parametrize(
    ("name", "turn", "size"),
    [
        ("rotated_0.mp4", (0, False), (96, 128)),
        ("rotated_90.mp4", (90, False), (128, 96)),
        ("rotated_90.mkv", (90, False), (128, 96)),
        ("rotated_180.mp4", (180, False), (96, 128)),
        ("rotated_270.mp4", (270, False), (128, 96)),
        ("mirrored.mp4", (0, True), (96, 128)),
        ("rotated_90_mirrored.mp4", (90, True), (128, 96)),
        ("rotated_270_mirrored.mp4", (270, True), (128, 96)),
    ],
)
def test_P01_rotations_are_probed(name: str, turn: tuple[int, bool], size: tuple[int, int]) -> None:
    info = probe(corpus_file(name))
    assert (info.rotation, info.mirrored) == turn
    assert (info.height, info.width) == size


ONE = 1 << 16
TURNS = [(degrees, mirrored) for degrees in (0, 90, 180, 270) for mirrored in (False, True)]


def _matrix(degrees: int, mirrored: bool) -> tuple[int, ...]:
    """Display matrix of a turn counter-clockwise, then a mirror left to right: row vectors, x right, y down."""
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])  # (x, y) -> (x, y) @ turn
    if mirrored:
        turn = turn @ np.diag([-1.0, 1.0])
    a, b, c, d = (round(value) * ONE for value in turn.ravel())
    return (a, b, 0, c, d, 0, 0, 0, 1 << 30)


@pytest.mark.parametrize(("degrees", "mirrored"), TURNS)
def test_P01_orientation_of_a_display_matrix(degrees: int, mirrored: bool) -> None:
    assert convert_display_matrix(_matrix(degrees, mirrored)) == (degrees, mirrored)


@pytest.mark.parametrize("scale", [ONE // 2, 3 * ONE])
def test_P01_a_scaled_matrix_rotates_alike(scale: int) -> None:
    a, b, _, c, d, *rest = _matrix(90, False)
    scaled = tuple(value * scale // ONE for value in (a, b, 0, c, d))
    assert convert_display_matrix((*scaled, *rest)) == (90, False)


@pytest.mark.parametrize(
    "matrix", [None, (0,) * 9, (ONE, ONE, 0, -ONE, ONE, 0, 0, 0, 1 << 30), (ONE, 0, 0, 0, 0, 0, 0, 0, 1 << 30)]
)
def test_P01_other_angles_and_no_matrix_rotate_nothing(matrix: tuple[int, ...] | None) -> None:
    assert convert_display_matrix(matrix) == (0, False)


# --- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sound_only.m4a", "sound_and_cover.m4a"])
def test_M19_sound_is_no_video(name: str) -> None:
    with pytest.raises(NoVideoStream, match="audio"):
        probe(corpus_file(name))


@pytest.mark.parametrize("name", ["zero_frames.mp4", "zero_frames.avi", "edit_list_all.mp4"])
def test_M16_a_stream_without_a_frame(name: str) -> None:
    with pytest.raises(EmptyVideo):
        probe(corpus_file(name))


def test_D12_an_encrypted_track_is_unsupported() -> None:
    with pytest.raises(UnsupportedCodec, match="encrypted"):
        probe(encrypted_clip())


def test_D11_a_codec_that_ffmpeg_does_not_know_is_unsupported() -> None:
    with pytest.raises(UnsupportedCodec):
        probe(clip_bytes(ClipSpec(num_frames=2, codec="mjpeg", pixel_format="yuvj420p", gop=None, b_frames=None), "avi")
              .replace(b"MJPG", b"QQQQ"))  # fmt: skip


def test_D13_poisonous_metadata_changes_no_fact(tmp_path: Path) -> None:
    """Tags of a megabyte, with escapes of terminals and bytes that are no text."""
    written = clip_bytes(ClipSpec(num_frames=3), "mp4")
    buffer = io.BytesIO()
    with av.open(io.BytesIO(written)) as source, av.open(buffer, "w", format="mp4") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        target.metadata["title"] = "\x1b]2;owned\x07{0.__class__}%s"
        target.metadata["comment"] = "A" * 1_000_000
        for packet in source.demux(source.streams.video[0]):
            if packet.size:
                packet.stream = stream
                target.mux(packet)
    poisoned = buffer.getvalue().replace(b"owned", b"\xff\xfe\x80\x00\xff")
    assert len(poisoned) > 1_000_000
    assert replace(probe(poisoned), bytes=0) == replace(probe(written), bytes=0)


@pytest.mark.parametrize("ending", [".jpg", ".png", ".mp4", ".tif"])
def test_I09_content_decides_and_never_the_name(tmp_path: Path, ending: str) -> None:
    postscript = tmp_path / f"picture{ending}"
    postscript.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(x) run\n")
    with pytest.raises(UnreadableMedia):
        probe(postscript)
    other = tmp_path / f"other{ending}"
    Image.new("RGB", (7, 5)).save(other, "GIF")
    assert (probe(other).container, probe(other).width) == ("gif", 7)


# --- stills -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "container"), [("PNG", "png"), ("JPEG", "jpeg"), ("BMP", "bmp"), ("GIF", "gif"),
                                                 ("TIFF", "tiff"), ("WEBP", "webp")])  # fmt: skip
@pytest.mark.parametrize("name", ["still", "still.mp4"])
def test_D03_a_still_is_known_by_its_bytes(kind: str, container: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    Image.new("RGB", (40, 30), (200, 10, 10)).save(path, kind)
    for source in (path, path.read_bytes(), io.BytesIO(path.read_bytes())):
        info = probe(source)
        assert (info.kind, info.container, info.width, info.height) == ("image", container, 40, 30)
        assert info.bytes == path.stat().st_size
