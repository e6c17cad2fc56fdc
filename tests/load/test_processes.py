"""Worker processes deliver what threads deliver, and what the calling thread delivers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framefeed.cache import FrameCache
from framefeed.load._loader import ClipLoader
from tests.lengths import either
from tests.load.laws import content, dump_state, iterate_to_end, run
from tests.load.test_laws import CONFIGURATIONS, find_maker, noisy
from tests.makers import plan_of

QUICK = ("clips", "skip and transform", "boxed, skip", "boxed float32")


def in_processes(make: Callable[[int], ClipLoader], workers: int) -> ClipLoader:
    """The same loader, with processes."""
    with make(workers) as loader:
        options = vars(loader._options) | {"kind": "processes"}
        return ClipLoader(loader.plan, **options)


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "name"),
    [
        pytest.param(number, name, marks=[] if name in QUICK else pytest.mark.slow)
        for number, name in enumerate(CONFIGURATIONS)
        if name in QUICK or number % either(short=3, long=1) == 0
    ],
)
def test_L13_processes_deliver_what_threads_deliver_resumed_from_every_state(number: int, name: str) -> None:
    make = find_maker(name)
    expected, states = [], []
    with make(0) as inline:
        states.append(dump_state(inline))
        for item in iterate_to_end(inline):
            expected.append(item)
            states.append(dump_state(inline))
    with in_processes(make, 1 + number % 3) as loader:
        for count, state in enumerate(states):
            loader.load_state_dict(json.loads(state))
            assert list(iterate_to_end(loader)) == expected[count:], f"from state {count}"


def unequal_shapes(clip: Any, rng: np.random.Generator) -> Any:
    return clip[: int(rng.integers(1, 3)), 0].astype(np.float64)


@pytest.mark.parametrize("transform", [None, noisy])
@pytest.mark.slow
def test_clips_of_any_size(transform: Any) -> None:
    def make(workers: int, kind: Any = "threads") -> ClipLoader:
        plan = plan_of(unequal=True, size=None)
        return ClipLoader(plan, batch_size=5, workers=workers, kind=kind, transform=transform)

    def collect(loader: ClipLoader) -> list[Any]:
        with loader:
            return [[(clip.shape, clip.dtype, clip.tobytes()) for clip in batch.data] for batch in loader]

    assert collect(make(2, "processes")) == collect(make(0))


def of_two_dtypes(clip: Any, rng: np.random.Generator) -> Any:
    return clip if rng.integers(2) else clip.astype(np.float32) / 255


_REUSED = np.zeros(2)


def of_one_array(clip: Any, rng: np.random.Generator) -> Any:
    _REUSED[:] = clip.shape[0], rng.integers(1 << 20)
    return _REUSED


@pytest.mark.slow
@pytest.mark.parametrize("transform", [unequal_shapes, of_two_dtypes, of_one_array])
def test_results_of_any_form_are_those_of_threads(transform: Any) -> None:
    def collect(kind: Any, workers: int) -> list[Any]:
        options: dict[str, Any] = {"batch_size": 6, "on_error": "skip", "transform": transform}
        with ClipLoader(plan_of(shuffle="videos"), kind=kind, workers=workers, **options) as loader:
            return [content(batch) for _ in range(2) for batch in loader]

    assert collect("processes", 2) == collect("threads", 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:cache. about")
def test_a_cache_is_filled_and_read_by_processes(tmp_path: Path) -> None:
    plan = plan_of(shuffle=False)
    options: dict[str, Any] = {"batch_size": 5, "cache": FrameCache(tmp_path / "cache", codec="raw")}
    with ClipLoader(plan, batch_size=5, workers=0) as inline:
        expected = [content(batch) for batch in inline]
    for _ in range(2):
        with ClipLoader(plan, workers=2, kind="processes", **options) as loader:
            assert [content(batch) for batch in loader] == expected
    assert loader.stats().cached_share == 1
    with ClipLoader(plan, workers=0, **options) as loader:
        assert [content(batch) for batch in loader] == expected
        assert loader.stats().cached_share == 1


def test_nothing_runs_in_processes_with_no_workers() -> None:
    make = find_maker("clips")
    with in_processes(make, 0) as loader:
        assert list(iterate_to_end(loader)) == run(make)
