"""What a worker process can do to a run: die, hang, be stopped or fail; it costs its clips and nothing else."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framefeed.errors import DeadlineExceeded, LoadError, WorkerLost
from framefeed.load._loader import ClipLoader
from tests.fakes import FlatDecoder
from tests.lengths import either
from tests.load import faulty
from tests.load.laws import content
from tests.makers import SIZE, catalog, plan_of
from tests.parallel.functions import shared_memory
from tests.parallel.living import all_gone, children_of, hurry_calls_that_hang, wait_until
from tests.patience import PATIENCE_SECONDS

ROW = 2


def name_source(row: int) -> str:
    return str(catalog().source(row))


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    # Other tests of this process may have left some: torch's fork server, tensors that are not freed yet.
    before, held = children_of(os.getpid()), set(shared_memory(None))
    yield
    gc.collect()
    # The threads that own the processes end after them.
    wait_until(lambda: all_gone(children_of(os.getpid()) - before) and set(shared_memory(None)) <= held)


def make_loader_of(shuffle: bool | str = True, **options: Any) -> ClipLoader:
    given = {"batch_size": 4, "backend": FlatDecoder(), "workers": 2, "kind": "processes", **options}
    return ClipLoader(plan_of(shuffle=shuffle), **given)


def list_struck(folder: Path) -> list[str]:
    """The processes that the fates of a decoder have come to."""
    return [path.read_text() for path in folder.iterdir()]


def collect_inline(**options: Any) -> list[Any]:
    with make_loader_of(workers=0, **options) as loader:
        return [content(batch) for batch in loader]


@pytest.mark.long
@pytest.mark.parametrize(
    ("fate", "fault", "said"),
    [
        ("kill", WorkerLost, "was killed by SIGKILL"),
        pytest.param("native", DeadlineExceeded, "still working on it after 30 s", marks=pytest.mark.slow),
        # In the short form, tests/load/test_storms.py has these.
        *either(
            short=[],
            long=[
                ("segmentation fault", WorkerLost, "was killed by SIGSEGV"),
                ("stopped", DeadlineExceeded, "stopped by a signal"),
            ],
        ),
    ],
)
def test_D06_D07_a_source_that_ends_its_workers_costs_its_clips_alone(
    fate: str, fault: type[LoadError], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry_calls_that_hang(monkeypatch, lambda process: str(process) in list_struck(tmp_path))
    decoder = faulty.FaultyDecoder({name_source(ROW): fate}, tmp_path)
    # The clips of a source are one call.
    options: dict[str, Any] = {"shuffle": "videos", "on_error": "skip", "deadline_seconds": PATIENCE_SECONDS}
    right = collect_inline(**options)
    with make_loader_of(backend=decoder, **options) as loader:
        batches = list(loader)
        assert list(loader.ledger)
        assert {entry.source for entry in loader.ledger} == {name_source(ROW)}
    assert len(batches) == len(right)
    failed = [error for batch in batches for error in batch.errors if error is not None]
    assert len(failed) == 2
    for error in failed:
        assert isinstance(error, fault)
        assert said in str(error)
        assert 'decoded by "faulty"' in str(error)
        assert error.source == name_source(ROW)
        assert str(error).endswith(f" (clip at position {error.position})")
    for batch, expected in zip(batches, right, strict=True):
        for slot, error in enumerate(batch.errors):
            if error is not None:
                assert not batch.data[slot].any()
                assert np.isnan(batch.pts_seconds[slot]).all()
        assert batch.positions.tobytes() == {part[0]: part[3] for part in expected[:6]}["positions"]
        if batch.ok.all():
            assert content(batch) == expected


@pytest.mark.parametrize("workers", [0, 1])
def test_L05_a_transform_may_leave_the_program(workers: int) -> None:
    with make_loader_of(workers=workers, transform=faulty.leave, on_error="skip") as loader:
        with pytest.raises(SystemExit, match="3"):
            next(iter(loader))
        assert not list(loader.ledger)


def test_L04_a_worker_that_is_lost_once_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry_calls_that_hang(monkeypatch)
    decoder = faulty.FaultyDecoder({name_source(ROW): "stopped", name_source(4): "kill"}, tmp_path, times=1)
    with make_loader_of(backend=decoder) as loader:
        assert [content(batch) for batch in loader] == collect_inline()
        stats = loader.stats()
        assert (stats.lost_workers, stats.failed_clips) == (2, 0)
        assert stats.start_seconds > 0
    assert loader.stats().lost_workers == 2
    assert len(list(tmp_path.iterdir())) == 2


def test_L04_workers_that_were_lost_before_an_interrupt_are_counted(tmp_path: Path) -> None:
    decoder = faulty.FaultyDecoder({name_source(ROW): "kill"}, tmp_path, times=1)
    loader = make_loader_of(backend=decoder, workers=1)

    def load_and_interrupt() -> None:
        with loader:
            list(loader)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_and_interrupt()
    assert loader.stats().lost_workers == 1


@pytest.mark.slow
def test_L05_a_lost_worker_is_raised_in_place_of_its_batch(tmp_path: Path) -> None:
    decoder = faulty.FaultyDecoder({name_source(ROW): "kill"}, tmp_path)
    with make_loader_of("videos", workers=0) as inline:
        right = [(content(batch), name_source(ROW) in batch.sources) for batch in inline]
    with make_loader_of("videos", backend=decoder, workers=1) as loader:
        iterator = iter(loader)
        for expected, is_lost in right:
            if is_lost:
                with pytest.raises(WorkerLost, match="2 clips of") as caught:
                    next(iterator)
                assert caught.value.source == name_source(ROW)
                del caught
            else:
                assert content(next(iterator)) == expected
        with pytest.raises(StopIteration):
            next(iterator)
    assert loader.epoch == 1


@pytest.mark.slow
def test_a_transform_that_kills_every_worker_ends_the_run_with_its_ledger() -> None:
    plan = plan_of(clips_per_video=1, world_size=6)
    with ClipLoader(
        plan, batch_size=1, workers=1, kind="processes", on_error="skip", transform=faulty.kill_all
    ) as loader:
        (batch,) = loader
        assert len(loader.ledger) == 1
    assert (batch.data.shape, batch.data.any()) == ((1, 4, 3, *SIZE), False)


@pytest.mark.slow
def test_L16_left_begun_again_and_dropped_processes_deliver_and_end() -> None:
    whole, before = collect_inline(), children_of(os.getpid())
    loader = make_loader_of(prefetch=3)
    for taken in (1, 0, 2):
        for number, batch in enumerate(loader):
            if number == taken:
                break
            assert content(batch) == whole[number]
    first = iter(loader)
    next(first)
    assert [content(batch) for batch in loader] == whole
    # An abandoned cycle: the loader, its iterator and a list that has both.
    cycle: list[Any] = [loader, iter(loader)]
    next(cycle[1])
    cycle.append(cycle)
    processes = children_of(os.getpid()) - before
    del cycle, loader, first
    gc.collect()
    wait_until(lambda: all_gone(processes))


@pytest.mark.slow
def test_L12_processes_are_kept_between_epochs() -> None:
    with make_loader_of(transform=faulty.report_process, workers=1) as loader:
        first, second = ({pid for batch in loader for pid in batch.data.tolist()} for _ in range(2))
    assert first == second
    assert len(first) == 1
