"""``from framefeed.torch import VideoDecoder``: framefeed.adapters.torch under the name that ``ff.torch`` gives it."""

from __future__ import annotations

import sys

from framefeed.adapters import torch
from framefeed.adapters.torch import (
    ClipDataset,
    DataLoader,
    EpisodeAwareSampler,
    LeRobotDataset,
    LeRobotDatasetMetadata,
    VideoDecoder,
    list_clips,
    pad_clips,
    to_device,
)

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

# One module under both names: `ff.torch` stays what it is, whichever of them was imported first.
sys.modules[__name__] = torch
