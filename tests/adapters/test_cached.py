"""ClipDataset with a cache in PyTorch's DataLoader: workers of any kind read and write one folder."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from framefeed.adapters.torch._clip_dataset import ClipDataset
from framefeed.cache import FrameCache
from framefeed.errors import UsageError
from framefeed.plan import Dense
from tests.makers import plan_of

pytestmark = [
    # Passes over the same epoch are compared here; test_set_epoch.py is about the warning.
    pytest.mark.filterwarnings("ignore:this ClipDataset delivered"),
    # tests/cache/test_reuse.py is about the warning of plans that draw other frames in each epoch.
    pytest.mark.filterwarnings("ignore:cache. about"),
]


def load_clips(dataset: ClipDataset, **options: Any) -> list[torch.Tensor]:
    return [batch["data"] for batch in DataLoader(dataset, batch_size=3, **options)]


def assert_equal(clips: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    assert len(clips) == len(expected)
    for clip, wanted in zip(clips, expected, strict=True):
        assert torch.equal(clip, wanted)


@pytest.mark.parametrize(("workers", "method"), [(0, None), (2, "fork")])
def test_C05_workers_fill_and_read_one_cache(workers: int, method: str | None, tmp_path: Path) -> None:
    plan = plan_of(Dense(4, stride=2, start="random"), size=(24, 32))
    expected = load_clips(ClipDataset(plan))
    options = {"num_workers": workers, "multiprocessing_context": method}
    with FrameCache(tmp_path / "c") as cache:
        dataset = ClipDataset(plan, cache=cache)
        assert_equal(load_clips(dataset, **options), expected)
        if not workers:
            cache.flush()
        assert not [name for name in (tmp_path / "c").iterdir() if name.suffix == ".new"], "workers seal when they end"
        info = cache.info()
        assert info.num_frames > 0
        assert_equal(load_clips(dataset, **options), expected)
        assert cache.info().num_frames == info.num_frames, "the second pass had nothing to store"
        assert_equal(load_clips(dataset), expected)
        if workers:
            assert cache.stats().hit_rate == 1


class CountingCache(FrameCache):
    flushed = 0

    def flush(self) -> None:
        self.flushed += 1
        super().flush()


def test_an_epoch_that_is_not_announced_seals_once(tmp_path: Path) -> None:
    with CountingCache(tmp_path / "c") as cache:
        dataset = ClipDataset(plan_of(size=(24, 32)), cache=cache)
        for epoch in range(3):
            load_clips(dataset)
            assert cache.flushed == epoch


def test_persistent_workers_seal_at_the_next_epoch(tmp_path: Path) -> None:
    plan = plan_of(size=(24, 32))
    with FrameCache(tmp_path / "c") as cache:
        dataset = ClipDataset(plan, cache=cache)
        loader = DataLoader(dataset, batch_size=3, num_workers=2, persistent_workers=True,
                            multiprocessing_context="fork")  # fmt: skip
        for epoch in range(3):
            dataset.set_epoch(epoch)
            expected = [batch["data"] for batch in DataLoader(ClipDataset(plan.with_epoch(epoch)), batch_size=3)]
            assert_equal([batch["data"] for batch in loader], expected)
        assert cache.info().num_frames > 0
        del loader


def test_persistent_workers_seal_when_positions_come_again(tmp_path: Path) -> None:
    """Epochs without ``set_epoch``: the worker sees them by the positions that it gives again."""
    plan = plan_of(Dense(4, stride=2, start=0), size=(24, 32))
    with FrameCache(tmp_path / "c") as cache:
        dataset = ClipDataset(plan, cache=cache)
        loader = DataLoader(dataset, batch_size=3, num_workers=1, persistent_workers=True,
                            multiprocessing_context="fork")  # fmt: skip
        passes = [[batch["data"] for batch in loader]]
        assert cache.info().num_frames == 0, "the worker keeps its open segment to itself"
        passes.append([batch["data"] for batch in loader])
        assert cache.info().num_frames > 0, "the second pass begins with what the first has stored"
        for clips in passes:
            assert_equal(clips, load_clips(ClipDataset(plan)))
        del loader


def test_an_open_segment_of_the_parent_stays_its_own(tmp_path: Path) -> None:
    plan = plan_of(size=(24, 32))
    expected = load_clips(ClipDataset(plan))
    with FrameCache(tmp_path / "c") as cache:
        dataset = ClipDataset(plan, cache=cache)
        _ = dataset[0]
        assert_equal(load_clips(dataset, num_workers=2, multiprocessing_context="fork"), expected)
        _ = dataset[1]
        cache.flush()
        assert cache.verify().damaged == {}
        assert_equal(load_clips(dataset), expected)


def test_a_dataset_with_a_cache_pickles(tmp_path: Path) -> None:
    dataset = ClipDataset(plan_of(), cache=FrameCache(tmp_path / "c", codec="lz4", max_bytes="1GB"))
    again = pickle.loads(pickle.dumps(dataset))
    assert torch.equal(again[0]["data"], dataset[0]["data"])


def test_what_is_no_cache_is_refused() -> None:
    with pytest.raises(UsageError, match=r"ff\.FrameCache"):
        ClipDataset(plan_of(), cache="cache/")  # type: ignore[arg-type]


def test_a_dataset_warns_once_of_frames_that_differ_in_each_epoch(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"^cache: about \d+ % of the next epoch's frames") as shown:
        ClipDataset(plan_of(), cache=FrameCache(tmp_path / "c"))
    assert [each.filename for each in shown] == [__file__]
