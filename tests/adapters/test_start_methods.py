"""Workers of PyTorch's DataLoader that are not forked from the program: what is pickled for them gives the same.

All of these tests stand here: the server, and a worker that is spawned, import PyTorch, which takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from framefeed.adapters.torch import ClipDataset, LeRobotDataset
from framefeed.cache import FrameCache
from framefeed.compat.torchvision import Kinetics
from framefeed.errors import CorruptMedia
from framefeed.plan import Dense
from framefeed.testing import make_lerobot
from tests.adapters.test_clip_dataset import check_epochs_of_persistent_workers
from tests.adapters.test_lent_batches import are_lent, assert_same, dataset_of, find_memory
from tests.adapters.test_set_epoch import count_warnings
from tests.fakes import FlatDecoder
from tests.makers import folder, plan_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:this .*Dataset delivered"),
    pytest.mark.filterwarnings("ignore:cache. about"),
]
WORKER: dict[str, Any] = {"num_workers": 1, "multiprocessing_context": "forkserver"}
TOP = "observation.images.top"


def fail_some(ordinals: list[int]) -> CorruptMedia | None:
    return CorruptMedia("spoiled") if sum(ordinals) % 3 == 0 else None


def as_tensor(pictures: Any) -> torch.Tensor:
    return torch.rand(1) + torch.tensor([sum(picture.getextrema()[0]) for picture in pictures])


DATA_SETS: dict[str, Callable[[Path], Any]] = {
    "pictures": lambda root: ClipDataset(plan_of(), "label", as_tensor, output="pil"),
    "substitutes": lambda root: ClipDataset(
        plan_of(), backend=FlatDecoder(spoil=fail_some), on_error="substitute", dtype="float32"
    ),
    "lerobot": lambda root: LeRobotDataset(
        "me/data", make_lerobot(root, episodes=(9, 5), cameras=[TOP]), delta_timestamps={TOP: [0.0, 0.1]}
    ),
    "kinetics": lambda root: Kinetics(folder(), 16, step_between_clips=7, extensions=("mp4",), _legacy=True),
}


@pytest.mark.parametrize("name", DATA_SETS)
def test_batches_are_those_of_the_program(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    dataset = DATA_SETS[name](tmp_path / "data")
    for batch, other in zip(DataLoader(dataset, 4, **WORKER), DataLoader(dataset, 4), strict=True):
        assert_same(batch, other)


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_L12_persistent_workers_of_any_start_method_see_the_epoch(method: str) -> None:
    check_epochs_of_persistent_workers(1, method)


def test_D04_the_parent_sees_what_was_skipped() -> None:
    dataset = ClipDataset(plan_of(), backend=FlatDecoder(spoil=fail_some), on_error="skip", max_failed=11)
    batches = list(DataLoader(dataset, 4, **WORKER))
    failed = [int(position) for batch in batches for position in batch["position"][~batch["ok"]]]
    assert failed
    assert [(entry.position, entry.action) for entry in dataset.ledger] == [(each, "skipped") for each in failed]


def test_C05_a_worker_fills_and_reads_a_cache(tmp_path: Path) -> None:
    plan = plan_of(Dense(4, stride=2, start="random"), size=(24, 32))
    expected = list(DataLoader(ClipDataset(plan), 3))
    with FrameCache(tmp_path / "c") as cache:
        for _ in range(2):
            for batch, other in zip(DataLoader(ClipDataset(plan, cache=cache), 3, **WORKER), expected, strict=True):
                assert_same(batch, other)
            assert not [name for name in (tmp_path / "c").iterdir() if name.suffix == ".part"], "sealed at the end"
        assert cache.info().num_frames > 0
        list(DataLoader(ClipDataset(plan, cache=cache)))
        assert cache.stats().hit_rate == 1


def test_batches_are_in_lent_memory_that_is_used_again() -> None:
    dataset = dataset_of(dtype="float32")
    expected = list(DataLoader(dataset, 4))
    loader = DataLoader(dataset, 4, persistent_workers=True, **WORKER)
    files = set()
    for _ in range(3):
        for batch, other in zip(loader, expected, strict=True):
            assert_same(batch, other)
            assert are_lent([batch]) == {True}
            files.add(find_memory(batch))
            batch["data"].fill_(-1)
    assert len(files) < 3 * len(expected)


@pytest.mark.parametrize("sets", [False, True])
def test_workers_count_together_and_one_warns(sets: bool, tmp_path: Path) -> None:
    options: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "forkserver", "persistent_workers": sets}
    assert count_warnings(tmp_path, sets=sets, **options) == (not sets)
