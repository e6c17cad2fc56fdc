"""Row "batches": whole batches stored raw, from the store and from a loader over it, against copying them in memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from framefeed.bench._goals import Mark, per_file
from framefeed.bench._measuring import Contender, Interval, Metric, Timings, measure, median_interval
from framefeed.bench._workloads import NUM_FRAMES
from framefeed.bench.cache._ours import sized
from framefeed.bench.cache._passes import again, loader_of
from framefeed.bench.cache._scene import Scene
from framefeed.cache import FrameCache, FrameStore, Kind, StoredFrame, StoreOptions
from framefeed.decode import RGB_PLANAR, Pixels, PlaneLayout
from framefeed.errors import UsageError
from framefeed.load import ClipLoader
from framefeed.plan import DecodeRequest, EpochPlan, plan_requests

BATCH_SIZE = 16
BATCHES = 4
REPEATS = 3
"""Passes over the batches in a round."""
SHARE = Mark("of the speed of memcpy of the same bytes", 0.5, 0.7)
LOADER, STORE, COPY = "ClipLoader", "the store reading whole batches", "memcpy"
READING, HASHING = "preads of as many bytes alone", "xxh3 of them alone"
_KEY = bytes(16)


def batches_row(scene: Scene) -> dict[str, Any]:
    """Time passes over some batches that lie in the page cache, checksums on."""
    plan = _plan(scene)
    with FrameCache(scene.work / "raw", codec="raw", form="output") as cache:
        with loader_of(plan, cache, BATCH_SIZE) as loader:
            batches = [batch.data.copy() for batch in loader]
        cache.flush()
        alone = _Alone(batches, str(scene.work / "alone"))
        with loader_of(plan, cache, BATCH_SIZE) as loader:
            state = loader.state_dict()
            wrong = _wrong(loader, state, batches) + alone.wrong()
            contenders = [
                Contender(LOADER, lambda number: again(loader, state, REPEATS)),
                Contender(STORE, lambda number: alone.read(REPEATS)),
                Contender(COPY, lambda number: _copy(batches, alone.memory, REPEATS)),
                Contender(READING, lambda number: alone.read_only(REPEATS)),
                Contender(HASHING, lambda number: alone.hash_only(REPEATS)),
            ]
            samples = measure(contenders, replace(scene.rounds, pilot=scene.rounds.pairs))
        alone.close()
    each = per_file(samples, dict.fromkeys(samples.of, REPEATS * len(batches)))
    # The first is what counts: batches as the store gives them.
    figures: dict[str, Interval | float] = {
        "CPU, the store reading whole batches": _share(each, STORE, "cpu"),
        "wall, the store reading whole batches": _share(each, STORE, "wall"),
        "CPU, ClipLoader": _share(each, LOADER, "cpu"),
        "wall, ClipLoader": _share(each, LOADER, "wall"),
    }
    return {
        "key": "batches",
        "title": f"whole batches of {batches[0].nbytes / 1e6:.1f} MB ({BATCH_SIZE} clips of {NUM_FRAMES} frames to "
        f"{sized(scene.sample)}) stored raw, checksums on, page cache warm, one thread",
        "milliseconds_a_batch": {
            f"{name}, {metric}": round(1000 * each.median(name, metric), 3)
            for name in each.of
            for metric in ("cpu", "wall")
        },
        "wrong": wrong,
        "goals": [SHARE.judge(figures)],
    }


def _plan(scene: Scene) -> EpochPlan:
    """Plan clips of neighbouring frames, one after the other; from the start again where the video ends."""
    video = scene.sample.video
    first = range(0, BATCHES * BATCH_SIZE * NUM_FRAMES, NUM_FRAMES)
    clips = [[(start + step) % len(video) for step in range(NUM_FRAMES)] for start in first]
    return plan_requests([DecodeRequest(video.path, clip) for clip in clips], size=scene.sample.output.size)


def _share(samples: Timings, name: str, metric: Metric) -> Interval:
    copying, reading = samples.of[COPY], samples.of[name]
    return median_interval([copying[n].of(metric) / reading[n].of(metric) for n in sorted(copying)])


def _copy(batches: Sequence[Pixels], memory: Pixels, times: int) -> None:
    for _ in range(times):
        for batch in batches:
            np.copyto(memory[: len(batch)], batch)


def _wrong(loader: ClipLoader, state: dict[str, Any], batches: Sequence[Pixels]) -> list[str]:
    loader.load_state_dict(state)
    came = [bool(np.array_equal(batch.data, expected)) for batch, expected in zip(loader, batches, strict=True)]
    return [f"batch {number} differs from the one that was decoded" for number, same in enumerate(came) if not same]


class _Alone:
    """The same batches in a store without a cache around it, and memory for one that is used again.

    Args:
        batches: uint8 [B, T, 3, H, W] each.
        folder: Of the store.
    """

    def __init__(self, batches: Sequence[Pixels], folder: str) -> None:
        self._batches = batches
        self._folder = folder
        self._store = FrameStore(folder, StoreOptions())
        self.memory = np.empty_like(batches[0])
        height, width = batches[0].shape[-2:]
        kind = Kind("raw", PlaneLayout(RGB_PLANAR, width, height).text)
        number = 0
        for batch in batches:
            for clip in batch:
                frames = [StoredFrame(number + at, kind, frame.data, frame.nbytes) for at, frame in enumerate(clip)]
                self._store.add(_KEY, "{}", frames)
                number += len(frames)
        self._store.flush()

    def read(self, times: int) -> None:
        """Read all batches into the same memory."""
        for _ in range(times):
            for number in range(len(self._batches)):
                self._read(number)

    def read_only(self, times: int) -> None:
        """Read as many bytes from the segments, a clip at a time, and know nothing of what they are."""
        clips = self.memory.reshape(-1, self.memory[0].size)
        for _ in range(times):
            for path in sorted(Path(self._folder).glob("*.data")):
                with open(path, "rb", buffering=0) as file:
                    for number in range(path.stat().st_size // clips.shape[1]):
                        os.preadv(file.fileno(), [clips[number % len(clips)].data], number * clips.shape[1])

    def hash_only(self, times: int) -> None:
        """Hash frame after frame of the batches."""
        for _ in range(times):
            for batch in self._batches:
                for frame in batch.reshape(-1, batch[0, 0].size):
                    xxhash.xxh3_64_intdigest(frame.data)

    def wrong(self) -> list[str]:
        """Batches that do not come back as they were."""
        return [
            f"batch {number} of the store alone differs"
            for number, batch in enumerate(self._batches)
            if not np.array_equal(self._read(number), batch)
        ]

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _read(self, number: int) -> Pixels:
        batch = self._batches[number]
        per_batch = self.memory.shape[0] * self.memory.shape[1]
        count = batch.shape[0] * batch.shape[1]
        stored = self._store.find(_KEY, np.arange(number * per_batch, number * per_batch + count, dtype=np.int64))
        frames = self.memory[: len(batch)].reshape(count, -1)
        if not all(self._store.read(stored, range(count), [frame.data for frame in frames])):
            raise UsageError("the store does not have a frame that it was given")
        return self.memory[: len(batch)]
