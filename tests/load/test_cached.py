"""ClipLoader over a cache: the same batches for any contents of the cache and any number of workers."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framefeed.cache import FrameCache, choose_form
from framefeed.errors import UsageError
from framefeed.load._loader import ClipLoader
from framefeed.plan import Dense, RandomSegments, Uniform
from framefeed.request import CenterCrop, Letterbox, RandomCrop, RandomResizedCrop
from tests.lengths import IS_ALL
from tests.load.laws import check_resume, content, run
from tests.makers import plan_of

# tests/cache/test_reuse.py is about the warning of plans that draw other frames in each epoch.
pytestmark = pytest.mark.filterwarnings("ignore:cache. about")
MakeLoader = Callable[..., ClipLoader]
PLANS = {
    "small": {"size": (24, 32)},
    "whole": {},
    "random crops": {"crop": RandomCrop(20, 24)},
    "random areas": {"crop": RandomResizedCrop(16, 16)},
    "flipped": {"size": (24, 32), "horizontal_flip": 0.5},
    "boxed": {"size": Letterbox(20, 36, fill=8), "horizontal_flip": 0.5},
    "center": {"crop": CenterCrop(20, 24), "size": (10, 12)},
}


def collect_epochs(loader: ClipLoader, epochs: int) -> list[Any]:
    return [content(batch) for _ in range(epochs) for batch in loader]


@pytest.mark.parametrize("options", PLANS.values(), ids=PLANS)
def test_C11_every_epoch_is_the_uncached_one_for_any_number_of_workers(
    options: dict[str, Any], tmp_path: Path, make_loader: MakeLoader
) -> None:
    plan = plan_of(Dense(4, stride=2, start="random"), **options)
    expected = collect_epochs(make_loader(plan, batch_size=5, workers=0), 3)
    for workers in (0, 1, 3) if IS_ALL else (0, 3):
        with FrameCache(tmp_path / f"c{workers}") as cache:
            loader = make_loader(plan, batch_size=5, workers=workers, cache=cache)
            assert collect_epochs(loader, 3) == expected
            first = loader.stats()
            assert first.cache is not None
            assert first.cache.frames_stored == first.counts.frames_stored > 0
            again = make_loader(plan, batch_size=5, workers=workers, cache=cache)
            assert collect_epochs(again, 3) == expected
            assert again.stats().counts.frames_decoded == 0
            assert again.stats().cached_share == 1
            assert "100 % of them cached" in repr(again.stats())


def test_a_cache_that_another_process_filled(tmp_path: Path, make_loader: MakeLoader) -> None:
    plan = plan_of(size=(24, 32))
    with FrameCache(tmp_path / "c") as filling:
        expected = collect_epochs(make_loader(plan, batch_size=4, cache=filling), 1)
        with FrameCache(tmp_path / "c") as other:
            loader = make_loader(plan, batch_size=4, cache=other)
            assert collect_epochs(loader, 1) == expected
            assert loader.stats().counts.frames_decoded == 0, "sealed at the end of the first one's epoch"


@pytest.mark.slow
def test_what_a_process_stored_in_an_iteration_that_was_left_is_found_by_others(
    tmp_path: Path, make_loader: MakeLoader
) -> None:
    plan = plan_of(Uniform(4), clips_per_video=1, size=(24, 32), shuffle=False)
    with FrameCache(tmp_path / "c") as cache, FrameCache(tmp_path / "c") as other:
        loader = make_loader(plan, batch_size=3, workers=1, kind="processes", cache=cache)
        iterator = iter(loader)
        for _ in range(len(loader)):
            next(iterator)
        # Left after its last batch, and not at its end; the process stores its frames when it begins the next one.
        next(iter(loader))
        reader = make_loader(plan, batch_size=3, workers=0, cache=other)
        collect_epochs(reader, 1)
        assert reader.stats().counts.frames_decoded == 0


def test_an_interrupted_epoch_is_gone_on_with(tmp_path: Path, make_loader: MakeLoader) -> None:
    plan = plan_of(size=(24, 32))
    with FrameCache(tmp_path / "c") as cache:
        batches = iter(make_loader(plan, batch_size=3, workers=0, cache=cache))
        next(batches)
        stored = cache.stats().frames_stored
        loader = make_loader(plan, batch_size=3, workers=0, cache=cache)
        collect_epochs(loader, 1)
        assert loader.stats().counts.frames_cached >= stored > 0


def test_resuming_is_the_uninterrupted_run(tmp_path: Path) -> None:
    plan = plan_of(size=(24, 32))
    with FrameCache(tmp_path / "c") as cache:

        def make(workers: int) -> ClipLoader:
            return ClipLoader(plan, batch_size=4, workers=workers, cache=cache)

        check_resume(make, run(lambda workers: ClipLoader(plan, batch_size=4, workers=workers)))


def test_C04_a_full_cache_changes_nothing_but_speed(tmp_path: Path, make_loader: MakeLoader) -> None:
    plan = plan_of(size=(24, 32))
    expected = collect_epochs(make_loader(plan, batch_size=4), 2)
    with (
        FrameCache(tmp_path / "c", codec="raw", max_bytes=40_000) as cache,
        warnings.catch_warnings(record=True) as seen,
    ):
        warnings.simplefilter("always")
        loader = make_loader(plan, batch_size=4, workers=2, cache=cache)
        assert collect_epochs(loader, 2) == expected
        assert len([each for each in seen if "stores no more" in str(each.message)]) == 1
        assert 0 < loader.stats().counts.frames_cached < loader.stats().counts.frames_delivered


def test_C17_the_folder_goes_while_an_epoch_runs(tmp_path: Path, make_loader: MakeLoader) -> None:
    plan = plan_of(size=(24, 32))
    expected = collect_epochs(make_loader(plan, batch_size=4), 2)
    with FrameCache(tmp_path / "c") as cache, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        got = []
        for batch in (loader := make_loader(plan, batch_size=4, workers=0, cache=cache)):
            got.append(content(batch))
            shutil.rmtree(tmp_path / "c", ignore_errors=True)
        got += collect_epochs(loader, 1)
        assert got == expected


def test_transforms_get_cached_clips_as_they_get_others(tmp_path: Path, make_loader: MakeLoader) -> None:
    def noisy(clip: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        clip[...] = 255 - clip  # In place, as it may: what is cached must not change by it.
        noise = rng.integers(0, 9, clip.shape, dtype=np.uint8)
        return clip + noise

    plan = plan_of(size=(24, 32))
    expected = collect_epochs(make_loader(plan, batch_size=4, transform=noisy), 1)
    with FrameCache(tmp_path / "c", memory_bytes="1MB") as cache:
        for _ in range(2):
            assert collect_epochs(make_loader(plan, batch_size=4, transform=noisy, cache=cache), 1) == expected


def test_forms_follow_from_the_plan(tmp_path: Path) -> None:
    cache = FrameCache(tmp_path / "c")
    forms = {name: choose_form(plan_of(RandomSegments(2), **options), cache) for name, options in PLANS.items()}
    assert forms == {
        "small": "output", "flipped": "output", "boxed": "output",
        "whole": "planes", "random crops": "planes", "random areas": "planes",
        "center": "output",
    }  # fmt: skip


@pytest.mark.parametrize("cache", ["cache/", True, object()])
def test_what_is_no_cache_is_refused(cache: Any) -> None:
    with pytest.raises(UsageError, match=r"ff\.FrameCache"):
        ClipLoader(plan_of(), batch_size=2, cache=cache)


def test_a_loader_warns_once_of_frames_that_differ_in_each_epoch(make_loader: MakeLoader, tmp_path: Path) -> None:
    cache = FrameCache(tmp_path / "cache")
    with pytest.warns(UserWarning, match=r"^cache: about \d+ % of the next epoch's frames") as shown:
        loader = make_loader(plan_of(), batch_size=4, cache=cache)
    assert [each.filename.endswith("conftest.py") for each in shown] == [True]  # It makes the loader.
    list(loader)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ClipLoader(plan_of(), batch_size=4, cache=cache).close()  # The frames of one epoch are there.
