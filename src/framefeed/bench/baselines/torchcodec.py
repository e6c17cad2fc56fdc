"""TorchCodec: exact, approximate, and exact with frame mappings given, each with its own resize or at full size."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import torch
from torchcodec.decoders import VideoDecoder
from torchcodec.transforms import Resize

from framefeed.bench._media import BenchVideo
from framefeed.bench.baselines import SIZE, Method, ReadFrames

PACKAGES = ("torchcodec", "torch")


@cache
def frame_mappings(video: BenchVideo) -> str:
    """A video's frames, in the form that the decoder takes."""
    return video.index.to_custom_frame_mappings()


def _open(video: BenchVideo, *, is_mapped: bool = False, **options: Any) -> ReadFrames:
    mappings = {"custom_frame_mappings": frame_mappings(video)} if is_mapped else {}
    decoder = VideoDecoder(str(video.path), num_ffmpeg_threads=1, **mappings, **options)
    return lambda ordinals: decoder.get_frames_at(list(ordinals)).data


def _open_resizing(video: BenchVideo, **options: Any) -> ReadFrames:
    return _open(video, transforms=[Resize((SIZE, SIZE))], **options)


def _open_for_torch(video: BenchVideo, **options: Any) -> ReadFrames:
    """Open for frames at full size that torch resizes: faster for small frames."""
    read = _open(video, **options)

    def read_and_resize(ordinals: Sequence[int]) -> Any:
        return torch.nn.functional.interpolate(read(ordinals), (SIZE, SIZE), mode="bilinear", antialias=True)

    return read_and_resize


torch.set_num_threads(1)
# Exact scans the whole file as it opens it; approximate trusts the header's frame rate.
METHODS = [
    Method("torchcodec exact", "NCHW", _open_resizing),
    Method("torchcodec approximate", "NCHW", partial(_open_resizing, seek_mode="approximate")),
    Method("torchcodec mappings", "NCHW", partial(_open_resizing, is_mapped=True), frame_mappings),
    Method("torchcodec exact, resized by torch", "NCHW", _open_for_torch, resizes_itself=False),
    Method("torchcodec mappings, resized by torch", "NCHW", partial(_open_for_torch, is_mapped=True), frame_mappings,
           resizes_itself=False),
]  # fmt: skip
ORIGINALS = [Method("TorchCodec", "NHWC", partial(_open, dimension_order="NHWC"))]
