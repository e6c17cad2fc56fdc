"""TorchCodec: exact, approximate, and exact with frame mappings given, each with its own resize or at full size."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torchcodec
from torchcodec.decoders import VideoDecoder
from torchcodec.transforms import Resize

from framefeed.bench._media import BenchVideo
from framefeed.bench._peers import SIZE, Method, OriginalReader

_MAPPINGS: dict[BenchVideo, str] = {}


class _Session:
    """A decoder with its own resize, or frames at full size that torch resizes: faster for small frames."""

    def __init__(self, video: BenchVideo, *, by_torch: bool = False, **options: Any) -> None:
        self._by_torch = by_torch
        transforms = None if by_torch else [Resize((SIZE, SIZE))]
        self._decoder = VideoDecoder(str(video.path), num_ffmpeg_threads=1, transforms=transforms, **options)

    def clip(self, ordinals: Sequence[int]) -> Any:
        frames = self._decoder.get_frames_at(ordinals).data
        if not self._by_torch:
            return frames
        return torch.nn.functional.interpolate(frames, (SIZE, SIZE), mode="bilinear", antialias=True)

    def close(self) -> None:
        del self._decoder


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


def _open_mapped(video: BenchVideo, *, by_torch: bool = False) -> _Session:
    return _Session(video, by_torch=by_torch, custom_frame_mappings=frame_mappings(video))


def versions() -> dict[str, str]:
    """The library, and the codec libraries under it, by name."""
    return {"torchcodec": torchcodec.__version__, "torch": torch.__version__}


def methods() -> list[Method]:
    """Exact scans the whole file as it opens it; approximate trusts the header's frame rate."""
    torch.set_num_threads(1)
    by_torch: dict[str, Any] = {"takes_many": False, "resizes_itself": False}
    return [
        Method("torchcodec exact", "NCHW", _Session),
        Method("torchcodec approximate", "NCHW", partial(_Session, seek_mode="approximate")),
        Method("torchcodec mappings", "NCHW", _open_mapped, frame_mappings),
        Method("torchcodec exact, resized by torch", "NCHW", partial(_Session, by_torch=True), **by_torch),
        Method("torchcodec mappings, resized by torch", "NCHW", partial(_open_mapped, by_torch=True), frame_mappings,
               **by_torch),
    ]  # fmt: skip


def open_original(video: BenchVideo) -> Callable[[Sequence[int]], Any]:
    """Open a video for frames at full size; all of it is scanned here, and not again."""
    decoder = VideoDecoder(str(video.path), num_ffmpeg_threads=1, dimension_order="NHWC")
    return lambda ordinals: decoder.get_frames_at(list(ordinals)).data


def originals() -> list[OriginalReader]:
    """The exact mode."""
    torch.set_num_threads(1)
    return [OriginalReader("TorchCodec", open_original)]


def count_frames(path: str) -> int | None:
    """How many frames the exact constructor counts, which reads every packet."""
    try:
        return int(VideoDecoder(path, num_ffmpeg_threads=1, seek_mode="exact").metadata.num_frames_from_content)
    except (RuntimeError, ValueError):
        return None
