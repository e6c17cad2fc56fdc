"""Mixtures: each part has its share at every position, in its own order, and nothing but the order is the mixture's."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import framefeed as ff
from framefeed._checks import MAX_INT64
from framefeed.errors import UsageError
from framefeed.plan import EpochPlan, _mixing, choose_stored_form, mean_clip_bytes
from framefeed.plan._mixing import MixSequence
from framefeed.testing import ClipSpec
from tests.corpus import clip_file
from tests.makers import plan_fakes, plan_over

SIZE = (16, 24)

weights = st.one_of(st.integers(1, 200), st.sampled_from([Fraction(7, 10), Fraction(1, 3), Fraction(5, 2)]))


def count_parts(sequence: MixSequence, num_parts: int) -> np.ndarray:
    """Clips of each part before each position, int64 [N + 1, K]."""
    parts, _ = sequence.locate(np.arange(sequence.num_clips))
    is_of = parts[:, np.newaxis] == np.arange(num_parts)
    return np.concatenate([np.zeros((1, num_parts), np.int64), np.cumsum(is_of, axis=0)])


@given(
    st.lists(weights.map(Fraction), min_size=1, max_size=9), st.integers(1, 700), st.integers(0, 9), st.integers(0, 3)
)
def test_after_any_position_each_part_has_its_share_within_one(
    shares: list[Fraction], num_clips: int, seed: int, epoch: int
) -> None:
    sequence = MixSequence.of(shares, num_clips, seed, epoch)
    counts = count_parts(sequence, len(shares))
    for part, share in enumerate(shares):
        exact = [position * share / sum(shares) for position in range(num_clips + 1)]
        assert all(abs(count - each) <= 1 for count, each in zip(counts[:, part].tolist(), exact, strict=True))
    assert sequence.totals.tolist() == counts[-1].tolist()


@given(st.lists(weights.map(Fraction), min_size=1, max_size=5), st.integers(1, 300), st.integers(0, 9))
def test_the_clips_of_a_part_come_in_its_own_order(shares: list[Fraction], num_clips: int, seed: int) -> None:
    sequence = MixSequence.of(shares, num_clips, seed, 0)
    parts, numbers = sequence.locate(np.arange(num_clips))
    for part in range(len(shares)):
        assert numbers[parts == part].tolist() == list(range(int((parts == part).sum())))
    for position in {0, num_clips // 2, num_clips - 1}:
        alone = sequence.locate(np.array([position]))
        assert [each.tolist() for each in alone] == [[parts[position]], [numbers[position]]]


def test_seeds_and_epochs_change_the_order() -> None:
    orders = {
        tuple(MixSequence.of([Fraction(1), Fraction(1)], 64, seed, epoch).locate(np.arange(64))[0].tolist())
        for seed in range(4)
        for epoch in range(4)
    }
    assert len(orders) == 16
    first, later = (MixSequence.of([Fraction(1), Fraction(1)], 64, 0, epoch) for epoch in (0, 7))
    assert first.parts is later.parts, "the period is computed once for all epochs"


def test_odd_weights_of_many_clips_are_rounded_to_a_period(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_mixing, "_MOST_STEPS", 64)
    shares = [Fraction(1, 1009), Fraction(500, 1009), Fraction(508, 1009)]
    sequence = MixSequence.of(shares, 10_000, 0, 0)
    assert len(sequence.parts) == 64
    assert sequence.shares.sum() == 64
    assert sequence.shares.min() == 1
    assert abs(sequence.totals[1] / 10_000 - 500 / 1009) < 2 / 64


def clips(number: int) -> list[str]:
    specs = [ClipSpec(num_frames=6 + row, width=96 + 16 * number, height=64) for row in range(2 + number)]
    return [str(clip_file(f"mixed_{number}_{row}.mp4", spec)) for row, spec in enumerate(specs)]


@cache
def catalog_of(number: int) -> ff.Catalog:
    return ff.scan([Path(name) for name in clips(number)], workers=1)


def plan_part(number: int, **options: Any) -> ff.EpochPlan:
    given = {"seed": number, "size": SIZE, "columns": ("num_frames",), **options}
    return plan_over(catalog_of(number), **{"rule": ff.Dense(2, stride=1), **given})


def mix(*shares: float, **options: Any) -> ff.EpochPlan:
    parts = [(plan_part(number), share) for number, share in enumerate(shares)]
    return ff.mix_plans(parts, **{"num_clips": 23, "seed": 5, **options})


def expect(plan: ff.EpochPlan, epochs: Sequence[int]) -> list[tuple[int, Any]]:
    """Part and request of each position of some epochs, in order: each part goes on, epoch after epoch."""
    had = [0] * len(plan.parts)
    expected = []
    for epoch in range(max(epochs) + 1):
        for part in plan.with_epoch(epoch).clips_at(np.arange(len(plan))).read_columns()["plan"].tolist():
            own = plan.parts[part]
            round_, position = divmod(had[part], len(own))
            had[part] += 1
            if epoch in epochs:
                expected.append((part, own.with_epoch(own.epoch + round_)[position]))
    return expected


def read(plan: ff.EpochPlan) -> list[tuple[int, Any]]:
    return [(int(plan.columns_at(position)["plan"]), plan[position]) for position in range(len(plan))]


@pytest.mark.parametrize("epoch", [0, 1, 4])
def test_each_part_goes_through_its_epochs(epoch: int) -> None:
    plan = mix(0.5, 0.3, 0.2)
    assert read(plan.with_epoch(epoch)) == expect(plan, [epoch])
    assert read(mix(0.5, 0.3, 0.2, epoch=epoch)) == expect(plan, [epoch])


def test_some_of_the_clips_that_were_found_are_those_found_alone() -> None:
    plan = ff.mix_plans([(mix(0.5, 0.5), 0.5), (plan_part(2), 0.5)], num_clips=40, seed=1)
    together = plan.clips_at(np.arange(40))
    for start, stop in ((0, 7), (7, 40), (39, 40)):
        some, alone = together[start:stop], plan.clips_at(np.arange(start, stop))
        assert (len(some), some.rows, some.numbers.tolist()) == (len(alone), alone.rows, alone.numbers.tolist())
        assert str(some.read_columns()) == str(alone.read_columns())
        assert some.name_rows().tolist() == alone.name_rows().tolist()
        for slot in range(len(some)):
            assert some.plan(slot) == alone.plan(slot)
        some.read_columns()["plan"][:] = 9
        some.name_rows()[:] = 9
    assert together.read_columns()["plan"].max() == 1
    assert together.name_rows().max() < 4


@pytest.mark.parametrize("epoch", [0, 2])
def test_a_mixture_of_very_many_clips_is_refused_or_right_to_its_end(epoch: int) -> None:
    most = MAX_INT64 // (epoch + 1) // 20 * 10
    made = []
    for num_clips in (most, most * 3 // 20 * 10, most * 2):
        try:
            plan = mix(9, 1, num_clips=num_clips, epoch=epoch)
        except UsageError:
            continue
        made.append(num_clips)
        # Of each ten clips, the first part has nine and the second one.
        had = [num_clips * (epoch + 1) // 10 * share - share for share in (9, 1)]
        for position in range(num_clips - 10, num_clips):
            part = int(plan.columns_at(position)["plan"])
            own = plan.parts[part]
            round_, number = divmod(had[part], len(own))
            had[part] += 1
            assert plan[position] == own.with_epoch(own.epoch + round_)[number]
    assert most in made


def test_a_part_may_begin_at_a_later_epoch() -> None:
    parts = [(plan_part(0, epoch=3), 1), (plan_part(1), 2)]
    plan = ff.mix_plans(parts, num_clips=9, seed=0)
    assert read(plan) == expect(plan, [0])
    assert next(request for part, request in read(plan) if part == 0) == parts[0][0][0]


@pytest.mark.parametrize(("world_size", "tail"), [(2, "pad"), (3, "drop"), (4, "pad")])
def test_ranks_share_an_epoch(world_size: int, tail: Any) -> None:
    whole = read(mix(0.7, 0.3))
    ranks = [mix(0.7, 0.3, rank=rank, world_size=world_size, tail=tail) for rank in range(world_size)]
    for rank in ranks:
        numbers = [rank.global_position(position) for position in range(len(rank))]
        assert read(rank) == [whole[number] for number in numbers]


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_batches_say_part_and_row(kind: Any) -> None:
    plan = mix(0.5, 0.5, num_clips=12)
    with ff.ClipLoader(plan, batch_size=5, workers=1, kind=kind) as loader:
        batches = [*loader, *loader]
    requests = expect(plan, [0, 1])
    parts = np.concatenate([batch["plan"] for batch in batches]).tolist()
    assert parts == [part for part, _ in requests]
    rows = np.concatenate([batch.rows for batch in batches]).tolist()
    sources = [source for batch in batches for source in batch.sources]
    assert sources == [request.source for _, request in requests]
    assert sources == [plan.parts[part].catalog.source(row) for part, row in zip(parts, rows, strict=True)]
    frames = np.concatenate([batch["num_frames"] for batch in batches]).tolist()
    assert frames == [int(plan.parts[part].catalog.num_frames[row]) for part, row in zip(parts, rows, strict=True)]
    for (_, request), clip in zip(requests, (clip for batch in batches for clip in batch.data), strict=True):
        with ff.VideoDecoder(request.source, size=SIZE) as decoder:
            np.testing.assert_array_equal(clip, decoder.get_frames_at(request.indices.tolist()).data)


@pytest.mark.parametrize("delivered", [0, 1, 3])
def test_a_mixture_resumes(delivered: int) -> None:
    plan = mix(0.6, 0.4, num_clips=10)
    with ff.ClipLoader(plan, batch_size=3, workers=1) as loader:
        batches = iter(loader)
        for _ in range(delivered):
            next(batches)
        state = json.loads(json.dumps(loader.state_dict()))
        expected = [batch.data.copy() for batch in batches] + [batch.data.copy() for batch in loader]
    with ff.ClipLoader(mix(0.6, 0.4, num_clips=10), batch_size=3, workers=1) as again:
        again.load_state_dict(state)
        actual = [batch.data for batch in again] + [batch.data for batch in again]
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    for other in (mix(0.5, 0.5, num_clips=10), mix(0.6, 0.4, num_clips=11), mix(0.6, 0.4, num_clips=10, seed=6)):
        with ff.ClipLoader(other, batch_size=3, workers=1) as loader, pytest.raises(UsageError, match="another plan"):
            loader.load_state_dict(state)


def test_a_state_of_16_parts_is_small() -> None:
    parts = [(plan_part(number % 3, seed=number), 1 + number) for number in range(16)]
    with ff.ClipLoader(ff.mix_plans(parts, num_clips=100, seed=1), batch_size=4) as loader:
        assert len(json.dumps(loader.state_dict())) < 1024


def test_a_mixture_travels() -> None:
    plan = mix(0.7, 0.3, epoch=2)
    again = pickle.loads(pickle.dumps(plan))
    assert read(again) == read(plan)
    assert again.fingerprint == plan.fingerprint
    assert (
        repr(again)
        == repr(plan)
        == ("EpochPlan(23 clips, mixture of 2 plans by 0.7, 0.3, seed=5, epoch=2, rank=0 of 1)")
    )


def test_a_mixture_may_be_a_part() -> None:
    inner = mix(0.5, 0.5)
    plan = ff.mix_plans([(inner, 0.5), (plan_part(2), 0.5)], num_clips=14, seed=1)
    assert read(plan) == expect(plan, [0])
    with ff.ClipLoader(plan, batch_size=14) as loader:
        [batch] = loader
    assert sorted(set(batch["plan"].tolist())) == [0, 1]
    own = [plan_part(0).catalog, plan_part(1).catalog, plan_part(2).catalog]
    names = [{catalog.source(int(row)) for catalog in own if row < len(catalog)} for row in batch.rows]
    assert all(source in each for source, each in zip(batch.sources, names, strict=True))
    assert plan.describe().clips == 14
    assert plan.parts[0] is inner
    assert mean_clip_bytes(plan) == batch.data[0].nbytes


def test_periods_of_many_mixtures_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []
    schedule = _mixing._schedule
    monkeypatch.setattr(_mixing, "_schedule", lambda *given: computed.append(given[1]) or schedule(*given))
    inner = [ff.mix_plans([(plan_part(0), 3), (plan_part(1), 4)], num_clips=5, seed=100 + seed) for seed in range(6)]
    plan = ff.mix_plans([(each, 1) for each in inner], num_clips=30, seed=99)
    assert read(plan) == read(plan)
    assert len(computed) == 7


def test_clip_datasets_and_caches_take_mixtures(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    plan = mix(0.5, 0.5, num_clips=8)
    cache_ = ff.FrameCache(tmp_path / "cache")
    ff.cache.build(plan, cache_)
    with ff.ClipLoader(plan, batch_size=8) as loader, ff.ClipLoader(plan, batch_size=8, cache=cache_) as cached:
        [fresh], [batch] = loader, cached
        np.testing.assert_array_equal(fresh.data, batch.data)
        assert (cached.stats().counts.frames_decoded, cached.stats().counts.frames_cached) == (0, 16)
    data = torch.utils.data.DataLoader(ff.torch.ClipDataset(plan), batch_size=8, num_workers=1)
    [items] = data
    assert items["plan"].tolist() == batch["plan"].tolist()
    np.testing.assert_array_equal(items["data"].numpy(), fresh.data)
    targets = [int(target) for _, target in ff.torch.ClipDataset(plan, target="plan")]
    assert targets == batch["plan"].tolist()


def test_a_clip_that_fails_names_its_source(tmp_path: Path) -> None:
    path = tmp_path / "gone.mp4"
    path.write_bytes(Path(clips(0)[0]).read_bytes())
    gone = ff.plan_clips(ff.scan(path), ff.Dense(2, stride=1), seed=0, size=SIZE, columns=("num_frames",))
    path.unlink()
    plan = ff.mix_plans([(gone, 1), (plan_part(1), 1)], num_clips=6, seed=0)
    with ff.ClipLoader(plan, batch_size=6, on_error="skip") as loader:
        [batch] = loader
    assert (batch["plan"] == np.where(batch.ok, 1, 0)).all()
    assert {entry.source for entry in loader.ledger} == {str(path)}


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf"), "1", None, True])
def test_wrong_weights_are_refused(weight: Any) -> None:
    with pytest.raises(UsageError, match=r"the weight of parts\[1\]: expected a finite number above zero"):
        ff.mix_plans([(plan_part(0), 1), (plan_part(1), weight)], num_clips=5, seed=0)


def test_parts_that_do_not_fit_together_are_refused() -> None:
    first = plan_part(0)
    listed = ff.plan_requests(
        [ff.DecodeRequest(clips(1)[0], [0, 1])], size=SIZE, columns={"num_frames": ["many"], "plan": [1]}
    )
    texts = [
        ff.plan_requests([ff.DecodeRequest(clips(number)[0], [0, 1])], size=SIZE, columns={"label": [text]})
        for number, text in enumerate(["a", "b"])
    ]
    labelled = [
        ff.plan_clips(ff.scan(Path(clips(number)[0])), ff.Uniform(2), seed=0, size=SIZE, columns=("codec",))
        for number in (0, 1)
    ]
    assert ff.mix_plans([(each, 1) for each in labelled], num_clips=2, seed=0)
    cases: list[tuple[Any, str]] = [
        (first, r"expected a list of pairs"),
        ([], r"expected a list of pairs"),
        ([first], r"parts\[0\]: expected a pair of a plan and its weight"),
        ([(first, 1), (plan_part(1, size=(8, 8)), 1)], r"the pictures of parts\[0\] and parts\[1\] differ"),
        (
            [(first, 1), (plan_part(1, rule=ff.Uniform(3)), 1)],
            r"the numbers of frames of parts\[0\] and parts\[1\] differ",
        ),
        ([(first, 1), (plan_part(1, columns=()), 1)], r"the columns of parts\[0\] and parts\[1\] differ"),
        ([(first, 1), (plan_part(1, columns=("duration_seconds",)), 1)], r"the columns of parts"),
        ([(first, 1), (listed, 1)], r"parts\[1\] has a column 'plan', which is the mixture's own"),
        ([(each, 1) for each in texts], r"the texts of the codes of column 'label' of parts\[0\] and parts"),
        ([(first, 1), (plan_part(1, rank=0, world_size=2), 1)], r"parts\[1\] is a plan of rank 0 of 2"),
        ([(first, 1), (first.without(1), 1)], r"parts\[1\] is a plan of rank 0 of 1, or of the rest"),
        ([(first, 1), (plan_part(0), 2)], r"parts\[0\] and parts\[1\] are the same plan"),
        ([(first, 1), (plan_part(1, unequal=True, size=None), 1)], r"parts\[1\] has pictures of different sizes"),
        ([(plan_part(0, size=ff.Letterbox(*SIZE)), 1), (plan_part(1), 1)], r"the borders of parts\[0\] and parts\[1\]"),
    ]
    for parts, message in cases:
        with pytest.raises(UsageError, match=message):
            ff.mix_plans(parts, num_clips=5, seed=0)
    with pytest.raises(UsageError, match="num_clips"):
        ff.mix_plans([(first, 1)], num_clips=0, seed=0)
    with pytest.raises(UsageError, match="seed: give a number"):
        ff.mix_plans([(first, 1)], num_clips=1)


def test_an_empty_part_is_refused() -> None:
    with pytest.warns(UserWarning, match="no rows"):
        empty = ff.plan_clips(catalog_of(0)[[]], ff.Uniform(2), seed=0, size=SIZE, columns=("num_frames",))
    with pytest.raises(UsageError, match=r"parts\[1\] has no clips"):
        ff.mix_plans([(plan_part(0), 1), (empty, 1)], num_clips=5, seed=0)


def test_the_catalog_of_a_mixture_says_where_to_look() -> None:
    plan = mix(0.5, 0.5)
    with pytest.raises(UsageError, match=r"catalog: this plan has several catalogs: take that of a part"):
        _ = plan.catalog
    assert replace(plan.order, epoch=3) == plan.with_epoch(3).order
    with pytest.raises(UsageError, match="is not dealt by cost"):
        plan.without(2, 2, "cost")


def test_a_state_of_a_later_epoch_goes_on_there() -> None:
    plan = mix(0.5, 0.5, num_clips=9)
    state = json.loads(json.dumps(plan.with_epoch(2).state_dict()))
    assert read(plan.with_state(state)) == expect(plan, [2])
    later = [ff.mix_plans([(plan_part(0, epoch=epoch), 1)], num_clips=9, seed=0) for epoch in (0, 1)]
    assert later[0].fingerprint != later[1].fingerprint


def test_the_epoch_after_a_resumed_one_is_whole() -> None:
    plan = mix(0.5, 0.5, num_clips=9)
    resumed = plan.with_state(json.loads(json.dumps(plan.without(4).state_dict())))
    assert read(resumed) == expect(plan, [0])[4:]
    assert read(resumed.with_epoch(1)) == expect(plan, [1])


def test_flips_and_borders_of_parts_are_told() -> None:
    parts = [(plan_part(0), 1), (plan_part(1, horizontal_flip=1.0), 1)]
    plan = ff.mix_plans(parts, num_clips=6, seed=0)
    with ff.ClipLoader(plan, batch_size=6) as loader:
        [batch] = loader
    assert batch.flipped is not None
    assert batch.flipped.tolist() == (batch["plan"] == 1).tolist()
    boxed = [(plan_part(number, size=ff.Letterbox(*SIZE)), 1) for number in range(2)]
    plan = ff.mix_plans(boxed, num_clips=6, seed=0)
    with ff.ClipLoader(plan, batch_size=6) as loader:
        [batch] = loader
    assert batch.boxes is not None
    assert [tuple(box) for box in batch.boxes.tolist()] == [plan[position].box for position in range(6)]


def test_what_a_cache_asks_of_a_mixture_is_what_its_parts_answer() -> None:
    fixed = plan_part(1, rule=ff.Uniform(2))
    parts = {"drawn": plan_part(0), "fixed": fixed, "cropped": plan_part(2, crop=ff.RandomCrop(32, 48))}
    for names in (["fixed"], ["drawn", "fixed"], ["fixed", "cropped"]):
        plan = ff.mix_plans([(parts[name], 1) for name in names], num_clips=6, seed=0)
        assert plan.clips.draws_frames == (names != ["fixed"])
        assert choose_stored_form(plan, "auto") == ("planes" if "cropped" in names else "output")


def test_parts_of_one_catalog_share_its_rows() -> None:
    parts = [(plan_part(0, seed=seed), 1) for seed in range(2)]
    plan = ff.mix_plans(parts, num_clips=8, seed=0)
    assert len(plan.catalog) == len(catalog_of(0))
    assert {plan[position].row for position in range(8)} == set(range(len(catalog_of(0))))


def test_a_mixture_remembers_few_epochs() -> None:
    parts = [(plan_fakes([5] * 3, ff.Uniform(2), seed=seed), 1) for seed in (0, 1)]
    plan = ff.mix_plans(parts, num_clips=60, seed=0)
    rows = [[clip.row for clip in plan.with_epoch(epoch)] for epoch in (*range(6), 0)]
    assert rows[0] == rows[-1]
    clips: Any = plan.clips
    assert len(clips._orders) <= 4 * len(parts), "of 70 epochs of each part"
    assert len(clips._sequences) <= 4


def test_L13_a_state_says_that_the_files_of_any_part_differ() -> None:
    def mix(lengths: list[int]) -> EpochPlan:
        parts = [plan_fakes(each, ff.Uniform(2), seed=seed) for seed, each in enumerate(([5] * 3, lengths))]
        return ff.mix_plans([(part, 1) for part in parts], num_clips=6, seed=0)

    with pytest.raises(UsageError, match=r"these differ: rule .*; catalog "):
        mix([5, 6, 7]).with_state(mix([5, 6, 8]).state_dict())
