"""What comes out of DALI is what the loader gives: any batch size, epoch, rank; resumed as uninterrupted."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from operator import length_hint
from typing import Any

import numpy as np
import pytest

import framefeed as ff
from framefeed.load import ClipBatch
from tests.lengths import either
from tests.load.laws import EPOCHS
from tests.makers import plan_of

pytest.importorskip("nvidia.dali", reason="DALI is not installed: make dali runs this in .venv-dali")

Content = dict[str, tuple[Any, ...]]
MakePipe = Callable[..., Any]


def content(arrays: dict[str, Any]) -> Content:
    """Arrays by name, as values that can be compared."""
    return {
        name: (array.shape, array.dtype.str, array.tobytes())
        for name, array in ((name, np.asarray(each)) for name, each in arrays.items())
    }


def content_of_batch(batch: ClipBatch) -> Content:
    own = {"clip": batch.data, "pts_seconds": batch.pts_seconds, "position": batch.positions, "ok": batch.ok}
    return content({**own, **batch.columns})


def run_loader(plan: ff.EpochPlan, batch_size: int) -> list[Content]:
    with ff.ClipLoader(plan, batch_size=batch_size, workers=0) as loader:
        return [content_of_batch(batch) for _ in range(EPOCHS) for batch in loader]


def iterate_to_end(pipe: Any) -> Iterator[tuple[Content, str]]:
    """Run a pipeline to the end of the last epoch; yield the content of each batch, and the state after it."""
    batches = ff.dali.iterate(pipe)
    while pipe.source.loader.epoch < EPOCHS:
        for batch in batches:
            yield content(batch), json.dumps(batches.state_dict())


@pytest.mark.parametrize(
    ("batch_size", "rank", "world_size"), [(1, 0, 1), (5, 0, 1), (50, 0, 1), (4, 1, 2), (12, 2, 5)]
)
def test_clips_through_dali_are_the_loaders(make_pipe: MakePipe, batch_size: int, rank: int, world_size: int) -> None:
    plan = plan_of(rank=rank, world_size=world_size)
    pipe = make_pipe(plan, batch_size=batch_size)
    assert [each for each, _ in iterate_to_end(pipe)] == run_loader(plan, batch_size)


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_any_number_of_workers_gives_the_same(make_pipe: MakePipe, workers: int) -> None:
    assert [each for each, _ in iterate_to_end(make_pipe(workers=workers))] == run_loader(plan_of(), 5)


@pytest.mark.parametrize("batch_size", [1, 5, 50])
def test_L13_resumed_is_uninterrupted_from_every_state(make_pipe: MakePipe, batch_size: int) -> None:
    pipe = make_pipe(batch_size=batch_size)
    states = [json.dumps(ff.dali.iterate(pipe).state_dict())]
    delivered = []
    for batch, state in iterate_to_end(pipe):
        delivered.append(batch)
        states.append(state)
    assert delivered == run_loader(plan_of(), batch_size)
    for count, state in enumerate(states):
        resumed = make_pipe(batch_size=batch_size)
        ff.dali.iterate(resumed).load_state_dict(json.loads(state))
        assert [each for each, _ in iterate_to_end(resumed)] == delivered[count:], f"from state {count}"
        resumed.close()


class ByLoader:
    """The calls of a loop, done by a ClipLoader."""

    def __init__(self) -> None:
        self.batches: Any = ff.ClipLoader(plan_of(), batch_size=5, workers=0)
        self._running: Any = iter(())

    def do(self, call: str, given: Any) -> Any:
        if call == "begin":
            self._running = iter(self.batches)
        elif call == "next":
            batch = next(self._running, None)
            if not length_hint(self._running, 1):
                next(self._running, None)  # through DALI, an epoch ends with its last batch
            return None if batch is None else self.find_positions(batch)
        elif call == "exhaust":
            self._running = iter(())
            return [self.find_positions(batch) for batch in self.batches]
        elif call == "load":
            self.batches.load_state_dict(given)
            self._running = iter(())
        elif call == "set epoch":
            self.batches.set_epoch(given)
            self._running = iter(())
        return json.dumps(self.batches.state_dict())

    def find_positions(self, batch: Any) -> list[int]:
        positions: list[int] = batch.positions.tolist()
        return positions

    def close(self) -> None:
        self.batches.close()


class ByDali(ByLoader):
    """The same, done by a DALI pipeline."""

    def __init__(self) -> None:
        self.pipe = ff.dali.pipeline(plan_of(), batch_size=5, workers=1)
        self.batches = ff.dali.iterate(self.pipe)
        self._running = iter(())

    def find_positions(self, batch: Any) -> list[int]:
        positions: list[int] = batch["position"].tolist()
        return positions

    def close(self) -> None:
        self.pipe.close()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(either(short=4, long=24)))
def test_L13_any_calls_give_what_a_loader_gives(seed: int) -> None:
    chance = random.Random(seed)
    one, other = ByLoader(), ByDali()
    states: list[str] = [json.dumps(one.batches.state_dict())]
    try:
        for step in range(40):
            call = chance.choice(["begin", "next", "next", "next", "exhaust", "load", "set epoch", "state"])
            given = chance.randrange(4) if call == "set epoch" else json.loads(chance.choice(states))
            found = [each.do(call, given) for each in (one, other)]
            assert found[0] == found[1], f"step {step}: {call}"
            states.append(json.dumps(one.batches.state_dict()))
            assert states[-1] == json.dumps(other.batches.state_dict()), f"the state after step {step}: {call}"
    finally:
        one.close()
        other.close()
