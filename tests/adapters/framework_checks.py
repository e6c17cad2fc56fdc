"""Shared by the tests of the batches under TensorFlow and under JAX."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import framefeed as ff
from framefeed.bench.baselines import load_module
from framefeed.load import ClipLoader
from framefeed.testing import make_folder
from tests.conftest import CHECKOUT
from tests.makers import plan_of
from tests.test_docs import PAGES, blocks_of


def making_loaders(batch_size: int) -> Iterator[Callable[..., ClipLoader]]:
    """Yield a function that makes loaders, as a fixture does, and close them at the end."""
    made: list[ClipLoader] = []

    def make(plan: ff.EpochPlan | None = None, **options: Any) -> ClipLoader:
        made.append(ff.ClipLoader(plan or plan_of(), **{"batch_size": batch_size, "workers": 2, **options}))
        return made[-1]

    yield make
    for loader in made:
        loader.close()


def list_expected(batch: ff.ClipBatch) -> dict[str, Any]:
    """List the arrays that a framework is to give of a batch."""
    names = ("data", "pts_seconds", "valid", "positions", "ok", "boxes", "flipped")
    arrays = {name: getattr(batch, name) for name in names}
    return {**{name: array for name, array in arrays.items() if array is not None}, **batch.columns}


def check_finished_pictures(
    batch_size: int,
    iterate: Callable[[ClipLoader], Iterable[Any]],
    assert_same: Callable[[Any, ff.ClipBatch], None],
) -> None:
    """Check that normalised pictures with a border come with their boxes and flips, and bfloat16 is refused.

    Args:
        batch_size: Clips of a batch.
        iterate: Gives the batches of a loader in the framework's arrays.
        assert_same: Compares one of these with the loader's.
    """
    plan = plan_of(size=ff.Letterbox(40, 71), horizontal_flip=0.5)
    options: dict[str, Any] = {"batch_size": batch_size, "workers": 0}
    for dtype in ("float32", "float16"):
        given = {"dtype": dtype, "mean": 0.4, "std": (0.1, 0.2, 0.3), **options}
        with ClipLoader(plan, **given) as loader, ClipLoader(plan, **given) as reference:
            for arrays, batch in zip(iterate(loader), reference, strict=True):
                assert (batch.data.dtype, batch.boxes.shape[1:], batch.flipped.dtype) == (dtype, (4,), bool)
                assert_same(arrays, batch)
    loader = ClipLoader(plan, dtype="bfloat16", **options)
    with loader, pytest.raises(ff.UsageError, match=r"bfloat16.* PyTorch"):
        iterate(loader)


def assert_bench_measures_whole_epochs(framework: str, loader: ClipLoader) -> None:
    epochs = load_module(f"benchmarks.peers.{framework}").open_epochs(loader)
    assert [len(list(epochs())) for _ in range(2)] == [3, 3]
    assert loader.epoch == 2


def check_programs_of_docs(framework: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the blocks of the docs that import a framework as scripts in a folder with videos; at least one is there."""
    blocks = [block for page in PAGES for block in blocks_of(page) if block.needs == framework and block.reason is None]
    assert blocks
    make_folder(folder / "videos", videos_per_class=3, seconds=4.0)
    monkeypatch.chdir(folder)
    for block in blocks:
        assert "# -> " not in block.code, f"{block.place}: promises are not checked in a script"
        exec(compile(block.code, block.place, "exec"), {"__name__": "__main__"})  # noqa: S102 - running them is the point


def assert_signature_is_in_reference(name: str, function: Callable[..., Any]) -> None:
    given = inspect.signature(function)
    plain = given.replace(
        parameters=[each.replace(annotation=inspect.Parameter.empty) for each in given.parameters.values()],
        return_annotation=inspect.Signature.empty,
    )
    text = f"{name}{plain}".replace("'", '"')
    assert f"```signature\n{text}\n```" in (CHECKOUT / "docs" / "reference.md").read_text(encoding="utf-8")
