"""Samplers and data sets with epochs: the state has them, and an epoch that is set late counts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import DistributedSampler, Sampler

from framefeed.adapters.torch import ClipDataset, DataLoader
from tests.adapters.samples import Numbers
from tests.fakes import FlatDecoder
from tests.makers import plan_of

WORKERS = pytest.mark.parametrize("workers", [0, 2])
BATCHES = 5


def loader_of(workers: int) -> tuple[DataLoader[Any], Any]:
    sampler = DistributedSampler(Numbers(), num_replicas=2, rank=1, seed=3)
    return DataLoader(Numbers(), batch_size=2, sampler=sampler, num_workers=workers), sampler


def epoch_of(epoch: int) -> list[Any]:
    sampler = DistributedSampler(Numbers(), num_replicas=2, rank=1, seed=3)
    sampler.set_epoch(epoch)
    return [batch.tolist() for batch in TorchDataLoader(Numbers(), batch_size=2, sampler=sampler)]


def batches_of(batches: Any) -> list[Any]:
    return [batch.tolist() for batch in batches]


@WORKERS
def test_an_epoch_that_is_set_before_the_first_batch(workers: int) -> None:
    loader, sampler = loader_of(workers)
    iterator = iter(loader)
    for epoch in (5, 2):
        sampler.set_epoch(epoch)
    assert batches_of(iterator) == epoch_of(2)


@WORKERS
def test_an_epoch_that_is_set_after_the_first_batch_is_that_of_the_next_iteration(workers: int) -> None:
    loader, sampler = loader_of(workers)
    iterator = iter(loader)
    first = next(iterator).tolist()
    sampler.set_epoch(2)
    assert [first, *batches_of(iterator)] == epoch_of(0)
    assert batches_of(loader) == epoch_of(2)


@WORKERS
def test_the_state_is_of_the_latest_iterator_also_if_an_earlier_one_goes_on_in_another_epoch(workers: int) -> None:
    loader, sampler = loader_of(workers)
    first, _ = iter(loader), iter(loader)
    sampler.set_epoch(2)
    assert len(batches_of(islice(first, 3))) == 3
    assert loader.state_dict()["batches"] == 0


@WORKERS
@pytest.mark.parametrize("sets_again", [False, True])
@pytest.mark.parametrize("step", [1, 3, 4])
def test_a_state_has_the_epoch(workers: int, sets_again: bool, step: int) -> None:
    loader, sampler = loader_of(workers)
    sampler.set_epoch(3)
    list(islice(loader, step))
    state = loader.state_dict()
    later, sampler = loader_of(workers)
    later.load_state_dict(state)
    iterator = iter(later)
    if sets_again:
        sampler.set_epoch(3)
    assert batches_of(iterator) == epoch_of(3)[step:]


@WORKERS
def test_the_state_after_the_last_batch_goes_on_with_the_epoch_that_is_set(workers: int) -> None:
    loader, sampler = loader_of(workers)
    list(islice(loader, BATCHES))
    state = loader.state_dict()
    later, sampler = loader_of(workers)
    later.load_state_dict(state)
    iterator = iter(later)
    sampler.set_epoch(1)
    seen = batches_of(islice(iterator, 2))
    assert seen == epoch_of(1)[:2]
    state = later.state_dict()
    last, sampler = loader_of(workers)
    last.load_state_dict(state)
    assert batches_of(last) == epoch_of(1)[2:]


# Threads load ahead when the iterator is made: here a second epoch, before the epoch is set.
@WORKERS
def test_a_clip_dataset_has_an_epoch(workers: int) -> None:
    def load() -> tuple[DataLoader[Any], ClipDataset]:
        dataset = ClipDataset(plan_of(), backend=FlatDecoder())
        return DataLoader(dataset, batch_size=3, num_workers=workers), dataset

    def times_of(batches: Any) -> list[Any]:
        return [batch["pts_seconds"].tolist() for batch in batches]

    loader, dataset = load()
    expected = []
    for epoch in range(3):
        dataset.set_epoch(epoch)
        expected.append(times_of(loader))
    iterator = iter(loader)
    dataset.set_epoch(1)
    assert times_of(islice(iterator, 2)) == expected[1][:2]
    state = loader.state_dict()
    loader, dataset = load()
    loader.load_state_dict(state)
    assert times_of(loader) == expected[1][2:]


class Counting(Sampler[int]):
    """Counts its epochs itself, as Accelerate's does."""

    def __init__(self) -> None:
        self.epoch = 0

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[int]:
        yield from ((self.epoch + number) % 4 for number in range(4))
        self.set_epoch(self.epoch + 1)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


@WORKERS
def test_a_sampler_that_counts_its_epochs(workers: int) -> None:
    """All of it is drawn before the first batch is taken."""
    both = []
    for kind in (TorchDataLoader, DataLoader):
        loader: Any = kind(
            Numbers(), batch_size=2, sampler=Counting(), num_workers=0 if kind is TorchDataLoader else workers
        )
        both.append([batches_of(loader) for _ in range(3)])
    assert both[0] == both[1]
    loader = DataLoader(Numbers(), batch_size=2, sampler=Counting(), num_workers=workers)
    list(loader)
    next(iter(loader))
    state = loader.state_dict()
    loader = DataLoader(Numbers(), batch_size=2, sampler=Counting(), num_workers=workers)
    loader.load_state_dict(state)
    assert batches_of(loader) == both[0][1][1:]
