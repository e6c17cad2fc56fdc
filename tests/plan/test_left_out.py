"""Rows whose clips are known to fail all are left out with one warning, and listed with what to do."""

from __future__ import annotations

import pickle
import shutil
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import framefeed as ff
from framefeed.errors import TimeUnavailable
from framefeed.testing import ClipSpec
from tests.corpus import clip_file, corpus_file
from tests.makers import plan_over

SIZE = (16, 24)
BY_TIME = (
    ff.Rates([(5, 2), (10, 2)]),
    ff.AtSeconds([0.1, 0.3]),
    ff.Dense(3, fps=5),
    ff.Dense(3, start=0.2),
)
BY_NUMBER = (
    ff.Uniform(3),
    ff.RandomSegments(3),
    ff.AtIndices([0, -1]),
    ff.EveryFrame(),
    ff.Dense(3),
    ff.Dense(3, start=0),
)


def paths() -> list[str]:
    """A stream without times between two with times."""
    timed = [str(clip_file(f"left_out_{number}.mp4", ClipSpec(num_frames=20, fps=10))) for number in range(2)]
    return [timed[0], str(corpus_file("raw.h264")), timed[1]]


@cache
def catalog() -> ff.Catalog:
    table = pa.table(
        {
            "path": paths(),
            "at": [[0.1, 0.2]] * 3,
            "start": pa.array([0.1, None, None], pa.float64()),
            "end": pa.array([None, 0.5, 1.0], pa.float64()),
            "none": pa.array([None] * 3, pa.float64()),
        }
    )
    return ff.scan(table, workers=0)


REMEDY = (
    "if you know the frame rate, scan with assume_fps= (on the command line: --assume-fps), or choose frames by "
    "number, as ff.Uniform and ff.Dense(stride=) do"
)


def plan_timed(rule: Any = None, **options: Any) -> ff.EpochPlan:
    with pytest.warns(UserWarning, match="1 of 3 rows are left out") as caught:
        plan = plan_over(catalog(), rule, **{"size": SIZE, "shuffle": False, **options})
    (warning,) = caught
    why = f"1 of them have no times of their frames, which this plan needs: {REMEDY} (first {paths()[1]})"
    assert str(warning.message).endswith(why)
    return plan


def check(plan: ff.EpochPlan) -> None:
    """All that is planned can be planned, and the rest is listed."""
    (left_out,) = plan.excluded
    assert left_out.source == paths()[1]
    assert left_out.error.startswith("TimeUnavailable: ")
    assert "assume_fps=" in left_out.error
    assert {plan[position].row for position in range(len(plan))} == {0, 2}
    assert [request.source for request in plan] == [
        plan.catalog[plan[position].row].source for position in range(len(plan))
    ]
    assert plan.describe().unusable_clips == 0
    again = pickle.loads(pickle.dumps(plan))
    assert (list(again), again.excluded) == (list(plan), plan.excluded)


@pytest.mark.parametrize("rule", BY_TIME)
def test_rules_by_time(rule: Any) -> None:
    check(plan_timed(rule))
    check(plan_timed(rule, shuffle="videos", clips_per_video=3))
    check(plan_timed(rule, within=("none", "none")))


def test_a_column_of_seconds_and_windows() -> None:
    check(plan_timed(at="at"))
    check(plan_timed(ff.Uniform(2), within=("start", "end")))
    check(plan_timed(ff.EveryFrame(), within=("start", "end")))


@pytest.mark.parametrize("rule", BY_NUMBER)
def test_rules_by_number_need_no_times(rule: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for within in (None, ("none", "none")):
            plan = ff.plan_clips(catalog(), rule, seed=0, size=SIZE, within=within)
            assert {plan[position].row for position in range(len(plan))} == {0, 1, 2}
            assert len(list(plan)) == len(plan)


def test_the_advice_is_right(tmp_path: Path) -> None:
    shutil.copy(paths()[1], tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(ff.plan_clips(ff.scan(tmp_path, assume_fps=25, workers=0), BY_TIME[0], seed=0)[0]) == 4


def test_where_no_row_remains() -> None:
    with pytest.warns(UserWarning, match=r"\(first \S*raw.h264\)\. No rows remain, so the plan has no clips$"):
        assert len(ff.plan_clips(catalog().take([1]), BY_TIME[0], seed=0)) == 0


def test_mixtures_list_those_of_their_parts() -> None:
    plan = ff.mix_plans([(plan_timed(BY_TIME[0]), 1), (plan_timed(BY_TIME[0], seed=1), 1)], num_clips=6, seed=0)
    assert [each.source for each in plan.excluded] == [paths()[1]] * 2
    assert len(list(plan)) == 6


def test_a_request_by_time_is_an_error_that_names_it() -> None:
    timed, untimed, _ = paths()
    sound = ff.DecodeRequest(timed, seconds=[0.1])
    assert len(ff.plan_requests([sound, ff.DecodeRequest(untimed, [3])])[1]) == 1
    for request in (
        ff.DecodeRequest(untimed, seconds=[0.1]),
        ff.DecodeRequest(untimed, [3], start_seconds=0.1),
    ):
        with pytest.raises(TimeUnavailable, match=r"raw\.h264: request 1: .* assume_fps=") as caught:
            ff.plan_requests([sound, request])
        assert (caught.value.source, caught.value.position, caught.value.stage) == (untimed, 1, "plan")
