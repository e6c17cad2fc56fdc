"""ClipLoader: every delivered frame is the planned one, by its stamp, and its columns are correct."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from framefeed.errors import CorruptMedia, UsageError
from framefeed.load._loader import ClipLoader
from framefeed.load._options import MAX_PREFETCH_BYTES, LoaderOptions
from framefeed.plan import AtIndices, EveryFrame, Rates, Uniform, plan_clips, plan_requests
from framefeed.request import DecodeRequest
from tests.fakes import FlatDecoder
from tests.load.laws import content, load_all
from tests.makers import FRAMES, assert_stamps, catalog, plan_of
from tests.parallel.living import wait_until

RULES = {
    "random segments": plan_of,
    "rates": lambda: plan_of(Rates([(5, 3), (15, 4)])),
    "videos": lambda: plan_of(shuffle="videos"),
    "frames": lambda: plan_of(EveryFrame(), clips_per_video=1, world_size=4),
    "one rank of two": lambda: plan_of(rank=1, world_size=2),
}


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("name", RULES)
def test_every_frame_is_the_planned_one(name: str, workers: int) -> None:
    with ClipLoader(RULES[name](), batch_size=5, workers=workers) as loader:
        for _ in range(2):
            plan, position = loader.plan, 0
            for batch in loader:
                for slot in range(len(batch)):
                    assert_stamps(plan, position, batch.data[slot])
                    position += 1
            assert position == len(plan)


@pytest.mark.parametrize(
    ("options", "lengths"),
    [({}, (5, 2)), ({"drop_last": True}, (5, 5)), ({"batch_size": 6}, (6, 6)), ({"batch_size": 99}, (12,))],
)
def test_the_numbers_of_clips_of_batches_are_known_before(options: dict[str, Any], lengths: tuple[int, ...]) -> None:
    with ClipLoader(plan_of(), **{"batch_size": 5, **options}) as loader:
        assert loader.describe_batches().lengths == lengths


def test_what_travels_beside_the_pictures_is_that_of_the_plan() -> None:
    plan = plan_of(AtIndices([0, 29, 30, 31]), rank=1, world_size=2)
    batches = load_all(plan, batch_size=4, workers=2, backend=FlatDecoder())
    assert [len(batch) for batch in batches] == [4, 2]
    for number, position in enumerate(range(len(plan))):
        batch, slot = batches[number // 4], number % 4
        request = plan[position]
        assert batch.sources[slot] == request.source
        assert batch.positions[slot] == plan.global_position(position)
        assert batch.rows[slot] == plan[position].row
        assert batch.columns["label"][slot] == plan.columns_at(position)["label"]
        np.testing.assert_array_equal(batch.pts_seconds[slot], request.pts_seconds)
        assert batch.valid[slot].tolist() == [True, True, False, False]
    first = batches[0]
    shape = (4, 4, 3, 48, 64)
    assert (first.data.shape, first.data.dtype, first.data.flags.writeable) == (shape, np.uint8, True)
    assert (first.pts_seconds.dtype, first.valid.dtype, first.ok.dtype) == (np.float64, np.bool_, np.bool_)
    assert [first.positions.dtype, first.rows.dtype, first.columns["label"].dtype] == [np.int64] * 3
    assert (first.ok.all(), first.errors) == (True, [None] * 4)
    assert repr(first) == "ClipBatch((4, 4, 3, 48, 64) uint8, label)"


def test_a_batch_answers_how_others_are_used() -> None:
    with ClipLoader(plan_of(), batch_size=4, workers=0, backend=FlatDecoder()) as loader:
        batch = next(iter(loader))
        assert batch["label"] is batch.columns["label"]
        with pytest.raises(UsageError, match=r"no column 'labels', only \['label'\]; did you mean 'label'\?$"):
            batch["labels"]
        with pytest.raises(
            UsageError, match=r"no column 'split', only .*; for another one, plan with columns=\['split'\]"
        ):
            batch["split"]
        with pytest.raises(
            UsageError, match=r"^data is not a column of the plan, but an attribute: write batch\.data$"
        ):
            batch["data"]
        with pytest.raises(AttributeError, match=r'no attribute \'labels\': write batch\["label"\]'):
            getattr(batch, "labels")  # noqa: B009  # mypy knows that there is none
        with pytest.raises(TypeError, match=r"batch\[\"label\"\] a column.*ff\.torch\.ClipDataset\(plan, target="):
            for _clips, _labels in loader:  # type: ignore[misc]  # the wrong call
                pass
        with pytest.raises(
            AttributeError, match=r"torch\.from_numpy\(batch\.data\)\.to\(device\).*ff\.torch\.ClipDataset"
        ):
            batch.to("cpu")  # type: ignore[attr-defined]  # the wrong call
    # Frameworks ask for these, and call or iterate what has them.
    assert not isinstance(batch, Iterable)
    assert not hasattr(batch, "to")
    assert content(copy.deepcopy(batch)) == content(batch) == content(pickle.loads(pickle.dumps(batch)))


def test_the_clips_of_a_source_in_a_batch_are_one_call_of_the_decoder() -> None:
    decoder = FlatDecoder()
    with ClipLoader(plan_of(shuffle="videos"), batch_size=4, workers=2, backend=decoder) as loader:
        for _ in loader:
            pass
    assert sorted(count for _, count in decoder.calls) == [2] * 6
    assert len({name for name, _ in decoder.calls}) == 6


def test_decoders_write_into_the_memory_of_the_batch() -> None:
    addresses: list[int] = []

    class Spy(FlatDecoder):
        def decode(self, source: Any, index: Any, slots: Any) -> Any:
            addresses.extend(slot.out.__array_interface__["data"][0] for slot in slots)
            return super().decode(source, index, slots)

    (batch,) = load_all(plan_of(), batch_size=12, workers=0, backend=Spy())
    start, step = batch.data.__array_interface__["data"][0], batch.data.strides[0]
    assert sorted(addresses) == [start + slot * step for slot in range(12)]


@pytest.mark.parametrize(
    ("batch_size", "drop_last", "sizes"), [(5, False, [5, 5, 2]), (5, True, [5, 5]), (6, True, [6, 6])]
)
def test_sizes_of_batches(batch_size: int, drop_last: bool, sizes: list[int]) -> None:
    loader = ClipLoader(plan_of(), batch_size=batch_size, drop_last=drop_last, workers=0, backend=FlatDecoder())
    assert [len(batch) for batch in loader] == sizes
    assert len(loader) == len(sizes)


def test_a_plan_without_a_clip_is_an_epoch_without_a_batch() -> None:
    loader = ClipLoader(plan_of(world_size=13, tail="drop"), batch_size=2, workers=2)
    assert (list(loader), len(loader), loader.epoch) == ([], 0, 1)


def _unequal() -> Any:
    return plan_requests([DecodeRequest(source=catalog()[0], indices=range(count)) for count in (2, 2, 3, 3)])


def test_requests_of_different_lengths_go_into_different_batches() -> None:
    with ClipLoader(_unequal(), batch_size=2, workers=2) as loader:
        assert [batch.data.shape[:2] for batch in loader] == [(2, 2), (2, 3)]
    with ClipLoader(_unequal(), batch_size=4, workers=2) as loader:
        with pytest.raises(UsageError, match="position 0 of the plan has 2 and position 2 has 3"):
            list(loader)
        assert loader.epoch == 0


def test_L03_no_more_threads_than_asked_for() -> None:
    names: set[str] = set()
    decoder = FlatDecoder(before=lambda source: names.add(threading.current_thread().name))
    with ClipLoader(plan_of(), batch_size=2, workers=2, backend=decoder) as loader:
        for _ in range(2):
            list(loader)
    assert 1 <= len(names) <= 2
    assert threading.current_thread().name not in names


@pytest.mark.parametrize("prefetch", [1, 2, 3])
@pytest.mark.parametrize("workers", [0, 2])
def test_L19_no_more_batches_are_made_ahead_than_asked_for(prefetch: int, workers: int) -> None:
    decoder = FlatDecoder()
    loader = ClipLoader(plan_of(), batch_size=2, prefetch=prefetch, workers=workers, backend=decoder)
    iterator = iter(loader)
    assert not decoder.calls
    next(iterator)
    loader.close()  # waits for what is being decoded
    ahead = prefetch if workers else 0
    assert 2 <= sum(count for _, count in decoder.calls) <= 2 * (1 + ahead)


def test_parts_of_a_catalog_are_queues_whose_producers_wait_for_the_consumer() -> None:
    batch_size, prefetch = 2, 3
    sources: list[str] = []
    for part in catalog().split({"train": 0.4, "validation": 0.3, "test": 0.3}, seed=1, stratify="label").values():
        plan, decoder = plan_clips(part, Uniform(4), clips_per_video=20, seed=0), FlatDecoder()
        sources += {request.source for request in plan}
        ahead, taken = batch_size * prefetch, []
        with ClipLoader(plan, batch_size=batch_size, workers=4, prefetch=prefetch, backend=decoder) as loader:
            for number, batch in enumerate(loader, 1):
                taken += batch.positions.tolist()
                if number <= 3:
                    # The consumer stops: the producers fill the queue, and do no more.
                    # One item of the bound is the one that is delivered next.
                    wait_until(lambda: loader.stats().ready >= ahead - 1 and not loader.stats().running)  # noqa: B023 - called now
                    assert loader.stats().max_ahead == ahead
                    assert len(taken) < sum(clips for _, clips in decoder.calls) <= len(taken) + ahead < len(plan)
        assert sorted(taken) == list(range(len(plan)))
    assert len(sources) == len(set(sources)) == len(catalog())


def test_batches_made_ahead_are_bounded_in_bytes_too() -> None:
    options = LoaderOptions(batch_size=1, prefetch=8)
    half, all_of_it = MAX_PREFETCH_BYTES // 2, MAX_PREFETCH_BYTES
    assert [options.batches_ahead(size) for size in (0, 1000, half, half + 1, all_of_it, 9 * all_of_it)] == [
        8,
        8,
        2,
        1,
        1,
        1,
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batch_size": 0}, "batch_size: expected an integer of at least 1"),
        ({"batch_size": 2.5}, "batch_size: expected an integer"),
        ({"batch_size": True}, "batch_size: expected an integer of at least 1"),
        ({"workers": -1}, "workers"),
        ({"workers": "many"}, "workers"),
        ({"prefetch": 0}, "workers=0 prepares nothing ahead"),
        ({"kind": "processes", "workers": 1, "transform": lambda clip, rng: clip}, "transform: .* cannot be sent"),
        ({"kind": "processes", "workers": 1, "backend": FlatDecoder(lambda name: None)}, "backend: .* cannot be sent"),
        ({"kind": "greenlets"}, "kind: expected 'threads' or 'processes'"),
        ({"backend": "none such"}, "unknown backend"),
        ({"backend": 7}, "backend: expected"),
        ({"transform": 7}, "transform: expected"),
        ({"deadline_seconds": 0}, "deadline_seconds"),
    ],
)
def test_wrong_arguments_raise_at_once(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ClipLoader(plan_of(), **{"batch_size": 2, **wrong})


def test_a_plan_must_be_a_plan() -> None:
    with pytest.raises(UsageError, match="plan_clips"):
        ClipLoader([1, 2], batch_size=2)  # type: ignore[arg-type]


def test_auto_takes_the_thread_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMEFEED_THREADS", "3")
    assert "workers=3" in repr(ClipLoader(plan_of(), batch_size=FRAMES))


@pytest.mark.parametrize("world_size", [1, 2, 5])
@pytest.mark.parametrize("tail", ["pad", "drop"])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_L14_all_ranks_take_the_same_number_of_steps(world_size: int, tail: str, on_error: Any) -> None:
    spoil = FlatDecoder(spoil=lambda ordinals: CorruptMedia("spoiled") if sum(ordinals) % 4 == 0 else None)
    decoder = spoil if on_error == "skip" else FlatDecoder()
    steps, seen = set(), []
    for rank in range(world_size):
        plan = plan_of(rank=rank, world_size=world_size, tail=tail)
        loader = ClipLoader(plan, batch_size=2, workers=0, backend=decoder, on_error=on_error)
        batches = list(loader)
        steps.add((len(batches), sum(map(len, batches))))
        seen += [position for batch in batches for position in batch.positions.tolist()]
    assert len(steps) == 1
    every = set(range(12))
    assert set(seen) == every if tail == "pad" else (len(seen) == len(set(seen)) and set(seen) <= every)


@dataclass(frozen=True)
class _EveryOther(AtIndices):
    """A rule of a user that does not say how many frames a clip has."""

    @property
    def num_frames(self) -> int | None:
        return None


def test_a_rule_that_does_not_say_its_length_is_asked_for_each_batch() -> None:
    plan = plan_of(rule=_EveryOther([0, 2, 4]), clips_per_video=1)
    assert plan.frames_per_clip is None
    with ClipLoader(plan, batch_size=4, workers=0, backend=FlatDecoder()) as loader:
        batches = list(loader)
    assert {batch.data.shape[1] for batch in batches} == {3}
    for batch in batches:
        expected = [plan.whole[position].pts_seconds for position in batch.positions.tolist()]
        assert np.array_equal(batch.pts_seconds, expected)


def test_clips_without_a_length_that_all_fail_are_one_black_frame() -> None:
    plan = plan_of(rule=_EveryOther([99], policy="error"), clips_per_video=1)
    with ClipLoader(plan, batch_size=4, workers=0, backend=FlatDecoder(), on_error="skip") as loader:
        for batch in loader:
            assert not batch.ok.any()
            assert batch.data.shape[1] == batch.valid.shape[1] == 1
            assert not batch.data.any()
