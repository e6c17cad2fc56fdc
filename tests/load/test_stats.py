"""Statistics of a loader: sums of known costs, and the bottleneck."""

from __future__ import annotations

from time import monotonic
from typing import Literal

import pytest

from framefeed.cache import CacheStats
from framefeed.errors import CorruptMedia
from framefeed.load._loader import ClipLoader
from framefeed.load._stats import LoadStats
from framefeed.plan import PlannedClip, PlannedClips
from tests.fakes import FlatDecoder
from tests.makers import plan_of


def test_a_cache_is_full_if_it_is_in_any_process() -> None:
    full, other = CacheStats(frames_hit=2, is_full=True, trouble="no space", codec="raw"), CacheStats(frames_hit=1)
    for total in (full + other, other + full):
        assert total == CacheStats(frames_hit=3, is_full=True, trouble="no space", codec="raw")


@pytest.mark.parametrize("workers", [0, 2])
def test_counts_add_up_over_epochs(workers: int) -> None:
    spoil = FlatDecoder(spoil=lambda ordinals: CorruptMedia("spoiled") if sum(ordinals) % 3 == 0 else None)
    loader = ClipLoader(plan_of(), batch_size=5, workers=workers, backend=spoil, on_error="skip")
    assert (loader.stats().batches, loader.stats().bottleneck) == (0, "nothing yet")
    failed = sum(int((~batch.ok).sum()) for _ in range(2) for batch in loader)
    stats = loader.stats()
    assert (stats.batches, stats.clips, stats.failed_clips, stats.workers) == (6, 24, failed, workers)
    assert (stats.counts.frames_delivered, stats.decoded_frames_per_delivered_frame) == (24 * 4, 1.0)
    assert min(stats.plan_seconds, stats.decode_seconds, stats.wait_seconds, stats.outside_seconds) > 0
    assert stats.transform_seconds == 0


def test_a_snapshot_does_not_change() -> None:
    loader = ClipLoader(plan_of(), batch_size=5, workers=0, backend=FlatDecoder())
    iterator = iter(loader)
    next(iterator)
    before = loader.stats()
    text = repr(before)
    next(iterator)
    assert (before.batches, before.counts.frames_delivered, repr(before)) == (1, 20, text)


def test_real_decoding_is_counted() -> None:
    with ClipLoader(plan_of(shuffle="videos"), batch_size=12, workers=2) as loader:
        list(loader)
    stats = loader.stats()
    assert stats.counts.frames_delivered == 48
    assert stats.counts.frames_decoded >= 1
    assert stats.counts.packets_sent >= stats.counts.frames_decoded


@pytest.mark.parametrize("workers", [0, 2])
def test_planning_counts_once_whichever_thread_plans(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("framefeed.load._stats.perf_counter", lambda: now[0])
    plan = plan_of()
    plan_one = PlannedClips.plan

    def take_a_second(self: PlannedClips, slot: int) -> PlannedClip:
        now[0] += 1.0
        return plan_one(self, slot)

    monkeypatch.setattr(PlannedClips, "plan", take_a_second)
    # One batch at a time, of several sources: only one thread plans meanwhile.
    loader = ClipLoader(plan, batch_size=12, prefetch=1, workers=workers, backend=FlatDecoder())
    for _ in range(3):
        list(loader)
    loader.close()
    assert loader.stats().plan_seconds == 3 * 12


def make_stats(**seconds: float) -> LoadStats:
    return LoadStats(batches=1, clips=10, workers=2, **{f"{name}_seconds": value for name, value in seconds.items()})


@pytest.mark.parametrize(
    ("stats", "bottleneck"),
    [
        (make_stats(wait=0.5, outside=9.5, decode=19), "training step"),
        (make_stats(wait=1.1, outside=8.9, decode=19, transform=1), "decode"),
        (make_stats(wait=9, outside=1, decode=5, transform=6), "transform"),
        (make_stats(wait=9, outside=1, decode=9, fetch_wait=8, transform=6), "fetch"),
        (make_stats(wait=9, outside=1, decode=9, fetch_wait=4), "decode"),
        (make_stats(wait=9, outside=1, decode=9, fetch_wait=4, transform=6), "transform"),
        (make_stats(wait=1, outside=99, decode=9, fetch_wait=8), "training step"),
        (make_stats(wait=9, outside=1, decode=1, transform=2, plan=3), "plan"),
        (make_stats(wait=9, outside=1, decode=1, transform=2, plan=3, start=4), "start"),
    ],
)
def test_the_bottleneck_follows_from_the_numbers(stats: LoadStats, bottleneck: str) -> None:
    assert stats.bottleneck == bottleneck
    assert bottleneck in repr(stats)
    assert f"{stats.wait_seconds:.3f} s of {stats.wall_seconds:.3f} s" in stats.evidence
    assert stats.clips_per_second == 10 / stats.wall_seconds
    assert sum(stats.stages.values()) == sum(
        [stats.plan_seconds, stats.decode_seconds, stats.transform_seconds, stats.start_seconds]
    )


def test_failed_clips_are_not_counted_as_delivered() -> None:
    stats = LoadStats(batches=2, clips=29, failed_clips=5, wait_seconds=0.5, outside_seconds=0.5)
    assert stats.clips_per_second == 24.0
    assert "29 clips, 5 failed, 24.00 clips/s" in repr(stats)
    assert "fetched" not in repr(stats)


def test_what_was_fetched_is_shown_if_something_was() -> None:
    stats = LoadStats(batches=1, clips=2, requests=3, bytes_fetched=4_000_000, fetch_wait_seconds=0.5)
    assert "3 requests, 4 MB fetched, for which workers waited 0.5 s, bottleneck" in repr(stats)


@pytest.mark.parametrize(
    ("kind", "workers"), [("threads", 1), ("threads", 3), pytest.param("processes", 1, marks=pytest.mark.slow)]
)
def test_times_of_workers_fit_into_the_time(kind: Literal["threads", "processes"], workers: int) -> None:
    """Two clocks: seconds that tasks measured, and seconds that the pool measured around them."""
    began = monotonic()
    with ClipLoader(plan_of(), batch_size=5, workers=workers, kind=kind) as loader:
        for _ in range(2):
            for batch in loader:
                assert len(batch) <= 5
                assert loader.stats().max_ahead == 10
        stats = loader.stats()
    passed = monotonic() - began
    assert 0 < stats.decode_seconds <= stats.busy_seconds
    assert stats.busy_seconds + stats.idle_seconds <= workers * passed
    assert 0 <= stats.idle_share < 1
    assert (stats.running, stats.ready) == (0, 0)


def test_times_of_ended_iterations_stay() -> None:
    with ClipLoader(plan_of(), batch_size=5, workers=2, backend=FlatDecoder()) as loader:
        seconds = []
        for _ in range(3):
            next(iter(loader))
            loader.set_epoch(loader.epoch + 1)
            stats = loader.stats()
            seconds.append((stats.busy_seconds, stats.idle_seconds))
    assert seconds == sorted(seconds)


@pytest.mark.parametrize("workers", [0, 2])
def test_times_of_substitutes_are_times_of_workers(workers: int) -> None:
    spoil = FlatDecoder(spoil=lambda ordinals: CorruptMedia("spoiled"))
    began = monotonic()
    with ClipLoader(plan_of(), batch_size=5, workers=workers, backend=spoil, on_error="substitute") as loader:
        assert not any(batch.ok.any() for batch in loader)
        stats = loader.stats()
    assert 0 < stats.decode_seconds <= stats.busy_seconds
    assert stats.busy_seconds + stats.idle_seconds <= max(1, workers) * (monotonic() - began)
    assert stats.idle_seconds >= 0
