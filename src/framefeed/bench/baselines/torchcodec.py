"""TorchCodec: exact, approximate, and exact with frame mappings given, each with its own resize or at full size."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torchcodec.decoders import VideoDecoder
from torchcodec.transforms import Resize

from framefeed.bench._media import BenchVideo
from framefeed.bench.baselines import SIZE, Method, ReadFrames

PACKAGES = ("torchcodec", "torch")
_MAPPINGS: dict[BenchVideo, str] = {}


def frame_mappings(video: BenchVideo) -> str:
    """What ffprobe prints of a video's frames, in the form that the decoder takes."""
    if video not in _MAPPINGS:
        index = video.index
        is_key = np.zeros(len(index), dtype=int)
        is_key[index.key_frame_indices] = 1
        own = index.packets.pts[index.frame_packet]
        columns = zip(own.tolist(), index.duration.tolist(), is_key.tolist(), strict=True)
        frames = [{"pts": pts, "duration": duration, "key_frame": key} for pts, duration, key in columns]
        _MAPPINGS[video] = json.dumps({"frames": frames})
    return _MAPPINGS[video]


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
_BY_TORCH: dict[str, Any] = {"takes_many": False, "resizes_itself": False}
# Exact scans the whole file as it opens it; approximate trusts the header's frame rate.
METHODS = [
    Method("torchcodec exact", "NCHW", _open_resizing),
    Method("torchcodec approximate", "NCHW", partial(_open_resizing, seek_mode="approximate")),
    Method("torchcodec mappings", "NCHW", partial(_open_resizing, is_mapped=True), frame_mappings),
    Method("torchcodec exact, resized by torch", "NCHW", _open_for_torch, **_BY_TORCH),
    Method("torchcodec mappings, resized by torch", "NCHW", partial(_open_for_torch, is_mapped=True), frame_mappings,
           **_BY_TORCH),
]  # fmt: skip
ORIGINALS = [Method("TorchCodec", "NHWC", partial(_open, dimension_order="NHWC"))]
