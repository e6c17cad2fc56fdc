"""TorchCodec's exact constructor, which reads every packet of a video to know its frames."""

from __future__ import annotations

import torchcodec
from torchcodec.decoders import VideoDecoder


def frames_of(path: str) -> int | None:
    """How many frames it counts."""
    try:
        return int(VideoDecoder(path, num_ffmpeg_threads=1, seek_mode="exact").metadata.num_frames_from_content)
    except (RuntimeError, ValueError):
        return None


def versions() -> dict[str, str]:
    """The library."""
    return {"torchcodec": torchcodec.__version__}
