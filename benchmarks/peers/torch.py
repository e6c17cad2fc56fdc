"""torch's DataLoader over clips that lie ready or that its workers make, over pictures, and a small net to train."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from benchmarks.peers.kinds import Producers
from framefeed.adapters.torch import DataLoader as OurDataLoader
from framefeed.decode import Pixels

PACKAGES = ("torch",)


class Items(Dataset[torch.Tensor]):
    """Tensors, made as they are asked for, each again and again."""

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


def begin_batches(load: Callable[[int], Pixels], length: int, batch_size: int, producers: int) -> Iterator[Any]:
    """Start a process for each producer, as the system's default is; each makes whole batches."""
    with warnings.catch_warnings():
        # More workers than cores are the point.
        warnings.filterwarnings("ignore", "This DataLoader will create")
        return iter(DataLoader(Items(range(length), load, length), batch_size=batch_size, num_workers=producers))


def has_cuda() -> bool:
    """Whether this build of torch finds a GPU."""
    return torch.cuda.is_available()


def as_tensor(array: Any) -> Any:
    """The same memory as a tensor."""
    return torch.from_numpy(array)


class Pictures(Dataset[tuple[Any, int]]):
    """Files that Pillow decodes and resizes, to uint8 [side, side, 3]: what most write first."""

    def __init__(self, paths: Sequence[str], labels: Sequence[int], side: int) -> None:
        self._paths, self._labels, self._side = paths, labels, side

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, number: int) -> tuple[Any, int]:
        with Image.open(self._paths[number]) as image:
            small = image.convert("RGB").resize((self._side, self._side), Image.Resampling.BILINEAR)
        return torch.from_numpy(np.array(small)), self._labels[number]


def load_shuffled(dataset: Dataset[Any], batch_size: int, num_workers: int) -> DataLoader[Any]:
    """A shuffling DataLoader, whose workers stay from one epoch to the next."""
    return DataLoader(
        dataset,
        batch_size=batch_size,
        shuffle=True,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        multiprocessing_context="forkserver" if num_workers else None,
    )


def make_training(num_classes: int, seed: int = 0) -> Callable[[Any, Any], float]:
    """A net of two layers of convolutions.

    Returns:
        Takes pictures, uint8 [B, 3, H, W] or [B, H, W, 3], and labels, int64 [B]; does a step, and gives the loss.
    """
    torch.manual_seed(seed)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 5, stride=4),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 16, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(16, num_classes),
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def train(pictures: Any, labels: Any) -> float:
        first = pictures if pictures.shape[1] == 3 else pictures.permute(0, 3, 1, 2)
        loss = torch.nn.functional.cross_entropy(net(first.float().div(255)), labels % num_classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return train


PRODUCERS = [Producers("torch DataLoader", begin_batches)]
