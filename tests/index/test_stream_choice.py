"""The default of several video streams: libav's best one, but no cover picture (M18)."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from framefeed import VideoDecoder, build_index, probe, scan
from tests.corpus import corpus_file
from tests.decode.chaos import ROOT

REAL = ("video/androidx-media/pixel-motion-photo-2-hevc-tracks.mp4", "video/torchcodec/nasa_13013.mp4")
GENERATED = ("two_videos.mp4", "two_defaults.mkv")


def _real_file(name: str) -> Path:
    path = ROOT.parent / name
    if not path.is_file():
        pytest.skip("no folder of real media")
    return path


@pytest.mark.parametrize("name", [*GENERATED, *REAL])
def test_M18_libav_chooses_among_several_streams(name: str) -> None:
    path = corpus_file(name) if name in GENERATED else _real_file(name)
    with av.open(str(path)) as container:
        assert len(container.streams.video) > 1
        best = container.streams.best("video")
        assert best is not None
        expected = best.index  # gone once the container is closed
    index = build_index(path)
    assert index.stream.stream_index == expected
    with VideoDecoder(path) as decoder:
        assert (decoder.metadata.stream_index, len(decoder)) == (expected, len(index))
        decoder.get_frame_at(len(index) - 1)
    info, (row,) = probe(path), scan(path).table.to_pylist()
    assert (info.height, info.width) == (row["height"], row["width"]) == index.stream.displayed
    assert row["num_frames"] == len(index)


def test_M18_a_cover_picture_is_never_chosen() -> None:
    path = corpus_file("cover_first.mp4")
    with av.open(str(path)) as container:
        covers = [stream.index for stream in container.streams.video if stream.disposition.name == "attached_pic"]
    assert covers == [0]
    assert build_index(path).stream.stream_index == 1
