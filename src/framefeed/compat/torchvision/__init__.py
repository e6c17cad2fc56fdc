"""Names of torchvision 0.22 for action recognition: ``from framefeed.compat.torchvision import Kinetics``."""

from __future__ import annotations

from framefeed._absence import describe_absence
from framefeed.errors import MissingDependency

try:
    import torch as _  # noqa: F401 - first, so that a missing PyTorch has one message
except ImportError as error:
    raise MissingDependency(
        f"framefeed.compat.torchvision needs PyTorch, which {describe_absence(error, 'torch')}: "
        "pip install 'framefeed[torch]'"
    ) from error

from framefeed.compat.torchvision._datasets import HMDB51, UCF101, Kinetics
from framefeed.compat.torchvision._reading import read_video, read_video_timestamps
from framefeed.compat.torchvision._samplers import RandomClipSampler, UniformClipSampler
from framefeed.compat.torchvision._video_clips import VideoClips

__all__ = [
    "HMDB51",
    "UCF101",
    "Kinetics",
    "RandomClipSampler",
    "UniformClipSampler",
    "VideoClips",
    "read_video",
    "read_video_timestamps",
]
