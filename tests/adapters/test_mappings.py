"""Frame mappings have the times of packets, whatever the source of the times of frames; ours have those of frames."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")

from framefeed.adapters.torch._video_decoder import check_mappings
from framefeed.errors import TimeUnavailable, UsageError
from framefeed.index import build_index
from tests.corpus import corpus_file


@pytest.mark.parametrize("name", ["base.mp4", "no_pts.avi"])
def test_M07_mappings_hold_the_times_of_packets(name: str) -> None:
    index = build_index(corpus_file(name))
    own = index.packets.pts[index.frame_packet].tolist()
    frames = [{"pts": pts, "duration": 1, "key_frame": 0} for pts in own]
    check_mappings(json.dumps({"frames": frames}), index)
    frames[3]["pts"] += 1
    with pytest.raises(UsageError, match="their pts differ"):
        check_mappings(json.dumps({"frames": frames}), index)


@pytest.mark.parametrize("name", ["open_gop.mp4", "vfr.mkv", "start_8s.mkv", "edit_list.mp4", "fields.ts"])
def test_M02_M05_M06_our_mappings_list_the_frames(name: str) -> None:
    index = build_index(corpus_file(name))
    mappings = index.to_custom_frame_mappings()
    check_mappings(mappings, index)
    frames = json.loads(mappings)["frames"]
    assert [frame["pts"] for frame in frames] == index.pts.tolist()
    assert [frame["duration"] for frame in frames] == index.duration.tolist()
    assert [number for number, frame in enumerate(frames) if frame["key_frame"]] == index.key_frame_indices.tolist()


@pytest.mark.parametrize("name", ["no_pts.avi", "negative_pts.mkv", "duplicate_pts.mkv", "raw.h264"])
def test_M07_M08_frames_without_times_of_their_own_are_refused(name: str) -> None:
    with pytest.raises(TimeUnavailable, match=r"ff\.torch\.VideoDecoder"):
        build_index(corpus_file(name)).to_custom_frame_mappings()
