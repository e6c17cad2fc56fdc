"""A data loader that is stopped anywhere and resumed delivers the rest of its epoch, and the same epochs after it."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, DistributedSampler, IterableDataset, RandomSampler, WeightedRandomSampler

from framefeed.adapters.torch import DataLoader
from framefeed.errors import UsageError
from tests.lengths import either

COUNT = 17


class Numbers(Dataset[int]):
    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, number: int) -> int:
        return number


class StatefulNumbers(Numbers):
    """Counts the items that it gave; only in order with one worker."""

    def __init__(self) -> None:
        self.given = 0

    def __getitem__(self, number: int) -> int:
        self.given += 1
        return 100 * self.given + number

    def state_dict(self) -> dict[str, int]:
        return {"given": self.given}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.given = state["given"]


class StatefulSampler:
    """Gives each number once, again in the next epoch, from where its state says."""

    def __init__(self) -> None:
        self.epoch, self.given = 0, 0

    def __len__(self) -> int:
        return COUNT

    def __iter__(self) -> Iterator[int]:
        while self.given < COUNT:
            self.given += 1
            yield (self.given * 5 + self.epoch) % COUNT
        self.epoch, self.given = self.epoch + 1, 0

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "given": self.given}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch, self.given = state["epoch"], state["given"]


class ShuffledLate:
    """Draws from a generator of its own after some numbers."""

    def __init__(self) -> None:
        self.generator = generator()

    def __len__(self) -> int:
        return COUNT

    def __iter__(self) -> Iterator[int]:
        yield from range(6)
        yield from (6 + torch.randperm(COUNT - 6, generator=self.generator)).tolist()


class Shuffled:
    """Draws from a global generator, when it begins or with its first number."""

    def __init__(self, shuffle: Callable[[list[int]], None], is_early: bool) -> None:
        self.shuffle = shuffle
        self.is_early = is_early

    def __len__(self) -> int:
        return COUNT

    def __iter__(self) -> Iterator[int]:
        numbers = list(range(COUNT))
        if self.is_early:
            self.shuffle(numbers)
        return self._give(numbers)

    def _give(self, numbers: list[int]) -> Iterator[int]:
        if not self.is_early:
            self.shuffle(numbers)
        yield from numbers


def shuffle_by_torch(numbers: list[int]) -> None:
    numbers[:] = torch.randperm(len(numbers)).tolist()


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


OWN_EPOCHS: dict[str, Callable[[], dict[str, Any]]] = {
    "in order": lambda: {"batch_size": 3},
    "no batches": lambda: {"batch_size": None},
    "generator": lambda: {"batch_size": 3, "shuffle": True, "generator": generator()},
    "drop_last": lambda: {"batch_size": 3, "shuffle": True, "drop_last": True, "generator": generator()},
    "replacement": lambda: {"batch_size": 3, "sampler": RandomSampler(Numbers(), True, 40, generator())},
    "drawn late": lambda: {"batch_size": 3, "sampler": ShuffledLate()},
    "weights": lambda: {"sampler": WeightedRandomSampler([1.0] * COUNT, 9, generator=generator()), "batch_size": 2},
    "ranks": lambda: {"batch_size": 2, "sampler": DistributedSampler(Numbers(), 2, 1, seed=3)},
    "stateful sampler": lambda: {"batch_size": 3, "sampler": StatefulSampler()},
    "every third state": lambda: {"batch_size": 2, "sampler": StatefulSampler(), "snapshot_every_n_steps": 3},
}
"""Arguments with which the next epochs follow from the state alone."""
GLOBAL_EPOCHS: dict[str, Callable[[], dict[str, Any]]] = {
    "shuffled": lambda: {"batch_size": 3, "shuffle": True},
    "torch": lambda: {"batch_size": 3, "sampler": Shuffled(shuffle_by_torch, False)},
    "torch, early": lambda: {"batch_size": 3, "sampler": Shuffled(shuffle_by_torch, True)},
    "python": lambda: {"batch_size": 3, "sampler": Shuffled(random.shuffle, False)},
    "numpy, early": lambda: {"batch_size": 3, "sampler": Shuffled(np.random.shuffle, True)},
}
"""Arguments with which they depend on global generators, which a checkpoint of the user has to hold."""
CONFIGURATIONS = OWN_EPOCHS | GLOBAL_EPOCHS


def seed_all(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - samplers of users draw from it


def make(name: str, workers: int, dataset: Dataset[Any] | None = None, **options: Any) -> DataLoader[Any]:
    return DataLoader(
        Numbers() if dataset is None else dataset, num_workers=workers, **CONFIGURATIONS[name](), **options
    )


def read(batches: Any) -> list[Any]:
    return [batch.tolist() if isinstance(batch, torch.Tensor) else batch for batch in batches]


def stop(name: str, workers: int, batches: int, **options: Any) -> tuple[list[Any], dict[str, Any]]:
    """Deliver so many batches of the first epoch, and save."""
    seed_all(1)
    loader = make(name, workers, **options)
    iterator = iter(loader)
    head = read(next(iterator) for _ in range(batches))
    return head, json.loads(json.dumps(loader.state_dict()))


def stop_everywhere(name: str, workers: int) -> list[tuple[int, list[Any], dict[str, Any]]]:
    """Save before and after each batch of two epochs: number of the epoch, its batches so far, and the state."""
    seed_all(1)
    loader = make(name, workers)
    saved = []
    for epoch in range(2):
        iterator, head = iter(loader), list[Any]()
        saved.append((epoch, [], json.loads(json.dumps(loader.state_dict()))))
        for batch in iterator:
            head += read([batch])
            saved.append((epoch, [*head], json.loads(json.dumps(loader.state_dict()))))
    return saved


WORKERS = [(0, 2), (2, 0), (3, 1), (1, 3)]
"""Before a state is saved, and after."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        (name, *workers)
        for number, name in enumerate(CONFIGURATIONS)
        for workers in either(short=WORKERS[number % 4 :][:1], long=WORKERS)
    ],
)
def test_L13_the_rest_follows_from_every_state(name: str, before: int, after: int) -> None:
    seed_all(1)
    unbroken = make(name, 0)
    epochs = [read(unbroken) for _ in range(2)]
    saved = stop_everywhere(name, before)
    assert len(saved) == sum(len(epoch) + 1 for epoch in epochs[:2])
    for epoch, head, state in saved:
        seed_all(99)
        drawn = torch.get_rng_state()
        loader = make(name, after)
        loader.load_state_dict(state)
        iterator = iter(loader)
        # Resuming draws nothing from the training loop's generator.
        assert torch.equal(torch.get_rng_state(), drawn)
        assert head + read(iterator) == epochs[epoch], len(head)
        if name in OWN_EPOCHS and epoch == 0:
            if len(head) % 2:
                state = loader.state_dict()
                loader = make(name, after)
                loader.load_state_dict(state)
            assert read(loader) == epochs[1], len(head)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_L13_a_resumed_loader_is_stopped_and_resumed_again(name: str) -> None:
    seed_all(1)
    unbroken = read(make(name, 0))
    got, state = stop(name, 2, 1)
    for workers in (0, 1, 2):
        loader = make(name, workers)
        loader.load_state_dict(state)
        iterator = iter(loader)
        got += read(next(iterator) for _ in range(1))
        state = loader.state_dict()
    loader = make(name, 3)
    loader.load_state_dict(state)
    assert got + read(loader) == unbroken


@pytest.mark.parametrize("name", OWN_EPOCHS)
def test_states_before_an_epoch_and_after_it_begin_the_next_one(name: str) -> None:
    unbroken = make(name, 0)
    states = [copy.deepcopy(unbroken.state_dict())]
    epochs = []
    for _ in range(2):
        epochs.append(read(unbroken))
        states.append(copy.deepcopy(unbroken.state_dict()))
    for state, expected in zip(states, epochs, strict=False):
        loader = make(name, 2)
        loader.load_state_dict(state)
        assert read(loader) == expected


def test_the_state_of_the_data_set_is_that_after_the_last_delivered_batch() -> None:
    unbroken = read(make("in order", 0, StatefulNumbers()))
    for workers in (0, 1):
        for batches in range(1, 6):
            head, state = stop("in order", workers, batches, dataset=StatefulNumbers())
            assert state["dataset"] == {"given": min(COUNT, 3 * batches)}
            loader = make("in order", workers, StatefulNumbers())
            loader.load_state_dict(state)
            assert head + read(loader) == unbroken


class Failing(Numbers):
    def __getitem__(self, number: int) -> int:
        if number == 2:
            raise KeyError(number)
        return number


@pytest.mark.parametrize("workers", [0, 2])
def test_a_failed_batch_comes_again_until_a_later_one_is_delivered(workers: int) -> None:
    loader = DataLoader(Failing(), batch_size=None, num_workers=workers)
    iterator = iter(loader)
    assert read(next(iterator) for _ in range(2)) == [0, 1]
    with pytest.raises(KeyError):
        next(iterator)
    failed = loader.state_dict()
    assert next(iterator) == 3
    for state, expected in ((failed, None), (loader.state_dict(), 4)):
        loader.load_state_dict(state)
        if expected is None:
            with pytest.raises(KeyError):
                next(iter(loader))
        else:
            assert next(iter(loader)) == expected


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        yield from range(7)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_worker_processes_are_resumed_too(workers: int) -> None:
    for options in ({"kind": "processes", "persistent_workers": workers > 0}, {}):
        dataset: Dataset[Any] = Numbers() if options else Stream()
        loaders = [DataLoader(dataset, batch_size=None, num_workers=workers, **options) for _ in range(2)]
        iterator = iter(loaders[0])
        head = read(next(iterator) for _ in range(3))
        loaders[1].load_state_dict(loaders[0].state_dict())
        assert head + read(loaders[1]) == list(range(COUNT if options else 7))
        assert read(loaders[1]) == list(range(COUNT if options else 7))
        assert loaders[1].state_dict()["batches"] is None


class StatefulStream(Stream):
    def state_dict(self) -> dict[str, int]:
        return {}

    def load_state_dict(self, state: dict[str, int]) -> None:
        pass


def test_what_cannot_be_resumed_is_refused() -> None:
    with pytest.raises(UsageError, match="use torchdata's StatefulDataLoader"):
        DataLoader(StatefulStream()).state_dict()
    loader = DataLoader(Numbers(), num_workers=2, in_order=False)
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(UsageError, match="use in_order=True"):
        loader.state_dict()
    state = stop("in order", 0, 2)[1]
    with pytest.raises(UsageError, match="a loader with batch_size=3, and this one has 4"):
        DataLoader(Numbers(), batch_size=4).load_state_dict(state)
    with pytest.raises(UsageError, match="a loader with num_batches=6, and this one has 5"):
        DataLoader(Numbers(), batch_size=3, drop_last=True).load_state_dict(state)
    with pytest.raises(UsageError, match=r"and this one has .'BatchSampler', 'RandomSampler'"):
        DataLoader(Numbers(), batch_size=3, shuffle=True).load_state_dict(state)
    for wrong in ({"_num_yielded": 3}, {**state, "version": 0}, [1]):
        with pytest.raises(UsageError, match=r"no state of an ff\.torch\.DataLoader"):
            loader.load_state_dict(wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="snapshot_every_n_steps"):
        DataLoader(Numbers(), snapshot_every_n_steps=0)


@pytest.mark.parametrize("name", GLOBAL_EPOCHS)
def test_L13_loaders_that_are_read_in_turn_draw_in_turn_and_resume(name: str) -> None:
    """Without workers, torch draws a seed when the iterator is made, and indices with the first batch."""
    for workers in (0, 2):
        seed_all(1)
        pairs = zip(make(name, workers), loader := make(name, workers), strict=True)
        unbroken = [second.tolist() for _, second in pairs]
        seed_all(1)
        pairs = zip(make(name, workers), loader := make(name, workers), strict=True)
        head = [second.tolist() for _, (_, second) in zip(range(2), pairs, strict=False)]
        resumed = make(name, 2 - workers)
        resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
        assert head + read(resumed) == unbroken


def test_a_state_that_was_loaded_is_saved_again_before_the_next_batch() -> None:
    head, state = stop("shuffled", 2, 2)
    loader = make("shuffled", 0)
    loader.load_state_dict(state)
    again = loader.state_dict()
    for one in (state, again):
        seed_all(7)
        loader = make("shuffled", 1)
        loader.load_state_dict(one)
        assert sorted(number for batch in head + read(loader) for number in batch) == list(range(COUNT))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_L13_persistent_workers_go_on_with_the_orders_of_an_unbroken_run(kind: Any) -> None:
    options: dict[str, Any] = {"persistent_workers": True, "kind": kind}
    loader = make("generator", 1, **options)
    epochs, states = [], []
    for _ in range(3):
        iterator = iter(loader)
        head = read(next(iterator) for _ in range(2))
        states.append(loader.state_dict())
        epochs.append(head + read(iterator))
        states.append(loader.state_dict())
    for number, state in enumerate(states[:-1]):
        loader = make("generator", 1, **options)
        loader.load_state_dict(state)
        epoch, is_finished = divmod(number, 2)
        rest = epochs[epoch + 1 :] if is_finished else [epochs[epoch][2:], *epochs[epoch + 1 :]]
        assert [read(loader) for _ in rest] == rest


def test_an_empty_state_begins_anew() -> None:
    loader = make("in order", 1)
    loader.load_state_dict(stop("in order", 1, 3)[1])
    loader.load_state_dict({})
    assert read(loader) == read(make("in order", 0))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_state_after_an_empty_one_is_that_of_the_beginning(workers: int) -> None:
    loader, again = make("in order", workers), make("in order", workers)
    next(iter(loader))
    loader.load_state_dict({})
    again.load_state_dict(loader.state_dict())
    assert read(again) == read(make("in order", 0))
