"""Media and decoders that cost nothing or a known time, to see what the loader itself costs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from shutil import copyfile

import numpy as np

from framefeed.bench._peer import SIZE
from framefeed.bench._workloads import NUM_FRAMES
from framefeed.decode import ClipSlot, DecodeReport, Pixels
from framefeed.index import FrameIndex
from framefeed.media import MediaSource
from framefeed.plan import DecodeRequest, EpochPlan, plan_requests
from framefeed.testing import ClipSpec, write_clip


def ready_clips(count: int) -> list[Pixels]:
    """Different clips in memory, uint8 [16, 3, 224, 224] each."""
    rng = np.random.Generator(np.random.Philox(key=1))
    return [rng.integers(0, 256, (NUM_FRAMES, 3, SIZE, SIZE), dtype=np.uint8) for _ in range(count)]


def plan_of_files(folder: Path, num_files: int, num_clips: int) -> EpochPlan:
    """Plan clips of 16 frames over small files, no two neighbours of the same."""
    folder.mkdir(parents=True, exist_ok=True)
    first = write_clip(folder / "000.mp4", ClipSpec(num_frames=NUM_FRAMES, height=48, width=64))
    files = [first, *(folder / f"{number:03}.mp4" for number in range(1, num_files))]
    for file in files[1:]:
        copyfile(first, file)
    requests = [DecodeRequest(files[number % num_files], range(NUM_FRAMES)) for number in range(num_clips)]
    return plan_requests(requests, size=(SIZE, SIZE))


class CopyingDecoder:
    """Delivers clips that lie ready in memory."""

    name = "ready"

    def __init__(self, clips: Sequence[Pixels]) -> None:
        self._clips = list(clips)
        self._next = 0

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Copy one ready clip after the other."""
        for slot in slots:
            slot.out[...] = self._clips[self._next % len(self._clips)]
            self._next += 1
        return DecodeReport([None] * len(slots))

    def close(self) -> None:
        """Nothing is held."""


class SleepingDecoder:
    """Takes a known time for each clip without using the processor, and writes nothing."""

    name = "sleeping"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def decode(self, source: MediaSource, index: FrameIndex, slots: Sequence[ClipSlot]) -> DecodeReport:
        """Sleep once a clip."""
        for _ in slots:
            time.sleep(self._seconds)
        return DecodeReport([None] * len(slots))

    def close(self) -> None:
        """Nothing is held."""
