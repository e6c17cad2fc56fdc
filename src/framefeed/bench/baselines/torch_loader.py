"""torch's DataLoader over clips that lie ready in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from framefeed.decode import Pixels


class ReadyClips(Dataset[torch.Tensor]):
    """Tensors in memory, over and over.

    Args:
        clips: uint8 [T, C, H, W] each.
        length: Items of an epoch.
    """

    def __init__(self, clips: Sequence[Pixels], length: int) -> None:
        self._clips = [torch.from_numpy(clip) for clip in clips]
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, position: int) -> torch.Tensor:
        if not 0 <= position < self._length:
            raise IndexError(position)
        return self._clips[position % len(self._clips)]


def torch_loader(clips: Sequence[Pixels], length: int, batch_size: int, num_workers: int) -> DataLoader[Any]:
    """A DataLoader whose workers stay from one epoch to the next, as one that is meant to be quick has them."""
    context = "forkserver" if num_workers else None
    return DataLoader(
        ReadyClips(clips, length),
        batch_size=batch_size,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        multiprocessing_context=context,
    )
