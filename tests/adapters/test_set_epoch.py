"""A ClipDataset warns once if set_epoch is never called, so that its random clips stay the same."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch.utils.data import DataLoader, RandomSampler

from framefeed.adapters.torch import _clip_dataset
from framefeed.adapters.torch._clip_dataset import ClipDataset, ItemCounter
from framefeed.plan import AtIndices, Dense, RandomSegments, Rates, Uniform
from framefeed.request import CenterCrop, RandomCrop, RandomResizedCrop
from tests.fakes import FlatDecoder
from tests.makers import plan_of

WARNING = "without set_epoch"


def dataset_of(*arguments: Any, **options: Any) -> ClipDataset:
    return ClipDataset(plan_of(*arguments, **{"shuffle": False, **options}), backend=FlatDecoder())


def iterate_passes(dataset: ClipDataset, passes: int) -> None:
    for _ in range(passes):
        assert len(list(DataLoader(dataset, batch_size=2))) == -(-len(dataset) // 2)


def note_warnings(path: Path, worker: int) -> None:
    def note(message: Any, *_: Any) -> None:
        with path.open("a") as file:
            file.write(f"{message}\n")

    warnings.simplefilter("always")
    warnings.showwarning = note


def count_warnings(folder: Path, *, sets: bool, **options: Any) -> int:
    """How often workers warn in three epochs."""
    noted = folder / "warnings"
    noted.touch()
    dataset = ClipDataset(plan_of(shuffle=False))
    loader = DataLoader(dataset, batch_size=3, worker_init_fn=partial(note_warnings, noted), **options)
    for epoch in range(3):
        if sets:
            dataset.set_epoch(epoch)
        assert len(list(loader)) == 4
    return noted.read_text().count(WARNING)


@pytest.mark.parametrize("sets", [False, True])
def test_workers_count_together_and_one_warns(sets: bool, tmp_path: Path) -> None:
    options: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "fork", "persistent_workers": not sets}
    assert count_warnings(tmp_path, sets=sets, **options) == (not sets)


@pytest.mark.parametrize("clips", [1, 2, 6])
def test_the_second_epoch_warns_once(clips: int) -> None:
    dataset = dataset_of(clips_per_video=1, world_size=6 // clips)
    assert len(dataset) == clips
    passes = 2 if clips > 1 else 3  # one clip that is looked at twice is no second epoch
    with pytest.warns(UserWarning, match=WARNING) as caught:
        iterate_passes(dataset, passes + 2)
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("rule", "options"),
    [
        (Dense(2, stride=1), {}),
        (Rates([(1, 2)]), {}),
        (Uniform(2), {"crop": RandomCrop(20, 20)}),
        (Uniform(2), {"crop": RandomResizedCrop(20)}),
    ],
)
def test_every_draw_counts(rule: Any, options: dict[str, Any]) -> None:
    dataset = dataset_of(rule, **options)
    with pytest.warns(UserWarning, match=rf"{WARNING}.*for validation\), dataset\.set_epoch\(0\)"):
        iterate_passes(dataset, 2)


@pytest.mark.parametrize(
    ("rule", "options"),
    [
        (Dense(2, stride=1, start=0), {}),
        (Rates([(1, 2)], start=0.5), {}),
        (AtIndices([1]), {"crop": CenterCrop(20, 20)}),
    ],
)
def test_nothing_is_said_where_nothing_is_drawn(rule: Any, options: dict[str, Any]) -> None:
    dataset = dataset_of(rule, **options)
    iterate_passes(dataset, 3)


def test_nothing_is_said_within_an_epoch_and_a_half() -> None:
    dataset = dataset_of(RandomSegments(2))
    assert len(dataset) == 12
    dataset[0], dataset[0]
    sampler = RandomSampler(dataset, replacement=True, num_samples=12)
    assert len(list(DataLoader(dataset, sampler=sampler))) == 12
    dataset.__getitems__([0] * 4)
    with pytest.warns(UserWarning, match="delivered 19 items of an epoch of 12"):
        dataset[0]


def test_of_workers_that_count_at_once_the_first_alone_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = ItemCounter("ClipDataset")

    def deliver(worker: int) -> None:
        monkeypatch.setattr(_clip_dataset, "get_worker_info", lambda: SimpleNamespace(id=worker))
        counts.add(12, epoch_items=12)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for worker in (1, 2, 3):
            deliver(worker)
    with pytest.warns(UserWarning, match=WARNING):
        deliver(0)


def test_nothing_is_said_once_the_epoch_was_set() -> None:
    dataset = dataset_of()
    dataset.set_epoch(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        iterate_passes(dataset, 3)
