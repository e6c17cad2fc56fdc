"""A ClipDataset warns once if set_epoch is never called, so that its random clips stay the same."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
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
ROOT = Path(__file__).parents[2]

CASES = {
    "fork persistent never": 1,
    "fork fresh sets": 0,
    "forkserver fresh never": 1,
    "spawn persistent sets": 0,
}
"""How workers start, whether an epoch has new ones, and whether the epoch is set; and how often it is warned."""

# One program: each process that imports PyTorch takes two seconds for it.
PROGRAM = """
import multiprocessing, sys
from torch.utils.data import DataLoader
from framefeed.adapters.torch._clip_dataset import ClipDataset, ItemCounter
from tests.makers import plan_of

if __name__ == "__main__":
    multiprocessing.set_forkserver_preload(["torch"])
    for case in sys.argv[1:]:
        print(f"== {case}", file=sys.stderr, flush=True)
        method, workers, epochs = case.split()
        dataset = ClipDataset(plan_of(shuffle=False))
        loader = DataLoader(
            dataset, batch_size=3, num_workers=1 if method == "spawn" else 2, multiprocessing_context=method,
            persistent_workers=workers == "persistent"
        )
        for epoch in range(3):
            if epochs == "sets":
                dataset.set_epoch(epoch)
            assert len(list(loader)) == 4
"""


def dataset_of(*arguments: Any, **options: Any) -> ClipDataset:
    return ClipDataset(plan_of(*arguments, **{"shuffle": False, **options}), backend=FlatDecoder())


def iterate_passes(dataset: ClipDataset, passes: int) -> None:
    for _ in range(passes):
        assert len(list(DataLoader(dataset, batch_size=2))) == -(-len(dataset) // 2)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What was printed to standard error in each case."""
    program = tmp_path_factory.mktemp("program") / "program.py"
    program.write_text(PROGRAM)
    path = os.pathsep.join([str(ROOT), *(name for name in sys.path if name)])
    ran = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", str(program), *CASES],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    parts = ran.stderr.split("== ")[1:]
    return {name: text for name, _, text in (part.partition("\n") for part in parts)}


@pytest.mark.parametrize("case", CASES)
def test_workers_count_together_and_one_warns(case: str, printed: dict[str, str]) -> None:
    assert printed[case].count(WARNING) == CASES[case], printed


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
