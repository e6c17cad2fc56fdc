"""Packets that give several frames: each is the one that decoding all of the stream gives, however it is asked for."""

from __future__ import annotations

import io

import av
import numpy as np
import pytest

from framefeed import VideoDecoder, build_index
from tests.media.vpx_cases import MUTANTS

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
