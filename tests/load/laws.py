"""Check the laws of a loader, for any factory of loaders: order, and that a resumed run equals an uninterrupted one.

`check_resume` restores from every state that a run can save; `test_laws.py` also feeds it loaders that are wrong on
purpose, because a law that nothing breaks says nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from framefeed.load._batch import ClipBatch
from framefeed.load._loader import ClipLoader
from framefeed.plan import EpochPlan

EPOCHS = 2

MakeLoader = Callable[[int], ClipLoader]
"""Makes a loader with so many workers."""


def content(batch: ClipBatch) -> tuple[Any, ...]:
    """All that a batch says, as a value."""
    arrays = {"data": batch.data, "pts": batch.pts_seconds, "valid": batch.valid, "positions": batch.positions}
    arrays |= {"rows": batch.rows, "ok": batch.ok, "draw": batch.draw}
    arrays |= {name: np.array(column) for name, column in batch.columns.items()}
    arrays |= {name: some for name in ("boxes", "flipped") if (some := getattr(batch, name)) is not None}
    errors = [error and (type(error), str(error), error.position, error.stage) for error in batch.errors]
    parts = [
        (name, array.shape, array.dtype.str, repr(array.tolist()) if array.dtype == object else array.tobytes())
        for name, array in arrays.items()
    ]
    return (*parts, batch.bucket, tuple(batch.sources), tuple(errors))


def load_all(plan: EpochPlan, **options: Any) -> list[ClipBatch]:
    """The batches of an epoch; by default of five clips, without workers."""
    with ClipLoader(plan, **{"batch_size": 5, "workers": 0, **options}) as loader:
        return list(loader)


def iterate_to_end(loader: ClipLoader) -> Iterator[tuple[int, Any]]:
    """Run a loader to the end of the last epoch; yield (epoch, content) of each batch."""
    while loader.epoch < EPOCHS:
        for batch in loader:
            yield loader.epoch, content(batch)


def dump_state(loader: ClipLoader) -> str:
    """The state as it lies in a file."""
    text = json.dumps(loader.state_dict())
    assert len(text) < 1024
    return text


def run(make: MakeLoader, workers: int = 0) -> list[tuple[int, Any]]:
    """Everything that a new loader delivers."""
    with make(workers) as loader:
        return list(iterate_to_end(loader))


def run_resumed(make: MakeLoader, state: str, workers: int = 0) -> list[tuple[int, Any]]:
    """Everything that a new loader delivers from a state on."""
    with make(workers) as loader:
        loader.load_state_dict(json.loads(state))
        return list(iterate_to_end(loader))


def check_resume(make: MakeLoader, expected: list[tuple[int, Any]] | None = None) -> None:
    """Restore from every state of a run, saved within the loop, between epochs, unused and exhausted."""
    states: list[tuple[str, int]] = []
    delivered: list[tuple[int, Any]] = []
    with make(2) as loader:
        states.append((dump_state(loader), 0))
        for item in iterate_to_end(loader):
            delivered.append(item)
            states.append((dump_state(loader), len(delivered)))
        states.append((dump_state(loader), len(delivered)))
    assert delivered == (run(make) if expected is None else expected)
    for number, (state, count) in enumerate(states):
        assert run_resumed(make, state, workers=number % 3) == delivered[count:], f"from state {number}: {state}"


def check_successive(make: MakeLoader, steps: list[int]) -> None:
    """Break off after each number of batches, save, and go on in a new loader: together the uninterrupted run."""
    expected = run(make)
    state: str | None = None
    together: list[tuple[int, Any]] = []
    for number, step in enumerate([*steps, len(expected)]):
        with make(number % 3) as loader:
            if state is not None:
                loader.load_state_dict(json.loads(state))
            for item, _ in zip(iterate_to_end(loader), range(step), strict=False):
                together.append(item)
                state = dump_state(loader)
    assert together == expected
