"""Part 7, whole clips, which decides: 16 frames at random places of 720p H.264 to 224x224 bfloat16 on the device.

A batch is decoded in threads, one clip after the other in each, and each thread uploads what it has decoded; the last
steps are one for the batch.
"""

from __future__ import annotations

import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.device.hardware_decoder import FellBack, export_planes, make_decoder
from benchmarks.device.media import Clip, Run, open_fast_clip, read_cpu_planes
from benchmarks.device.peers import CLIP_FRAMES, choose_frames, open_torchcodec
from benchmarks.device.resizing import MEAN, STD, TorchResize, make_conversion
from benchmarks.device.rows import Trial, Unavailable, require_cuda, require_decoder, require_module
from benchmarks.device.timing import run_threads, summarise, warm_up

BATCH = 16
SIZE = (224, 224)
_REHEARSED_SIZE = (32, 32)
_LEAST_REPEATS = 5
_SECONDS = 3.0
"""Of one row, beside its warm-up."""


class Route(ABC):
    """A way from packets to a batch on the device.

    Args:
        torch: The module.
        device: "cpu" in a rehearsal.
        clip: The video.
        size: (height, width) of the result.
        threads: Number of threads that decode; clips of a batch are dealt out in turns.
    """

    def __init__(self, torch: Any, device: str, clip: Clip, size: tuple[int, int], threads: int) -> None:
        self.torch, self.device, self.clip, self.size, self.threads = torch, device, clip, size, threads
        stream = clip.index.stream
        self.num_clips = BATCH * math.ceil(threads / BATCH)
        self.frame = stream.height, stream.width
        conversion = make_conversion(stream.color_space, is_full_range=stream.color_range == 2)
        self.resize = TorchResize(torch, device, self.frame, size, conversion)
        self.chosen = [choose_frames(clip, seed) for seed in range(self.num_clips)]
        self.plans = [clip.plan(frames) for frames in self.chosen]
        self.decoders = [self.open_decoder() for _ in range(threads)]
        self.prepare()

    @abstractmethod
    def open_decoder(self) -> Any:
        """Make the decoder of one thread."""

    @abstractmethod
    def prepare(self) -> None:
        """Allocate the memory of a batch."""

    @abstractmethod
    def decode_clip(self, number: int, decoder: Any) -> None:
        """Decode a clip of the batch and send it to the device."""

    @abstractmethod
    def finish(self) -> Any:
        """Make the batch, bfloat16 [clips, frames, 3, h, w]."""

    @property
    @abstractmethod
    def uploaded_bytes(self) -> int:
        """Bytes a clip that are sent to the device as pixels."""

    def make_batch(self) -> Any:
        """Decode and finish one batch."""

        def work(thread: int) -> None:
            for number in range(thread, self.num_clips, self.threads):
                self.decode_clip(number, self.decoders[thread])

        run_threads(work, self.threads)
        batch = self.finish()
        if self.device != "cpu":
            self.torch.cuda.synchronize()
        return batch

    def allocate(self, *shape: int) -> tuple[Any, Any]:
        """Allocate uint8 memory of the batch here, pinned, and on the device."""
        shape = (self.num_clips, CLIP_FRAMES, *shape)
        here = self.torch.empty(shape, dtype=self.torch.uint8, pin_memory=self.device != "cpu")
        return here, here if self.device == "cpu" else self.torch.empty_like(here, device=self.device)

    def frames_of(self, number: int, decoder: Any) -> Any:
        """Yield (position in the clip, frame)."""
        position = {ordinal: place for place, ordinal in enumerate(self.chosen[number])}
        runs: list[Run] = self.plans[number]
        for run in runs:
            for ordinal, frame in self.clip.decode(decoder, run):
                yield position[ordinal], frame

    def _send(self, number: int, here: Any, there: Any) -> None:
        if there is not here:
            there[number].copy_(here[number], non_blocking=True)


class CpuToRgb(Route):
    """Route (a): CPU to RGB, resized there, pinned upload."""

    def open_decoder(self) -> Any:
        return self.clip.make_cpu_decoder()

    def prepare(self) -> None:
        self._here, self._there = self.allocate(*self.size, 3)

    def decode_clip(self, number: int, decoder: Any) -> None:
        for place, frame in self.frames_of(number, decoder):
            self._here[number, place] = self.torch.from_numpy(shrink(frame, self.size))
        self._send(number, self._here, self._there)

    def finish(self) -> Any:
        pictures = self._there.flatten(0, 1).permute(0, 3, 1, 2).float()
        return self.resize.normalise(pictures).unflatten(0, (self.num_clips, CLIP_FRAMES))

    @property
    def uploaded_bytes(self) -> int:
        return int(self._here[0].numel())


class CpuToPlanes(Route):
    """Route (b): CPU to planes, pinned upload, resized on the device."""

    def open_decoder(self) -> Any:
        return self.clip.make_cpu_decoder()

    def prepare(self) -> None:
        height, width = self.frame
        self._luma, self._luma_there = self.allocate(height, width)
        self._chroma, self._chroma_there = self.allocate((height + 1) // 2, (width + 1) // 2, 2)

    def decode_clip(self, number: int, decoder: Any) -> None:
        for place, frame in self.frames_of(number, decoder):
            luma, chroma = read_cpu_planes(frame)
            self._luma[number, place] = self.torch.from_numpy(luma)
            self._chroma[number, place] = self.torch.from_numpy(chroma)
        self._send(number, self._luma, self._luma_there)
        self._send(number, self._chroma, self._chroma_there)

    def finish(self) -> Any:
        planes = self._luma_there.flatten(0, 1), self._chroma_there.flatten(0, 1)
        return self.resize.by_interpolate(*planes).unflatten(0, (self.num_clips, CLIP_FRAMES))

    @property
    def uploaded_bytes(self) -> int:
        return int(self._luma[0].numel() + self._chroma[0].numel())


class HardwareToPlanes(CpuToPlanes):
    """Route (c): hardware decoding, resized on the device."""

    def open_decoder(self) -> Any:
        return make_decoder(self.clip)

    def prepare(self) -> None:
        def make(*shape: int) -> Any:
            return self.torch.empty((self.num_clips, CLIP_FRAMES, *shape), dtype=self.torch.uint8, device=self.device)

        height, width = self.frame
        self._luma_there, self._chroma_there = make(height, width), make(height // 2, width // 2, 2)

    def decode_clip(self, number: int, decoder: Any) -> None:
        for place, frame in self.frames_of(number, decoder):
            if frame.format.name != "cuda":
                raise FellBack(f"the frame is {frame.format.name} in memory, not on the device")
            stream = self.torch.cuda.current_stream()
            stream.synchronize()  # the planes are complete
            luma, chroma = export_planes(frame)
            self._luma_there[number, place].copy_(luma)
            self._chroma_there[number, place].copy_(chroma)
            stream.synchronize()  # and copied before their surface is used again

    @property
    def uploaded_bytes(self) -> int:
        return 0


class TorchCodecToRgb(Route):
    """Route (d): TorchCodec's CUDA decoder, resized by torch."""

    def open_decoder(self) -> Any:
        return open_torchcodec(self.clip)

    def prepare(self) -> None:
        shape = (self.num_clips, CLIP_FRAMES, 3, *self.size)
        self._batch = self.torch.empty(shape, dtype=self.torch.bfloat16, device=self.device)

    def decode_clip(self, number: int, decoder: Any) -> None:
        self._batch[number] = self.resize.of_rgb(decoder.get_frames_at(self.chosen[number]).data)

    def finish(self) -> Any:
        return self._batch

    @property
    def uploaded_bytes(self) -> int:
        return 0


ROUTES: dict[str, type[Route]] = {
    "a: CPU to RGB, resized there": CpuToRgb,
    "b: CPU to planes, resized on the device": CpuToPlanes,
    "c: hardware, resized on the device": HardwareToPlanes,
    "d: TorchCodec, resized on the device": TorchCodecToRgb,
}
_NEEDS: dict[type[Route], Callable[[], Any]] = {
    CpuToRgb: require_cuda,
    CpuToPlanes: require_cuda,
    HardwareToPlanes: require_decoder,
    TorchCodecToRgb: require_decoder,
}


def measure(trial: Trial) -> None:
    clip = open_fast_clip(trial)
    if trial.is_rehearsal:
        for name, route in ROUTES.items():
            if route is CpuToRgb:
                for threads in (1, 2):
                    trial.run("clips", lambda n=threads: _rehearse(clip, n), route=name[0], threads=threads)
            else:
                trial.run("clips", lambda route=route: _refuse(route), route=name[0])
        return
    warm_up(require_cuda())
    # All threads first: they decide, and take the least time.
    for threads in sorted({1, 8, len(os.sched_getaffinity(0))}, reverse=True):
        for name, route in ROUTES.items():
            measured = lambda route=route, n=threads: _measure_route(route, clip, n, trial.deadline)  # noqa: E731
            trial.run("clips", measured, route=name[0], threads=threads)


def shrink(frame: Any, size: tuple[int, int]) -> Any:
    """Resize a frame to uint8 RGB [h, w, 3] by swscale, as our own path does."""
    return frame.reformat(width=size[1], height=size[0], format="rgb24").to_ndarray()


def _refuse(route: type[Route]) -> dict[str, Any]:
    _NEEDS[route]()
    raise Unavailable("a rehearsal does not use the GPU")


def _measure_route(kind: type[Route], clip: Clip, threads: int, deadline: float) -> dict[str, Any]:
    torch = _NEEDS[kind]()
    route = kind(torch, "cuda", clip, SIZE, threads)
    route.make_batch()
    walls: list[float] = []
    begin, cpu = time.perf_counter(), time.process_time()
    while len(walls) < _LEAST_REPEATS or (time.perf_counter() - begin < _SECONDS and len(walls) < 20):
        before = time.perf_counter()
        route.make_batch()
        walls.append(time.perf_counter() - before)
        if time.monotonic() > deadline:
            break
    cpu = time.process_time() - cpu
    took = summarise(walls)
    return {
        "clips_per_second": round(route.num_clips / took["ms"] * 1e3, 2),
        "cpu_seconds_per_clip": round(cpu / len(walls) / route.num_clips, 4),
        "uploaded_mb_per_clip": round(route.uploaded_bytes / 1e6, 2),
        "batch": took,
    }


def _rehearse(clip: Clip, threads: int) -> dict[str, Any]:
    """Compare a batch of route (a) with frames that the container's own decoder gives from first to last."""
    torch = require_module("torch")
    batch = CpuToRgb(torch, "cpu", clip, _REHEARSED_SIZE, threads).make_batch()
    pictures = _decode_container(clip)
    wrong = 0
    for number in range(BATCH):
        chosen = np.stack([pictures[ordinal] for ordinal in choose_frames(clip, number)])
        expected = (chosen.astype(np.float64) / 255 - np.array(MEAN)) / np.array(STD)
        gap = np.abs(batch[number].permute(0, 2, 3, 1).float().numpy() - expected).max()
        wrong += not gap < 0.01  # half a unit in the last place of bfloat16, of values below 4
    if wrong:
        raise ArithmeticError(f"{wrong} of {BATCH} clips differ from the reference")
    return {"clips": BATCH, "wrong": wrong, "shape": list(batch.shape)}


def _decode_container(clip: Clip) -> list[Any]:
    """Decode the file as a whole, by pts of its container and without our index."""
    av = require_module("av")
    with av.open(str(clip.path)) as container:
        by_time = {frame.pts: shrink(frame, _REHEARSED_SIZE) for frame in container.decode(video=0)}
    return [by_time[time] for time in clip.index.pts.tolist()]
