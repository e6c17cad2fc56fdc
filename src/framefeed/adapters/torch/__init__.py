"""framefeed for PyTorch: ``ff.torch``."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any, NoReturn

from framefeed._absence import describe_absence
from framefeed._nearest import OTHER_NAMES, did_you_mean
from framefeed.errors import MissingDependency, UsageError

try:
    import torch as _  # noqa: F401 - first, so that a missing PyTorch has one message
except ImportError as error:
    raise MissingDependency(
        f"framefeed.torch needs PyTorch, which {describe_absence(error, 'torch')}: pip install 'framefeed[torch]'"
    ) from error

from framefeed.adapters.torch._clip_dataset import ClipDataset
from framefeed.adapters.torch._collate import list_clips, pad_clips
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
    "list_clips",
    "pad_clips",
    "to_device",
]

_ABSENT = {
    **OTHER_NAMES,
    **{name: f"use ff.{name}" for name in ("ClipLoader", "Frame", "FrameBatch", "plan_clips", "scan")},
}


def __getattr__(name: str) -> NoReturn:
    # An AttributeError, so that ``hasattr`` and all that probes a module works.
    advice = f": {_ABSENT[name]}" if name in _ABSENT else did_you_mean(name, __all__)
    raise AttributeError(f"module 'framefeed.torch' has no attribute {name!r}{advice}")


class _AbsentNames(MetaPathFinder):
    """Answers ``from framefeed.torch import AudioDecoder`` by what to use.

    The statement ignores an AttributeError: Python then looks for a module of this name.
    """

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        package, _, name = fullname.rpartition(".")
        if package in (__name__, "framefeed.torch") and name in _ABSENT:
            raise ImportError(f"framefeed.torch has no {name}: {_ABSENT[name]}")


sys.meta_path.append(_AbsentNames())


def to_device(*arguments: Any, **options: Any) -> NoReturn:
    """Not in this version: ``torch.from_numpy(batch.data).to(device)`` works today."""
    raise UsageError("ff.torch.to_device is not in this version: use torch.from_numpy(batch.data).to(device)")
