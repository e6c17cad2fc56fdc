"""Decoders without a container keep the limits of the caller."""

from __future__ import annotations

from dataclasses import replace

import av
import pytest

from framefeed._values import DEFAULT_LIMITS, Limits
from framefeed.decode.backends._pyav_pools import FeedOptions, make_decoder
from framefeed.index import build_index
from tests.codec_clips import CODECS
from tests.corpus import clip_file


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_S04_a_bare_decoder_refuses_too(codec: str) -> None:
    clip = clip_file(f"large_{codec}.mp4", replace(CODECS[codec].spec, num_frames=3, height=960, width=960))
    index = build_index(clip)
    first = int(index.packets.offset[0]), int(index.packets.size[0])
    data = clip.read_bytes()[first[0] : sum(first)] + bytes(64)
    packet = av.Packet(memoryview(data)[: first[1]])  # type: ignore[arg-type]

    def decoded(limits: Limits) -> int:
        context = make_decoder(index, FeedOptions(direct=True, threads=1, limits=limits))
        return len(context.decode(packet)) + len(context.decode(None))

    assert decoded(DEFAULT_LIMITS) == 1
    with pytest.raises(av.FFmpegError):
        decoded(Limits(max_pixels=100))
