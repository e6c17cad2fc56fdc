"""Buckets (T, H, W): which one a source gets, what is left out and why, and which clips come."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framefeed.errors import UsageError
from framefeed.plan import Buckets, Dense, plan_buckets, plan_clips, text_key
from framefeed.plan._buckets import CUT_OFF, ENLARGED, choose_sizes, read_buckets
from framefeed.request import Letterbox
from tests.fakes import FakeCatalog, index_of, steady_index

BUCKETS = [(5, 48, 64), (9, 48, 64), (9, 64, 48), (5, 32, 32), (13, 96, 128)]


def plan(catalog: Any, buckets: Any = BUCKETS, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return plan_buckets(catalog, buckets, **{"fps": 10, "global_batch": 1, "seed": 0, **options})


def bucket_by_row(made: Any) -> dict[int, list[tuple[int, int, int]]]:
    found: dict[int, list[tuple[int, int, int]]] = {}
    for clip, (length, height, width) in zip(made, made.shapes(), strict=True):
        assert clip.shape == (length, 3, height, width)
        found.setdefault(clip.row, []).append((length, height, width))
    return {row: sorted(shapes) for row, shapes in sorted(found.items())}


# --- sizes ----------------------------------------------------------------------------------------------


def test_sizes_are_those_of_the_formula() -> None:
    buckets = Buckets(frames=(17, 49), pixels=(320 * 576, 480 * 832))
    sizes = [shape[1:] for area, shape in buckets.shapes if area == 1 and shape[0] == 49]
    assert sizes == [(480, 832), (544, 720), (624, 624), (720, 544), (832, 480)]
    sizes = [shape[1:] for area, shape in buckets.shapes if area == 0 and shape[0] == 17]
    assert sizes == [(320, 576), (368, 496), (416, 416), (496, 368), (576, 320)]
    assert read_buckets(Buckets(9, 64 * 64, multiple=32, ratios=("1:1",))) == ((0, (9, 64, 64)),)


def test_sizes_of_a_list_within_a_fifth_are_of_one_area() -> None:
    """Of the largest, not of their neighbours."""
    sizes = [(10, 100), (10, 85), (10, 80), (10, 79), (10, 64), (10, 63)]
    areas = {shape[1:]: area for area, shape in read_buckets([(5, *size) for size in sizes])}
    assert [areas[size] - areas[10, 63] for size in sizes] == [2, 2, 2, 1, 1, 0]
    # Where no pair of sides is within the area, each is at least one multiple.
    assert Buckets(5, 256, ratios=("5:1",)).shapes == ((0, (5, 16, 32)),)


@settings(max_examples=200, deadline=None)
@given(
    multiple=st.sampled_from([1, 2, 8, 16, 28, 32]),
    area=st.integers(1, 3000),
    ratio=st.tuples(st.integers(1, 21), st.integers(1, 21)),
)
def test_sizes_are_multiples_within_the_area(multiple: int, area: int, ratio: tuple[int, int]) -> None:
    area = area * multiple * multiple
    ((_, (_, height, width)),) = Buckets((5,), (area,), multiple, (f"{ratio[0]}:{ratio[1]}",)).shapes
    assert height % multiple == width % multiple == 0
    assert min(height, width) >= multiple
    assert height * width <= area or min(height, width) == multiple
    turned = Buckets((5,), (area,), multiple, (f"{ratio[1]}:{ratio[0]}",)).shapes
    assert turned == ((0, (5, width, height)),)


@settings(max_examples=100, deadline=None)
@given(
    pictures=st.lists(st.tuples(st.integers(16, 300), st.integers(16, 300)), min_size=1, max_size=12),
    shapes=st.lists(st.tuples(st.integers(1, 3), st.integers(8, 300), st.integers(8, 300)), min_size=1, max_size=9),
    max_crop=st.sampled_from([0.0, 0.1, 0.25, 0.9]),
    enlarge=st.booleans(),
)
def test_a_picture_gets_the_largest_area_that_it_fills_and_there_the_least_cut(
    pictures: list[tuple[int, int]], shapes: list[tuple[int, int, int]], max_crop: float, enlarge: bool
) -> None:
    """Against a slow one, with Fractions."""
    buckets = read_buckets(shapes)
    heights, widths = (np.array(sides, dtype=np.int64) for sides in zip(*pictures, strict=True))
    for length in {shape[0] for _, shape in buckets}:
        own = [number for number, (_, shape) in enumerate(buckets) if shape[0] == length]
        chosen = choose_sizes(buckets, own, heights, widths, max_crop, enlarge=enlarge).tolist()
        for found, (height, width) in zip(chosen, pictures, strict=True):
            possible, are_enlarged = {}, []
            for bucket in own:
                area, (_, rows, columns) = buckets[bucket]
                scale = max(Fraction(rows, height), Fraction(columns, width))
                cut = float(1 - Fraction(rows * columns) / (scale * scale * height * width))
                if cut <= max_crop and (enlarge or scale <= 1):
                    possible[bucket] = (-area, cut)
                elif cut <= max_crop:
                    are_enlarged.append(bucket)
            if possible:
                area, cut = min(possible.values())
                assert possible[found] == (area, pytest.approx(cut, abs=1e-12))
            else:
                assert found == (ENLARGED if are_enlarged else CUT_OFF)


# --- which bucket ---------------------------------------------------------------------------------------


def test_the_longest_number_of_frames_that_the_exact_seconds_hold() -> None:
    """At 10 a second 5 frames need more than 0.4 s, 9 more than 0.8 s."""
    lengths = {9: None, 10: None, 11: 5, 20: 5, 21: 9, 40: 9}
    catalog = FakeCatalog([steady_index(count, fps=25) for count in lengths], sizes=(48, 64))
    made = plan(catalog)
    found = {row: shapes[0][0] for row, shapes in bucket_by_row(made).items()}
    assert found == {row: length for row, length in enumerate(lengths.values()) if length}
    for clip in made:
        assert clip.valid.all()
    assert [(name, error.partition(": ")[2]) for name, error in made.excluded] == [
        (f"video{row}.mp4", "shorter than 5 frames at 10 a second") for row in (0, 1)
    ]
    late = bucket_by_row(plan(catalog, start=0.25))
    assert {row: shapes[0][0] for row, shapes in late.items()} == {3: 5, 4: 5, 5: 9}
    # 0.1 + 0.7 is less than 0.8 in floating point: a time so near to the end is past it.
    ends = FakeCatalog([steady_index(20)])
    assert len(plan(ends, [(8, 48, 64)], start=0.1)) == 0
    assert len(plan(ends, [(8, 48, 64)], start=0.09)) == 1


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.integers(1, 90), min_size=1, max_size=60),
    fps=st.sampled_from([Fraction(10), Fraction(24000, 1001), 7.5, 16]),
    start=st.sampled_from(["random", 0, 0.123]),
)
def test_no_clip_has_a_frame_past_the_end_and_the_next_length_would(steps: list[int], fps: Any, start: Any) -> None:
    index = index_of(np.cumsum([0, *steps[:-1]]).tolist(), time_base=Fraction(1, 90), duration=steps[-1], gop=12)
    buckets = [(length, 48, 64) for length in range(2, 40)]
    made = plan(FakeCatalog([index]), buckets, fps=fps, start=start, global_batch=1)
    expected = [
        length
        for length in range(2, 40)
        if plan_clips(FakeCatalog([index]), Dense(length, fps=fps, start=0 if start == "random" else start), seed=0,
                      size=(48, 64))[0].valid.all()
    ] if start == "random" or index.pts[-1] + steps[-1] > start * 90 else []  # fmt: skip
    assert [length for length, _, _ in made.shapes()] == expected[-1:]
    assert all(clip.valid.all() for clip in made)


def test_pictures_are_not_enlarged_and_not_cut_too_much() -> None:
    sizes = [(48, 64), (64, 48), (100, 130), (200, 100), (40, 60), (33, 33), (30, 30)]
    catalog = FakeCatalog([steady_index(60)] * len(sizes), sizes=sizes)
    made = plan(catalog)
    assert {row: shapes[0] for row, shapes in bucket_by_row(made).items()} == {
        0: (9, 48, 64), 1: (9, 64, 48), 2: (13, 96, 128), 5: (5, 32, 32),
    }  # fmt: skip
    reasons = dict(made.excluded)
    assert "cuts off more than max_crop=0.25" in reasons["video3.mp4"]
    assert "enlarge=False" in reasons["video4.mp4"]
    assert "enlarge=False" in reasons["video6.mp4"]
    larger = {row: shapes[0] for row, shapes in bucket_by_row(plan(catalog, enlarge=True)).items()}
    assert larger[4] == larger[6] == (13, 96, 128) or larger[4] == (13, 96, 128)
    assert 3 not in larger
    wide = bucket_by_row(plan(catalog, max_crop=0.6))
    assert wide[3] == [(9, 64, 48)]
    for clip in made:
        height, width = sizes[clip.row]
        assert clip.output.size == clip.shape[2:]
        assert clip.output.crop is None or (clip.output.crop[2] <= height and clip.output.crop[3] <= width)


def test_a_clip_of_each_length_that_a_video_holds() -> None:
    catalog = FakeCatalog([steady_index(count) for count in (12, 30)], sizes=(96, 128))
    assert bucket_by_row(plan(catalog, per_video="all")) == {
        0: [(5, 48, 64)], 1: [(5, 48, 64), (9, 48, 64)],
    }  # fmt: skip
    assert plan(catalog, per_video="all").excluded == []


def test_clips_that_repeat_frames_are_counted_or_left_out() -> None:
    uneven = index_of([0, 1, 2, 3, 4, 5, 6, 30, 31], time_base=Fraction(1, 10), duration=1, gop=3)
    indexes = [
        steady_index(60, fps=25),
        steady_index(60, fps=10),
        steady_index(60, fps=5),
        steady_index(90, fps=9),
        uneven,
    ]
    catalog = FakeCatalog(indexes, sizes=(48, 64))
    assert len(plan(catalog)) == 5
    smooth = plan(catalog, max_repeated=0.0)
    assert {clip.row for clip in smooth} == {0, 1, 4}
    assert bucket_by_row(smooth)[4] == [(5, 48, 64)]
    for clip in plan(catalog, max_repeated=0.0, start=0):
        assert len(set(clip.indices.tolist())) == len(clip)
    assert sum("more than 0.0 of its frames would repeat" in error for _, error in smooth.excluded) == 2
    assert {clip.row for clip in plan(catalog, max_repeated=0.2)} == {0, 1, 3, 4}
    half = FakeCatalog([steady_index(60, fps=5)])  # 5 of 9 frames are others
    assert [len(plan(half, [(9, 48, 64)], max_repeated=share)) for share in (0.44, 0.45)] == [0, 1]


def test_windows_bound_the_clips() -> None:
    columns = {"a": [0.0, 1.0, np.nan, 9.0], "b": [0.5, 2.0, np.nan, 9.5]}
    catalog = FakeCatalog([steady_index(60)] * 4, columns=columns)
    made = plan(catalog, within=("a", "b"))
    assert bucket_by_row(made) == {0: [(5, 48, 64)], 1: [(9, 48, 64)], 2: [(9, 48, 64)]}
    for clip in made:
        low, high = (columns[name][clip.row] for name in "ab")
        times = clip.indices / 25
        assert np.isnan(low) or (times.min() >= low and times.max() < high)
    assert "shorter than 5 frames" in dict(made.excluded)["video3.mp4"]


# --- steps ----------------------------------------------------------------------------------------------


def test_the_clips_of_a_bucket_that_fills_no_step_go_to_the_nearest() -> None:
    """The longest shorter T of the same size first; then as if the bucket were not there; else they are left out."""
    counts = [60] * 3 + [15] * 5 + [60]
    sizes = [(48, 64)] * 3 + [(48, 64)] * 5 + [(64, 48)]
    catalog = FakeCatalog([steady_index(count) for count in counts], sizes=sizes)
    made = plan(catalog, global_batch=4)
    table = {each.bucket: (each.clips, each.steps) for each in made.describe().buckets.buckets}
    assert table == {(5, 48, 64): (8, 2)}
    assert [error.partition(": ")[2] for _, error in made.excluded] == [
        "its bucket has fewer clips than a step (min_steps=1), and no other bucket with clips fits"
    ]
    assert set(bucket_by_row(made)) == set(range(8))
    square = plan(catalog, [*BUCKETS, (5, 40, 40)], global_batch=4, max_crop=0.3)
    assert 8 not in bucket_by_row(square)
    all_of_them = plan(catalog, global_batch=4, min_steps=0)
    assert [each.clips for each in all_of_them.describe().buckets.buckets] == [5, 3, 1]
    assert {each.repeated for each in all_of_them.describe().buckets.buckets} == {3, 1}
    only = plan(catalog, [(9, 64, 48)], global_batch=4)
    assert [clip.row for clip in only] == [8] * 4
    assert only.excluded == plan(catalog, [(9, 64, 48)], global_batch=4, tail="stream").excluded
    dropped = plan(catalog, [(9, 64, 48)], global_batch=4, tail="drop")
    assert len(dropped) == 0
    assert "fewer clips than" in dict(dropped.excluded)["video8.mp4"]
    ladder = plan(FakeCatalog([steady_index(15)] * 4 + [steady_index(30)] * 4 + [steady_index(60)]),
                  [(5, 48, 64), (9, 48, 64), (13, 48, 64)], global_batch=4)  # fmt: skip
    assert [each.clips for each in ladder.describe().buckets.buckets] == [4, 5]


def test_what_comes_in_no_epoch_is_left_out_or_said() -> None:
    """Also where steps in a row, or less than one pass, need more clips than a step."""
    catalog = FakeCatalog([steady_index(60)] * 6 + [steady_index(15)] * 9, sizes=(48, 64))
    for options in ({"accumulate": 2}, {"weights": {(9, 48, 64): 0.5}}):
        made = plan(catalog, global_batch=4, tail="drop", **options)
        seen = {clip.row for epoch in range(9) for clip in made.with_epoch(epoch)}
        assert seen == set(range(15))
        assert {each.bucket for each in made.describe().buckets.buckets} == {(5, 48, 64)}
    with pytest.warns(UserWarning, match="6 clips of 1 buckets fill no step, and come in no epoch"):
        plan_buckets(catalog, BUCKETS[:2], fps=10, global_batch=8, seed=0, tail="drop", min_steps=0)
    made = plan(catalog, global_batch=4, min_steps=3)
    assert {each.bucket for each in made.describe().buckets.buckets} == {(5, 48, 64)}
    lone = plan(FakeCatalog([steady_index(60)] * 3, sizes=(48, 64)), global_batch=2, min_steps=9, tail="drop")
    assert {error.partition(": ")[2] for _, error in lone.excluded} == {
        "its bucket has fewer clips than 9 steps (min_steps=9), and no other bucket with clips fits"
    }


def test_rows_that_failed_are_counted_with_their_errors() -> None:
    catalog = FakeCatalog([steady_index(60)] * 3, failed={1: ("CorruptMedia", "no moov")})
    with pytest.warns(UserWarning, match="1 of 3 rows are left out.*1: CorruptMedia in the scan"):
        made = plan_buckets(catalog, BUCKETS, fps=10, global_batch=1, seed=0)
    assert made.describe().buckets.left_out == {"CorruptMedia in the scan": 1}


def test_batches_list_the_positions_of_each_step() -> None:
    catalog = FakeCatalog([steady_index(60)] * 6 + [steady_index(15)] * 9, sizes=(48, 64))
    made = plan(catalog, global_batch=None, batch_size=lambda bucket: 26 // bucket[0], rank=1, world_size=2)
    batches = made.batches()
    assert [position for batch in batches for position in batch] == list(range(len(made)))
    for batch in batches:
        ((length, _, _),) = {made.shapes()[position] for position in batch}
        assert len(batch) == 26 // length
    with pytest.raises(UsageError, match="does not say them"):
        plan_clips(catalog, Dense(5, fps=10), seed=0, size=(8, 8)).batches()


def test_batches_may_have_as_many_pixels_or_depend_on_the_bucket() -> None:
    catalog = FakeCatalog([steady_index(60)] * 8 + [steady_index(15)] * 8)
    made = plan(catalog, BUCKETS[:2], global_batch=None, batch_pixels=9 * 48 * 64 * 2 + 5)
    sizes = {each.bucket: each.step_clips for each in made.describe().buckets.buckets}
    assert sizes == {(5, 48, 64): 3, (9, 48, 64): 2}
    made = plan(catalog, global_batch=None, batch_size=lambda bucket: 20 // bucket[0], world_size=2)
    sizes = {each.bucket: each.step_clips for each in made.describe().buckets.buckets}
    assert sizes == {(5, 48, 64): 8, (9, 48, 64): 4}
    with pytest.raises(UsageError, match="batch_pixels: a clip of the bucket"):
        plan(catalog, global_batch=None, batch_pixels=1000)
    with pytest.raises(UsageError, match="expected one of global_batch=, batch_size= and batch_pixels=, got none"):
        plan(catalog, global_batch=None)
    with pytest.raises(UsageError, match="got global_batch and batch_size"):
        plan(catalog, batch_size=2)


def test_clips_that_move_to_a_shorter_bucket_keep_the_promises() -> None:
    """They repeat no more than ``max_repeated``, come as often, and a video has one clip of a T."""
    slow = FakeCatalog([steady_index(90, fps=9)] * 2 + [steady_index(14)] * 8)
    made = plan(slow, [(5, 48, 64), (9, 48, 64)], max_repeated=0.15, global_batch=4)
    assert {clip.row for clip in made} == set(range(2, 10))
    assert [name for name, _ in made.excluded] == ["video0.mp4", "video1.mp4"]
    buckets = [(5, 48, 64), (5, 64, 48), (9, 48, 64)]
    catalog = FakeCatalog([steady_index(14)] * 4 + [steady_index(60)], columns={"times": [1] * 4 + [3]})
    made = plan(catalog, buckets, global_batch=4, repeats="times")
    assert np.bincount([clip.row for clip in made][:7], minlength=5).sum() == 7
    assert made.describe().buckets.buckets[0].clips == 7
    sizes = [(48, 64)] * 4 + [(96, 128)] * 3
    mixed = FakeCatalog([steady_index(14)] * 4 + [steady_index(14)] * 2 + [steady_index(60)], sizes=sizes)
    made = plan(mixed, [(5, 48, 64), (5, 96, 128), (9, 48, 64)], per_video="all", global_batch=2)
    assert bucket_by_row(made)[6] == [(5, 96, 128)] * bucket_by_row(made)[6].count((5, 96, 128))


def test_repeats_of_a_clip_stay_where_it_moves_with_per_video_all() -> None:
    catalog = FakeCatalog([steady_index(60)] * 5, sizes=[(48, 48)] * 4 + [(48, 64)], columns={"times": [1] * 4 + [3]})
    made = plan(catalog, [(9, 48, 48), (9, 48, 64)], per_video="all", global_batch=4, repeats="times", max_crop=0.3)
    assert [(each.bucket, each.clips) for each in made.describe().buckets.buckets] == [((9, 48, 48), 7)]


def test_the_text_of_a_rest_counts_what_was_delivered() -> None:
    catalog = FakeCatalog([steady_index(60)] * 20 + [steady_index(15)] * 10)
    for options in ({"global_batch": 4}, {"global_batch": None, "batch_size": 2, "world_size": 2}):
        made = plan(catalog, **options)
        rest = made.without(int(made.order.step_bounds[3]))
        table = rest.describe().buckets
        assert sum(each.delivered for each in table.buckets) == 12
        assert [each.left for each in table.buckets] == [0, 0]
        assert [each.repeated for each in table.buckets] == [2, 0]
        assert sum(each.steps for each in table.buckets) == 5
        assert not any(each.delivered for each in made.describe().buckets.buckets)
        for position in range(len(rest)):
            assert rest.whole[rest.global_position(position)] == rest[position]


def test_weights_and_repeats_say_how_often_clips_come() -> None:
    catalog = FakeCatalog(
        [steady_index(60)] * 6 + [steady_index(15)] * 6, columns={"times": [1, 2, 0, 3, 1, 1] + [1] * 6}
    )
    made = plan(catalog, repeats="times")
    counts = np.bincount([clip.row for clip in made], minlength=12).tolist()
    assert counts == [1, 2, 0, 3, 1, 1] + [1] * 6
    assert "repeats=" in dict(made.excluded)["video2.mp4"]
    twice = plan(catalog, weights={(9, 48, 64): 2, (5, 48, 64): 0.5})
    counts = np.bincount([clip.row for clip in twice], minlength=12)
    assert counts[:6].tolist() == [2] * 6
    assert sorted(counts[6:].tolist()) == [0, 0, 0, 1, 1, 1]
    assert twice.fingerprint != plan(catalog).fingerprint
    assert len(plan(catalog, weights={(9, 48, 64): np.float32(0.5)})) == 9
    assert len(plan(catalog, weights={(9, 48, 64): Fraction(5, 2)})) == 21
    for bucket in ((7, 48, 64), 7):
        with pytest.raises(UsageError, match="there is no bucket"):
            plan(catalog, weights={bucket: 2})
    with pytest.raises(UsageError, match=r"weights\[.*a number above 0"):
        plan(catalog, weights={(9, 48, 64): 0})
    with pytest.raises(UsageError, match="a column of integers"):
        plan(FakeCatalog([steady_index(60)], columns={"times": [0.5]}), repeats="times")
    with pytest.raises(UsageError, match="a column of integers"):
        plan(FakeCatalog([steady_index(60)] * 2, columns={"times": ["a", "b"]}), repeats="times")
    with pytest.raises(UsageError, match="expected at most 134,217,728 clips"):
        plan(FakeCatalog([steady_index(60)] * 129, columns={"times": [1 << 20] * 129}), repeats="times")


def test_a_plan_is_a_value() -> None:
    catalog = FakeCatalog([steady_index(20 + count) for count in range(9)], columns={"score": list(range(40, 49))})
    made = plan(catalog, global_batch=2, columns=("score",))
    again = pickle.loads(pickle.dumps(made))
    assert list(again) == list(made)
    assert again.fingerprint == made.fingerprint
    assert repr(again) == repr(made)
    assert [made.columns_at(position)["score"] for position in range(len(made))] == [40 + clip.row for clip in made]
    assert len({plan(catalog, **options).fingerprint for options in (
        {}, {"seed": 1}, {"global_batch": 3}, {"tail": "drop"}, {"fps": 11}, {"start": 0}, {"accumulate": 2},
        {"max_crop": 0.1, "filter": "bicubic"}, {"buckets": BUCKETS[:2]}, {"batch_size": 1, "global_batch": None},
        {"horizontal_flip": 0.5},
    )}) == 11  # fmt: skip
    alike = plan(catalog, accumulate=2, start=1, max_crop=0.0, max_repeated=1.0).fingerprint
    others = {"accumulate": np.int64(2), "start": 1.0, "max_crop": 0, "max_repeated": np.float64(1), "fps": 10.0}
    assert plan(catalog, **others).fingerprint == alike
    other = plan(catalog, seed=1)
    with pytest.raises(UsageError, match="belongs to another plan: these differ: seed"):
        made.with_state(other.state_dict())


def test_the_text_of_a_plan_says_what_comes_and_what_does_not() -> None:
    catalog = FakeCatalog([steady_index(60)] * 5 + [steady_index(15)] * 3 + [steady_index(4)] * 2)
    with pytest.warns(UserWarning, match=r"2 of 10 rows are left out of this plan.*2: shorter than 5 frames at 10"):
        made = plan_buckets(catalog, BUCKETS, fps=10, global_batch=2, seed=0)
    text = str(made.describe())
    assert "steps: 5; clips that repeat: 2 (25 %); clips in no step: 0 (0 %)" in text
    assert "left out, rows: 2, shorter than 5 frames at 10 a second" in text
    (line,) = [line.split() for line in text.splitlines() if line.strip().startswith("9x48x64")]
    assert line == ["9x48x64", "5", "3", "2", "60.0", "%", "1", "0", "0", "%"]
    assert "clips in no step: 2 (25 %)" in str(plan(catalog, global_batch=2, tail="drop").describe())
    damaged = replace(steady_index(60), damaged_frame_indices=np.array([5], np.int64))
    with pytest.warns(UserWarning, match="damage"):
        plan_buckets(FakeCatalog([damaged]), BUCKETS, fps=10, global_batch=1, seed=0)
    with pytest.warns(UserWarning, match="encoders of most models") as warned:
        plan_buckets(FakeCatalog([steady_index(60)]), [(6, 48, 60), (8, 48, 64)], fps=10, batch_size=1, seed=0)
    texts = [str(each.message) for each in warned]
    assert any("T = 6, 8 is neither 4 k + 1 nor 8 k + 1" in text for text in texts)
    assert any("sides of 60 pixels are no multiples of 8" in text for text in texts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fps": float("nan")}, "fps"),
        ({"fps": 0}, "fps"),
        ({"seed": None}, "seed"),
        ({"buckets": []}, "buckets: expected 1 to"),
        ({"buckets": "9x48x64"}, "buckets"),
        ({"buckets": [(9, 48)]}, "buckets"),
        ({"buckets": [(9, 0, 64)]}, "H"),
        ({"max_crop": 1.0}, "max_crop"),
        ({"max_crop": True}, "max_crop"),
        ({"max_repeated": 2}, "max_repeated"),
        ({"enlarge": 1}, "enlarge"),
        ({"per_video": "first"}, "per_video"),
        ({"start": -1}, "start"),
        ({"accumulate": 0}, "accumulate"),
        ({"min_steps": -1}, "min_steps"),
        ({"global_batch": 0}, "global_batch"),
        ({"global_batch": lambda bucket: 1.5}, "global_batch of the bucket"),
        ({"global_batch": 3, "world_size": 2}, "multiple of world_size=2"),
        ({"weights": [2]}, "weights"),
        ({"repeats": 3}, "repeats"),
        ({"tail": "wrap"}, "tail"),
        ({"within": ("a",)}, "within"),
        ({"size": (48, 64)}, "the buckets say it"),
        ({"shuffle": False}, "always shuffled"),
    ],
)
def test_wrong_arguments_are_errors_that_name_them(options: dict[str, Any], message: str) -> None:
    with pytest.raises((UsageError, TypeError), match=message):
        plan(FakeCatalog([steady_index(60)] * 4), **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((), (4096,)), "frames"),
        (((5,), (100,)), "pixels"),
        (((0,), (4096,)), "frames"),
        (((5,), (4096,), 0), "multiple"),
        (((5,), (4096,), 16, ("16x9",)), "ratios"),
        (((5,), (4096,), 16, ("0:9",)), "ratios"),
        (((5,), (4096,), 16, "16:9"), "ratios"),
        (((5.5,), (4096,)), "frames"),
        (((5,), (65_535**2,), 16, ("64:1",)), "sides of at most 65535"),
        (((5,), (4096,), 16, ("65:1",)), "from 1:64 to 64:1"),
        ((range(1, 4098), (4096,), 16, ("1:1",)), "buckets: expected 1 to 4096, got 4097"),
    ],
)
def test_wrong_buckets_are_errors_that_name_the_field(arguments: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Buckets(*arguments)


def test_nothing_to_plan_is_said() -> None:
    with pytest.warns(UserWarning, match="No rows remain, so the plan has no clips"):
        made = plan_buckets(FakeCatalog([steady_index(3)]), BUCKETS, fps=10, global_batch=1, seed=0)
    assert len(made) == 0
    assert made.shapes() == made.keys() == []
    assert "steps: 0" in str(made.describe())


def test_keys_of_clips_are_of_all_that_decides_their_pixels() -> None:
    damaged = replace(steady_index(60), damaged_frame_indices=np.array([1], np.int64))
    catalog = FakeCatalog([damaged], sizes=(48, 64))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        keys = [
            plan_clips(catalog, Dense(3, start=0), seed=0, **{"size": Letterbox(32, 32), **options})[0].key
            for options in (
                {}, {"size": Letterbox(32, 32, fill=114)}, {"horizontal_flip": 1.0}, {"on_damaged": "skip"},
                {"size": Letterbox(32, 48)}, {"filter": "bicubic"},
            )
        ]  # fmt: skip
    assert len(set(keys)) == len(keys)


def test_keys_of_texts_are_those_of_the_text_alone() -> None:
    assert text_key("a cat") == text_key("a cat") != text_key("a cat ")
    assert len(text_key("")) == 32
    assert text_key("\ud800") != text_key("?")  # half of a pair, as JSON may hold
    with pytest.raises(UsageError, match="text"):
        text_key(b"a cat")  # type: ignore[arg-type]
