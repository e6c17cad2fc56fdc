"""Functions for frames, which worker processes import."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.parallel.functions import hang
from tests.parallel.living import wait_until
from tests.patience import PATIENCE_SECONDS

Picture = Any


def keep(frame: Picture, *, index: int, pts_seconds: float) -> Picture:
    return frame


def invert(frame: Picture, *, index: int, pts_seconds: float) -> Picture:
    return 255 - frame


def keep_batch(frames: Picture, *, index: Picture, pts_seconds: Picture) -> Picture:
    return frames


def number(frame: Picture, *, index: int, pts_seconds: float) -> tuple[int, float]:
    return index, pts_seconds


def tiles(frame: Picture, *, index: int, pts_seconds: float) -> list[Picture]:
    height, width = frame.shape[0] // 2, frame.shape[1] // 2
    corners = [(top, left) for top in (0, height) for left in (0, width)]
    return [frame[top : top + height, left : left + width] for top, left in corners]


def load_offset() -> int:
    return 40


def add_state(frame: Picture, *, index: int, pts_seconds: float, state: int) -> Picture:
    return frame // 2 + np.uint8(state)


def leave() -> None:
    """Leave the program, where a setup is called."""
    raise SystemExit(3)


class Recorded:
    """Writes down its calls, one empty file each, and fails or does harm at some frames.

    Args:
        folder: Where the files are written.
        fates: By the number of a frame: "raise", "raise beside 0" (once frame 0 is called), "exit", "raise interrupt",
            "die", "hang", "interrupt", or "interrupt and hang".
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
        if fate == "raise beside 0":
            wait_until(lambda: list(self.folder.glob("000000-*")))
        if fate in ("raise", "raise beside 0"):
            raise ArithmeticError(f"no result for {index}")
        if fate == "exit":
            raise SystemExit(3)
        if fate == "raise interrupt":
            raise KeyboardInterrupt("my own")
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


HUNG = "hung-"
INTERRUPTED = threading.Event()
"""Set by the handler of SIGINT while storms run."""


class HarmfulFunction:
    """Inverts frames, one or a batch, and does harm at some of them.

    Args:
        folder: Gets a file for each frame, with a line for each call.
        harms: What the first calls for a frame do: "raise", "die", "hang" or "interrupt".
        failing: Frames for which each call changes the pixels and fails.
        has_tiles: Whether the result for a frame is four tiles.
    """

    def __init__(
        self, folder: Path, harms: Mapping[int, tuple[str, ...]], failing: frozenset[int], has_tiles: bool
    ) -> None:
        self.folder, self.harms, self.failing, self.has_tiles = folder, harms, failing, has_tiles
        self.main_process = os.getpid()

    def __call__(self, frames: Picture, *, index: Any, pts_seconds: Any) -> Any:
        numbers = np.atleast_1d(index).tolist()
        for number in numbers:
            with (self.folder / str(number)).open("a") as file:
                file.write(f"{os.getpid()}\n")
        for number in self.harms.keys() & set(numbers):
            tries = self.count_calls(number)
            if tries <= len(self.harms[number]):
                self._do_harm(self.harms[number][tries - 1], number)
        if self.failing & set(numbers):
            frames[:] = 7
            raise ArithmeticError(f"no result for {numbers}")
        if np.ndim(index):
            return [self.change(frame) for frame in frames]
        return self.change(frames)

    def change(self, frame: Picture) -> Any:
        """Make the result for a frame."""
        return tiles(255 - frame, index=0, pts_seconds=0) if self.has_tiles else 255 - frame

    def count_calls(self, number: int) -> int:
        """Count the calls for a frame."""
        file = self.folder / str(number)
        return len(file.read_text().split()) if file.exists() else 0

    def _do_harm(self, harm: str, number: int) -> None:
        if harm == "raise":
            raise ArithmeticError(f"no result for {number}")
        if harm == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if harm == "interrupt":
            os.kill(self.main_process, signal.SIGINT)
            if os.getpid() == self.main_process:
                # The run cannot end before the signal is handled.
                INTERRUPTED.wait(PATIENCE_SECONDS)
        if os.getpid() != self.main_process:
            if harm == "hang":
                (self.folder / f"{HUNG}{os.getpid()}").touch()
            hang("native")

    def list_hung(self) -> list[int]:
        """List the processes that hang."""
        return [int(path.name.removeprefix(HUNG)) for path in self.folder.glob(f"{HUNG}*")]


class Substitute:
    """Gives the results of a `HarmfulFunction` that does no harm, and none for some frames, or the frames themselves.

    Args:
        function: The function.
        failed: Numbers of these frames.
        is_kept: Whether the frames are given.
    """

    def __init__(self, function: HarmfulFunction, failed: frozenset[int], is_kept: bool) -> None:
        self.function, self.failed, self.is_kept = function, failed, is_kept

    def __call__(self, frame: Picture, *, index: int, pts_seconds: float) -> Any:
        if index in self.failed:
            return frame if self.is_kept else None
        return self.function.change(frame)


class Faulty:
    """Inverts frames, one or a batch, but for some of them.

    Args:
        fault: What it does at these: "raise", "size", "type", "memory" or "exit".
        frames: Their numbers.
    """

    def __init__(self, fault: str, frames: frozenset[int]) -> None:
        self.fault, self.frames = fault, frames

    def __call__(self, frames: Any, *, index: Any, pts_seconds: Any) -> Any:
        if np.ndim(index):
            return [self.map_frame(frame, number) for frame, number in zip(frames, index.tolist(), strict=True)]
        return self.map_frame(frames, index)

    def map_frame(self, frame: Any, number: int) -> Any:
        if number not in self.frames:
            return 255 - frame
        if self.fault == "raise":
            raise KeyError("my own bug")
        if self.fault == "memory":
            raise MemoryError
        if self.fault == "exit":
            raise SystemExit(3)
        return frame[:16] if self.fault == "size" else "no picture"
