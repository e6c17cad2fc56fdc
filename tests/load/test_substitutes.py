"""D04: a clip that fails is replaced by another of the epoch, which seed, epoch and position alone decide."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from framefeed.errors import CorruptMedia, DeadlineExceeded, FramefeedError, LoadError, ResourceExhausted, UsageError
from framefeed.load._batch import ClipBatch
from framefeed.load._loader import ClipLoader
from framefeed.load._options import MAX_SUBSTITUTES
from framefeed.plan import EpochPlan, plan_requests
from framefeed.request import DecodeRequest
from tests.fakes import FlatDecoder, SlopedDecoder, add_noise, spoil_nothing
from tests.load import faulty
from tests.load.laws import content
from tests.makers import VIDEOS, catalog, plan_of
from tests.parallel.clocks import HandClock
from tests.parallel.living import wait_until
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.usefixtures("kept_processes")


def fail_some(ordinals: list[int]) -> FramefeedError | None:
    return CorruptMedia("spoiled", frames=ordinals) if sum(ordinals) % 2 else None


def fail_all(ordinals: list[int]) -> FramefeedError | None:
    return CorruptMedia("spoiled", frames=ordinals)


def make_loader(plan: EpochPlan, spoil: Callable[[list[int]], FramefeedError | None], **options: Any) -> ClipLoader:
    given = {"batch_size": 4, "workers": 0, "on_error": "substitute", "backend": SlopedDecoder(spoil=spoil), **options}
    return ClipLoader(plan, **given)


def load(plan: EpochPlan, spoil: Callable[[list[int]], FramefeedError | None], **options: Any) -> list[ClipBatch]:
    with make_loader(plan, spoil, **options) as loader:
        return list(loader)


def list_clips(batches: list[ClipBatch]) -> dict[int, tuple[Any, ...]]:
    """All that batches say of each clip, by its position."""
    clips = {}
    for batch in batches:
        for slot, position in enumerate(batch.positions.tolist()):
            parts = (batch.data, batch.pts_seconds, batch.valid, batch.rows, batch["label"])
            clips[position] = (*(part[slot].tobytes() for part in parts), batch.sources[slot], bool(batch.ok[slot]))
    return clips


def find_substitute(plan: EpochPlan, position: int) -> int | None:
    """Find the clip for a position in the plainest way: the first that does not fail."""
    tries = [position, *(plan.order.choose_substitute(position, number) for number in range(MAX_SUBSTITUTES))]
    return next((each for each in tries if fail_some(plan.whole[each].indices.tolist()) is None), None)


@pytest.mark.parametrize("transform", [None, add_noise])
@pytest.mark.parametrize("options", [{}, {"unequal": True, "size": None}, {"horizontal_flip": 0.5}])
def test_D04_a_failed_clip_is_replaced_by_the_first_that_loads(transform: Any, options: dict[str, Any]) -> None:
    plan = plan_of(clips_per_video=5, **options)
    sound = list_clips(load(plan, lambda ordinals: None, transform=transform))
    with make_loader(plan, fail_some, transform=transform) as loader:
        given = list_clips(list(loader))
        entries = {entry.position: entry for entry in loader.ledger}
    expected = {position: find_substitute(plan, position) for position in range(len(plan))}
    assert None not in expected.values()
    assert given == {position: sound[each] for position, each in expected.items() if each is not None}
    replaced = {position: each for position, each in expected.items() if position != each}
    assert {position: entry.substitute for position, entry in entries.items()} == replaced
    assert {entry.action for entry in entries.values()} == {"substituted"}
    assert all(entry.source == sound[position][-2] for position, entry in entries.items())
    assert all(entry.reason.startswith("CorruptMedia: ") for entry in entries.values())
    assert len(replaced) > 5


@pytest.mark.parametrize(
    ("kind", "workers"), [("threads", 1), ("threads", 3), pytest.param("processes", 2, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("transform", [None, add_noise])
def test_D04_substitutes_do_not_depend_on_workers(kind: str, workers: int, transform: Any) -> None:
    plan = plan_of(clips_per_video=5)
    alone = load(plan, fail_some, transform=transform)
    others = load(plan, fail_some, transform=transform, kind=kind, workers=workers)
    assert list(map(content, others)) == list(map(content, alone))


def test_D04_a_clip_for_which_something_ran_out_is_not_substituted() -> None:
    plan = plan_of()
    failing = plan[1].indices.tolist()

    def spoil(ordinals: list[int]) -> FramefeedError | None:
        return ResourceExhausted("no memory") if ordinals == failing else None

    with make_loader(plan, spoil) as loader:
        with pytest.raises(ResourceExhausted, match=r"no memory \(clip at position 1\)"):
            next(iter(loader))
        assert len(loader.ledger) == 0


def test_D04_substitutes_do_not_depend_on_ranks_and_batches() -> None:
    whole = list_clips(load(plan_of(clips_per_video=5), fail_some))
    for world_size in (2, 3):
        for rank in range(world_size):
            plan = plan_of(clips_per_video=5, rank=rank, world_size=world_size)
            given = list_clips(load(plan, fail_some, batch_size=world_size))
            assert given == {position: whole[position] for position in given}


def test_D04_substitutes_differ_between_epochs_and_are_not_the_clip_itself() -> None:
    plan = plan_of(clips_per_video=50)
    chosen = [
        [plan.with_epoch(epoch).order.choose_substitute(position, 0) for position in range(300)] for epoch in (0, 1)
    ]
    assert chosen[0] != chosen[1]
    assert all(position != each for each_epoch in chosen for position, each in enumerate(each_epoch))
    assert len(set(chosen[0])) > 150
    assert plan.with_epoch(0).order.choose_substitute(3, 0) != plan.order.choose_substitute(3, 1)


def test_D04_where_all_clips_fail_they_are_zeros_and_the_run_ends() -> None:
    plan = plan_of()
    with make_loader(plan, fail_all, workers=2) as loader:
        batches = list(loader)
        assert [batch.ok.any() or batch.data.any() for batch in batches] == [False] * len(batches)
        assert [len(batch) for batch in batches] == [4, 4, 4]
        assert {(entry.action, entry.substitute) for entry in loader.ledger} == {("skipped", None)}
        assert len(loader.ledger) == len(plan)
    own = [position for batch in batches for position in batch.positions.tolist()]
    sources = [source for batch in batches for source in batch.sources]
    assert sources == [plan.whole[position].source for position in own]
    errors = [str(error) for batch in batches for error in batch.errors]
    assert all(f"(clip at position {position})" in error for position, error in zip(own, errors, strict=True))


def test_D04_a_plan_of_one_clip_has_no_substitute() -> None:
    plan = plan_requests([DecodeRequest(source=catalog()[0], indices=[1, 2])])
    [batch] = load(plan, fail_some)
    assert batch.ok.tolist() == [False]


def test_D04_a_substitute_has_as_many_frames() -> None:
    requests = [DecodeRequest(source=catalog()[row], indices=[row] * (2 + row // 3)) for row in range(VIDEOS)]
    requests += [DecodeRequest(source=catalog()[0], indices=[4, 6])] * 6
    plan = plan_requests(requests)
    with make_loader(plan, lambda ordinals: CorruptMedia("x") if ordinals == [1, 1] else None, batch_size=1) as loader:
        for position, batch in enumerate(loader):
            assert batch.valid.shape == (1, len(requests[position]))
            assert batch.ok.all()
        [entry] = loader.ledger
    assert len(requests[entry.substitute or 0]) == 2


def test_D04_max_failed_counts_clips_that_were_replaced() -> None:
    plan = plan_of(clips_per_video=5)
    with make_loader(plan, fail_some, max_failed=3) as loader, pytest.raises(LoadError, match="more than max_failed=3"):
        list(loader)
    assert 4 <= len(loader.ledger) <= 7
    with make_loader(plan, fail_some, max_failed=1.0) as loader:
        assert len(list_clips(list(loader))) == len(plan)


def fail_with_shortage(ordinals: list[int]) -> FramefeedError | None:
    return ResourceExhausted("no memory") if sum(ordinals) % 3 == 0 else fail_some(ordinals)


@pytest.mark.parametrize("workers", [0, 2])
def test_D04_a_shortage_is_raised_and_nothing_is_replaced_for_it(workers: int) -> None:
    with make_loader(plan_of(clips_per_video=5), fail_with_shortage, workers=workers) as loader:
        iterator, raised = iter(loader), 0
        for _ in range(len(loader)):
            try:
                batch = next(iterator)
                assert batch.ok.all()
            except ResourceExhausted:
                raised += 1
        assert raised
        with pytest.raises(StopIteration):
            next(iterator)


def test_D04_a_run_resumed_between_substitutes_is_the_uninterrupted_one() -> None:
    plan = plan_of(clips_per_video=5)
    whole = load(plan, fail_some)
    with make_loader(plan, fail_some) as loader:
        iterator = iter(loader)
        for _ in range(3):
            next(iterator)
        state = loader.state_dict()
    with make_loader(plan, fail_some, workers=2) as loader:
        loader.load_state_dict(state)
        assert list(map(content, loader)) == list(map(content, whole[3:]))


@pytest.mark.slow
def test_D04_D06_clips_of_a_source_that_kills_its_workers_are_replaced(tmp_path: Path) -> None:
    plan = plan_of()
    bad = str(catalog().source(2))
    sound = list_clips(load(plan, spoil_nothing, backend=FlatDecoder()))
    decoder = faulty.FaultyDecoder({bad: "kill"}, tmp_path)
    options: dict[str, Any] = {"batch_size": 4, "workers": 2, "kind": "processes", "on_error": "substitute"}
    with ClipLoader(plan, backend=decoder, **options) as loader:
        given = list_clips(list(loader))
        entries = {entry.position: entry.substitute for entry in loader.ledger}
    assert {position for position in range(len(plan)) if plan.whole[position].source == bad} == set(entries)
    for position, clip in given.items():
        chosen = entries.get(position, position)
        tries = [plan.order.choose_substitute(position, number) for number in range(MAX_SUBSTITUTES)]
        assert chosen == position or chosen == next(each for each in tries if plan.whole[each].source != bad)
        assert chosen is not None
        assert clip == sound[chosen]


@pytest.mark.parametrize("error", [ResourceExhausted("no memory"), UsageError("do otherwise")])
def test_D04_what_says_nothing_about_a_substitute_is_raised_and_no_other_is_chosen_for_it(
    error: FramefeedError,
) -> None:
    # The first clip of the first batch, and its first substitute.
    faults = {0: CorruptMedia("spoiled"), 4: error}
    calls = itertools.count()
    with make_loader(plan_of(clips_per_video=5), lambda ordinals: faults.get(next(calls))) as loader:
        iterator = iter(loader)
        with pytest.raises(type(error)):
            next(iterator)
        assert not loader.ledger
        assert next(iterator).ok.all()


def test_D04_a_substitute_that_hangs_is_named(hand_clock: HandClock) -> None:
    plan, proceed = plan_of(clips_per_video=5), threading.Event()
    failing = 1
    substitute = plan.whole[plan.order.choose_substitute(failing, 0)]
    assert plan.order.choose_substitute(failing, 0) > 7

    def spoil(ordinals: list[int]) -> FramefeedError | None:
        if ordinals == substitute.indices.tolist():
            # From now on time passes for the thread that waits.
            hand_clock.advance_at_each_read(61)
            proceed.wait(PATIENCE_SECONDS)
        return CorruptMedia("spoiled") if ordinals == plan.whole[failing].indices.tolist() else None

    with make_loader(plan, spoil, workers=1, prefetch=1, deadline_seconds=60) as loader:
        iterator = iter(loader)
        try:
            with pytest.raises(DeadlineExceeded, match="the clip at position 1 was not ready") as caught:
                next(iterator)
        finally:
            hand_clock.advance_at_each_read(0)
            proceed.set()
        with pytest.raises(UsageError, match="has ended"):
            next(iterator)
    assert (caught.value.position, caught.value.source) == (failing, substitute.source)


def test_D04_a_substitute_is_decoded_before_the_clips_that_are_prepared_ahead() -> None:
    plan = plan_of(clips_per_video=1)
    decoded: list[list[int]] = []
    substitute = plan.whole[plan.order.choose_substitute(0, 0)].indices.tolist()

    def spoil(ordinals: list[int]) -> FramefeedError | None:
        decoded.append(ordinals)
        if len(decoded) == 3 and ordinals != substitute:
            # The first call of the second batch ends when the substitute waits, unless that was faster.
            wait_until(lambda: bool(loader._workers.pool._urgent))
        return CorruptMedia("spoiled") if len(decoded) == 1 else None

    with make_loader(plan, spoil, batch_size=2, prefetch=3, workers=1) as loader:
        next(iter(loader))
    assert substitute in decoded[2:4]
