"""plan_clips(at=...): frames from a column of the catalog."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from framefeed.catalog import Catalog
from framefeed.errors import UsageError
from framefeed.plan import EpochPlan
from framefeed.plan._plan_clips import plan_clips
from framefeed.plan._plan_requests import plan_requests
from framefeed.plan._rules import AtIndices, EveryFrame, Uniform
from framefeed.request import DecodeRequest
from framefeed.scanning import scan
from framefeed.testing import ClipSpec
from tests.corpus import clip_file
from tests.makers import plan_over

LENGTHS = (6, 9, 12)


def scan_list(folder: Path, **columns: Any) -> Catalog:
    """A catalog of a Parquet list: one row for each value of the columns."""
    count = max(map(len, columns.values()))
    names = [clip_file(f"annotated_{length}.mp4", ClipSpec(num_frames=length)) for length in LENGTHS]
    sources = pa.array([str(names[row % len(names)]) for row in range(count)])
    pq.write_table(pa.table({"path": sources, **columns}), folder / "list.parquet")
    return scan(folder / "list.parquet", workers=0)


plan_at = partial(plan_over, at="frame", shuffle=False)


def frames(plan: EpochPlan) -> list[list[int]]:
    return [request.indices.tolist() for request in plan]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [1, -1, 5]),
        (pa.uint8(), [1, 8, 5]),
        (pa.int32(), [1, 8, 5]),
        (pa.list_(pa.int16()), [[1], [8], [5]]),
        (pa.large_list(pa.int64()), [[1], [-1], [5]]),
        (pa.list_(pa.int64(), 1), [[1], [8], [5]]),
        (pa.dictionary(pa.int8(), pa.int64()), [1, 8, 5]),
    ],
)
def test_integers_are_frame_numbers(tmp_path: Path, kind: pa.DataType, values: list[Any]) -> None:
    assert frames(plan_at(scan_list(tmp_path, frame=pa.array(values, kind)))) == [[1], [8], [5]]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.list_(pa.float64())])
def test_floats_are_seconds_from_the_first_frame(tmp_path: Path, kind: pa.DataType) -> None:
    step = float(np.diff(scan(clip_file("annotated_6.mp4", ClipSpec(num_frames=6))).frame_index(0).pts_seconds)[0])
    seconds = [0.0, 2.5 * step, 4.5 * step]
    values = [[each] for each in seconds] if pa.types.is_list(kind) else seconds
    plan = plan_at(scan_list(tmp_path, frame=pa.array(values, kind)))
    assert frames(plan) == [[0], [2], [4]]
    assert plan[1].pick_error_seconds[0] == pytest.approx(-0.5 * step, abs=1e-6)


def test_it_is_what_the_same_requests_give(tmp_path: Path) -> None:
    numbers = [[5, 1, 1], [0, 30, 2], [-1, 3, 7], [4, 4, 4]]
    catalog = scan_list(tmp_path, frame=numbers, score=[0.5, 1.5, 2.5, 3.5])
    plan = plan_at(catalog, shuffle=True, columns=["score"], size=(8, 8))
    asked = [DecodeRequest(catalog[row], numbers[row]) for row in range(4)]
    expected = plan_requests(asked, columns={"score": [0.5, 1.5, 2.5, 3.5]}, shuffle=True, size=(8, 8))
    assert list(plan) == list(expected)
    assert [plan.columns_at(i) for i in range(4)] == [expected.columns_at(i) for i in range(4)]
    assert (plan.frames_per_clip, plan.picture_shape) == (3, (3, 8, 8))


def test_rows_that_name_no_frame_are_listed(tmp_path: Path) -> None:
    values = [[1, 2], None, [3, None], [4, 5], []]
    with pytest.warns(UserWarning, match="3 of 5 rows are left out"):
        plan = plan_at(scan_list(tmp_path, frame=pa.array(values, pa.list_(pa.int64())), score=[0, 1, 2, 3, 4]))
    assert frames(plan) == [[1, 2], [4, 5]]
    assert [Path(source).name for source, _ in plan.excluded] == [
        Path(plan.catalog.source(row)).name for row in (1, 2, 4)
    ]
    assert all("'frame' names no frame" in reason for _, reason in plan.excluded)
    assert pickle.loads(pickle.dumps(plan)).excluded == plan.excluded
    with pytest.warns(UserWarning, match="left out"):
        with_score = plan_at(plan.catalog, columns=["score"])
    assert [with_score.columns_at(i)["score"] for i in range(2)] == [0, 3]
    with pytest.warns(UserWarning, match="left out"):
        holes = plan_at(scan_list(tmp_path, frame=[0.0, float("nan"), None]))
    assert (frames(holes), len(holes.excluded)) == ([[0]], 2)


def test_failed_rows_are_listed_too_and_their_lists_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "notes.mp4").write_text("no video here")
    good = str(clip_file("annotated_6.mp4", ClipSpec(num_frames=6)))
    names = pa.array([good, "notes.mp4", good])
    pq.write_table(pa.table({"path": names, "frame": [[1, 2], [1], [3, 4]]}), tmp_path / "list.parquet")
    with pytest.warns(UserWarning, match="1 of 3 rows"):
        plan = plan_at(scan(tmp_path / "list.parquet", workers=0))
    assert frames(plan) == [[1, 2], [3, 4]]
    assert [(Path(source).name, error.split(":")[0]) for source, error in plan.excluded] == [
        ("notes.mp4", "UnreadableMedia")
    ]


def test_a_csv_and_json_lines_name_frames(tmp_path: Path) -> None:
    name = clip_file("annotated_6.mp4", ClipSpec(num_frames=6))
    (tmp_path / "list.csv").write_text(f"path,frame\n{name},3\n{name},5\n")
    assert frames(plan_at(scan(tmp_path / "list.csv", workers=0))) == [[3], [5]]
    (tmp_path / "list.jsonl").write_text(
        f'{{"path": "{name}", "frame": [3, 1]}}\n{{"path": "{name}", "frame": [0, 2]}}'
    )
    assert frames(plan_at(scan(tmp_path / "list.jsonl", workers=0))) == [[3, 1], [0, 2]]


def test_a_view_of_a_catalog_has_its_own_rows(tmp_path: Path) -> None:
    catalog = scan_list(tmp_path, frame=[[0], [1], [2, 3], [3], [4]])
    assert frames(plan_at(catalog[[4, 0, 3]])) == [[4], [0], [3]]


def test_a_plan_travels_as_the_name_of_its_column(tmp_path: Path) -> None:
    unsaved = plan_at(scan_list(tmp_path, frame=[[1, 2], [3, 4], [5, 0]] * 100), shuffle=True).with_epoch(2)
    assert list(pickle.loads(pickle.dumps(unsaved))) == list(unsaved)
    unsaved.catalog.to_parquet(tmp_path / "cat.parquet")
    saved = plan_at(Catalog.open(tmp_path / "cat.parquet"), shuffle=True).with_epoch(2)
    text = pickle.dumps(saved)
    assert len(text) < 2000
    copy = pickle.loads(text)
    assert list(copy) == list(saved) == list(unsaved)
    assert copy.fingerprint == saved.fingerprint == unsaved.fingerprint
    other = plan_at(scan_list(tmp_path, frame=[[1, 2], [3, 4], [5, 1]] * 100), shuffle=True)
    assert other.fingerprint != saved.fingerprint


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["1;5;9", "2", "3"], r"column 'frame' holds text such as '1;5;9': expected integers .* plan_requests"),
        (["99.5", "1/2", "3"], "text such as '1/2'"),
        ([True, False, True], "holds bool"),
        ([[[1]], [[2]], [[3]]], "holds list"),
        (
            [[1], [2, 3], [4]],
            r"same number of frames in every row, .* 0 \(.*annotated_6.mp4\) has 1 and row 1 \(.*_9.mp4\) has 2",
        ),
        ([0.0, float("inf"), 1.0], r"not finite in row 1 \(.*annotated_9.mp4\)"),
        (pa.array([1, 2, 2**63], pa.uint64()), "cannot be a frame number"),
    ],
)
def test_columns_that_name_no_frames(tmp_path: Path, values: Any, message: str) -> None:
    catalog = scan_list(tmp_path, frame=values)
    with pytest.raises(UsageError, match=message):
        plan_at(catalog)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (lambda c: plan_at(c, at="frames"), "no column 'frames': .*did you mean 'frame'"),
        (lambda c: plan_clips(c, Uniform(2), at="frame", seed=0), "expected a rule or at='frame', got both"),
        (lambda c: plan_clips(c, seed=0), "expected a clip rule such as ff.Uniform"),
        (lambda c: plan_at(c, within=("score", "score")), "leave out within="),
        (lambda c: plan_at(c, clips_per_video=2), "leave out within= and clips_per_video="),
        (lambda c: plan_at(c, at=3), "at: expected the name of a column, got 3"),
        (lambda c: plan_clips(c, EveryFrame, seed=0), "rule: expected a clip rule"),
        (lambda c: plan_at(scan(c.source(0), depth="header")), "with_frame_indexes"),
    ],
)
def test_wrong_calls(tmp_path: Path, plan: Callable[[Catalog], EpochPlan], message: str) -> None:
    catalog = scan_list(tmp_path, frame=[1, 2, 3], score=[0.5, 1.0, 1.5])
    with pytest.raises(UsageError, match=message):
        plan(catalog)


@pytest.mark.parametrize("name", ["start_seconds", "valid_time", "time_framed"])
def test_integers_in_a_column_named_as_times_are_warned_of(tmp_path: Path, name: str) -> None:
    with pytest.warns(UserWarning, match="integers are frame numbers, not seconds"):
        assert frames(plan_at(scan_list(tmp_path, **{name: [1, 2, 3]}), at=name)) == [[1], [2], [3]]
    plan_at(scan_list(tmp_path, **{name: [0.0, 0.04, 0.08]}), at=name)


@pytest.mark.parametrize(
    "name", ["timestamp_frame", "seconds_frames", "time_idx", "second_id", "time_index", "Time ID", "timestep"]
)
def test_integers_in_a_column_named_as_numbers_are_not_warned_of(tmp_path: Path, name: str) -> None:
    plan_at(scan_list(tmp_path, **{name: [1, 2, 3]}), at=name)


WHOLE = "floats, which are seconds, but all of them are whole numbers"


def test_frame_numbers_that_became_floats_are_warned_of(tmp_path: Path) -> None:
    with pytest.warns(
        UserWarning, match=rf"{WHOLE}, and 2 of 3 rows .* row 1 \(.*annotated_9.mp4\), with 3 s of 0."
    ) as w:
        plan = plan_at(scan_list(tmp_path, frame=[0.0, 3.0, 5.0]))
    assert len(w) == 1
    assert "cast the column to integers" in str(w[0].message)
    assert frames(plan) == [[0], [8], [11]]


def test_floats_that_can_be_seconds_are_not_warned_of(tmp_path: Path) -> None:
    plan_at(scan_list(tmp_path, frame=[0.0, 0.0, 0.0]))
    plan_at(scan_list(tmp_path, frame=[[0.0, 3.5], [0.0, 4.0], [0.0, 5.0]]))


@pytest.mark.parametrize(
    ("values", "example"),
    [
        ([1, 8, 12], "frame 12, but the video's frames go from 0 to 11"),
        ([[0.1, 9.5], [0.2, 9.5], [7.5, 9.5]], "7.5 s, but the video is 0.[0-9]* s long"),
    ],
)
def test_rows_whose_frames_all_lie_past_the_end_are_warned_of(tmp_path: Path, values: Any, example: str) -> None:
    expected = (
        rf"at='frame': in 1 of 3 rows, all frames .* row 2 \(.*annotated_12.mp4\), with {example}.*policy='error'"
    )
    with pytest.warns(UserWarning, match=expected) as caught:
        plan = plan_at(scan_list(tmp_path, frame=values))
    assert len(caught) == 1
    assert [bool(request.valid.any()) for request in plan if request.valid is not None] == [True, True, False]


def test_frames_from_the_end_and_a_view_of_the_rows_are_not_past_the_end(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="in 1 of 4 rows"):
        catalog = plan_at(scan_list(tmp_path, frame=[-1, -9, 12, 2])).catalog
    plan_at(catalog[[3, 0, 1]])
    with pytest.warns(UserWarning, match=r"in 1 of 2 rows.* row 1 \(.*annotated_12"):
        plan_at(catalog[[0, 2]])


def test_a_description_counts_frames_past_the_end(tmp_path: Path) -> None:
    plan = plan_at(scan_list(tmp_path, frame=[[0, 5], [0, 9], [0, 12]]))
    assert (plan.describe().past_end_frames, plan.describe().sampled_frames) == (2, 6)
    assert "frames past the end of the video: 2 of 6 sampled" in str(plan.describe())
    assert "past the end" not in str(plan_at(plan.catalog[[0]]).describe())


def test_L13_a_state_belongs_to_the_columns_of_the_bounds(tmp_path: Path) -> None:
    """The two columns change places: of both, the values are hashed."""
    catalog = scan_list(tmp_path, start=[0.02, None], stop=[None, 0.04])
    pairs: list[tuple[str, str] | None] = [None, ("start", "stop"), ("stop", "start")]
    plans = [plan_clips(catalog, AtIndices([0, -1]), seed=0, shuffle=False, within=each) for each in pairs]
    assert frames(plans[1]) != frames(plans[2])
    for plan in plans:
        accepted = []
        for other in plans:
            with suppress(UsageError):
                accepted.append(plan.with_state(other.state_dict()).fingerprint)
        assert accepted == [plan.fingerprint]
