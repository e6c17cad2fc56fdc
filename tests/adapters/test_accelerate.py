"""Accelerate takes ClipLoader and our DataLoader: two ranks, on CPU, with gloo (see accelerate_ranks.py)."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import chain, pairwise
from typing import Any

import pytest

from tests.adapters.ranks import EPOCHS, NUM_ITEMS, report_of_ranks

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_spec("accelerate") is None, reason="needs accelerate")]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return report_of_ranks("tests.adapters.accelerate_ranks", tmp_path_factory.mktemp("accelerate"))


def test_our_threads_load_for_the_loader_that_accelerate_rebuilt(ranks: list[Any]) -> None:
    for rank in ranks:
        assert rank["numbers"]["class"] == "DataLoaderShard"
        assert rank["numbers"]["threads"]
        assert all(name.startswith("framefeed-") for name in rank["numbers"]["threads"])
        assert rank["numbers"]["processes"] == 1


def test_ranks_are_disjoint_and_cover_the_epoch(ranks: list[Any]) -> None:
    for epoch in range(EPOCHS):
        items = [list(chain(*rank["numbers"]["epochs"][epoch])) for rank in ranks]
        assert sorted(set(chain(*items))) == list(range(NUM_ITEMS))
        # Accelerate fills the last batches of all ranks with the first items.
        assert len(items[0]) == len(items[1])
        assert len(list(chain(*items))) <= NUM_ITEMS + 3
        clips = [clip[0] for rank in ranks for batch in rank["clips"]["epochs"][epoch] for clip in batch]
        assert sorted(clips) == list(range(18))
        positions = [clip[0] for rank in ranks for clip in rank["dataset"]["epochs"][epoch]]
        assert sorted(set(positions)) == list(range(18))


@pytest.mark.parametrize("kind", ["numbers", "dataset", "clips"])
def test_epochs_differ(kind: str, ranks: list[Any]) -> None:
    for rank in ranks:
        assert len(rank[kind]["epochs"]) == EPOCHS
        assert all(one != other for one, other in pairwise(rank[kind]["epochs"]))


@pytest.mark.parametrize("kind", ["numbers", "clips"])
def test_a_state_resumes_after_its_step(kind: str, ranks: list[Any]) -> None:
    for rank in ranks:
        epochs = rank[kind]["epochs"]
        assert rank[kind]["resumed"] == {step: [epochs[1][int(step) :], epochs[2]] for step in ("1", "3")}


def test_a_clip_loader_stays_what_it_is(ranks: list[Any]) -> None:
    assert [rank["clips"]["class"] for rank in ranks] == ["ClipLoader", "ClipLoader"]
