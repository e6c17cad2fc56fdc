"""Frame mappings have the times of packets, whatever the source of the times of frames."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")

from framefeed.adapters.torch._video_decoder import check_mappings
from framefeed.errors import UsageError
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
