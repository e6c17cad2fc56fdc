"""Stored bytes that are damaged or made up: BrokenFrame or a picture of the layout, within bounds, nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.cache.codecs._codec import BrokenFrame, FrameCodec
from framefeed.cache.codecs._plain import compress_block, decompress_block
from framefeed.cache.codecs._registry import known_codecs
from framefeed.decode import PlaneLayout
from tests.cache.codecs.pictures import CODECS, USUAL_FORMATS, content, natural, pictures, stored
from tests.conftest import CHECKOUT

# Arrow's own allocator may have reserved a gigabyte of addresses before the limit is set.
ENVIRONMENT = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Any]:
    """What the bounded program says."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.cache.codecs.bounded_decoding", "1"],
        capture_output=True, text=True, timeout=100, cwd=CHECKOUT, env=ENVIRONMENT,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    said: dict[str, Any] = json.loads(run.stdout)
    return said


def test_C16_a_large_claimed_size_takes_no_memory(outcomes: dict[str, Any]) -> None:
    read = [name for name, outcome in outcomes["hostile"] if outcome != "broken"]
    # Codes that are never used can be changed without notice, and libjpeg stops at the end of its first scan.
    assert not [name for name in read if not name.startswith(("magicyuv byte", "jpeg of many scans"))]
    assert len(outcomes["hostile"]) > 80


def test_C16_damage_is_broken_or_some_picture(outcomes: dict[str, Any]) -> None:
    for name in known_codecs():
        assert outcomes["damaged"][f"{name}: broken"] > (40 if name == "raw" else 100)


def test_C16_the_memory_limit_is_effective(outcomes: dict[str, Any]) -> None:
    assert outcomes["is_limited"]


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.label)
def test_frames_that_were_cut_are_broken(codec: FrameCodec) -> None:
    for name in ("yuv420p", "rgb24"):
        layout = PlaneLayout(name, 37, 21)
        data = stored(codec, layout, natural(layout))
        for length in range(len(data)):
            with pytest.raises(BrokenFrame):
                codec.decode_into(memoryview(data)[:length], layout, np.empty(layout.nbytes, np.uint8))


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.label)
@given(st.data())
def test_bytes_of_one_layout_are_not_a_picture_of_another(codec: FrameCodec, data: st.DataObject) -> None:
    formats = [name for name in USUAL_FORMATS if codec.can_store(PlaneLayout(name, 16, 16))]
    layout, planes = data.draw(pictures(formats))
    other = data.draw(pictures(formats))[0]
    try:
        decoded_planes = codec.decode(memoryview(stored(codec, layout, planes)), other)
    except BrokenFrame:
        return
    # Another layout of as many bytes cannot be told apart by those that know nothing of pictures.
    assert decoded_planes.shape == (other.nbytes,)
    assert other.nbytes == layout.nbytes


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.label)
@given(st.binary(max_size=300))
def test_garbage_is_broken(codec: FrameCodec, data: bytes) -> None:
    for name in ("yuv420p", "rgb24", "nv12", "pal8"):
        layout = PlaneLayout(name, 12, 10)
        if codec.name == "raw" and len(data) == layout.nbytes:
            continue
        with pytest.raises(BrokenFrame):
            codec.decode(memoryview(data), layout)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.label)
def test_a_codec_reads_valid_frames_after_broken_ones(codec: FrameCodec) -> None:
    layout = PlaneLayout("yuv420p", 40, 30)
    data = stored(codec, layout, content("steps", layout))
    expected = codec.decode(memoryview(data), layout).tobytes()
    for broken in (b"", data[:-1], data[: len(data) // 2], data[:40] + bytes(len(data) - 40)):
        try:
            codec.decode(memoryview(broken), layout)
        except BrokenFrame:
            pass
        assert codec.decode(memoryview(data), layout).tobytes() == expected


def test_an_lz4_block_that_gives_less_is_broken_even_in_memory_that_was_used() -> None:
    planes = content("noise", PlaneLayout("gray", 300, 300))
    whole, short = compress_block(planes, 1), compress_block(planes[:-100], 1)
    for _ in range(20):
        decompress_block(memoryview(whole), len(planes))
        with pytest.raises(BrokenFrame):
            decompress_block(memoryview(short), len(planes))


def test_data_after_the_last_picture_is_broken() -> None:
    layout = PlaneLayout("yuv420p", 40, 30)
    for codec in CODECS:
        data = stored(codec, layout, content("steps", layout))
        with pytest.raises(BrokenFrame):
            codec.decode(memoryview(data + b"\0"), layout)
