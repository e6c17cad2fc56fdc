"""The epoch that a trainer sets: it counts batches, so that no iteration reaches its end."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from framefeed.errors import UsageError
from framefeed.load import ClipBatch, ClipLoader
from tests.fakes import FlatDecoder
from tests.makers import plan_of

BATCHES = 4


def loader_of(**options: Any) -> ClipLoader:
    return ClipLoader(plan_of(), batch_size=3, **{"workers": 2, "backend": FlatDecoder(), **options})


def clips_of(batch: ClipBatch) -> list[Any]:
    return [batch.positions.tolist(), batch.sources, batch.pts_seconds.tolist()]


@pytest.fixture(scope="module")
def epochs() -> list[list[Any]]:
    with loader_of() as loader:
        return [[clips_of(batch) for batch in loader] for _ in range(4)]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batches", [1, BATCHES])
def test_a_loop_that_counts_batches(workers: int, batches: int, epochs: list[Any]) -> None:
    with loader_of(workers=workers) as loader:
        for epoch in range(3):
            loader.sampler.set_epoch(epoch)
            assert [clips_of(batch) for batch in islice(loader, batches)] == epochs[epoch][:batches]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_iterator_without_a_batch_yet_follows(workers: int, epochs: list[Any]) -> None:
    with loader_of(workers=workers) as loader:
        iterator = iter(loader)
        for epoch in (3, 1, 2):
            loader.set_epoch(epoch)
        assert [clips_of(batch) for batch in iterator] == epochs[2]
        assert loader.epoch == 3
        assert [clips_of(batch) for batch in loader] == epochs[3]


def test_an_iterator_with_a_batch_continues(epochs: list[Any]) -> None:
    with loader_of() as loader:
        iterator = iter(loader)
        first = clips_of(next(iterator))
        loader.set_epoch(2)
        assert [first, *map(clips_of, iterator)] == epochs[0]
        assert loader.epoch == 2, "the end of an iteration of another epoch changes nothing"
        assert [clips_of(batch) for batch in loader] == epochs[2]


def test_a_restored_position_stays_in_its_epoch(epochs: list[Any]) -> None:
    with loader_of() as loader:
        loader.set_epoch(1)
        list(islice(loader, 2))
        state = loader.state_dict()
    with loader_of() as loader:
        loader.load_state_dict(state)
        loader.set_epoch(1)
        iterator = iter(loader)
        loader.set_epoch(1)
        assert [clips_of(batch) for batch in iterator] == epochs[1][2:]
    with loader_of() as loader:
        loader.load_state_dict(state)
        loader.set_epoch(2)
        assert [clips_of(batch) for batch in loader] == epochs[2]


def test_the_state_after_the_last_batch_goes_on_with_the_epoch_that_is_set(epochs: list[Any]) -> None:
    with loader_of() as loader:
        list(islice(loader, BATCHES))
        state = loader.state_dict()
    with loader_of() as loader:
        loader.load_state_dict(state)
        iterator = iter(loader)
        loader.set_epoch(1)
        assert [clips_of(batch) for batch in iterator] == epochs[1]


@pytest.mark.parametrize("epoch", [-1, 0.5, None, "1"])
def test_no_epoch(epoch: Any) -> None:
    with loader_of() as loader, pytest.raises(UsageError, match="epoch: expected an integer of at least 0"):
        loader.set_epoch(epoch)
