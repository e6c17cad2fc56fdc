"""Runs that are disturbed, and run again until they succeed, end with the bytes of a quiet run.

`make chaos` runs 200 seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import framefeed as ff
from tests.parallel.living import check_workers_often
from tests.transcode.storms import Storm, run_seed


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.test_all) for seed in range(4, 10))]
)
def test_disturbed_runs_end_with_the_bytes_of_a_quiet_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_workers_often(monkeypatch)
    run_seed(seed)


def find_seed(is_fitting: Callable[[Storm], bool]) -> int:
    return next(seed for seed in range(1000) if is_fitting(Storm.draw(seed)))


def fails_late(storm: Storm) -> bool:
    """Whether a function of one frame fails after the first segment of an MP4."""
    harms = {harm for each in storm.harms.values() for harm in each}
    is_plain = storm.name == "out.mp4" and storm.output == "video" and storm.settings["batch_size"] is None
    return storm.kind != "processes" and is_plain and harms == {"raise"} and min(storm.harms) > 30


def lose_a_frame(source: Any, function: Any, *out: Any, **options: Any) -> Any:
    def function_without_a_frame(frame: Any, *, index: Any, pts_seconds: Any) -> Any:
        result = function(frame, index=index, pts_seconds=pts_seconds)
        return None if index == 20 else result

    return ff.map_video(source, function_without_a_frame, *out, **options)


def begin_again(*arguments: Any, **options: Any) -> Any:
    return ff.map_video(*arguments, **options, resume=False)


def hide_errors(*arguments: Any, **options: Any) -> Any:
    return ff.map_video(*arguments, **{**options, "on_error": "skip"})


def call_again(*arguments: Any, **options: Any) -> Any:
    try:
        return ff.map_video(*arguments, **options)
    except ff.LoadError:
        return call_again(*arguments, **options)


def leave_a_file(source: Any, function: Any, out: Any, **options: Any) -> Any:
    result = ff.map_video(source, function, out, **options)
    out.with_name("left").touch()
    return result


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [lose_a_frame, begin_again, hide_errors, call_again, leave_a_file])
def test_the_checks_catch_wrong_runs(wrong: Callable[..., Any]) -> None:
    seed = find_seed(fails_late)
    if wrong is lose_a_frame:
        run_seed(seed)
    with pytest.raises(AssertionError):
        run_seed(seed, wrong)
