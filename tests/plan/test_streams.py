"""Plans of several streams against an oracle: times of the first, one draw, joined rows, and one picture shape."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from shutil import copyfile
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.catalog import Catalog
from framefeed.errors import FrameNotFound, UsageError
from framefeed.index import FrameIndex, Pick
from framefeed.plan import (
    AtIndices,
    AtSeconds,
    ClipRule,
    Dense,
    EpochPlan,
    RandomSegments,
    Uniform,
    choose_stored_form,
    count_planned,
    estimate_reuse,
    plan_clips,
)
from framefeed.request import Box, ClipContext, Policy, RandomCrop, SharedCrop, SharedDraw, Size
from framefeed.scanning import scan
from framefeed.testing import ClipSpec
from tests.corpus import clip_file
from tests.fakes import FakeCatalog, index_of, steady_index
from tests.plan import oracle
from tests.plan.timelines import clock, indexes

NAMES = ("first", "second", "third")


class NamedCatalog(FakeCatalog):
    """Row r is video r, so that rows of one number belong together."""

    _rows = None

    def shown_name(self, row: int) -> str:
        return self.source(row)


def plan_streams(indexes: Sequence[FrameIndex], rule: ClipRule, **options: Any) -> EpochPlan:
    """One video of each stream."""
    catalogs: Any = {name: NamedCatalog([index]) for name, index in zip(NAMES, indexes, strict=False)}
    return plan_clips(None, rule, streams=catalogs, **{"on": "stem", "seed": 3, "shuffle": False, **options})


# --- times ------------------------------------------------------------------------------------------


def follow(leader: FrameIndex, request: Any, follower: FrameIndex, pick: str, policy: str) -> tuple[list[int], Any]:
    """Ordinals and valid of the stream that follows."""
    own = clock(follower)
    shown = clock(leader).times
    seconds = [float(shown[ordinal] - shown[0]) for ordinal in request.indices.tolist()]
    picked = oracle.pick_clip(own, [own.times[0] + Fraction(each) for each in seconds], pick, None)
    frames = [frame for frame, _ in picked]
    valid = [frame is not None and was for frame, was in zip(frames, request.valid.tolist(), strict=True)]
    return oracle.fill(frames, policy, len(follower)), valid


@given(
    data=st.tuples(indexes(12), indexes(12), indexes(12)),
    rule=st.sampled_from([Uniform(3), RandomSegments(3), AtIndices([0, -1]), AtSeconds([0.0, 0.1], policy="wrap")]),
    pick=st.sampled_from([None, *get_args(Pick)]),
)
def test_each_stream_follows_the_times_of_the_first(
    data: tuple[FrameIndex, ...], rule: ClipRule, pick: Pick | None
) -> None:
    plan = plan_streams(data, rule, pick=pick)
    policy = getattr(rule, "policy", "repeat_last")
    try:
        expected = {name: follow(data[0], plan.streams["first"][0], each, pick or "nearest", policy)
                    for name, each in zip(NAMES[1:], data[1:], strict=True)}  # fmt: skip
    except (oracle.NoFrame, FrameNotFound):
        with pytest.raises(FrameNotFound):
            plan[0]
        return
    requests = plan[0]
    assert requests.parts["first"] == plan.streams["first"][0].parts[""]
    for name, (ordinals, valid) in expected.items():
        assert requests[name].indices.tolist() == ordinals
        assert requests[name].valid.tolist() == valid
        assert requests[name].segment.tolist() == requests["first"].segment.tolist()


def test_the_rule_gives_its_tolerance_and_policy_to_those_that_follow() -> None:
    slow, fast, short = steady_index(10, fps=10), index_of([0, 130, 260]), steady_index(5, fps=10)
    near = plan_streams([slow, fast], AtSeconds([0.1], tolerance_seconds=0.02))
    with pytest.raises(FrameNotFound, match=r"\(stream 'second'\).*tolerance_seconds=0.02"):
        near[0]
    wide: Any = plan_streams([slow, fast], AtSeconds([0.1], tolerance_seconds=0.02), tolerance_seconds=0.05)[0]
    assert wide["second"].indices.tolist() == [1]
    exact = plan_streams([slow, fast], AtSeconds([0.1], tolerance_seconds=0.05), tolerance_seconds=0.0)
    with pytest.raises(FrameNotFound, match=r"\(stream 'second'\).*tolerance_seconds=0"):
        exact[0]
    rules = {policy: Dense(3, fps=5, start=0.2, policy=policy) for policy in get_args(Policy)}
    with pytest.raises(FrameNotFound, match=r"\(stream 'second'\).*policy is 'error'"):
        plan_streams([slow, short], rules["error"])[0]
    for policy, ordinals in (("repeat_last", [2, 4, 4]), ("wrap", [2, 4, 2])):
        requests: Any = plan_streams([slow, short], rules[policy])[0]
        assert requests["first"].valid.tolist() == [True, True, True]
        assert requests["second"].indices.tolist() == ordinals
        assert requests["second"].valid.tolist() == [True, True, False]


# --- crops ------------------------------------------------------------------------------------------

sides = st.integers(1, 60)


@dataclass(frozen=True)
class Given:
    """A crop that takes the box that is given."""

    given: Box
    size: Size | None = None
    resizes = False
    is_random = True

    def box(self, height: int, width: int, context: ClipContext) -> Box:
        """Take the box."""
        return self.given


def axis(before: int, now: int, start: int, length: int, first: int, count: int) -> None:
    """Edges lie at most half a pixel beside those that are scaled exactly, unless less than a pixel would remain."""
    assert 0 <= first < first + count <= now
    stop = min(start + length, before)
    exact = [Fraction(edge * now, before) for edge in (start, stop)]
    if count > 1 or exact[1] - exact[0] >= 1:
        assert abs(first - exact[0]) <= Fraction(1, 2)
        assert abs(first + count - exact[1]) <= Fraction(1, 2)
    else:
        assert exact[0] - 1 <= first <= exact[1] + Fraction(1, 2)


@given(before=st.tuples(sides, sides), now=st.tuples(sides, sides), data=st.data())
def test_a_shared_box_is_the_same_part_of_the_other_picture(before: Size, now: Size, data: st.DataObject) -> None:
    (top, rows), (left, columns) = (
        (start, data.draw(st.integers(1, side - start)))
        for side in before
        for start in [data.draw(st.integers(0, side - 1))]
    )
    crop, draw = SharedCrop(Given((top, left, rows, columns)), is_one_part=True), SharedDraw()
    context = ClipContext(0, 0, 0, draw=draw)
    assert crop.box(*before, context) == (top, left, rows, columns)
    found = crop.box(*now, context)
    axis(before[0], now[0], top, rows, found[0], found[2])
    axis(before[1], now[1], left, columns, found[1], found[3])
    if now == before or (rows, columns) == before:
        assert found == ((top, left, rows, columns) if now == before else (0, 0, *now))
    assert crop.box(*now, context) == found, "one draw for all further streams"


def test_a_shared_box_at_the_edge_stays_in_a_smaller_picture() -> None:
    crop, draw = SharedCrop(Given((59, 38, 1, 2)), is_one_part=True), SharedDraw()
    context = ClipContext(0, 0, 0, draw=draw)
    assert crop.box(60, 40, context) == (59, 38, 1, 2)
    assert crop.box(1, 1, context) == (0, 0, 1, 1)
    assert crop.box(2, 3, context) == (1, 2, 1, 1)


def sized(*sizes: Size, names: Sequence[int] | None = None) -> Any:
    """A catalog of pictures of these sizes; row r is video ``names[r]``."""
    catalog = NamedCatalog([steady_index(4)] * len(sizes), sizes=list(sizes))
    own = list(range(len(sizes)) if names is None else names)
    catalog.shown_name = lambda row: f"video{own[row]}.mp4"  # type: ignore[method-assign]
    return catalog


def test_a_random_crop_of_pixels_needs_partners_of_one_size() -> None:
    def plan(*catalogs: Any) -> EpochPlan:
        return plan_clips(None, Uniform(2), streams=dict(zip(NAMES, catalogs, strict=False)), on="stem", seed=1,
                          crop=RandomCrop(20), unequal=True)  # fmt: skip

    large, wide, high = (48, 64), (48, 70), (50, 64)
    first = sized(large, wide)
    alike = plan(first, sized(wide, large, names=[1, 0]))
    for request in alike:
        boxes: Any = {each.output.crop for each in request.parts.values()}
        assert len(boxes) == 1
    for other in (sized(large, wide, names=[1, 0]), sized(large, large), sized(high, wide)):
        with pytest.raises(UsageError, match="is not the same part of the pictures of streams 'first' and 'second'"):
            plan(first, other)
        with pytest.raises(UsageError, match="'first' and 'third'"):
            plan(first, first, other)


@pytest.mark.parametrize("size", [20, 17, (21, 19)], ids=str)
def test_pictures_of_a_scaled_box_have_the_size_of_the_plan(size: Any) -> None:
    """Rounded edges make a scaled box a pixel longer or shorter, and its pictures must not be."""
    catalogs = {"first": sized((48, 64)), "second": sized((71, 97)), "third": sized((33, 31))}
    plan = plan_clips(None, Uniform(1), streams=catalogs, on="stem", seed=1, clips_per_video=60, size=size,
                      crop=RandomCrop(23, 31))  # fmt: skip
    boxes = set()
    for clip in plan:
        for name, each in clip.parts.items():
            row = catalogs[name].sizes[0]
            assert each.output.shape(*row)[1:] == plan.clips.forms[name].picture
            boxes.add((name, each.output.crop[2:]))
    assert len(boxes) > 3


# --- joins ------------------------------------------------------------------------------------------


def scan_keys(folder: Path, name: str, keys: Any, *, missing: Sequence[int] = ()) -> Catalog:
    """A catalog of a Parquet list with a file for each key, of which some are missing."""
    paths = [folder / f"{name}_{row}.mp4" for row in range(len(keys))]
    for row in set(range(len(keys))).difference(missing):
        copyfile(clip_file("streams_plan.mp4", ClipSpec(num_frames=6)), paths[row])
    pq.write_table(pa.table({"path": [*map(str, paths)], "key": keys}), folder / f"{name}.parquet")
    return scan(folder / f"{name}.parquet", workers=0)


def joined(on: str = "key", **catalogs: Any) -> EpochPlan:
    return plan_clips(None, Uniform(1), streams=catalogs, on=on, seed=1, shuffle=False)


def list_rows(plan: EpochPlan) -> list[list[int]]:
    """The row of each stream in its own catalog, of each clip."""
    each = [clips.layout for clips in plan.clips.list_plain()]
    found = [[layout.locate_one(number)[0] for layout in each] for number in range(len(plan))]
    positions = np.arange(len(plan))
    assert np.array_equal(np.array(found).T, [layout.find_rows(positions) for layout in each])
    assert np.array_equal(np.array(found).T, [layout.locate(positions).rows for layout in each])
    return found


TEXTS = ("a", "b", None, "d", "e")
KINDS = {
    "integers of two widths": (pa.array([1, 2, None, 4, 5], pa.int32()), pa.int64(), [5, 2, 1]),
    "texts of two types": (pa.array(TEXTS), pa.large_string(), ["e", "b", "a"]),
}


@pytest.mark.filterwarnings("ignore:.*rows of the streams' catalogs are left out:UserWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_one_value_are_joined_and_the_others_listed(kind: str, tmp_path: Path) -> None:
    keys, other_type, (last, both, first) = KINDS[kind]
    left = scan_keys(tmp_path, "left", keys)
    # The first row failed, and has a value of another row; no value and no value are no pair.
    right = scan_keys(tmp_path, "right", pa.array([both, last, None, both, first], other_type), missing=[0])
    plan = joined(left=left, right=right)
    assert list_rows(plan) == [[0, 4], [1, 3], [4, 1]]
    assert [rows[2] for rows in plan.clips_at(np.arange(3)).rows] == [4, 5 + 1]
    reasons = [error for _, error in plan.excluded]
    fourth = keys[3].as_py()
    assert sorted(each for each in reasons if each.startswith("UsageError")) == [
        "UsageError: key is null",
        "UsageError: key is null",
        f"UsageError: key={fourth!r} is in no row of stream 'right'",
    ]
    assert sum(each.startswith("MissingMedia") for each in reasons) == 1
    # Of a catalog that is filtered, rows are its own.
    chosen = left.take([4, 3, 1])
    assert list_rows(joined(left=chosen, right=right)) == [[0, 1], [2, 3]]
    with_third = joined(left=left, right=right, third=left.take([1, 4]))
    assert list_rows(with_third) == [[1, 3, 0], [4, 1, 1]]
    assert f"UsageError: key={first!r} is in no row of stream 'third'" in [error for _, error in with_third.excluded]


def test_values_that_cannot_be_joined_are_errors(tmp_path: Path) -> None:
    left = scan_keys(tmp_path, "left", [1, 2, 3])
    right = scan_keys(tmp_path, "right", [9, 1, 2, 2], missing=[0])
    with pytest.raises(UsageError, match=r"on='key': 2 is in rows 2 .* and 3 .* of stream 'right'"):
        joined(left=left, right=right)
    with pytest.raises(UsageError, match="the column has different types, int64 in 'left', string in 'right'"):
        joined(left=left, right=scan_keys(tmp_path, "texts", ["1", "2"]))
    large = scan_keys(tmp_path, "large", pa.array([1, 2**63], pa.uint64()))
    with pytest.raises(UsageError, match=r"on='key': the value 9223372036854775808 of stream 'large' .* as text"):
        joined(left=left, large=large)


def test_a_column_is_preferred_to_the_names_of_files(tmp_path: Path) -> None:
    def scan_named(name: str, column: str, values: list[str]) -> Catalog:
        keys = scan_keys(tmp_path, name, values)
        table = pa.table({"path": [keys.source(row) for row in range(len(keys))], column: values})
        pq.write_table(table, tmp_path / "named.parquet")
        return scan(tmp_path / "named.parquet", workers=0)

    one, two = scan_named("one", "stem", ["x", "y"]), scan_named("two", "stem", ["y", "x"])
    assert list_rows(joined("stem", one=one, two=two)) == [[0, 1], [1, 0]]
    with pytest.raises(UsageError, match="the catalog of stream 'three' has no such column"):
        joined("stem", one=one, three=scan_keys(tmp_path, "three", ["x", "y"]))
    three, four = scan_named("three", "label", ["x", "y"]), scan_named("four", "label", ["y", "x"])
    assert list_rows(joined("label", three=three, four=four)) == [[0, 1], [1, 0]]


def test_rows_without_a_partner_are_named_by_their_own_files(tmp_path: Path) -> None:
    left, right = scan_keys(tmp_path, "left", [1, 2]), scan_keys(tmp_path, "right", [2, 3])
    with pytest.warns(UserWarning, match="2 of 4 rows"):
        plan = joined(left=left, right=right)
    assert [Path(source).stem for source, _ in plan.excluded] == ["left_0", "right_1"]


def test_rows_that_are_not_joined_may_have_another_size() -> None:
    with pytest.warns(UserWarning, match="1 of 3 rows"):
        plan = plan_clips(None, Uniform(1), streams={"first": sized((48, 64)), "second": sized((48, 64), (9, 9))},
                          on="stem", seed=1)  # fmt: skip
    assert plan.streams["second"].picture_shape == (3, 48, 64)


def test_L13_a_state_belongs_to_the_names_of_the_streams() -> None:
    plans = [plan_clips(None, Uniform(2), streams={"first": sized((48, 64)), name: sized((48, 64))}, on="stem", seed=1)
             for name in NAMES[1:]]  # fmt: skip
    with pytest.raises(UsageError, match="these differ: rule"):
        plans[1].with_state(plans[0].state_dict())


# --- ranks, pickles, descriptions, the streams one by one ---------------------------------------------


def three(rule: ClipRule | None = None, **options: Any) -> EpochPlan:
    """Clips of three streams: 6 videos, of which those of the first stream differ in length."""
    catalogs: Any = {}
    for name in NAMES:
        lengths = [5, 40, 90, 7, 41, 92] if name == "first" else [50] * 6
        columns = {"num_key_frames": [1] * 6, "bytes": [10**5 * each for each in lengths], "average_fps": [25.0] * 6,
                   "codec": ["h264"] * 6, "kind": ["video"] * 6}  # fmt: skip
        catalogs[name] = NamedCatalog([steady_index(each) for each in lengths], columns=columns)
    given = {"on": "stem", "seed": 5, "clips_per_video": 2, **options}
    return plan_clips(None, rule or RandomSegments(2), streams=catalogs, **given)


def test_ranks_get_the_clips_that_the_first_stream_alone_deals() -> None:
    alone = three().streams["first"].catalog
    for balance in (None, "cost"):
        for rank in range(2):
            options: Any = {"rank": rank, "world_size": 2, "balance": balance}
            plan = three(**options)
            own = plan_clips(alone, RandomSegments(2), seed=5, clips_per_video=2, **options)
            positions = range(len(plan))
            assert [plan.global_position(each) for each in positions] == [
                own.global_position(each) for each in positions
            ]
            for part in plan.streams.values():
                assert (len(part), part.order.rank, part.order.world_size) == (12, 0, 1)


def test_a_state_of_many_streams_with_unlike_options_is_small() -> None:
    def make(size: int) -> EpochPlan:
        names = [f"observation.images.camera_{number}" for number in range(12)]
        catalogs: Any = {name: NamedCatalog([steady_index(9)]) for name in names}
        sizes = {name: (size + number, 8) for number, name in enumerate(names)}
        return plan_clips(None, Uniform(2), streams=catalogs, on="stem", seed=0, size=sizes, horizontal_flip=0.5)

    state = make(8).state_dict()
    assert len(json.dumps(state)) < 900
    assert state["options"].keys() == {"size", "horizontal_flip"}
    assert make(8).with_state(state).fingerprint == state["fingerprint"]
    with pytest.raises(
        UsageError, match=r"options \(checkpoint: size={observ.*, here: size={observ.*camera_11: \(20, 8\)}\)"
    ):
        make(9).with_state(state)


def test_a_pickle_keeps_what_was_delivered() -> None:
    plan = three().without(5)
    for each in (plan, plan.with_epoch(1).without(7)):
        again = pickle.loads(pickle.dumps(each))
        assert [again.global_position(number) for number in range(len(again))] == [
            each.global_position(number) for number in range(len(each))
        ]


def test_a_description_counts_damage_and_ends_of_streams_that_follow() -> None:
    whole = steady_index(5, fps=10)
    damaged = replace(steady_index(3, fps=10), damaged_frame_indices=np.array([0]))
    with pytest.warns(UserWarning, match="1 damaged frames in 1 of 1 rows"):
        described = plan_streams([whole, whole, damaged], AtIndices([0, 1, 4])).describe()
    assert (described.sampled_frames, described.damaged_frames, described.past_end_frames) == (9, 1, 1)


def test_a_plan_is_random_if_any_stream_is() -> None:
    index = steady_index(5)
    assert not plan_streams([index] * 2, Uniform(2)).clips.is_random
    assert plan_streams([index] * 2, Uniform(2), crop={"first": None, "second": RandomCrop(20)}).clips.draws_frames


def test_crops_of_some_streams_have_their_own_size() -> None:
    catalogs = {"first": sized((48, 64)), "second": sized((30, 90)), "third": sized((48, 64))}
    crops = {"first": RandomCrop(20), "second": RandomCrop(20), "third": None}
    plan = plan_clips(None, Uniform(1), streams=catalogs, on="stem", seed=1, clips_per_video=9, crop=crops)
    for request in plan:
        boxes: list[Any] = [each.output.crop for each in request.parts.values()]
        assert boxes[0][2:] == boxes[1][2:] == (20, 20)
        assert boxes[2] is None


# --- what a cache will hold ---------------------------------------------------------------------------


def test_frames_of_a_cache_are_counted_by_stream() -> None:
    plan = plan_streams([steady_index(9), steady_index(9)], Uniform(2), size={"first": (10, 10), "second": (20, 20)})
    assert count_planned(plan, "planes") == (4, 2 * 2 * 48 * 64 * 3 // 2)
    assert count_planned(plan, "output") == (4, 2 * 3 * (10 * 10 + 20 * 20))
    assert choose_stored_form(plan, "auto") == "output"
    whole = plan_streams([steady_index(9), steady_index(9)], Uniform(2), size={"first": (10, 10), "second": None})
    assert choose_stored_form(whole, "auto") == "planes", "where one stream needs whole pictures"


def test_a_frame_of_one_stream_is_no_frame_of_another() -> None:
    """A stream at twice the rate: of one frame each, both or none are those of the epoch before."""
    data = steady_index(4, fps=10), steady_index(8, fps=20)
    shares = {estimate_reuse(plan_streams(data, RandomSegments(1), seed=seed), by_output=False) for seed in range(30)}
    assert shares == {0.0, 1.0}
