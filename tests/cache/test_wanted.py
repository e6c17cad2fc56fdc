from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.cache._demand import GROUP_FRAMES, JOINED_FRAMES, Gathering, Group, Piece, gathered
from framefeed.plan import (
    AtSeconds,
    ClipRule,
    Dense,
    EpochPlan,
    EveryFrame,
    RandomCrop,
    RandomSegments,
    Rates,
    Uniform,
    plan_clips,
)
from tests.fakes import FakeCatalog, steady_index

FRAME_BYTES = 3 * 8 * 8
GOP = 12
RULES = [Uniform(4), Dense(6, stride=2), RandomSegments(5), Rates([(1, 2), (5, 3)]), EveryFrame()]
Gatherer = Callable[[EpochPlan, int, Gathering], Iterable[Group]]


def plan_of(rule: ClipRule, videos: Sequence[int] = (40, 25, 61), clips: int = 3, **options: object) -> EpochPlan:
    catalog = FakeCatalog([steady_index(frames, gop=GOP) for frames in videos])
    clips = 1 if isinstance(rule, EveryFrame) else clips
    return plan_clips(catalog, rule, clips_per_video=clips, **{"seed": 5, "size": (8, 8), **options})  # type: ignore[arg-type]


def frames_of(plan: EpochPlan, epochs: int, by_output: bool) -> Counter[object]:
    """Every distinct frame of a plan, asked for one position after the other."""
    found: Counter[object] = Counter()
    for epoch in range(plan.epoch, plan.epoch + epochs):
        for request in plan.with_epoch(epoch):
            for ordinal in request.ordinals.tolist():
                found[request.source, ordinal, request.output if by_output else None] = 1
    return found


def check_gathered(gatherer: Gatherer, plan: EpochPlan, epochs: int, gathering: Gathering) -> None:
    groups = list(gatherer(plan, epochs, gathering))
    found: Counter[object] = Counter()
    for group in groups:
        for piece in group.pieces:
            key = piece.output if gathering.by_output else None
            found.update((plan.catalog.source(group.row), ordinal, key) for ordinal in piece.ordinals.tolist())
    assert found == frames_of(plan, epochs, gathering.by_output), "each wanted frame once"
    assert [group.number for group in groups] == list(range(len(groups)))
    assert [group.row for group in groups] == sorted(group.row for group in groups)
    wanted = sum(len(request) for epoch in range(epochs) for request in plan.with_epoch(plan.epoch + epoch))
    assert sum(group.wanted for group in groups) == wanted
    for group in groups:
        most = gathering.max_bytes if gathering.by_output else 4 * gathering.max_bytes
        assert group.num_frames * FRAME_BYTES <= max(most, (1 if gathering.by_output else GOP) * FRAME_BYTES), "bounded"


@given(
    rule=st.sampled_from(RULES),
    epochs=st.integers(1, 3),
    gathering=st.builds(Gathering, st.booleans(), st.integers(1, 80 * FRAME_BYTES)),
    world_size=st.integers(1, 3),
    crop=st.sampled_from([None, RandomCrop(20, 30)]),
)
def test_every_wanted_frame_once(
    rule: ClipRule, epochs: int, gathering: Gathering, world_size: int, crop: RandomCrop | None
) -> None:
    plan = plan_of(rule, epoch=2, rank=world_size - 1, world_size=world_size, crop=crop)
    check_gathered(gathered, plan, epochs, gathering)


def repeating(plan: EpochPlan, epochs: int, gathering: Gathering) -> Iterable[Group]:
    for group in gathered(plan, epochs, gathering):
        group.pieces = [Piece(np.concatenate([p.ordinals, p.ordinals[:1]]), p.output) for p in group.pieces]
        yield group


def first_epoch_only(plan: EpochPlan, epochs: int, gathering: Gathering) -> Iterable[Group]:
    return gathered(plan, 1, gathering)


def unbounded(plan: EpochPlan, epochs: int, gathering: Gathering) -> Iterable[Group]:
    return gathered(plan, epochs, Gathering(gathering.by_output, 1 << 30))


def blind_to_form(plan: EpochPlan, epochs: int, gathering: Gathering) -> Iterable[Group]:
    return gathered(plan, epochs, Gathering(False, gathering.max_bytes))


@pytest.mark.parametrize("wrong", [repeating, first_epoch_only, unbounded, blind_to_form])
def test_wrong_ones_are_caught(wrong: Gatherer) -> None:
    plan = plan_of(RandomSegments(5), crop=RandomCrop(20, 30))
    check_gathered(gathered, plan, 2, Gathering(True, 7 * FRAME_BYTES))
    with pytest.raises(AssertionError):
        check_gathered(wrong, plan, 2, Gathering(True, 7 * FRAME_BYTES))


def test_a_long_clip_is_cut_between_gops() -> None:
    plan = plan_of(Uniform(60), videos=[60], clips=1)
    groups = list(gathered(plan, 1, Gathering(False, 30 * FRAME_BYTES)))
    starts = [[piece.ordinals.min() for piece in group.pieces] for group in groups]
    assert starts == [[0], [24], [48]]
    cut_within = list(gathered(plan, 1, Gathering(True, 5 * FRAME_BYTES)))
    assert [group.num_frames for group in cut_within][:3] == [5, 5, 2]
    whole = list(gathered(plan, 1, Gathering(False, 5 * FRAME_BYTES)))
    assert [group.num_frames for group in whole] == [GOP] * 5


def test_a_long_video_is_work_for_several() -> None:
    for by_output in (False, True):
        for rule in (EveryFrame(), Uniform(2000)):
            plan = plan_of(rule, videos=[2000], clips=1)
            groups = list(gathered(plan, 1, Gathering(by_output, 1 << 30)))
            sizes = [group.num_frames for group in groups[:-1]]
            assert all(abs(size - GROUP_FRAMES) < GOP and size % GOP == 0 for size in sizes)


def test_single_frames_are_cut_between_gops_too() -> None:
    plan = plan_of(EveryFrame(), videos=[60])
    groups = list(gathered(plan, 1, Gathering(False, 5 * FRAME_BYTES)))
    assert [group.num_frames for group in groups] == [GOP] * 5


def test_clips_of_all_epochs_that_lie_together_are_decoded_together() -> None:
    plan = plan_of(Dense(4, stride=1), videos=[600], clips=40)
    groups = list(gathered(plan, 3, Gathering(False, 60 * FRAME_BYTES)))
    spans = [(min(p.ordinals.min() for p in g.pieces), max(p.ordinals.max() for p in g.pieces)) for g in groups]
    assert len(groups) > 3
    for (_, last), (first, _) in pairwise(spans):
        assert first > last - GOP - 4


def test_single_frames_are_stored_many_together() -> None:
    (group,) = gathered(plan_of(EveryFrame(), videos=[61]), 1, Gathering(False, 1 << 20))
    assert [len(piece) for piece in group.pieces] == [JOINED_FRAMES] * 3 + [61 - 3 * JOINED_FRAMES]


def test_a_clip_keeps_its_order() -> None:
    plan = plan_of(AtSeconds([1.2, 0.4, 0.8] * 8), videos=[40], clips=1)
    (group,) = gathered(plan, 1, Gathering(False, 1 << 20))
    assert group.pieces[0].ordinals.tolist() == [30, 10, 20]
    assert group.wanted == 24


def test_clips_that_cannot_be_planned() -> None:
    plan = plan_of(AtSeconds([1.2], policy="error"), videos=[40, 20], clips=1)
    whole, failed = gathered(plan, 1, Gathering(False, 1 << 20))
    assert (whole.num_frames, whole.errors) == (1, [])
    assert failed.row == 1
    assert failed.pieces == []
    assert "video1.mp4" in str(failed.errors[0])
