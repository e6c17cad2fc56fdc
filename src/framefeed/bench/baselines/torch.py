"""torch's DataLoader: over clips that lie ready in memory, and over frames that lie in one file each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from framefeed.adapters.torch import DataLoader as OurDataLoader
from framefeed.bench.baselines import Producers
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


def load_ready(clips: Sequence[Pixels], length: int, batch_size: int, num_workers: int) -> DataLoader[Any]:
    """A DataLoader whose workers stay from one epoch to the next, as one that is meant to be quick has them."""
    return DataLoader(
        Items(list(map(torch.from_numpy, clips)), torch.as_tensor, length),
        batch_size=batch_size,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        multiprocessing_context="forkserver" if num_workers else None,
    )


def load_ready_by_ours(clips: Sequence[Pixels], length: int, batch_size: int, num_workers: int) -> Iterable[Any]:
    """The same under framefeed's class: what a user who edits the import gets."""
    items = Items(list(map(torch.from_numpy, clips)), torch.as_tensor, length)
    return OurDataLoader(items, batch_size=batch_size, num_workers=num_workers)


def load_files(paths: Sequence[str], read: Callable[[str], Pixels], workers: int) -> Iterable[Any]:
    """Batches of 16 frames, uint8 [16, H, W, 3]; workers stay from one pass to the next."""
    items = Items(paths, read, len(paths))
    return DataLoader(items, batch_size=BATCH_SIZE, num_workers=workers, persistent_workers=workers > 0)


def begin_batches(load: Callable[[int], Pixels], length: int, batch_size: int, producers: int) -> Iterator[Any]:
    """Start a process for each producer, as the system's default is; each makes whole batches."""
    with warnings.catch_warnings():
        # More workers than cores are the point.
        warnings.filterwarnings("ignore", "This DataLoader will create")
        return iter(DataLoader(Items(range(length), load, length), batch_size=batch_size, num_workers=producers))


PRODUCERS = [Producers("torch DataLoader", begin_batches)]
