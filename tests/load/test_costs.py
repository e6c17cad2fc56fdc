"""L06: clips of an expensive source start before those that wait with them."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from framefeed.catalog import Catalog
from framefeed.load import _stats
from framefeed.load._iteration import BatchIterator
from framefeed.load._loader import ClipLoader
from framefeed.load._pending import begin_batch
from framefeed.load._work import ClipCosts, split_batch
from framefeed.load._workers import Workers
from framefeed.plan import EpochPlan, EveryFrame, Uniform, plan_clips
from framefeed.scanning import scan
from framefeed.testing import ClipSpec, clip_bytes
from tests.fakes import FlatDecoder
from tests.load.laws import content
from tests.parallel.living import wait_until

LARGE = 5


@cache
def catalog_with_a_large_file() -> Catalog:
    """Eight videos, of which one has 56 times the pixels of the others."""
    with tempfile.TemporaryDirectory(prefix="framefeed-costs-") as folder:
        for number in range(8):
            height, width = (720, 960) if number == LARGE else (96, 128)
            spec = ClipSpec(num_frames=12, height=height, width=width)
            Path(folder, f"{number}.mp4").write_bytes(clip_bytes(spec, "mp4"))
        return scan(folder, workers=0)


def plan_of_all() -> EpochPlan:
    return plan_clips(catalog_with_a_large_file(), Uniform(4), seed=0, shuffle=False, size=(32, 32))


def test_the_first_clip_of_a_source_says_what_the_others_cost() -> None:
    plan = plan_of_all()
    with ClipLoader(plan, batch_size=8, workers=2) as loader:
        batch = begin_batch(plan, plan.clips_at(np.arange(8)), _open_workers(loader).buffers)
    tasks, costs = split_batch(batch), ClipCosts(plan.catalog)
    assert costs.predict(tasks[0]) == 0
    for slot in (0, LARGE):
        costs.learn(batch.rows[slot], batch.plan_take(slot))
    small, large, unknown = (costs.predict(tasks[slot]) for slot in (0, LARGE, 1))
    assert large > 5 * small > 0
    assert unknown == pytest.approx((small + large) / 2)
    assert costs.predict(replace(tasks[LARGE], slots=[LARGE, LARGE])) == 2 * large
    assert (costs.is_known(batch.rows[LARGE]), costs.is_known(batch.rows[1])) == (True, False)
    costs.learn(batch.rows[1], None)  # it cannot be planned
    assert not costs.is_known(batch.rows[1])


def _open_workers(loader: ClipLoader) -> Workers:
    assert loader._workers.pool.workers == 2
    return loader._workers


def test_L06_the_expensive_clip_starts_early_and_comes_in_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the loop waited for every batch.
    monkeypatch.setattr(_stats, "IDLE_SECONDS", -1.0)
    plan, decoder = plan_of_all(), FlatDecoder()
    with ClipLoader(plan, batch_size=1, workers=0, backend=decoder) as inline:
        expected = [content(batch) for batch in inline]
    in_order = [name for name, _ in decoder.calls]
    iterators: list[BatchIterator] = []

    def wait(name: str) -> None:
        """Let the first clip end when all are queued, and the second one when a third has started."""
        if name == in_order[0]:
            wait_until(lambda: iterators and len(iterators[0]._tasks) == len(in_order))
        if name == in_order[1]:
            wait_until(lambda: len(waiting.calls) >= 3)

    waiting = FlatDecoder(wait)
    with ClipLoader(plan, batch_size=1, prefetch=8, workers=2, backend=waiting) as loader:
        iterators.append(iter(loader))
        assert [content(batch) for batch in iterators[0]] == expected
    started = [name for name, _ in waiting.calls]
    assert sorted(started) == sorted(in_order)
    # The second one if the other worker starts after all are queued.
    assert in_order[LARGE] in started[1:3]


def test_one_worker_needs_no_costs() -> None:
    with ClipLoader(plan_of_all(), batch_size=2, workers=1, backend=FlatDecoder()) as loader:
        assert loader._workers.find_costs(loader.plan) is None
        assert len(list(loader)) == 4
    every = plan_clips(catalog_with_a_large_file(), EveryFrame(), seed=0, shuffle=False, size=(32, 32))
    with ClipLoader(every, batch_size=7, workers=2, backend=FlatDecoder()) as loader:
        assert sum(map(len, loader)) == len(every)
