"""Generated videos of which some packets are damaged: the rest of the file is as it was."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from framefeed.index import build_index
from framefeed.testing import ClipSpec
from tests.corpus import clip_file, write_once

GOP = 10
SPEC = ClipSpec(num_frames=40, gop=GOP, b_frames=2, height=48, width=64)


def damaged_clip(name: str, packets: tuple[int, ...] = (12,), spec: ClipSpec = SPEC) -> Path:
    """Path of a clip in which the second half of some packets, by their numbers, is overwritten; do not change it."""
    whole = clip_file(name, spec)
    path = whole.with_name(f"damaged_{'_'.join(map(str, packets))}_{name}")
    return write_once(path, lambda scratch: scratch.write_bytes(_overwritten(whole, packets)))


def _overwritten(whole: Path, packets: Iterable[int]) -> bytes:
    table, data = build_index(whole, "none").packets, bytearray(whole.read_bytes())
    chance = np.random.default_rng(0)
    for number in packets:
        start, size = int(table.offset[number]), int(table.size[number])
        half = size // 2
        data[start + half : start + size] = chance.bytes(size - half)
    return bytes(data)
