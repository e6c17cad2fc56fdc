"""ClipDataset in ff.torch.DataLoader: threads give the clips and the random numbers that torch's workers give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import interpolate
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import Subset

from framefeed.adapters.torch import ClipDataset, DataLoader
from framefeed.cache import FrameCache
from framefeed.errors import CorruptMedia, LoadError
from tests.makers import plan_of

pytestmark = pytest.mark.filterwarnings("ignore:this ClipDataset delivered")


def draw_much(clip: torch.Tensor) -> torch.Tensor:
    """Draw by functions and methods of every form that transforms use."""
    half, five = torch.full((4,), 0.5), torch.full((2,), 5.0)
    numbers = [torch.rand(1), torch.randn(1), torch.randint(0, 99, (1,)), torch.randperm(5), torch.normal(0.0, five),
               torch.empty(2).uniform_(1, 5), torch.empty(2).normal_(), torch.zeros(2).exponential_(),
               torch.bernoulli(half), half.bernoulli(), torch.multinomial(half, 3), torch.poisson(five),
               torch.rand_like(five), torch.randn_like(five), torch.zeros(2).random_(0, 9),
               torch.distributions.Beta(2.0, 3.0).sample((2,)), torch.distributions.Normal(0.0, 1.0).sample((2,)),
               torch.rand(1, generator=None), torch.rand(1, generator=torch.Generator().manual_seed(3))]  # fmt: skip
    # Long enough that calls of several threads overlap.
    interpolate(clip[:, :1].float(), size=(64, 64))
    return torch.cat([number.double().reshape(-1) for number in numbers])


def load(kind: Any, workers: int, dataset: Any = None, **options: Any) -> list[Any]:
    dataset = ClipDataset(plan_of(), transform=draw_much) if dataset is None else dataset
    return list(kind(dataset, num_workers=workers, **{"batch_size": 5, **options}))


def assert_equal(ours: list[Any], theirs: list[Any]) -> None:
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert list(one) == list(other)
        for key, value in one.items():
            assert torch.equal(value, other[key]) if isinstance(value, torch.Tensor) else value == other[key], key


@pytest.mark.parametrize("workers", [0, 1, 2, 4])
def test_clips_and_draws_are_those_of_torchs_loader(workers: int) -> None:
    state = torch.get_rng_state()
    # Torch's loader too draws a seed for its workers.
    generator = torch.Generator().manual_seed(1)
    assert_equal(load(DataLoader, workers, generator=generator), load(TorchDataLoader, 0))
    torch.set_rng_state(state)
    assert_equal(load(DataLoader, workers, ClipDataset(plan_of())), load(TorchDataLoader, 0, ClipDataset(plan_of())))


def test_L11_transforms_in_threads_leave_the_generator_of_the_training_loop_alone() -> None:
    expected = torch.Generator().manual_seed(7)
    loader = DataLoader(ClipDataset(plan_of(), transform=draw_much), num_workers=3, generator=torch.Generator())
    torch.manual_seed(7)
    for _ in loader:
        assert torch.equal(torch.rand(3), torch.rand(3, generator=expected))


def test_epochs_differ_and_set_epoch_reaches_the_threads() -> None:
    dataset = ClipDataset(plan_of())
    loader = DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)
    for epoch in (0, 1, 0):
        dataset.set_epoch(epoch)
        assert_equal(list(loader), load(TorchDataLoader, 0, ClipDataset(plan_of().with_epoch(epoch)), batch_size=4))


@pytest.mark.filterwarnings("ignore:cache. about")
def test_clips_of_a_subset_with_a_cache(tmp_path: Path) -> None:
    with FrameCache(tmp_path / "cache", codec="raw") as cache:
        subset = Subset(ClipDataset(plan_of(), cache=cache), [7, 2, 2, 9])
        expected = load(TorchDataLoader, 0, Subset(ClipDataset(plan_of()), [7, 2, 2, 9]), batch_size=2)
        for _ in range(2):
            assert_equal(load(DataLoader, 2, subset, batch_size=2), expected)


def fail_on_demand(clip: torch.Tensor) -> torch.Tensor:
    if clip.any() and torch.rand(1) < 0.6:
        raise CorruptMedia("this one")
    return clip


def test_failed_clips_are_in_the_ledger_whichever_thread_met_them() -> None:
    ledgers = []
    for kind, workers in ((TorchDataLoader, 0), (DataLoader, 3)):
        dataset = ClipDataset(plan_of(), transform=fail_on_demand, on_error="skip")
        batches = load(kind, workers, dataset)
        ledgers.append(
            (sorted(entry.position for entry in dataset.ledger), [batch["ok"].tolist() for batch in batches])
        )
    assert ledgers[0] == ledgers[1]
    assert ledgers[0][0]
    with pytest.raises(LoadError, match="max_failed=1"):
        load(DataLoader, 2, ClipDataset(plan_of(), transform=fail_on_demand, on_error="skip", max_failed=1))
