"""Functions of a frame that the routes call: with the interpreter's lock, without it, tiles, and none.

A module has them, so that processes can. Each takes what ``map_video`` gives it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from framefeed.decode import Pixels

MARK = 16
"""Side in pixels of the square in the last corner by which a function shows that it ran, and for which frame."""
TILES = 2
"""Rows and columns of tiles."""
_DARK, _LIGHT = 16, 235
_TRIALS = 9
_BLOCK = bytes(1 << 18)
_SMALL = (16, 16)
"""256 elements: NumPy keeps the lock for fewer than 500."""

Function = Callable[..., Any]


def draw_mark(frame: Pixels, index: int) -> Pixels:
    """Draw a square, dark for even frames and light for odd ones."""
    frame[-MARK:, -MARK:] = _LIGHT if index % 2 else _DARK
    return frame


def find_turns(work: Callable[[int], object], seconds: float) -> int:
    """Choose the turns that take so many CPU seconds, by the median of some trials."""

    def time_turns(turns: int) -> float:
        began = time.process_time()
        work(turns)
        return time.process_time() - began

    turns = 1
    while time_turns(turns) < seconds:
        turns *= 2
    return max(1, round(turns * seconds / median(time_turns(turns) for _ in range(_TRIALS))))


def hold_lock(turns: int) -> None:
    """Compute with the interpreter's lock: NumPy on small arrays."""
    small = np.ones(_SMALL)
    for _ in range(turns):
        small = small * 0.5 + 1.0


def free_lock(turns: int) -> None:
    """Let other threads run meanwhile: hashes of large blocks."""
    for _ in range(turns):
        hashlib.sha256(_BLOCK)


@dataclass(frozen=True)
class Working:
    """Works for some turns, and marks the frame."""

    work: Callable[[int], None]
    turns: int

    def __call__(self, frame: Pixels, *, index: int, pts_seconds: float) -> Pixels:
        self.work(self.turns)
        return draw_mark(frame, index)


def split_tiles(frame: Pixels, *, index: int, pts_seconds: float) -> list[Pixels]:
    """Split a frame into four tiles, row by row, as the write-up does."""
    frame = draw_mark(frame, index)
    rows, columns = frame.shape[0] // TILES, frame.shape[1] // TILES
    return [
        frame[row * rows : (row + 1) * rows, column * columns : (column + 1) * columns]
        for row in range(TILES)
        for column in range(TILES)
    ]


def stack_tiles(frame: Pixels, index: int) -> Pixels:
    """Tiles as one array, uint8 [4, H / 2, W / 2, 3]."""
    return np.stack(split_tiles(frame, index=index, pts_seconds=0.0))


def join_tiles(tiles: Pixels) -> Pixels:
    """Put four tiles together again, uint8 [H, W, 3]."""
    _, rows, columns, channels = tiles.shape
    grid = tiles.reshape(TILES, TILES, rows, columns, channels).transpose(0, 2, 1, 3, 4)
    return grid.reshape(TILES * rows, TILES * columns, channels)


def keep_frame(frame: Pixels, *, index: int, pts_seconds: float) -> Pixels:
    """Give a frame back."""
    return frame


NAMED: dict[str, Callable[[int], Function]] = {
    "lock": partial(Working, hold_lock),
    "free": partial(Working, free_lock),
    "tiles": lambda turns: split_tiles,
    "identity": lambda turns: keep_frame,
}
"""Row -> makes its function with a number of turns."""
