"""Indexes of pictures: exact times, correct ``built_from``, one frame per file."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from framefeed.errors import CorruptMedia, EmptyVideo, FormatChanged, MissingMedia, NoVideoStream, UnreadableMedia
from framefeed.index import Verify, probe
from framefeed.index._build import build_index, index_media
from framefeed.index._frame_index import FrameIndex
from framefeed.index._pictures import make_image_sequence
from framefeed.index._stills import build_still_index, describe_still_stream, has_picture_files
from framefeed.media import ImageSequence, MediaSource, SourceIdentity
from tests.corpus import corpus_file
from tests.media.pictures import SIZE, write_folder, write_named

VERIFY: list[Verify] = ["none", "ends", "full"]


def check_sound(index: FrameIndex) -> None:
    """What every index of pictures promises."""
    count = len(index)
    assert has_picture_files(index)
    assert index.has_timestamps
    assert index.key_frame_indices.tolist() == list(range(count))
    np.testing.assert_array_equal(index.frame_packet, index.frame_start)
    assert (index.packets.size[index.frame_packet] > 0).all()
    assert [index.index_at(seconds) for seconds in index.pts_seconds.tolist()] == list(range(count))


# --- sequences --------------------------------------------------------------------------------------


@pytest.mark.parametrize("verify", VERIFY)
def test_a_frame_a_file(verify: Verify, tmp_path: Path) -> None:
    write_folder(tmp_path, 12)
    info, index = index_media(ImageSequence(tmp_path, fps=Fraction(30000, 1001)), verify)
    check_sound(index)
    assert index.built_from == ("decode" if verify == "full" else "packets")
    assert (len(index), index.time_base) == (12, Fraction(1001, 30000))
    assert index.average_fps == 30000 / 1001
    assert not index.is_variable_frame_rate
    assert index.end_pts * index.time_base == 12 * Fraction(1001, 30000)
    assert index.stream.displayed == SIZE == (info.height, info.width)
    sizes = [(tmp_path / f"img{number}.png").stat().st_size for number in range(12)]
    assert index.packets.size.tolist() == sizes
    assert not index.packets.offset.any()
    assert index.identity is not None
    assert index.identity.bytes == sum(sizes) == info.bytes
    assert index.identity == build_index(ImageSequence(tmp_path, fps=1)).identity


def test_times_of_each_frame(tmp_path: Path) -> None:
    write_folder(tmp_path, 4)
    times = [1.7e9, 1.7e9 + 0.033, 1.7e9 + 0.066001, 1.7e9 + 5]
    index = build_index(ImageSequence(tmp_path, timestamps=times))
    check_sound(index)
    np.testing.assert_allclose(index.pts_seconds, times, rtol=0, atol=1e-6)
    assert index.is_variable_frame_rate
    assert not index.duration.any()
    assert index.index_at(1.7e9 + 0.05) == 1


@given(st.floats(0.001, 1000), st.integers(1, 5))
def test_a_sequence_comes_back_from_its_index(fps: float, count: int) -> None:
    sequence = ImageSequence("frames", fps=fps)
    assert make_image_sequence("frames", _made_up(sequence, count)) == sequence


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=5, unique=True).map(sorted))
def test_times_come_back_from_an_index(milliseconds: list[int]) -> None:
    sequence = ImageSequence("frames", timestamps=[number / 1000 for number in milliseconds])
    index = _made_up(sequence, len(milliseconds))
    assert make_image_sequence("frames", index) == sequence


def _made_up(sequence: ImageSequence, count: int) -> FrameIndex:
    """The index of a sequence whose files nobody needs."""
    times = sequence.times(count)
    stream = describe_still_stream("png", "png", (4, 3), "RGB", 0, mirrored=False)
    one = build_still_index(stream, SourceIdentity(99, None, ""))
    numbers = np.arange(count, dtype=np.int64)
    packets = type(one.packets)(numbers * 0, numbers + 1, times.pts, numbers.astype(np.uint8))
    return FrameIndex(times.pts, times.duration, times.time_base, numbers.copy(), "packets", numbers.copy(),
                      numbers.copy(), packets, one.stream)  # fmt: skip


def test_all_headers_are_read_but_with_verify_none(tmp_path: Path) -> None:
    write_folder(tmp_path, 3)
    Image.new("RGB", (10, 10)).save(tmp_path / "img1.png")
    sequence = ImageSequence(tmp_path, fps=25)
    assert len(build_index(sequence, "none")) == 3
    for verify in VERIFY[1:]:
        with pytest.raises(FormatChanged, match="img1"):
            build_index(sequence, verify)
    (tmp_path / "img1.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    with pytest.raises(UnreadableMedia, match="img1"):
        build_index(sequence)


def test_full_leaves_out_what_does_not_decode(tmp_path: Path) -> None:
    write_folder(tmp_path, 6, suffix=".jpg")
    for number in (0, 4):
        path = tmp_path / f"img{number}.jpg"
        path.write_bytes(path.read_bytes()[:-300])
    sequence = ImageSequence(tmp_path, fps=25)
    assert len(build_index(sequence)) == 6
    index = build_index(sequence, "full")
    check_sound(index)
    assert index.frame_packet.tolist() == [1, 2, 3, 5]
    assert index.pts.tolist() == [1, 2, 3, 5]
    assert (len(index.packets), index.built_from) == (6, "decode")
    assert make_image_sequence(str(tmp_path), index) == sequence
    for number in range(6):
        (tmp_path / f"img{number}.jpg").write_bytes((tmp_path / "img0.jpg").read_bytes())
    with pytest.raises(EmptyVideo, match="none of its 6"):
        build_index(sequence, "full")


def test_the_order_of_a_list_is_that_of_the_frames(tmp_path: Path) -> None:
    write_named(tmp_path, ["a.png", "b.jpg"])
    paths = [tmp_path / name for name in ("b.jpg", "a.png", "b.jpg")]
    index = build_index(ImageSequence(paths, fps=2))
    assert index.packets.size.tolist() == [path.stat().st_size for path in paths]
    assert index.stream.codec == "mixed"


# --- stills -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["path", "bytes", "file"])
@pytest.mark.parametrize("verify", VERIFY)
def test_a_still_is_an_index_of_one(kind: str, verify: Verify, tmp_path: Path) -> None:
    path = write_folder(tmp_path, 1) / "img0.png"
    data = path.read_bytes()
    source = {"path": path, "bytes": data, "file": io.BytesIO(data)}[kind]
    info, index = index_media(source, verify)
    check_sound(index)
    assert info == probe(source)
    assert (index.pts.tolist(), index.time_base, index.built_from) == ([0], 1, "packets")
    assert (index.average_fps, index.is_variable_frame_rate) == (None, False)
    assert index.stream.displayed == (info.height, info.width) == SIZE
    assert (index.stream.codec, index.stream.container) == ("png", "png")
    assert index.identity is not None
    assert index.identity.fingerprint == MediaSource.of(source).head_fingerprint()
    assert MediaSource.of(source).check_identity(index.identity)


def test_I04_an_animation_is_its_first_picture(tmp_path: Path) -> None:
    pictures = [Image.new("RGB", (8, 6), colour) for colour in ("red", "lime", "blue")]
    for form in ("gif", "webp", "png", "apng"):
        pictures[0].save(tmp_path / f"a.{form}", save_all=True, append_images=pictures[1:])
        assert len(build_index(tmp_path / f"a.{form}")) == 1
        info = probe(tmp_path / f"a.{form}")
        assert (info.kind, info.num_frames_from_header) == ("image", 3), form


def test_full_decodes_a_still(tmp_path: Path) -> None:
    path = write_folder(tmp_path, 1, suffix=".jpg") / "img0.jpg"
    path.write_bytes(path.read_bytes()[:-300])
    assert len(build_index(path)) == 1
    with pytest.raises(CorruptMedia, match="img0"):
        build_index(path, "full")


def test_pictures_have_one_stream(tmp_path: Path) -> None:
    write_folder(tmp_path, 1)
    for source in (tmp_path / "img0.png", ImageSequence(tmp_path, fps=25)):
        assert len(build_index(source, stream_index=0)) == 1
        with pytest.raises(NoVideoStream, match="no stream 1"):
            build_index(source, stream_index=1)
    with pytest.raises(MissingMedia, match="no such folder"):
        build_index(ImageSequence(tmp_path / "none", fps=25), stream_index=1)


def test_pictures_are_distinguished_from_videos() -> None:
    assert not has_picture_files(build_index(corpus_file("base.mp4"), "none"))
    assert not has_picture_files(build_index(corpus_file("full_range.avi"), "none"))
