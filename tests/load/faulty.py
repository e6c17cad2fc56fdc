"""Decoders and transforms that do harm in worker processes, which import this module."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from framefeed.decode import ClipSlot, DecodeReport
from framefeed.errors import CorruptMedia
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from tests.fakes import FlatDecoder
from tests.parallel.functions import die, hang


class FaultyDecoder(FlatDecoder):
    """Gives grey pictures, and does harm at some sources.

    Args:
        fates: What happens at a source, by its name: "kill", "segmentation fault", "native", "stopped" or "broken".
        folder: Where a file is written at each fate; with ``times``, a fate comes only so often.
        times: How often each fate comes.
    """

    name = "faulty"

    def __init__(self, fates: Mapping[str, str], folder: Path, times: int = 1_000_000) -> None:
        super().__init__()
        self._fates, self._folder, self._times = fates, folder, times

    def __reduce__(self) -> Any:
        return (FaultyDecoder, (self._fates, self._folder, self._times))

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        fate = self._fates.get(source.name)
        if fate is not None and self._comes(Path(source.name).name):
            if fate == "broken":
                raise CorruptMedia("spoiled")
            # Half of the pixels are written already.
            slots[0].out[: len(slots[0].out) // 2] = 99
            die(fate)
            hang(fate)
        return super().decode(source, index, slots)

    def _comes(self, name: str) -> bool:
        before = len(list(self._folder.glob(f"{name}-*")))
        if before >= self._times:
            return False
        (self._folder / f"{name}-{before}").write_text(str(os.getpid()))
        return True


class Unsendable(CorruptMedia):
    """An error that cannot be pickled."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.held = lambda: None


class UnsendableAt:
    """Spoils the clip of these frames."""

    def __init__(self, ordinals: list[int]) -> None:
        self._ordinals = ordinals

    def __call__(self, ordinals: list[int]) -> CorruptMedia | None:
        return Unsendable("held") if ordinals == self._ordinals else None


def kill_all(clip: Any, rng: np.random.Generator) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def leave(clip: Any, rng: np.random.Generator) -> Any:
    raise SystemExit(3)


def refuse_bright(clip: Any, rng: np.random.Generator) -> Any:
    """Work for black clips only."""
    if clip.any():
        raise ValueError("too bright")
    return clip[:1, 0].astype(np.float32) + 1


def count_threads(clip: Any, rng: np.random.Generator) -> Any:
    """Threads of this process, and of the libraries that have pools of them."""
    import torch

    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    # Arrow's allocator has a thread that frees memory.
    counts = [len(names) - names.count("jemalloc_bg_thd"), torch.get_num_threads(), threading.active_count()]
    # cv2 is not a dependency of the tests.
    counts.append(sys.modules["cv2"].getNumThreads() if "cv2" in sys.modules else 1)
    return np.array([*counts, int(os.environ["OPENCV_FOR_THREADS_NUM"])])


def report_process(clip: Any, rng: np.random.Generator) -> Any:
    return np.array(os.getpid())


def empty(clip: Any, rng: np.random.Generator) -> Any:
    return clip[:0]
