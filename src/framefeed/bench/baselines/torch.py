"""torch's DataLoader over frames that lie in one file each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from framefeed.decode import Pixels

PACKAGES = ("torch",)
BATCH_SIZE = 16


class Files(Dataset[torch.Tensor]):
    """Frames, read as they are asked for."""

    def __init__(self, paths: Sequence[str], read: Callable[[str], Pixels]) -> None:
        self._paths, self._read = list(paths), read

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, position: int) -> torch.Tensor:
        return torch.as_tensor(self._read(self._paths[position]))


def load_files(paths: Sequence[str], read: Callable[[str], Pixels], workers: int) -> Iterable[Any]:
    """Batches of 16 frames, uint8 [16, H, W, 3]; workers stay from one pass to the next."""
    files = Files(paths, read)
    return DataLoader(files, batch_size=BATCH_SIZE, num_workers=workers, persistent_workers=workers > 0)
