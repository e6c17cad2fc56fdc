"""L13: what remains of an epoch is what no rank delivered, however its runs stopped and were dealt."""

from __future__ import annotations

import json
import random
from functools import cache
from itertools import islice
from typing import Any

import pytest

from framefeed.errors import UsageError
from framefeed.load._loader import ClipLoader
from framefeed.load._state import BatchRanges
from framefeed.plan import Dense, plan_clips
from tests.fakes import FakeCatalog, FlatDecoder, steady_index
from tests.lengths import IS_ALL, either

CLIPS = 26
VIDEOS = [(60, 12), (300, 150), (60, 60), (500, 250), (90, 1), (40, 5), (200, 25), (70, 70), (80, 2), (64, 8), (99, 33),
          (120, 3), (44, 44)]  # fmt: skip
"""(number of frames, distance of key frames) of each video, so that ``balance="cost"`` has something to order."""


@cache
def catalog() -> Any:
    return FakeCatalog(
        [steady_index(frames, gop=gop) for frames, gop in VIDEOS],
        sizes=(8, 8),
        columns={
            "num_key_frames": [-(-frames // gop) for frames, gop in VIDEOS],
            "bytes": [frames * 1000 for frames, _ in VIDEOS],
            "average_fps": [25.0] * len(VIDEOS),
            "codec": ["h264"] * len(VIDEOS),
            "kind": ["video"] * len(VIDEOS),
        },
    )


def make_loader(rank: int, world_size: int, batch_size: int = 1, drop_last: bool = False, **dealt: Any) -> ClipLoader:
    plan = plan_clips(catalog(), Dense(1), seed=3, clips_per_video=2, rank=rank, world_size=world_size, **dealt)
    return ClipLoader(plan, batch_size=batch_size, drop_last=drop_last, workers=0, backend=FlatDecoder())


def list_rest(state: Any, shuffle: Any) -> list[int]:
    """The positions that one rank delivers from a state."""
    with make_loader(0, 1, shuffle=shuffle) as loader:
        loader.load_state_dict(state)
        epoch = loader.epoch
        rest = [position for batch in loader for position in batch.positions.tolist()]
        assert loader.epoch == epoch + 1 or not rest
        return rest if epoch == 0 else []


class Run:
    """Ranks that stop after any number of batches, each at its own."""

    def __init__(self, draw: random.Random, shuffle: Any, state: Any, remaining: list[int], dealt: int) -> None:
        self.world_size = draw.randint(1, 5)
        self.unit = 2 if shuffle == "videos" else 1
        options = {"tail": draw.choice(["pad", "drop"]), "balance": draw.choice([None, "cost"]), "shuffle": shuffle}
        size, drop_last = draw.randint(1, 3), draw.random() < 0.3
        self.text = f"{self.world_size} ranks, batch_size={size}, drop_last={drop_last}, {options}"
        self.states: list[Any] = []
        self.delivered: set[int] = set()
        steps, self.are_finished, self.are_together = draw.randint(0, 6), True, draw.random() < 0.5
        for rank in range(self.world_size):
            with make_loader(rank, self.world_size, size, drop_last, **options) as loader:
                if state is not None:
                    loader.load_state_dict(state)
                begin = loader.state_dict()["clips"]
                # Ranks that go on with their own sequence were dealt it before.
                self.dealt = dealt if begin else len(remaining)
                steps = steps if self.are_together else draw.randint(0, 6)
                self._run(rank, loader, begin, steps, asks_again=draw.random() < 0.5)

    def _run(self, rank: int, loader: ClipLoader, begin: int, steps: int, *, asks_again: bool) -> None:
        share = [loader.plan.global_position(number) for number in range(len(loader.plan))]
        batches = iter(loader)
        num_batches, seen = batches.__length_hint__(), []
        for _ in range(min(steps, num_batches)):
            seen += next(batches).positions.tolist()
        assert seen == share[begin : begin + len(seen)]
        is_finished = steps >= num_batches
        if is_finished and asks_again:
            assert next(batches, None) is None
        self.text += f"; rank {rank}: {steps} of {num_batches}{', asked again' if asks_again else ''}"
        self.are_finished &= is_finished
        self.states.append(json.loads(json.dumps(loader.state_dict())))
        for number in range(begin, len(share) if is_finished else begin + len(seen)):
            in_deal = (number // self.unit * self.world_size + rank) * self.unit + number % self.unit
            if in_deal < self.dealt:  # not a pad
                self.delivered.add(share[number])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(either(short=40 if IS_ALL else 20, long=1000)))
def test_L13_the_rest_of_an_epoch_is_what_no_rank_delivered(seed: int) -> None:
    draw = random.Random(seed)
    shuffle = draw.choice([True, False, "videos"])
    remaining, state, dealt, history = list(range(CLIPS)), None, CLIPS, f"shuffle={shuffle}"
    for _ in range(4):
        run = Run(draw, shuffle, state, remaining, dealt)
        history += f"\n{run.text}"
        assert run.delivered <= set(remaining), history
        dealt = run.dealt
        remaining = [] if run.are_finished else [each for each in remaining if each not in run.delivered]
        state = draw.sample(run.states, len(run.states))
        if run.are_together and draw.random() < 0.5:
            state = state[0]
        assert list_rest(state, shuffle) == remaining, history
        if not remaining:
            break


def save_ranks(steps: list[int], **options: Any) -> list[Any]:
    """The states of ranks after so many calls of ``next``."""
    states = []
    for rank, number in enumerate(steps):
        with make_loader(rank, len(steps), **options) as loader:
            batches = iter(loader)
            for _ in range(number):
                next(batches, None)
            states.append(loader.state_dict())
    return states


@pytest.mark.parametrize("steps", [(5, 5, 5, 0, 5), (6, 6, 5, 0, 6)])
def test_L13_what_was_not_dealt_remains_also_when_some_ranks_ended_their_loop(steps: tuple[int, ...]) -> None:
    # 25 of 26 clips are dealt.
    states = save_ranks(list(steps), tail="drop", shuffle=False)
    assert list_rest(states, shuffle=False) == [3, 8, 13, 18, 23, 25]


@pytest.mark.parametrize("steps", [[0, 1], [1, 0], [1, 1]])
def test_L13_a_rank_without_a_whole_batch_may_begin_the_next_epoch(steps: list[int]) -> None:
    assert list_rest(save_ranks(steps, batch_size=14, drop_last=True), shuffle=True) == []


def test_L13_a_finished_rank_and_one_that_resumed_in_the_next_epoch_are_of_two_runs() -> None:
    finished = save_ranks([13, 13])[0]
    with make_loader(1, 2) as loader:
        resumed = ClipLoader(loader.plan.with_epoch(1).without(1), batch_size=1, workers=0, backend=FlatDecoder())
        with resumed, pytest.raises(UsageError, match=r"all ranks of one run in one epoch, got epochs \[0, 1\]"):
            loader.load_state_dict([finished, resumed.state_dict()])


def test_the_batches_of_an_iteration_are_a_sequence() -> None:
    assert list(islice(BatchRanges(3, 10, 3, drop_last=False), 9)) == [range(3, 6), range(6, 9), range(9, 10)]
    ranges = BatchRanges(3, 10, 3, drop_last=True)
    assert (list(islice(ranges, 9)), ranges[-1]) == ([range(3, 6), range(6, 9)], range(6, 9))
    with pytest.raises(IndexError):
        ranges[2]
