"""decord2: frames by number in one call, resized by its own filter or at full size."""

from __future__ import annotations

import decord
import torch

from framefeed.bench._media import BenchVideo
from framefeed.bench.baselines import SIZE, Method, ReadFrames

PACKAGES = ("decord2",)


def _open_resizing(video: BenchVideo) -> ReadFrames:
    reader = decord.VideoReader(str(video.path), ctx=decord.cpu(0), width=SIZE, height=SIZE, num_threads=1)
    # Handed over through DLPack: its own asnumpy() would copy.
    return lambda ordinals: torch.utils.dlpack.from_dlpack(reader.get_batch(ordinals).to_dlpack())


def _open_original(video: BenchVideo) -> ReadFrames:
    reader = decord.VideoReader(str(video.path), ctx=decord.cpu(0), num_threads=1)
    return lambda ordinals: reader.get_batch(list(ordinals)).asnumpy()


# It always indexes the whole file as it opens it.
METHODS = [Method("decord2", "NHWC", _open_resizing)]
ORIGINALS = [Method("decord2", "NHWC", _open_original)]
