"""torch's DataLoader: over clips that lie ready in memory, and over frames that lie in one file each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from framefeed.decode import Pixels

BATCH_SIZE = 16


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


def load_ready(clips: Sequence[Pixels], length: int, batch_size: int, num_workers: int) -> DataLoader[Any]:
    """A DataLoader whose workers stay from one epoch to the next, as one that is meant to be quick has them."""
    context = "forkserver" if num_workers else None
    return DataLoader(
        ReadyClips(clips, length),
        batch_size=batch_size,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        multiprocessing_context=context,
    )


class StoredFrames(Dataset[torch.Tensor]):
    """Frames, read when they are asked for.

    Args:
        paths: A file each.
        read: Reads one.
    """

    def __init__(self, paths: Sequence[str], read: Callable[[str], Pixels]) -> None:
        self._paths = list(paths)
        self._read = read

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, position: int) -> torch.Tensor:
        return torch.as_tensor(self._read(self._paths[position]))


def load_files(paths: Sequence[str], read: Callable[[str], Pixels], workers: int) -> Iterable[Any]:
    """Batches of 16 frames, uint8 [16, H, W, 3]; workers stay from one pass to the next."""
    return DataLoader(
        StoredFrames(paths, read), batch_size=BATCH_SIZE, num_workers=workers, persistent_workers=workers > 0
    )


def versions() -> dict[str, str]:
    """The library."""
    return {"torch": torch.__version__}
