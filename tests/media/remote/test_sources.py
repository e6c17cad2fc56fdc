"""Sources behind a server: how many requests they take, and versions that are held to."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import framefeed as ff
from framefeed.media import MediaSource
from framefeed.parallel import release_idle
from framefeed.testing import ClipSpec, clip_bytes, put_packets, take_packets
from tests.corpus import corpus_file
from tests.media.remote.faults import FaultServer, Stored

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


def test_a_replaced_picture_is_stale(server: FaultServer) -> None:
    made = []
    for color in ("red", "blue"):
        buffer = io.BytesIO()
        Image.new("RGB", (64, 48), color).save(buffer, "PNG", compress_level=0)
        made.append(buffer.getvalue())
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
    buffer = io.BytesIO()
    Image.new("RGB", (64, 48), "red").save(buffer, "JPEG")
    server.objects["/a.jpg"] = Stored(buffer.getvalue())
    fingerprint = ff.build_index(f"{server.url}/a.jpg").identity.fingerprint
    before = server.count()
    assert MediaSource.of(f"{server.url}/a.jpg").head_fingerprint() == fingerprint
    assert server.count() == before + 1
