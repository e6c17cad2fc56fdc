"""TorchCodec given our mappings: each frame is the one that our number names, by the number in its picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framefeed.index import build_index
from framefeed.testing import read_stamps
from tests.corpus import corpus_file, expected_stamps

RIGHT_BY_ITSELF = [
    "base.mp4", "base.mkv", "bframes_3.mp4", "open_gop.mp4", "open_gop_hevc.mkv", "vfr.mp4", "vfr.mkv", "start_8s.mp4",
    "start_8s.mkv", "edit_list.mp4", "edit_list_twice.mp4", "wrap.ts", "temporal_units_av1.mp4", "fragmented.mp4",
]  # fmt: skip
RIGHT_BY_MAPPINGS = [
    "fields.mp4", "fields.ts", "hidden_vp8.webm", "late_key.mp4", "intra_refresh.mp4", "open_start_hevc.mkv",
    "cover_first.mp4",
]  # fmt: skip
"""TorchCodec's own scan counts packets that give no frame, or finds another frame in these."""


def open_torchcodec(path: Path, mappings: str | None) -> Any:
    decoders = pytest.importorskip("torchcodec.decoders")
    return decoders.VideoDecoder(str(path), dimension_order="NHWC", custom_frame_mappings=mappings)


def list_wrong(name: str, mappings: str | None) -> list[tuple[int, int]]:
    """Read frames in a mixed order; list the number of each that is another one, and the number that it shows."""
    stamps = expected_stamps(name)
    count = len(stamps)
    decoder = open_torchcodec(corpus_file(name), mappings)
    shown = [
        (ordinal, read_stamps(np.asarray(decoder[ordinal])[None])[0])
        for ordinal in (*range(count - 1, -1, -7), *range(0, count, 3), *range(count))
    ]
    return [(ordinal, stamp) for ordinal, stamp in shown if stamp != stamps[ordinal]]


@pytest.mark.parametrize("name", RIGHT_BY_ITSELF + RIGHT_BY_MAPPINGS)
def test_M01_M02_M04_M06_torchcodec_finds_our_frames_by_our_mappings(name: str) -> None:
    assert not list_wrong(name, build_index(corpus_file(name)).to_custom_frame_mappings())


@pytest.mark.parametrize("name", RIGHT_BY_MAPPINGS)
def test_M11_M12_M13_it_does_not_without_them(name: str) -> None:
    try:
        assert list_wrong(name, None)
    except (RuntimeError, IndexError, ValueError):  # It refuses the file, or a frame of it.
        pass


def test_M04_wrong_mappings_are_noticed() -> None:
    mappings = json.loads(build_index(corpus_file("open_gop.mp4")).to_custom_frame_mappings())
    del mappings["frames"][10]
    try:
        assert list_wrong("open_gop.mp4", json.dumps(mappings))
    except (RuntimeError, IndexError):
        pass
