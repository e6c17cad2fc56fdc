"""Threads and processes raise the same error where the function fails.

`make chaos` runs 200 seeds.
"""

from __future__ import annotations

from typing import Any

import pytest

import framefeed as ff
from tests.transcode.agreement import run_seed


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.test_all) for seed in range(3, 6))])
def test_threads_and_processes_raise_the_same_error(seed: int) -> None:
    run_seed(seed)


def lose_a_worker(*arguments: Any, kind: str, **options: Any) -> Any:
    if kind == "processes":
        raise ff.WorkerLost("frame 0: worker process 1 was killed by SIGKILL", position=0)
    return ff.map_video(*arguments, **options)


def name_another_frame(*arguments: Any, kind: str, **options: Any) -> Any:
    try:
        return ff.map_video(*arguments, **options)
    except ff.LoadError as error:
        error.position = 1000 if kind == "processes" else error.position
        raise


@pytest.mark.parametrize("wrong", [lose_a_worker, name_another_frame])
def test_the_checks_catch_another_error(wrong: Any) -> None:
    with pytest.raises(AssertionError):
        run_seed(0, wrong)
