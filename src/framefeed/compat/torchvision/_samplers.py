"""Samplers of clips for PyTorch's DataLoader, which draw what torchvision's draw from the same seed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized
from typing import Any

import torch
from torch.utils.data import Sampler

from framefeed._checks import WrongType, check_integer
from framefeed.compat.torchvision._video_clips import VideoClips
from framefeed.errors import UsageError

_EXACT_IN_FLOAT32 = 2**24
"""float32 represents every whole number up to this one (IEEE 754 binary32)."""


class UniformClipSampler(Sampler[int]):
    """Give some clips of each video, at equal distances; videos with fewer clips give some twice.

    Args:
        video_clips: The clips.
        num_clips_per_video: Number of clips of each video that has any.
    """

    def __init__(self, video_clips: VideoClips, num_clips_per_video: int) -> None:
        self.video_clips = _check_clips(video_clips)
        self.num_clips_per_video = check_integer("num_clips_per_video", num_clips_per_video, least=1)

    def __iter__(self) -> Iterator[int]:
        chosen = []
        first = 0
        for count in filter(None, self.video_clips.clips_per_video):
            last = first + count - 1
            # float32 as in torchvision, which rounds some places, but only while it knows the clips apart.
            dtype = torch.float32 if last < _EXACT_IN_FLOAT32 else torch.float64
            places = torch.linspace(first, last, steps=self.num_clips_per_video, dtype=dtype)
            chosen += places.floor().to(torch.int64).tolist()
            first += count
        return iter(chosen)

    def __len__(self) -> int:
        return self.num_clips_per_video * sum(count > 0 for count in self.video_clips.clips_per_video)


class RandomClipSampler(Sampler[int]):
    """Give random clips of each video, each once, all in random order, drawn from torch's generator.

    Args:
        video_clips: The clips.
        max_clips_per_video: Number of clips of a video; one with fewer gives all.
    """

    def __init__(self, video_clips: VideoClips, max_clips_per_video: int) -> None:
        self.video_clips = _check_clips(video_clips)
        self.max_clips_per_video = check_integer("max_clips_per_video", max_clips_per_video, least=1)

    def __iter__(self) -> Iterator[int]:
        chosen = [torch.empty(0, dtype=torch.int64)]
        first = 0
        for count in self.video_clips.clips_per_video:
            chosen.append(torch.randperm(count)[: self.max_clips_per_video] + first)
            first += count
        clips = torch.cat(chosen)
        return iter(clips[torch.randperm(len(clips))].tolist())

    def __len__(self) -> int:
        return sum(min(count, self.max_clips_per_video) for count in self.video_clips.clips_per_video)


class DistributedSampler(Sampler[int]):
    """Share the clips of another sampler, or of a data set, among processes, in groups that stay together.

    Args:
        dataset: A sampler or a data set.
        num_replicas: Number of processes; None asks ``torch.distributed``.
        rank: Number of this process; None asks ``torch.distributed``.
        shuffle: Whether to shuffle, by the epoch.
        group_size: Clips that stay together, such as those of a video.

    Raises:
        UsageError: The number of clips is no multiple of ``group_size``, or ``rank`` is none of the processes.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = False,
        group_size: int = 1,
    ) -> None:
        self.dataset: Any = dataset
        self.group_size = check_integer("group_size", group_size, least=1)
        if len(dataset) % self.group_size:
            raise UsageError(
                f"group_size: expected a divisor of the {len(dataset)} clips, got {group_size}: give "
                "num_clips_per_video of the sampler"
            )
        world = torch.distributed.get_world_size() if num_replicas is None else num_replicas
        self.num_replicas = check_integer("num_replicas", world, least=1)
        self.rank = check_integer("rank", torch.distributed.get_rank() if rank is None else rank)
        if not 0 <= self.rank < self.num_replicas:
            raise UsageError(f"rank: expected 0 to {self.num_replicas - 1}, got {self.rank}")
        self.shuffle = shuffle
        self.epoch = 0
        num_groups = math.ceil(len(dataset) // self.group_size / self.num_replicas)
        self.num_samples = num_groups * self.group_size
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        order = torch.arange(count)
        if self.shuffle:
            order = torch.randperm(count, generator=torch.Generator().manual_seed(self.epoch))
        # The first ones again, as often as the last groups need it.
        padded = order.repeat(math.ceil(self.total_size / max(1, count)))[: self.total_size]
        own = padded.reshape(-1, self.group_size)[self.rank :: self.num_replicas].flatten().tolist()
        if isinstance(self.dataset, Sampler):
            drawn = list(self.dataset)
            return iter([drawn[place] for place in own])
        return iter(own)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which decides the order of the next iteration."""
        self.epoch = epoch


def _check_clips(video_clips: object) -> VideoClips:
    if not isinstance(video_clips, VideoClips):
        raise WrongType(
            "video_clips: expected a VideoClips of framefeed.compat.torchvision, such as dataset.video_clips, got "
            f"{type(video_clips).__name__}"
        )
    return video_clips
