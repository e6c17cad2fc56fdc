"""Sources behind a server: how many requests they take, and versions that are held to."""

from __future__ import annotations

import io

import pytest
from PIL import Image

import framefeed as ff
from framefeed.media import MediaSource
from framefeed.parallel import release_idle
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
