"""L13, L14: a run that stops anywhere goes on with any number of workers and ranks, and any batch size."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from framefeed.errors import UsageError
from framefeed.load._batch import ClipBatch
from framefeed.load._loader import ClipLoader
from tests.fakes import FlatDecoder, add_noise
from tests.lengths import either
from tests.makers import plan_of
from tests.plan.dealing import Epoch

pytestmark = pytest.mark.usefixtures("kept_processes")

CLIPS = 12
"""Clips of an epoch of `plan_of`."""

_OPEN: list[ClipLoader] = []

State = dict[str, Any] | list[dict[str, Any]] | None


@pytest.fixture(autouse=True)
def closing_loaders() -> Iterator[None]:
    yield
    close_loaders()


def close_loaders() -> None:
    while _OPEN:
        _OPEN.pop().close()


def make_ranks(world_size: int, **options: Any) -> list[ClipLoader]:
    given = {"batch_size": 2, "workers": 0, "transform": add_noise, **options}
    of_plan = {name: given.pop(name) for name in ("tail", "shuffle", "clips_per_video") if name in given}
    loaders = [
        ClipLoader(plan_of(rank=rank, world_size=world_size, **of_plan), backend=FlatDecoder(), **given)
        for rank in range(world_size)
    ]
    _OPEN.extend(loaders)
    return loaders


def take_batches(loader: ClipLoader, steps: int) -> list[ClipBatch]:
    return [batch for _, batch in zip(range(steps), loader, strict=False)]


def load_states(loaders: Sequence[ClipLoader], state: State) -> None:
    for loader in loaders if state is not None else ():
        loader.load_state_dict(json.loads(json.dumps(state)))


def run(loaders: Sequence[ClipLoader], steps: Sequence[int]) -> tuple[list[list[ClipBatch]], list[dict[str, Any]]]:
    """Deliver batches on every rank; return the batches and the states of all ranks."""
    batches = [take_batches(loader, number) for loader, number in zip(loaders, steps, strict=True)]
    return batches, [loader.state_dict() for loader in loaders]


def list_clips(batches: Sequence[ClipBatch]) -> Iterator[tuple[int, Any]]:
    for batch in batches:
        for slot, position in enumerate(batch.positions.tolist()):
            yield (
                position,
                (batch.data[slot].tobytes(), batch.pts_seconds[slot].tobytes(), batch.columns["label"][slot]),
            )


def list_positions(batches: Sequence[ClipBatch]) -> list[int]:
    return [position for position, _ in list_clips(batches)]


WHOLE = dict(list_clips(take_batches(make_ranks(1)[0], CLIPS)))
"""Each clip of the epoch by its global position."""


def check_rest(epoch: Epoch, loaders: Sequence[ClipLoader], tail: str = "pad") -> None:
    """The ranks deliver the rest of an epoch as the oracle deals it, and each clip is that of its position."""
    dealt = epoch.deal(len(loaders), tail)
    for loader, share in zip(loaders, dealt, strict=True):
        before, epoch_before, delivered = len(loader), loader.epoch, loader.state_dict()["delivered"]
        batches = take_batches(loader, 99)
        assert list_positions(batches) == [position for position, _ in share]
        assert [len(batch) for batch in batches[:-1]] == [loader.batch_size] * (len(batches) - 1)
        assert before == delivered + len(batches)
        assert (loader.epoch, len(loader)) == (epoch_before + 1, -(-len(loader.plan) // loader.batch_size))
        assert all(clip == WHOLE[position] for position, clip in list_clips(batches))


def take_from(epoch: Epoch, world_size: int, batches: Sequence[Sequence[ClipBatch]], tail: str = "pad") -> None:
    shares = epoch.deal(world_size, tail)
    epoch.deliver([share[: len(list_positions(some))] for share, some in zip(shares, batches, strict=True)])


def check_resume(before: int, steps: int, after: int, workers: int, **kind: Any) -> None:
    """Stop some ranks after some steps, and go on with others, of another batch size and number of workers."""
    batches, states = run(make_ranks(before, workers=workers, **kind), [steps] * before)
    epoch = Epoch(CLIPS)
    take_from(epoch, before, batches)
    loaders = make_ranks(after, batch_size=1 + (steps + after) % 4, workers=(workers + 1) % 4, **kind)
    load_states(loaders, states if steps % 2 else states[-1])
    check_rest(epoch, loaders)
    close_loaders()


@pytest.mark.parametrize("before", [1, 2, 3])
def test_L13_every_state_of_any_world_resumes_in_any_world_with_any_workers(before: int) -> None:
    for steps in range(CLIPS // before // 2 + 1):
        for after in (1, 2, 3):
            for workers in range(either(short=1, long=4)):
                check_resume(before, steps, after, (steps + after + workers) % 4)


STOPS = [
    (before, steps, after) for before in (1, 2, 3) for steps in range(CLIPS // before // 2 + 1) for after in (1, 2, 3)
]
"""Ranks before a stop, their steps, and ranks after it."""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("before", "steps", "after"), either(short=[(2, 1, 1)], long=STOPS))
def test_L13_processes_resume_what_threads_resume(before: int, steps: int, after: int) -> None:
    check_resume(before, steps, after, either(short=0, long=(before + steps + after) % 4), kind="processes")


@pytest.mark.slow
def test_L13_a_rest_is_loaded_by_processes_after_a_whole_epoch() -> None:
    [first] = make_ranks(2)[:1]
    take_batches(first, 2)
    [loader] = make_ranks(1, workers=1, kind="processes")
    for _ in range(2):
        # The worker process has the plan of an epoch, and then of its rest, once or again.
        loader.load_state_dict(first.state_dict())
        rest = dict(list_clips(list(loader)))
        assert rest == {position: WHOLE[position] for position in sorted(WHOLE)[8:]}
        assert len(list_positions(list(loader))) == CLIPS


@pytest.mark.parametrize("steps", [[0, 3], [2, 1, 3], [1, 1, 0]])
@pytest.mark.parametrize("after", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_L13_ranks_at_different_steps_resume_from_all_their_states(
    steps: list[int], after: int, batch_size: int
) -> None:
    batches, states = run(make_ranks(len(steps), batch_size=batch_size), steps)
    epoch = Epoch(CLIPS)
    take_from(epoch, len(steps), batches)
    loaders = make_ranks(after, batch_size=2)
    load_states(loaders, states[::-1])
    check_rest(epoch, loaders)


@pytest.mark.parametrize("shuffle", [True, "videos"])
@pytest.mark.parametrize("tail", ["pad", "drop"])
def test_L13_three_resumes_in_a_row(shuffle: Any, tail: str) -> None:
    order = {"shuffle": shuffle, "tail": tail, "clips_per_video": 2}
    whole = dict(list_clips(take_batches(make_ranks(1, **order)[0], CLIPS)))
    epoch = Epoch(CLIPS, 2 if shuffle == "videos" else 1)
    state: State = None
    for world_size, batch_size, steps in ((2, 1, [1, 1]), (3, 1, [1, 0, 1]), (4, 1, [1] * 4)):
        loaders = make_ranks(world_size, batch_size=batch_size, workers=batch_size, **order)
        load_states(loaders, state)
        batches, states = run(loaders, steps)
        take_from(epoch, world_size, batches, tail)
        assert all(clip == whole[position] for some in batches for position, clip in list_clips(some))
        state = states if len(set(steps)) > 1 else states[0]
    assert 0 < len(epoch.remaining) < CLIPS - 6
    for world_size in (1, 2, 3):
        loaders = make_ranks(world_size, batch_size=2, **order)
        load_states(loaders, state)
        shares = [list_positions(take_batches(loader, 99)) for loader in loaders]
        assert shares == [[position for position, _ in share] for share in epoch.deal(world_size, tail)]


@pytest.mark.parametrize("batch_size", [1, 3, 5])
def test_L13_the_same_ranks_continue_their_own_sequence_inside_a_video(batch_size: int) -> None:
    # 3 clips of 4 of a video are delivered when each rank stops.
    order = {"shuffle": "videos", "clips_per_video": 4}
    for rank in (0, 1):
        expected = list_positions(take_batches(make_ranks(2, batch_size=1, **order)[rank], 99))
        loader = make_ranks(2, batch_size=3, **order)[rank]
        take_batches(loader, 1)
        again = make_ranks(2, batch_size=batch_size, **order)[rank]
        again.load_state_dict(loader.state_dict())
        assert len(again) == 1 + -(-9 // batch_size)
        assert list_positions(take_batches(again, 99)) == expected[3:]


def test_L13_what_drop_last_left_out_remains_only_in_an_unfinished_epoch() -> None:
    loader = make_ranks(1, batch_size=5, drop_last=True)[0]
    take_batches(loader, 1)
    [rest] = make_ranks(1, batch_size=1)
    rest.load_state_dict(loader.state_dict())
    assert len(list_positions(take_batches(rest, 99))) == CLIPS - 5
    iterator = iter(loader)
    next(iterator), next(iterator)
    rest.load_state_dict(loader.state_dict())
    assert (list(rest), rest.epoch, len(rest)) == ([], 1, CLIPS)


def test_L13_a_rank_that_is_not_finished_keeps_the_epoch_open() -> None:
    batches, states = run(make_ranks(2, batch_size=4, drop_last=True), [1, 0])
    assert [state["finished"] for state in states] == [True, False]
    epoch = Epoch(CLIPS)
    # What drop_last left out of the share of rank 0 counts as delivered: that rank has finished.
    epoch.deliver(epoch.deal(2)[:1])
    assert batches[1] == []
    loaders = make_ranks(3)
    load_states(loaders, states)
    check_rest(epoch, loaders)


def test_L13_an_epoch_that_was_resumed_elsewhere_is_followed_by_a_whole_one() -> None:
    [first] = make_ranks(1)
    take_batches(first, 2)
    ranks = make_ranks(2)
    load_states(ranks, first.state_dict())
    for loader in ranks:
        assert len(list_positions(list(loader))) == 4
        assert (loader.epoch, len(list_positions(list(loader)))) == (1, 6)


def test_L13_a_loop_after_a_break_begins_the_whole_epoch_again() -> None:
    [first] = make_ranks(1)
    take_batches(first, 2)
    loader = make_ranks(2)[0]
    loader.load_state_dict(first.state_dict())
    take_batches(loader, 1)
    assert len(list_positions(list(loader))) == 6


def test_L13_states_of_earlier_versions_are_refused() -> None:
    [loader] = make_ranks(1)
    state = loader.state_dict()
    for version in (1, 2):
        with pytest.raises(UsageError, match=f"got version {version}: states of earlier versions cannot be loaded"):
            loader.load_state_dict({**state, "plan": {**state["plan"], "version": version}})


def _change(states: list[dict[str, Any]], how: str) -> list[dict[str, Any]]:
    epoch = {"plan": {**states[1]["plan"], "epoch": 5}}
    return {
        "none": [],
        "one is missing": states[:1],
        "one twice": [states[0], states[0]],
        "one more": [*states, states[0]],
        "another epoch": [states[0], {**states[1], **epoch}],
    }[how]


@pytest.mark.parametrize("how", ["none", "one is missing", "one twice", "one more", "another epoch"])
def test_L13_a_list_that_is_not_of_every_rank_is_refused(how: str) -> None:
    _, states = run(make_ranks(2), [1, 2])
    [loader] = make_ranks(1)
    with pytest.raises(UsageError, match=r"state: expected .* rank"):
        loader.load_state_dict(_change(states, how))
    assert loader.state_dict()["clips"] == 0


@pytest.mark.parametrize(("name", "wrong"), [("epoch", None), ("epoch", "x"), ("epoch", 1.5), ("world_size", 10**12)])
def test_L13_a_damaged_state_is_refused(name: str, wrong: object) -> None:
    [loader] = make_ranks(1)
    state = loader.state_dict()
    with pytest.raises(UsageError, match="state"):
        loader.load_state_dict([{**state, "plan": {**state["plan"], name: wrong}}])
