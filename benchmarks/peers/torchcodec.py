"""TorchCodec: frames counted by its exact constructor."""

from __future__ import annotations

from torchcodec.decoders import VideoDecoder

PACKAGES = ("torchcodec",)


def count_frames(path: str) -> int | None:
    """How many frames the exact constructor counts, which reads every packet."""
    try:
        return int(VideoDecoder(path, num_ffmpeg_threads=1, seek_mode="exact").metadata.num_frames_from_content)
    except (RuntimeError, ValueError):
        return None
