"""TorchCodec: frames of the original by number, in one call, at full size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torchcodec
from torchcodec.decoders import VideoDecoder

from framefeed.bench._cache_formats import OriginalReader
from framefeed.bench._media import BenchVideo


def open_original(video: BenchVideo) -> Callable[[Sequence[int]], Any]:
    """Open a video; all of it is scanned here, and not again."""
    decoder = VideoDecoder(str(video.path), num_ffmpeg_threads=1, dimension_order="NHWC")
    return lambda ordinals: decoder.get_frames_at(list(ordinals)).data


def versions() -> dict[str, str]:
    """The library."""
    return {"torchcodec": torchcodec.__version__}


def originals() -> list[OriginalReader]:
    """The exact mode."""
    torch.set_num_threads(1)
    return [OriginalReader("TorchCodec", open_original)]
