"""Shared by the tests of the batches under TensorFlow and under JAX."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import framefeed as ff
from framefeed.bench.baselines import load_module
from framefeed.load import ClipLoader
from tests.conftest import CHECKOUT
from tests.load.media import plan_of


def making_loaders(batch_size: int) -> Iterator[Callable[..., ClipLoader]]:
    """Yield a function that makes loaders, as a fixture does, and close them at the end."""
    made: list[ClipLoader] = []

    def make(plan: ff.EpochPlan | None = None, **options: Any) -> ClipLoader:
        made.append(ff.ClipLoader(plan or plan_of(), **{"batch_size": batch_size, "workers": 2, **options}))
        return made[-1]

    yield make
    for loader in made:
        loader.close()


def assert_bench_measures_whole_epochs(framework: str, loader: ClipLoader) -> None:
    epochs = load_module(f"benchmarks.peers.{framework}").open_epochs(loader)
    assert [len(list(epochs())) for _ in range(2)] == [3, 3]
    assert loader.epoch == 2


def assert_signature_is_in_reference(name: str, function: Callable[..., Any]) -> None:
    given = inspect.signature(function)
    plain = given.replace(
        parameters=[each.replace(annotation=inspect.Parameter.empty) for each in given.parameters.values()],
        return_annotation=inspect.Signature.empty,
    )
    assert f"```signature\n{name}{plain}\n```" in (CHECKOUT / "docs" / "reference.md").read_text(encoding="utf-8")
