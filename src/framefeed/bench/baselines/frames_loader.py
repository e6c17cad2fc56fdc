"""torch's DataLoader over frames that lie in one file each, as the write-up reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from framefeed.decode import Pixels

BATCH_SIZE = 16


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


def batches_of(paths: Sequence[str], read: Callable[[str], Pixels], workers: int) -> Iterable[Any]:
    """Batches of 16 frames, uint8 [16, H, W, 3]; workers stay from one pass to the next."""
    return DataLoader(
        StoredFrames(paths, read), batch_size=BATCH_SIZE, num_workers=workers, persistent_workers=workers > 0
    )


def versions() -> dict[str, str]:
    """The library."""
    return {"torch": torch.__version__}
