"""VP8: each run has a new decoder, whose memory is blank, and the container stays open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.video.frame import VideoFrame

from framefeed.decode._convert import Converter
from framefeed.decode._decoder import DecodeCounts, Pixels
from framefeed.decode._video_decoder import VideoDecoder
from framefeed.decode.backends._pyav_pools import get_thread_pools
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.index import StreamFacts, build_index
from framefeed.media import MediaSource
from framefeed.request import OutputSpec

GOP = 5


def written(path: Path, **options: str) -> Path:
    """Write 30 noisy frames of VP8; options are those of the encoder."""
    with av.open(path, "w") as container:
        stream: Any = container.add_stream("libvpx", rate=25, options={"auto-alt-ref": "0", **options})
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = 64, 48, "yuv420p", GOP
        rng = np.random.default_rng(5)
        for _ in range(30):
            picture = rng.integers(0, 256, (12, 16, 3), dtype=np.uint8).repeat(4, 0).repeat(4, 1)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        container.mux(stream.encode())
    return path


def converted(frame: VideoFrame, stream: StreamFacts, output: OutputSpec) -> Pixels:
    out = np.empty(output.shape(*stream.displayed), np.uint8)
    Converter().write(frame, stream, output, out)
    return out


@pytest.mark.parametrize("suffix", [".webm", ".ivf"])
def test_each_run_has_a_new_decoder_and_the_file_is_opened_once(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path / f"many_gops{suffix}")
    source, index, counts = MediaSource.of(path), build_index(path), DecodeCounts()
    rng = np.random.default_rng(0)
    get_thread_pools().clear()
    for _ in range(10):
        list(PyAVDecoder().iter_native(source, index, rng.integers(0, len(index), 4), counts))
    assert counts.runs >= 20
    assert counts.contexts_made >= counts.runs
    assert counts.opens == 1


@pytest.mark.parametrize("location", ["left", "topleft"])
def test_P02_a_new_decoder_knows_where_the_container_says_that_chroma_samples_lie(
    tmp_path: Path, location: str
) -> None:
    path = written(tmp_path / "located.webm", chroma_sample_location=location)
    index, output = build_index(path), OutputSpec(size=(31, 41))
    with av.open(path) as container:
        expected = [converted(frame, index.stream, output) for frame in container.decode(video=0)]
    with VideoDecoder(path, size=output.size) as decoder:
        for number in (29, 3, 12, 0):
            np.testing.assert_array_equal(decoder[number], expected[number])
