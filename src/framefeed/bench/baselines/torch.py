"""torch's DataLoader over frames that lie in one file each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from framefeed.decode import Pixels

PACKAGES = ("torch",)
BATCH_SIZE = 16


class Items(Dataset[torch.Tensor]):
    """Tensors, made as they are asked for."""

    def __init__(self, items: Sequence[Any], make: Callable[[Any], Any], length: int) -> None:
        self._items = list(items)
        self._make = make
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, position: int) -> torch.Tensor:
        if not 0 <= position < self._length:
            raise IndexError(position)
        return torch.as_tensor(self._make(self._items[position % len(self._items)]))


def load_files(paths: Sequence[str], read: Callable[[str], Pixels], workers: int) -> Iterable[Any]:
    """Batches of 16 frames, uint8 [16, H, W, 3]; workers stay from one pass to the next."""
    items = Items(paths, read, len(paths))
    return DataLoader(items, batch_size=BATCH_SIZE, num_workers=workers, persistent_workers=workers > 0)
