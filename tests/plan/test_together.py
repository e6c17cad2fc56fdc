"""Clips that are found together, and pictures whose frames are chosen once, are those of one position alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator, Philox

from framefeed.errors import FrameNotFound
from framefeed.index import Timeline, build_still_index, describe_still_stream
from framefeed.media import SourceIdentity
from framefeed.plan import CatalogClips, EpochPlan
from framefeed.plan._plan_clips import plan_clips
from framefeed.plan._rules import AtIndices, AtSeconds, ClipRule, Dense, EveryFrame, RandomSegments, Rates, Uniform
from framefeed.request import (
    CenterCrop,
    ClipContext,
    ClipFrames,
    OnDamaged,
    RandomCrop,
    RandomResizedCrop,
)
from tests.fakes import FakeCatalog, steady_index
from tests.lengths import IS_ALL

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # remarks on damage and small crops

STILLS = [
    build_still_index(
        describe_still_stream("png", "png", (64, 48), "RGB", 0, mirrored=False), SourceIdentity(size, None, "")
    )
    for size in (10, 11, 12)
]
VIDEOS = [
    steady_index(30),
    steady_index(1, fps=10, start=7),
    replace(steady_index(9), damaged_frame_indices=np.array([0, 3, 4, 8])),
    steady_index(12, start=100),
]
CATALOG = FakeCatalog(
    [STILLS[0], VIDEOS[0], STILLS[1], VIDEOS[1], VIDEOS[2], STILLS[2], VIDEOS[3]],
    columns={"label": list("abcabca"), "weight": [0.5, 1, 2, 3, 4, 5, 6]},
)
WINDOWED = FakeCatalog(
    [*VIDEOS, *STILLS],
    columns={"begin": [0.2, 0.0, 0.1, np.nan, 0.5, 0, np.nan], "end": [1.0, np.nan, 0.3, 0.4, np.nan, 0, 1]},
)
RULES: list[ClipRule] = [
    Uniform(1),
    Uniform(3),
    RandomSegments(2),
    AtIndices([0]),
    AtIndices([-1, 0, 40]),
    AtSeconds([0, Fraction(1, 3)]),
    AtSeconds([0.5], policy="wrap"),
    AtSeconds([0.1], policy="error"),
    AtSeconds([0.2], pick="nearest", tolerance_seconds=0.1),
    Dense(1),
    Dense(3, stride=2),
    Dense(2, fps=5),
    Dense(2, stride=1, start=0.1, policy="wrap"),
    Rates([(1, 1), (5, 2)]),
    EveryFrame(),
]
CROPS = [None, CenterCrop(20), RandomCrop(16, 24), RandomResizedCrop(10)]
options = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**64 - 1),
        "epoch": st.integers(0, 3),
        "crop": st.sampled_from(CROPS),
        "on_damaged": st.sampled_from(get_args(OnDamaged)),
        "world_size": st.integers(1, 3),
        "tail": st.sampled_from(["pad", "drop"]),
    }
)


def make_plan(catalog: Any, rule: ClipRule, given_options: dict[str, Any], **more: Any) -> EpochPlan:
    own = {**given_options, **more}
    epoch, crop = own.pop("epoch"), own["crop"]
    size = None if isinstance(crop, RandomResizedCrop) else (10, 10)
    return plan_clips(catalog, rule, size=size, **own).with_epoch(epoch)


def find_row(plan: EpochPlan, position: int) -> int:
    """The row of a position, also of a clip that cannot be planned."""
    return int(plan.clips_at(np.array([plan.global_position(position)])).name_rows()[0])


def outcome(plan: EpochPlan, position: int) -> Any:
    """All that a loader reads of one position."""
    try:
        clip: Any = plan[position]
    except FrameNotFound as error:
        clip = str(error), error.position, error.source
    values = {name: (value, value.dtype) for name, value in plan.columns_at(position).items()}
    return plan.global_position(position), find_row(plan, position), values, clip


def outcomes_together(plan: EpochPlan) -> list[Any]:
    """The same of all positions, which are found together."""
    positions = plan.global_position(np.arange(len(plan)))
    found = plan.clips_at(positions)
    columns, rows = found.read_columns(), found.name_rows().tolist()
    assert [rows] == [list(each) for each in found.rows]
    together = []
    for slot, position in enumerate(positions.tolist()):
        try:
            clip: Any = found.plan(slot)
        except FrameNotFound as error:
            clip = str(error), error.position, error.source
        values = {name: (column[slot], column.dtype) for name, column in columns.items()}
        together.append((position, rows[slot], values, clip))
    return together


def check_alone(plan: EpochPlan, position: int) -> None:
    """The clip of a position is what the rule chooses of the row's timeline, and then the crop draws its box."""
    order, clips, row = plan.order, plan.clips, find_row(plan, position)
    assert isinstance(clips, CatalogClips)
    index, options = plan.catalog.frame_index(row), clips.options
    number = clips.layout.locate_one(order.find_clip(plan.global_position(position)))[1]
    context = ClipContext(order.seed, order.epoch, plan.global_position(position), number)
    try:
        timeline = Timeline.whole(index) if clips.windows is None else clips.windows.timeline(index, row)
        chosen = clips.rule.choose(timeline, context)
    except FrameNotFound:
        with pytest.raises(FrameNotFound):
            plan[position]
        return
    damaged, planned = index.is_damaged(chosen.ordinals), plan[position]
    valid = chosen.valid & ~damaged if options.on_damaged == "skip" else chosen.valid
    assert planned.source == plan.catalog.source(row)
    assert planned.output == clips.pictures.output(48, 64, context)
    assert (planned.on_damaged, planned.flipped, planned.placement) == (options.on_damaged, False, None)
    assert (planned.damaged is not None) == damaged.any()
    seconds = index.to_seconds(index.pts[chosen.ordinals])
    found = (planned.indices, planned.pts_seconds, planned.pick_error_seconds, planned.valid, planned.segment)
    for own, expected in zip(found, (chosen.ordinals, seconds, chosen.errors, valid, chosen.segments), strict=True):
        np.testing.assert_array_equal(own, expected)


@pytest.mark.parametrize("rule", RULES, ids=repr)
@settings(max_examples=12 if IS_ALL else 6)
@given(given_options=options, shuffle=st.sampled_from([True, False, "videos"]), clips=st.integers(1, 3))
def test_clips_found_together_are_those_of_each_position(
    rule: ClipRule, given_options: dict[str, Any], shuffle: Any, clips: int
) -> None:
    is_every = isinstance(rule, EveryFrame)
    more = {} if is_every else {"clips_per_video": clips}
    shuffle = True if is_every and shuffle == "videos" else shuffle
    plan = make_plan(CATALOG, rule, given_options, shuffle=shuffle, columns=["label", "weight"], **more)
    assert outcomes_together(plan) == [outcome(plan, position) for position in range(len(plan))]
    for position in range(len(plan)):
        check_alone(plan, position)


@pytest.mark.parametrize("rule", [Uniform(2), Dense(2), AtSeconds([0.0])], ids=repr)
@given(given_options=options)
def test_windows_are_those_of_each_position(rule: ClipRule, given_options: dict[str, Any]) -> None:
    plan = make_plan(WINDOWED, rule, given_options, within=("begin", "end"))
    for position in range(len(plan)):
        check_alone(plan, position)


def test_pictures_share_what_the_rule_chooses() -> None:
    plan = plan_clips(CATALOG, Dense(3), seed=1, size=(10, 10))
    first, second = (plan[position] for position in range(len(plan)) if plan[position].row in (0, 2))
    assert first.indices is second.indices
    assert not first.indices.flags.writeable


@dataclass(frozen=True)
class Twice(Uniform):
    """A rule of a user, derived from one of ours."""

    def choose(self, timeline: Timeline, context: ClipContext) -> ClipFrames:
        chosen = super().choose(timeline, context)
        return replace(chosen, valid=chosen.valid & (context.position % 2 == 0))


def test_a_rule_derived_from_one_of_ours_is_asked_for_each_picture() -> None:
    requests = [*plan_clips(FakeCatalog(STILLS), Twice(1), seed=1, shuffle=False)]
    assert [request.valid.tolist() for request in requests] == [[True], [False], [True]]


def test_a_position_that_is_not_there_has_no_global_one() -> None:
    plan = plan_clips(CATALOG, Uniform(2), seed=1, size=(10, 10))
    with pytest.raises(IndexError, match="expected 0 to 6"):
        plan.global_position(np.array([6, 7]))


def test_a_draw_of_one_choice_changes_no_later_draw() -> None:
    for key in range(20):
        one, other = Generator(Philox(key=key)), Generator(Philox(key=key))
        assert one.integers(1) == 0
        assert one.random(3).tolist() == other.random(3).tolist()
        assert one.integers(1) == 0
        assert [one.integers(9) for _ in range(5)] == [other.integers(9) for _ in range(5)]
