"""Lightning's Trainer takes ClipLoader and our DataLoader: two ranks, on CPU, with gloo (see lightning_ranks.py)."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import chain, pairwise
from typing import Any

import pytest

from tests.adapters.ranks import CHECKPOINTS, EPOCHS, NUM_ITEMS, STEPS_OF_AN_EPOCH, report_of_ranks

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_spec("lightning") is None, reason="needs lightning")]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return report_of_ranks("tests.adapters.lightning_ranks", tmp_path_factory.mktemp("lightning"))


def samples_of(seen: list[Any], epoch: int) -> list[Any]:
    return list(chain.from_iterable(batch for number, batch in seen if number == epoch))


def test_a_clip_loader_gives_the_trainer_what_a_loop_gets(ranks: list[Any]) -> None:
    for rank in ranks:
        assert rank["clips"]["whole"] == rank["clips"]["expected"]


def test_buckets_are_given_to_the_trainer_as_a_loop_gets_them(ranks: list[Any]) -> None:
    for rank in ranks:
        expected, whole = rank["buckets"]["expected"], rank["buckets"]["whole"]
        assert whole == expected
        assert rank["buckets"]["resumed"] == whole[6:]


def test_ranks_are_disjoint_and_cover_the_epoch(ranks: list[Any]) -> None:
    for epoch in range(EPOCHS):
        positions = [[clip[0] for clip in samples_of(rank["clips"]["whole"], epoch)] for rank in ranks]
        assert sorted(chain(*positions)) == list(range(18))


@pytest.mark.parametrize("kind", ["clips", "dataset"])
def test_epochs_differ(kind: str, ranks: list[Any]) -> None:
    for rank in ranks:
        epochs = [samples_of(rank[kind]["whole"], epoch) for epoch in range(EPOCHS)]
        assert all(one != other for one, other in pairwise(epochs))


def test_epochs_that_the_trainer_cuts_short_are_different_epochs(ranks: list[Any]) -> None:
    for rank in ranks:
        expected = rank["clips"]["expected"]
        first_two = [batch for epoch in range(EPOCHS) for batch in [each for each in expected if each[0] == epoch][:2]]
        assert rank["clips"]["cut"] == first_two
        first_two = [each for number, each in enumerate(rank["numbers"]["whole"]) if number % STEPS_OF_AN_EPOCH < 2]
        assert rank["numbers"]["hook"] == first_two


@pytest.mark.parametrize(
    ("kind", "checkpoint"),
    [
        (kind, checkpoint)
        for kind, every in (("clips", 1), ("numbers", 1), ("dataset", 2))
        for checkpoint in CHECKPOINTS[::every]
    ],
)
def test_a_checkpoint_resumes_after_its_step(kind: str, checkpoint: str, ranks: list[Any]) -> None:
    what, number = checkpoint.split("=")
    step = int(number) if what == "step" else (int(number) + 1) * STEPS_OF_AN_EPOCH
    for rank in ranks:
        whole = rank[kind]["whole"]
        assert len(whole) == EPOCHS * STEPS_OF_AN_EPOCH
        assert rank[kind]["resumed"][checkpoint] == whole[step:]


def test_our_threads_load_for_the_trainer(ranks: list[Any]) -> None:
    for rank in ranks:
        assert rank["clips"]["threads"]
        assert all(name.startswith("framefeed-") for name in rank["clips"]["threads"])
        assert all(name.startswith("framefeed-") for name in rank["numbers"]["threads"])
        assert rank["numbers"]["processes"] == 1


def test_the_trainer_rebuilds_our_data_loader_for_its_ranks(ranks: list[Any]) -> None:
    for rank in ranks:
        assert rank["numbers"]["is_rebuilt"]
        assert rank["numbers"]["class"] == "framefeed.adapters.torch._data_loader.DataLoader"
    for epoch in range(EPOCHS):
        samples = [samples_of(rank["numbers"]["whole"], epoch) for rank in ranks]
        # Lightning's sampler gives each rank as many: one item more than there are is the first again.
        assert sorted(set(chain(*samples))) == list(range(NUM_ITEMS))
        assert len(list(chain(*samples))) == NUM_ITEMS + NUM_ITEMS % 2
    for rank in ranks:
        epochs = [samples_of(rank["numbers"]["whole"], epoch) for epoch in range(EPOCHS)]
        assert len({tuple(epoch) for epoch in epochs}) == EPOCHS
