"""MP4 files with several edits: whatever is asked for is what reading in order gives (M06)."""

from __future__ import annotations

import random
from functools import lru_cache
from pathlib import Path

import pytest

from framefeed import build_index
from framefeed.decode.backends.pyav import PyAVDecoder
from framefeed.index import find_packet_start
from framefeed.media import MediaSource
from framefeed.testing import ClipSpec, clip_bytes
from tests.decode.law import Product, check_frames
from tests.lengths import either
from tests.pathologies.bitstreams import make_table, replace_box
from tests.reference import read_reference

X264, X265 = "scenecut=0:threads=1", "scenecut=0:log-level=none:pools=none:frame-threads=1"
ENCODES = {
    "open GOPs": ("libx264", {"x264-params": f"{X264}:keyint=12:min-keyint=12:open-gop=1:bframes=3"}),
    "open GOPs, pyramid": ("libx264", {"x264-params": f"{X264}:keyint=15:min-keyint=15:open-gop=1:bframes=5"}),
    "closed GOPs": ("libx264", {"x264-params": f"{X264}:keyint=12:min-keyint=12:bframes=3"}),
    "HEVC": ("libx265", {"x265-params": f"{X265}:keyint=15:min-keyint=15:open-gop=1:bframes=4"}),
    "MPEG-4": ("mpeg4", {"bf": "2", "g": "12"}),
}
NUM_FRAMES, TICKS, NOTHING = 80, 512, 0xFFFFFFFF
KINDS = ("forward", "forward", "backward", "overlapping", "pause", "gap")


@lru_cache
def _clip(name: str) -> bytes:
    codec, options = ENCODES[name]
    return clip_bytes(ClipSpec(NUM_FRAMES, 64, 96, codec=codec, gop=None, b_frames=None, codec_options=options), "mp4")


def _edits(chance: random.Random) -> list[tuple[int, int, int]]:
    """Duration in milliseconds, begin in ticks, and rate of two or three edits, and maybe a pause."""
    kind, rows, at = chance.choice(KINDS), list[tuple[int, int, int]](), chance.randrange(25)
    for _ in range(chance.choice((2, 2, 3))):
        length = chance.randrange(6, 24)
        rows.append((40 * length, (at + 2) * TICKS, 1 << 16))
        at += length + (-chance.randrange(length) if kind == "overlapping" else chance.randrange(20))
        at = chance.randrange(50) if kind == "backward" else min(at, NUM_FRAMES - 10)
    if kind in ("pause", "gap"):
        rows.insert(0 if kind == "gap" else chance.randrange(len(rows) + 1), (400, NOTHING, 1 << 16))
    return rows


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", ENCODES)
def test_M06_frames_of_several_edits_are_those_of_sequential_decoding(name: str, tmp_path: Path) -> None:
    path, chance = tmp_path / "edits.mp4", random.Random(name)
    for _ in range(either(short=5, long=100)):
        rows = _edits(chance)
        path.write_bytes(replace_box(_clip(name), "moov.trak.edts.elst", make_table("elst", *rows)))
        index, reference = build_index(path), read_reference(path)
        reader = Product(MediaSource.of(path), index, PyAVDecoder())
        requests = [range(len(index)), *([ordinal] for ordinal in range(len(index)))]
        requests.append(chance.sample(range(len(index)), 6))
        check_frames(reader, reference, requests)


def test_M06_a_hidden_key_frame_is_its_own_start(tmp_path: Path) -> None:
    path, rows = tmp_path / "edits.mp4", [(480, (at + 2) * TICKS, 1 << 16) for at in (0, 30)]
    path.write_bytes(replace_box(_clip("open GOPs"), "moov.trak.edts.elst", make_table("elst", *rows)))
    index = build_index(path)
    hidden = [start for start in set(index.frame_start.tolist()) if start not in index.frame_packet]
    assert len(hidden) == 1
    assert index.packets.is_discarded[hidden].all()
    assert find_packet_start(index, hidden[0]) == hidden[0]
