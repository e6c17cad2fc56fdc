"""Stored frames that somebody made up, with right checksums: bounded, and a miss, never a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framefeed.cache._frame_cache import FrameCache
from framefeed.cache._keys import Form, Recipe, SourceCheck, make_key
from framefeed.cache.codecs._registry import find_codec
from framefeed.cache.store._format import Kind, StoredFrame
from framefeed.decode import PlaneLayout, describe_recipe, find_decoder, make_output_layout
from tests.cache.media import SMALL, Video
from tests.corpus import corpus_file

NBYTES = 3 * 24 * 32
OUTPUT = make_output_layout(SMALL, 96, 128).text
PLANES = PlaneLayout("yuv420p", 128, 96).text
BOMB = bytes(find_codec("zstd").encode(PlaneLayout("gray", 8000, 8000), np.zeros(64_000_000, dtype=np.uint8)))

STORED: dict[str, tuple[Kind, bytes, int]] = {
    "unknown codec": (Kind("no such codec", OUTPUT), bytes(NBYTES), NBYTES),
    "empty label": (Kind("", OUTPUT), bytes(NBYTES), NBYTES),
    "codec with a path": (Kind("../../lz4", OUTPUT), bytes(NBYTES), NBYTES),
    "layout of nothing": (Kind("raw", "nonsense"), bytes(NBYTES), NBYTES),
    "huge layout": (Kind("raw", "yuv420p 999999x999999 2 0 p 0"), bytes(9), 9),
    "other size": (Kind("raw", "rgbp 32x25 2 0 p 0"), bytes(3 * 25 * 32), 3 * 25 * 32),
    "other picture size": (Kind("raw", "yuv420p 64x48 2 0 p 0"), bytes(64 * 48 * 3 // 2), 64 * 48 * 3 // 2),
    "raw, too short": (Kind("raw", OUTPUT), bytes(NBYTES - 1), NBYTES),
    "raw, too long": (Kind("raw", OUTPUT), bytes(NBYTES + 1), NBYTES),
    "raw planes, too short": (Kind("raw", PLANES), bytes(99), 128 * 96 * 3 // 2),
    "claims to be large": (Kind("zstd:1", OUTPUT), bytes(10), 1 << 30),
    "bomb": (Kind("zstd:1", OUTPUT), BOMB, NBYTES),
    "bomb of planes": (Kind("zstd:1", PLANES), BOMB, 128 * 96 * 3 // 2),
    "no lz4": (Kind("lz4", OUTPUT), b"\xff" * 50, NBYTES),
    "no lz4 planes": (Kind("lz4", PLANES), b"\xff" * 50, 128 * 96 * 3 // 2),
    "an output as planes": (Kind("raw", "rgbp 128x96 2 0 p 0"), bytes(3 * 128 * 96), 3 * 128 * 96),
    "no such matrix": (Kind("raw", "yuv420p 128x96 255 2 p 3"), bytes(128 * 96 * 3 // 2), 128 * 96 * 3 // 2),
    "a format that swscale refuses": (Kind("raw", "gray32le 128x96 2 0 p 0"), bytes(4 * 128 * 96), 4 * 128 * 96),
    "a format that swscale does not survive": (
        Kind("raw", "yaf32le 128x96 2 0 p 0"),
        bytes(8 * 128 * 96),
        8 * 128 * 96,
    ),
    "nothing": (Kind("zstd:1", OUTPUT), b"", NBYTES),
}


@pytest.mark.parametrize("form", ["output", "planes"])
@pytest.mark.parametrize("name", STORED)
def test_C16_forged_frames_are_a_miss(name: str, form: Form, tmp_path: Path) -> None:
    kind, data, raw_nbytes = STORED[name]
    video = Video.of(corpus_file("bframes_2.mp4"))
    output: Any = SMALL if form == "output" else None
    recipe = Recipe(form, output, describe_recipe(find_decoder(), video.index))
    assert video.index.identity is not None
    key = make_key(video.index.identity, video.index.stream, recipe)
    check, ordinals = SourceCheck(video.source, video.index), np.array([3, 4])
    facts = zip(
        ordinals.tolist(), check.read_stamps(ordinals).tolist(), check.hash_contents(ordinals).tolist(), strict=True
    )
    with FrameCache(tmp_path / "c", form=form, codec="lz4") as cache:
        numbers = video.index.frame_packet
        made_up = [StoredFrame(int(numbers[i]), kind, data, raw_nbytes, stamp, content) for i, stamp, content in facts]
        assert cache.store.add(key.digest, key.description, made_up)
        for _ in range(2):
            clips, report = video.decoded(cache.decoder(find_decoder()), ([2, 3, 4, 5], SMALL))
            assert report.errors == [None]
            np.testing.assert_array_equal(clips[0], video.fresh(([2, 3, 4, 5], SMALL))[0])
        assert report.counts.frames_cached >= 2


def test_C16_a_forged_frame_of_a_trusted_writer_is_accepted(tmp_path: Path) -> None:
    """What the test above must not be: a cache that believes nothing."""
    video = Video.of(corpus_file("bframes_2.mp4"))
    assert video.index.identity is not None
    key = make_key(
        video.index.identity, video.index.stream, Recipe("output", SMALL, describe_recipe(find_decoder(), video.index))
    )
    check, three = SourceCheck(video.source, video.index), np.array([3])
    frame = StoredFrame(int(video.index.frame_packet[3]), Kind("raw", OUTPUT), bytes(NBYTES), NBYTES,
                        int(check.read_stamps(three)[0]), int(check.hash_contents(three)[0]))  # fmt: skip
    with FrameCache(tmp_path / "c") as cache:
        cache.store.add(key.digest, key.description, [frame])
        clips, report = video.decoded(cache.decoder(find_decoder()), ([3], SMALL))
        assert report.counts.frames_cached == 1
        assert not clips[0].any()
