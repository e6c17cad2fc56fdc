"""Stretches of a transport stream without packets, longer than its demuxer looks ahead."""

from __future__ import annotations

import pytest

import framefeed as ff
from framefeed.media import _container
from framefeed.testing import ClipSpec, clip_bytes, read_stamps

CLIP = ClipSpec(num_frames=30, gop=10, b_frames=0)
PACKET_BYTES = 188


def with_zeros(count: int, share: float) -> bytes:
    """A transport stream with so many packets of zeros behind a share of it."""
    data = clip_bytes(CLIP, "mpegts")
    at = int(len(data) * share) // PACKET_BYTES * PACKET_BYTES
    return data[:at] + bytes(PACKET_BYTES * count) + data[at:]


@pytest.mark.parametrize("share", [0.5, 1.0], ids=["in the middle", "behind the end"])
@pytest.mark.parametrize("verify", ["proof", "ends", "full"])
def test_D02_a_stretch_of_zeros_hides_no_frame_and_is_no_shortage(share: float, verify: str) -> None:
    data = with_zeros(1500, share)
    index = ff.build_index(data, verify)
    with ff.VideoDecoder(data, frame_index=index) as decoder:
        assert read_stamps(decoder[:]) == list(CLIP.stamps)
        assert read_stamps(decoder.get_frames_at([29, 4]).data) == [29, 4]


def test_a_file_that_is_nearly_all_zeros_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_container, "_MOST_STRETCHES", 3)
    with pytest.raises(ff.UnreadableMedia, match="most of it is no media"):
        ff.build_index(with_zeros(3000, 1.0))
