"""decord2: frames by number in one call, resized by its own filter or at full size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import decord
import torch

from framefeed.bench._media import BenchVideo
from framefeed.bench._peers import SIZE, Method, OriginalReader


class _Session:
    def __init__(self, video: BenchVideo) -> None:
        self._reader = decord.VideoReader(str(video.path), ctx=decord.cpu(0), width=SIZE, height=SIZE, num_threads=1)

    def clip(self, ordinals: Sequence[int]) -> Any:
        # Handed over through DLPack: its own asnumpy() would copy.
        return torch.utils.dlpack.from_dlpack(self._reader.get_batch(ordinals).to_dlpack())

    def close(self) -> None:
        del self._reader


def versions() -> dict[str, str]:
    """The library, and the codec libraries under it, by name."""
    return {"decord2": version("decord2")}


def methods() -> list[Method]:
    """The one way: it always indexes the whole file as it opens it."""
    return [Method("decord2", "NHWC", _Session)]


def open_original(video: BenchVideo) -> Callable[[Sequence[int]], Any]:
    """Open a video for frames at full size; it is indexed here, and not again."""
    reader = decord.VideoReader(str(video.path), ctx=decord.cpu(0), num_threads=1)
    return lambda ordinals: reader.get_batch(list(ordinals)).asnumpy()


def originals() -> list[OriginalReader]:
    """The one."""
    return [OriginalReader("decord2", open_original)]
