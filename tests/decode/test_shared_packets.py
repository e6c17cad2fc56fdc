"""Packets that give several frames: each is the one that decoding all of the stream gives, however it is asked for."""

from __future__ import annotations

import io
from pathlib import Path

import av
import numpy as np
import pytest

from framefeed import VideoDecoder, build_index
from framefeed.cache import FrameCache
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.media import MediaSource
from framefeed.testing import put_packets
from tests.bitstreams.vpx_cases import MUTANTS
from tests.decode.lost_packets import take
from tests.reference import planes_of, read_reference

SHARED = [name for name, mutant in MUTANTS.items() if mutant.reason == "two frames"]


@pytest.mark.parametrize("name", SHARED)
def test_frames_of_one_packet_are_distinguished(name: str) -> None:
    data = MUTANTS[name].make()
    index = build_index(data)
    with av.open(io.BytesIO(data)) as container:
        expected = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(index) == len(expected)
    assert len(np.unique(index.frame_packet)) < len(index)
    with VideoDecoder(data, frame_index=index, dimension_order="NHWC") as decoder:
        assert np.abs(decoder[:].astype(int) - expected).max() <= _MOST_ROUNDED
        for ordinal in (*reversed(range(len(index))), 4, 5, 4):
            assert np.array_equal(decoder[ordinal], decoder[:][ordinal]), ordinal


_MOST_ROUNDED = 3
"""libav's conversion by default rounds otherwise than ours; frames here differ by more."""


def test_there_are_such_streams() -> None:
    assert {"VP9, two frames", "VP9, shown again twice"} <= set(SHARED)


def test_D01_frames_of_one_packet_need_not_follow_each_other(tmp_path: Path) -> None:
    """MPEG-4 without its first key frame: its decoder gives the first picture twice, with two others in between."""
    path = tmp_path / "no_key.avi"
    media, packets, time_base = take("mpeg4 B")
    put_packets(path, media, packets[1:], time_base)
    index, reference = build_index(path), read_reference(path)
    assert index.frame_packet[:4].tolist() == [0, 1, 2, 0]
    assert reference.planes[0] != reference.planes[3]
    source, decoder = MediaSource.of(path), PyAVDecoder()
    for request in ([3], [0], [3, 0], range(len(index))):
        came = {ordinal: planes_of(frame) for ordinal, frame in decoder.iter_native(source, index, request)}
        assert came == {ordinal: reference.planes[ordinal] for ordinal in request}


def test_C01_a_cache_tells_the_frames_of_one_packet_apart(tmp_path: Path) -> None:
    path = tmp_path / "no_key.avi"
    media, packets, time_base = take("mpeg4 B")
    put_packets(path, media, packets[1:], time_base)
    index = build_index(path)
    with VideoDecoder(path, frame_index=index) as decoder:
        expected = [decoder[ordinal] for ordinal in range(6)]
    assert not np.array_equal(expected[0], expected[3])
    with FrameCache(tmp_path / "cache") as cache:
        for _ in range(2):
            with VideoDecoder(path, frame_index=index, backend=cache.decoder(PyAVDecoder())) as decoder:
                for ordinal in (3, 0, 1, 5, 0, 3):
                    np.testing.assert_array_equal(decoder[ordinal], expected[ordinal])
