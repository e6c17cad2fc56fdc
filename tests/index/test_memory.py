"""Memory of indexing and scanning: pictures are freed when they are decoded, not when the collector runs."""

from __future__ import annotations

import gc
import io
import json
import subprocess
import sys
from pathlib import Path

import av
import numpy as np
import pytest
from av.bitstream import BitStreamFilterContext

from framefeed.decode import VideoDecoder
from framefeed.index import probe
from framefeed.index._build import build_index
from framefeed.media import MediaSource, VideoContainer, decode_facts
from framefeed.testing import ClipSpec, clip_bytes
from tests.cli.running import environment

MEGABYTE = 2**20


@pytest.mark.parametrize("verify", ["ends", "full"])
def test_L10_a_scan_holds_few_pictures_at_a_time(tmp_path: Path, verify: str) -> None:
    # 1.4 MB a picture; 160 of them.
    data = clip_bytes(ClipSpec(num_frames=40, height=720, width=1280, gop=20), "mp4")
    for number in range(4):
        (tmp_path / f"{number}.mp4").write_bytes(data)
    result = subprocess.run(
        [sys.executable, "-m", "tests.index.memory", str(tmp_path), verify],
        env=environment(), cwd=Path(__file__).parents[2], capture_output=True, check=True, timeout=100,
    )  # fmt: skip
    measured = json.loads(result.stdout)
    assert (measured["rows"], measured["failed"]) == (4, 0)
    # Two threads, each with the pictures that its decoder refers to.
    assert measured["bytes"] < 150 * MEGABYTE


@pytest.mark.parametrize("name", ["container", "bitstream"])
def test_a_vertical_flip_is_known_wherever_it_stands(name: str) -> None:
    """Its angle is 0: only the matrix tells, which the container has or an H.264 SEI message."""
    if name == "container":
        data = clip_bytes(ClipSpec(num_frames=8, rotation=180, mirrored=True), "mp4")
    else:
        data = flipped_by_message(clip_bytes(ClipSpec(num_frames=8), "mp4"))
    info = probe(data)
    assert (info.rotation, info.mirrored) == (180, True)
    stream = build_index(data, verify="full").stream
    assert (stream.rotation, stream.mirrored) == (180, True)
    upright = VideoDecoder(clip_bytes(ClipSpec(num_frames=8), "mp4"), dimension_order="NHWC")
    if name == "bitstream":
        assert np.array_equal(VideoDecoder(data, dimension_order="NHWC")[3], upright[3][::-1])


def flipped_by_message(data: bytes) -> bytes:
    """Write an H.264 clip again with a display orientation message that flips it vertically."""
    out = io.BytesIO()
    with av.open(io.BytesIO(data)) as source, av.open(out, "w", "mp4") as target:
        theirs = source.streams.video[0]
        ours = target.add_stream_from_template(theirs)
        flip = BitStreamFilterContext("h264_metadata=display_orientation=insert:flip=vertical", theirs)
        for packet in source.demux(theirs):
            for written in flip.filter(packet if packet.size else None):
                written.stream = ours
                target.mux(written)
    return out.getvalue()


def test_a_decoded_picture_is_free_once_its_facts_are_known() -> None:
    data = clip_bytes(ClipSpec(num_frames=8, rotation=90), "mp4")
    gc.collect()
    before = _pictures()
    gc.disable()
    try:
        with VideoContainer(MediaSource.of(data)) as container:
            assert len(list(decode_facts(container, enumerate(container.packets())))) == 8
        left = [each for each in _pictures() if not any(each is other for other in before)]
    finally:
        gc.enable()
    assert not left


def _pictures() -> list[av.VideoFrame]:
    # Decoders keep an empty frame, without a format, to decode into.
    return [each for each in gc.get_objects() if type(each) is av.VideoFrame and each.format is not None]
