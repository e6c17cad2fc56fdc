"""Folders of small pictures that name themselves."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

from framefeed.testing import draw_stamp

SIZE = (48, 64)


def write_folder(folder: Path, count: int = 12, *, first: int = 0, suffix: str = ".png") -> Path:
    """Write ``img0.png``, ``img1.png``, ...: the i-th shows the number first + i."""
    return write_named(folder, [f"img{number}{suffix}" for number in range(count)], first=first)


def write_named(folder: Path, names: Iterable[str], *, first: int = 0) -> Path:
    """Write pictures of these names; the i-th shows the number first + i."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names, first):
        Image.fromarray(draw_stamp(number, *SIZE)).save(folder / name)
    return folder


def noise(height: int = 20, width: int = 30, seed: int = 0) -> np.ndarray:
    """A picture that no rule can guess, uint8 [H, W, 3]."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
