"""A cache that is filled from files serves the same objects by URL, and the reverse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from framefeed.cache import FrameCache
from framefeed.cache._keys import find_key_facts
from framefeed.decode import find_decoder
from framefeed.testing import ClipSpec
from tests.cache.media import SMALL, Video
from tests.corpus import clip_file
from tests.judges import assert_same_arrays
from tests.remote import served

CODECS = ["h264", "hevc", "av1", "vp9", "mpeg4"]
ASKED = (list(range(24)), SMALL)


@pytest.mark.parametrize("verify", ["proof", "none"])
@pytest.mark.parametrize("is_filled_from_files", [True, False])
@pytest.mark.parametrize("codec", CODECS)
def test_C03_a_cache_serves_a_file_and_its_url(
    codec: str, is_filled_from_files: bool, verify: str, tmp_path: Path
) -> None:
    path = clip_file(f"cached_{codec}.mp4", ClipSpec(num_frames=24, gop=8, codec=codec))
    with served({"/a.mp4": path.read_bytes()}) as server:
        videos = [Video.of(path, verify), Video.of(f"{server}/a.mp4", verify)]
        expected = videos[0].fresh(ASKED)
        with FrameCache(tmp_path / "c") as cache:
            decoded = []
            for video in videos if is_filled_from_files else reversed(videos):
                clips, report = video.decoded(cache.decoder(find_decoder()), ASKED)
                assert_same_arrays(clips, expected)
                decoded.append(report.counts.frames_decoded)
    assert decoded == [24, 0]


def test_C03_a_stream_that_may_not_be_skipped_keeps_its_own_key() -> None:
    """With lost pictures a decoder shows others in their place, which depend on what was left out."""
    index = Video.of(clip_file("cached_h264.mp4", ClipSpec(num_frames=24, gop=8, codec="h264"))).index
    facts = replace(index.stream, skips_exactly=False)
    for built_from in ("packets", "packets+proof", "packets+ends", "decode"):
        damaged = replace(index, stream=facts, built_from=built_from)
        assert find_key_facts(damaged) == facts
        parameters = replace(facts, inband_parameters=True)
        is_read = built_from != "packets"
        assert (find_key_facts(replace(index, stream=parameters, built_from=built_from)) == parameters) == is_read
