"""torch's DataLoader over clips that lie ready in memory, or that its workers make."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader

from benchmarks.peers.kinds import Producers
from framefeed.adapters.torch import DataLoader as OurDataLoader
from framefeed.bench.baselines.torch import Items
from framefeed.decode import Pixels

PACKAGES = ("torch",)


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


PRODUCERS = [Producers("torch DataLoader", begin_batches)]
