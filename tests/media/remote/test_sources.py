"""Sources behind a server: how many requests they take, and versions that are held to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import framefeed as ff
from framefeed._units import format_bytes
from framefeed.media import MediaSource
from framefeed.media.remote._reader import RangeReader
from framefeed.parallel import release_idle
from framefeed.testing import ClipSpec, clip_bytes, put_packets, take_packets, write_clip
from tests.corpus import corpus_file
from tests.media.nal_mutants import edit, h264
from tests.media.remote.faults import FaultServer, Stored
from tests.pictures.made import picture, saved

FREE = (2 << 20).to_bytes(4, "big") + b"free" + bytes((2 << 20) - 8)


def list_boxes(data: bytes) -> dict[bytes, tuple[int, int]]:
    boxes, at = {}, 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        boxes[data[at + 4 : at + 8]] = at, at + size
        at += size
    return boxes


def test_a_moov_box_behind_the_pictures_is_one_request(server: FaultServer) -> None:
    data = corpus_file("base.mp4").read_bytes()
    boxes = list_boxes(data)
    assert boxes[b"mdat"][0] < boxes[b"moov"][0]
    begin = boxes[b"mdat"][1]
    server.objects["/a.mp4"] = Stored(data[:begin] + FREE + data[begin:])
    index = ff.build_index(f"{server.url}/a.mp4")
    assert index.built_from == "packets"
    # The head, all that is behind the pictures, and the middle, for the fingerprint; its tail is there.
    assert server.count() <= 3


def long_clip(folder: Path, codec: str, moov: str) -> Path:
    """Write a file of 9 MB: 96 frames, a key frame every 12, each packet with bytes that no decoder needs."""
    data = clip_bytes(ClipSpec(num_frames=96, gop=12, codec=ENCODERS[codec], b_frames=None), "mp4")
    packets, time_base = take_packets(data)
    # Metadata of AV1 are units of their own; VP9 has zero bytes behind a frame.
    size = bytes((len(FILLER) & 0x7F | 0x80, len(FILLER) >> 7 & 0x7F | 0x80, len(FILLER) >> 14))
    more = b"\x2a" + size + FILLER if codec == "av1" else bytes(len(FILLER))
    path = folder / f"{codec}.mp4"
    longer = [replace(each, data=each.data + more) for each in packets]
    put_packets(path, data, longer, time_base, {"movflags": "+faststart"} if moov == "in front" else None)
    return path


ENCODERS = {"av1": "libsvtav1", "vp9": "libvpx-vp9"}
FILLER = b"\x06" + bytes(99_998) + b"\x80"


# Head, middle and tail for the fingerprint, and the moov box, if it is not in the head.
@pytest.mark.parametrize(("moov", "most"), [("in front", 3), ("behind", 4)])
@pytest.mark.parametrize("codec", sorted(ENCODERS))
def test_a_long_movie_takes_few_requests(server: FaultServer, tmp_path: Path, codec: str, moov: str, most: int) -> None:
    path = long_clip(tmp_path, codec, moov)
    server.objects["/a.mp4"] = Stored(path.read_bytes())
    url, near = f"{server.url}/a.mp4", ff.build_index(path)
    index = ff.build_index(url)
    assert (index.built_from, near.built_from) == ("packets", "packets+proof")
    assert server.count() <= most
    assert sum(stop - start for start, stop in server.ranges) < path.stat().st_size / 10
    for column in ("pts", "duration", "frame_packet", "frame_start", "key_frame_indices"):
        np.testing.assert_array_equal(getattr(index, column), getattr(near, column))
    release_idle()
    before = server.count()
    # Frames of two neighbouring groups of pictures: the bytes of both, in one request.
    numbers = [66, 50, 58, 71, 55]
    with ff.VideoDecoder(url, frame_index=index) as far, ff.VideoDecoder(path) as local:
        np.testing.assert_array_equal(far.get_frames_at(numbers).data, local.get_frames_at(numbers).data)
    packets = index.packets
    assert server.ranges[before:] == [(packets.offset[48], packets.offset[71] + packets.size[71])]


@pytest.mark.parametrize("codec", sorted(ENCODERS))
def test_a_reader_that_proves_packets_is_caught(server: FaultServer, tmp_path: Path, codec: str) -> None:
    path = long_clip(tmp_path, codec, "behind")
    server.objects["/a.mp4"] = Stored(path.read_bytes())
    assert ff.build_index(f"{server.url}/a.mp4", "full").built_from == "decode"
    assert sum(stop - start for start, stop in server.ranges) > path.stat().st_size / 10


def filled(folder: Path, name: str, nbytes: int) -> Path:
    """Write a clip of 96 frames whose packets are mostly filler, as a file of so many bytes and more."""
    filler = b"\x0c" + b"\xff" * (nbytes // 96) + b"\x80"
    return edit(h264(), range(96), lambda units: [*units, filler]).write(folder / name)


@contextmanager
def recorded_readers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Record how many bytes readers of objects keep, after each read."""
    kept: list[int] = []

    def read_into(reader: RangeReader, buffer: memoryview, offset: int) -> int:
        count = READ_INTO(reader, buffer, offset)
        kept.append(reader.kept_bytes)
        return count

    with monkeypatch.context() as patch:
        patch.setattr(RangeReader, "read_into", read_into)
        yield kept


READ_INTO = RangeReader.read_into
MOST_KEPT = 2**25 + 2**23
"""What a reader keeps, and one request more."""


@pytest.mark.parametrize("name", ["a.mkv", "a.ts"])
def test_an_object_without_tables_is_read_once_in_windows(
    server: FaultServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = filled(tmp_path, name, 2**26)
    data = path.read_bytes()
    server.objects["/a"] = Stored(data)
    with recorded_readers(monkeypatch) as kept:
        catalog = ff.scan([f"{server.url}/a"], workers=0)
    assert not catalog.failures
    assert catalog.frame_index(0).built_from == ff.build_index(path).built_from
    assert max(kept) <= MOST_KEPT < len(data)
    # libav opens it, and looks for the last times of MPEG-TS at its end.
    assert sum(stop - start for start, stop in server.ranges) < len(data) + 2**24


@pytest.mark.parametrize("ask", [ff.build_index, ff.VideoDecoder])
@pytest.mark.parametrize("name", ["open_gop.mkv", "closed_gop.ts", "base.avi", "vp9.webm", "fields.mp4"])
def test_a_download_is_announced_before_it_begins(
    server: FaultServer, tmp_path: Path, ask: Callable[[str], object], name: str
) -> None:
    if name in ("base.avi", "vp9.webm"):
        codec = "mpeg4" if name == "base.avi" else "libvpx-vp9"
        write_clip(tmp_path / name, ClipSpec(num_frames=48, codec=codec, b_frames=None, gop=8))
    path = tmp_path / name if (tmp_path / name).exists() else corpus_file(name)
    data = path.read_bytes()
    server.objects["/a"] = Stored(data)
    url = f"{server.url}/a?signature=secret"
    with pytest.warns(UserWarning, match=r"/a\?\.\.\.: all of its ") as caught:
        ask(url)
    (warning,) = caught
    assert "secret" not in str(warning.message)
    assert format_bytes(len(data)) in str(warning.message)
    assert warning.filename == __file__


def test_a_download_is_announced_and_then_begins(server: FaultServer, tmp_path: Path) -> None:
    server.objects["/a"] = Stored(filled(tmp_path, "a.mkv", 2**21).read_bytes())
    # Warnings are errors in tests.
    with pytest.raises(UserWarning, match=r"all of its 2\.\d+ MB"):
        ff.build_index(f"{server.url}/a")
    assert server.count() == 1


def test_nothing_is_announced_where_tables_or_an_index_suffice(server: FaultServer) -> None:
    for name in ("base.mp4", "fragmented.mp4", "temporal_units_av1.mp4", "open_gop.mkv"):
        path = corpus_file(name)
        server.objects["/a"] = Stored(path.read_bytes(), etag=f'"{name}"')
        index = ff.build_index(path) if name == "open_gop.mkv" else ff.build_index(f"{server.url}/a")
        with ff.VideoDecoder(f"{server.url}/a", frame_index=index) as far, ff.VideoDecoder(path) as near:
            np.testing.assert_array_equal(far[7], near[7])


def test_a_replaced_picture_is_stale(server: FaultServer) -> None:
    made = [saved(Image.new("RGB", (64, 48), color), "PNG", compress_level=0) for color in ("red", "blue")]
    server.objects["/a.png"] = Stored(made[0])
    url = f"{server.url}/a.png"
    index = ff.build_index(url)
    with ff.VideoDecoder(url, frame_index=index) as decoder:
        assert decoder[0][0].max() == 255
        server.objects["/a.png"] = Stored(made[1], etag='"two"')
        release_idle()
        with pytest.raises(ff.StaleSource):
            decoder[0]
    assert ff.build_index(url).identity != index.identity


def test_a_picture_is_identified_by_one_request(server: FaultServer) -> None:
    server.objects["/a.jpg"] = Stored(saved(picture(), "JPEG"))
    fingerprint = ff.build_index(f"{server.url}/a.jpg").identity.fingerprint
    before = server.count()
    assert MediaSource.of(f"{server.url}/a.jpg").head_fingerprint() == fingerprint
    assert server.count() == before + 1
