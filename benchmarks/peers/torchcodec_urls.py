"""TorchCodec on an object behind a URL: over a file object of fsspec, or on a file that is downloaded first."""

from __future__ import annotations

import os
import shutil
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fsspec
import fsspec.implementations.http  # it needs aiohttp
import torch
from torchcodec.decoders import VideoDecoder
from torchcodec.transforms import Resize

from framefeed.bench.baselines import SIZE

PACKAGES = ("torchcodec", "torch", "fsspec", "aiohttp")
_COPY_BYTES = 2**20

torch.set_num_threads(1)


def _read(file: Any, ordinals: Sequence[int], seek_mode: str) -> Any:
    decoder = VideoDecoder(file, num_ffmpeg_threads=1, seek_mode=seek_mode, transforms=[Resize((SIZE, SIZE))])
    return decoder.get_frames_at(list(ordinals)).data.numpy()


def read_over_fsspec(url: str, ordinals: Sequence[int], seek_mode: str = "exact") -> Any:
    """Read frames through fsspec's own blocks and read-ahead; uint8 [T, 3, 224, 224]."""
    with fsspec.open(url, "rb") as file:
        return _read(file, ordinals, seek_mode)


def read_downloaded(url: str, ordinals: Sequence[int], path: Path) -> Any:
    """Download the object to a path, read frames of the file, and remove it; uint8 [T, 3, 224, 224]."""
    try:
        with urllib.request.urlopen(url) as answer, path.open("wb") as file:
            shutil.copyfileobj(answer, file, _COPY_BYTES)
        return _read(os.fspath(path), ordinals, "exact")
    finally:
        path.unlink(missing_ok=True)
