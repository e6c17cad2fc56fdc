"""Worker processes deliver what threads deliver, and what the calling thread delivers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framefeed.cache import FrameCache
from framefeed.errors import CorruptMedia, LoadError
from framefeed.load._loader import ClipLoader
from tests.fakes import FlatDecoder, add_noise
from tests.lengths import either
from tests.load import faulty
from tests.load.laws import content, dump_state, iterate_to_end, run
from tests.load.test_laws import CONFIGURATIONS, find_maker
from tests.makers import catalog, plan_of

pytestmark = pytest.mark.usefixtures("kept_processes")
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
    with in_processes(make, 1 + number % 2) as loader:
        for count, state in enumerate(states):
            loader.load_state_dict(json.loads(state))
            assert list(iterate_to_end(loader)) == expected[count:], f"from state {count}"


def unequal_shapes(clip: Any, rng: np.random.Generator) -> Any:
    return clip[: int(rng.integers(1, 3)), 0].astype(np.float64)


_REUSED = np.zeros(2)


def of_one_array(clip: Any, rng: np.random.Generator) -> Any:
    """Use the array of the clip before, which may be of the same source, and so of the same call."""
    _REUSED[:] = clip.shape[0], rng.integers(1 << 20)
    return _REUSED


@pytest.mark.parametrize("transform", [None, add_noise, of_one_array])
@pytest.mark.slow
def test_clips_of_any_size(transform: Any) -> None:
    def make(workers: int, kind: Any = "threads") -> ClipLoader:
        plan = plan_of(unequal=True, size=None, shuffle="videos")
        return ClipLoader(plan, batch_size=5, workers=workers, kind=kind, transform=transform)

    def collect(loader: ClipLoader) -> list[Any]:
        with loader:
            return [[(clip.shape, clip.dtype, clip.tobytes()) for clip in batch.data] for batch in loader]

    assert collect(make(2, "processes")) == collect(make(0))


def of_two_dtypes(clip: Any, rng: np.random.Generator) -> Any:
    return clip if rng.integers(2) else clip.astype(np.float32) / 255


@pytest.mark.slow
@pytest.mark.parametrize("transform", [unequal_shapes, of_two_dtypes, of_one_array, faulty.refuse_bright, faulty.empty])
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


def make_loader_of(**options: Any) -> ClipLoader:
    given = {"batch_size": 4, "backend": FlatDecoder(), "workers": 2, "kind": "processes", **options}
    return ClipLoader(plan_of(), **given)


@pytest.mark.parametrize(("kind", "workers"), [("threads", 0), ("threads", 2), ("processes", 2)])
@pytest.mark.parametrize("broken", [range(6), range(0, 6, 2)])
def test_a_run_over_broken_files_ends_with_its_ledger(kind: str, workers: int, broken: range, tmp_path: Path) -> None:
    fates = {str(catalog().source(row)): "broken" for row in broken}
    decoder = faulty.FaultyDecoder(fates, tmp_path)
    with make_loader_of(backend=decoder, kind=kind, workers=workers, on_error="skip") as loader:
        batches = list(loader)
        assert len(loader.ledger) == 2 * len(broken)
        assert {entry.source for entry in loader.ledger} == set(fates)
    errors = [error for batch in batches for error in batch.errors if error is not None]
    assert {type(error) for error in errors} == {CorruptMedia}
    assert [len(batch) for batch in batches] == [4, 4, 4]


def test_L05_an_error_that_cannot_be_sent_is_that_of_its_clip_alone() -> None:
    plan = plan_of(clips_per_video=3, shuffle="videos")
    decoder = FlatDecoder(spoil=faulty.UnsendableAt(plan[1].indices.tolist()))
    with ClipLoader(
        plan, batch_size=3, backend=decoder, workers=1, kind="processes", on_error="skip", prefetch=1
    ) as loader:
        batch = next(iter(loader))
    assert len(set(batch.sources)) == 1
    assert batch.ok.tolist() == [True, False, True]
    assert type(batch.errors[1]) is LoadError
    assert str(batch.errors[1]).startswith("Unsendable: held")
    assert (batch.errors[1].position, batch.errors[1].stage) == (1, "decode")
    assert [clip[0, 0, 0, 0] for clip in batch.data] == [plan[0].indices[0], 0, plan[2].indices[0]]


@pytest.mark.slow
def test_L02_L03_a_worker_has_one_thread_and_its_libraries_too() -> None:
    with make_loader_of(transform=faulty.count_threads, backend="auto", workers=1) as loader:
        counts = np.concatenate([batch.data for batch in loader])
    # PyTorch starts no threads of its own before it computes.
    assert counts.max(axis=0).tolist() == [1, 1, 1, 1, 1]


@pytest.mark.slow
def test_P14_batches_of_shared_memory_keep_their_content() -> None:
    with make_loader_of(backend="auto") as loader:
        kept = [(batch.data[1], content(batch), batch) for _ in range(2) for batch in loader]
    assert all(content(batch) == expected for _, expected, batch in kept)
    assert all((view == batch.data[1]).all() for view, _, batch in kept)
    del kept
