"""Where a decoder complains of parameter sets, the whole stream is decoded, even if its beginning and end are sound."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from framefeed import FrameIndex, build_index
from framefeed.bitstreams import split_nal_units
from framefeed.media._container import VideoContainer
from framefeed.media._packets import walk_packets
from framefeed.media._parameter_sets import has_damaged_parameters
from framefeed.media._source import MediaSource

SEQUENCE, PICTURE = 7, 8
FRAMES, GOP = 120, 8
MIDDLE = 56
"""A key frame that neither the first 48 packets nor the last 48 reach."""


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An H.264 MP4 file that repeats its parameter sets before each key frame."""
    path = tmp_path_factory.mktemp("sets") / "repeated.mp4"
    options = {"x264-params": f"keyint={GOP}:scenecut=0:bframes=0:threads=1:repeat-headers=1"}
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(FRAMES):
            picture = np.full((48, 64, 3), (5 * number) % 256, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        container.mux(stream.encode())
    return path.read_bytes()


def _with_set(clip: bytes, kind: int, change: Callable[[bytes], bytes]) -> bytes:
    """Change the parameter set of one kind in the packet of the middle."""
    packets, changed = build_index(clip, verify="none").packets, bytearray(clip)
    start = int(packets.offset[MIDDLE])
    packet = clip[start : start + int(packets.size[MIDDLE])]
    (unit,) = [bytes(unit) for unit in split_nal_units(packet, 4) if unit[0] & 31 == kind]
    at = start + packet.index(unit)
    changed[at : at + len(unit)] = unit[:1] + change(unit[1:])
    return bytes(changed)


def _same_frames(first: FrameIndex, second: FrameIndex) -> bool:
    return np.array_equal(first.pts, second.pts) and np.array_equal(first.frame_packet, second.frame_packet)


def test_intact_parameter_sets_need_no_decoding(clip: bytes) -> None:
    index = build_index(clip, verify="ends")
    assert (index.built_from, len(index), index.stream.inband_parameters) == ("packets+ends", FRAMES, True)


@pytest.mark.parametrize(
    ("kind", "change", "frames"),
    [
        (SEQUENCE, lambda unit: b"\xff" * len(unit), None),  # some pictures behind it do not come
        (SEQUENCE, lambda unit: bytes(len(unit)), FRAMES),
        (PICTURE, lambda unit: bytes(len(unit)), FRAMES),
    ],
)
def test_a_damaged_set_in_the_middle_makes_the_index_decode_all(
    clip: bytes, kind: int, change: Callable[[bytes], bytes], frames: int | None
) -> None:
    damaged = _with_set(clip, kind, change)
    index = build_index(damaged, verify="ends")
    assert index.built_from == "decode"
    assert len(index) == frames or (frames is None and FRAMES - GOP <= len(index) < FRAMES)
    assert _same_frames(index, build_index(damaged, verify="full"))


def test_a_damaged_configuration_makes_the_index_decode_all(clip: bytes) -> None:
    damaged = bytearray(clip)
    box = clip.index(b"avcC")
    size = int.from_bytes(clip[box - 4 : box], "big")
    (unit,) = {clip[box + 12 : box + 12 + int.from_bytes(clip[box + 10 : box + 12], "big")]}
    assert unit[0] & 31 == SEQUENCE
    assert len(unit) < size
    damaged[box + 12 + len(unit) - 1] ^= 0x7F  # the end of the timing: pictures come out as before
    index = build_index(bytes(damaged), verify="ends")
    assert index.built_from == "decode"
    assert _same_frames(index, build_index(bytes(damaged), verify="full"))


def test_the_tables_of_the_file_and_its_demuxer_give_the_same_sets(clip: bytes) -> None:
    changed = _with_set(clip, PICTURE, lambda unit: bytes(len(unit)))
    with VideoContainer(MediaSource.of(changed)) as container:
        walk = walk_packets(container)
        sets = walk.parameter_sets
        assert [unit[0] & 31 for unit in sets] == [SEQUENCE, PICTURE, PICTURE]
        assert has_damaged_parameters(container, sets)
        assert not has_damaged_parameters(container, sets[:2])
        assert container.log, "what was complained of is kept for the message of an error"


@pytest.mark.parametrize("name", ["clip.mkv", "clip.ts"])
def test_damaged_sets_are_noticed_in_other_containers(clip: bytes, tmp_path: Path, name: str) -> None:
    damaged, path = _with_set(clip, SEQUENCE, lambda unit: b"\xff" * len(unit)), tmp_path / name
    (tmp_path / "damaged.mp4").write_bytes(damaged)
    with av.open(str(tmp_path / "damaged.mp4")) as source, av.open(str(path), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    index = build_index(path, verify="ends")
    assert index.built_from == "decode"
    assert len(index) == len(build_index(damaged))
