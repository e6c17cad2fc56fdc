"""framefeed for PyTorch: ``ff.torch``."""

from __future__ import annotations

from typing import Any, NoReturn

from framefeed._nearest import OTHER_NAMES, did_you_mean
from framefeed.errors import MissingDependency, UsageError

try:
    import torch as _  # noqa: F401 - first, so that a missing PyTorch has one message
except ImportError as error:
    raise MissingDependency(
        "framefeed.torch needs PyTorch, which is not installed: pip install 'framefeed[torch]'"
    ) from error

from framefeed.adapters.torch._clip_dataset import ClipDataset
from framefeed.adapters.torch._data_loader import DataLoader
from framefeed.adapters.torch._episode_sampler import EpisodeAwareSampler
from framefeed.adapters.torch._lerobot_dataset import LeRobotDataset
from framefeed.adapters.torch._video_decoder import VideoDecoder
from framefeed.lerobot import LeRobotDatasetMetadata

__all__ = [
    "ClipDataset",
    "DataLoader",
    "EpisodeAwareSampler",
    "LeRobotDataset",
    "LeRobotDatasetMetadata",
    "VideoDecoder",
    "to_device",
]

_ABSENT = {
    **OTHER_NAMES,
    **{name: f"use ff.{name}" for name in ("ClipLoader", "Frame", "FrameBatch", "plan_clips", "scan")},
}


def __getattr__(name: str) -> NoReturn:
    """Raise the error for a name that this module does not have.

    Raises:
        ImportError: For names of other libraries, because ``from framefeed.torch import`` ignores an AttributeError.
        AttributeError: For all others.
    """
    if name in _ABSENT:
        raise ImportError(f"framefeed.torch has no {name}: {_ABSENT[name]}")
    raise AttributeError(f"module 'framefeed.torch' has no attribute {name!r}{did_you_mean(name, __all__)}")


def to_device(*arguments: Any, **options: Any) -> NoReturn:
    """Not in this version: ``torch.from_numpy(batch.data).to(device)`` works today."""
    raise UsageError("ff.torch.to_device is not in this version: use torch.from_numpy(batch.data).to(device)")
