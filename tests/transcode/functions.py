"""Functions for frames, which worker processes import."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np

from tests.parallel.functions import hang

Picture = Any


def keep(frame: Picture, *, index: int, pts_seconds: float) -> Picture:
    return frame


def invert(frame: Picture, *, index: int, pts_seconds: float) -> Picture:
    return 255 - frame


def number(frame: Picture, *, index: int, pts_seconds: float) -> tuple[int, float]:
    return index, pts_seconds


def invert_batch(frames: Picture, *, index: Picture, pts_seconds: Picture) -> Picture:
    assert len(frames) == len(index) == len(pts_seconds)
    return 255 - frames


def tiles(frame: Picture, *, index: int, pts_seconds: float) -> list[Picture]:
    height, width = frame.shape[0] // 2, frame.shape[1] // 2
    corners = [(top, left) for top in (0, height) for left in (0, width)]
    return [frame[top : top + height, left : left + width] for top, left in corners]


def load_offset() -> int:
    return 40


def add_state(frame: Picture, *, index: int, pts_seconds: float, state: int) -> Picture:
    return frame // 2 + np.uint8(state)


class Recorded:
    """Writes down its calls, one empty file each, and fails or does harm at some frames.

    Args:
        folder: Where the files are written.
        fates: By the number of a frame: "raise", "die", "hang", "interrupt" or "interrupt and hang".
        times: How often a fate comes; later calls for the frame succeed.
        is_remote: Whether it is called in worker processes.
    """

    def __init__(
        self, folder: Path, fates: dict[int, str] | None = None, times: int = 1_000_000, is_remote: bool = False
    ) -> None:
        self.folder, self.fates, self.times, self.is_remote = folder, fates or {}, times, is_remote

    def __call__(self, frame: Picture, *, index: int, pts_seconds: float) -> Picture:
        earlier = len(list(self.folder.glob(f"{index:06d}-*")))
        (self.folder / f"{index:06d}-{earlier}-{os.getpid()}").touch()
        fate = self.fates.get(index) if earlier < self.times else None
        if fate == "raise":
            raise ArithmeticError(f"no result for {index}")
        if fate == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if fate in ("interrupt", "interrupt and hang"):
            os.kill(os.getppid() if self.is_remote else os.getpid(), signal.SIGINT)
        if fate in ("hang", "interrupt and hang"):
            hang("native")
        return 255 - frame

    def calls(self) -> list[int]:
        """Numbers of the frames of all calls, sorted."""
        return sorted(int(path.name[:6]) for path in self.folder.iterdir())
