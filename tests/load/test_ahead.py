"""Remote clips: the batches of the files, whatever is asked for ahead; requests before workers need them; a budget."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from framefeed.cache import FrameCache
from framefeed.catalog import Catalog
from framefeed.decode import BaseDecoder
from framefeed.errors import MissingMedia
from framefeed.load._ahead import ReadAhead
from framefeed.load._batch import BufferPools, ClipBatch
from framefeed.load._loader import ClipLoader
from framefeed.load._pending import begin_batch
from framefeed.load._work import DecodeTask, load_batch, split_batch
from framefeed.parallel import release_idle
from framefeed.plan import EpochPlan, RandomSegments, Uniform, plan_clips
from framefeed.scanning import scan
from tests.makers import catalog, folder, plan_over
from tests.parallel.awaited import AwaitedLock
from tests.patience import PATIENCE_SECONDS
from tests.remote import served

pytest.importorskip("urllib3", reason="objects are read by ranges with it")

pytestmark = pytest.mark.usefixtures("kept_processes")


class Objects(dict[str, bytes]):
    """Objects of a server, which answers no request while its gate is closed."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        super().__init__(objects)
        self.changed = threading.Condition()
        self.is_closed = False
        self.asked: list[str] = []

    def get(self, path: str, _: Any = None) -> Any:
        with self.changed:
            self.asked.append(path)
            self.changed.notify_all()
            self.changed.wait_for(lambda: not self.is_closed, PATIENCE_SECONDS)
        return super().get(path)

    def open(self) -> None:
        with self.changed:
            self.is_closed = False
            self.changed.notify_all()


@pytest.fixture(scope="module")
def remote() -> Iterator[tuple[Objects, Catalog]]:
    """The videos of `folder` behind a server, and their catalog."""
    paths = sorted(folder().rglob("*.mp4"))
    objects = Objects({f"/{path.relative_to(folder())}": path.read_bytes() for path in paths})
    with served(objects) as server:
        yield objects, scan([f"{server}{path}" for path in objects], workers=0)


@pytest.fixture
def objects(remote: tuple[Objects, Catalog]) -> Iterator[Objects]:
    remote[0].asked.clear()
    yield remote[0]
    remote[0].open()


plan_small = partial(plan_over, rule=RandomSegments(4), seed=7, clips_per_video=2, size=(24, 32))


def take_pixels(batches: Iterator[ClipBatch] | list[ClipBatch]) -> Any:
    return np.concatenate([batch.data for batch in batches])


@pytest.fixture(scope="module")
def pixels() -> Any:
    """The clips of an epoch of the files."""
    with ClipLoader(plan_small(catalog()), batch_size=4, workers=0) as loader:
        return take_pixels(loader)


@pytest.mark.parametrize(("workers", "kind"), [(0, "threads"), (2, "threads"), (2, "processes")])
@pytest.mark.parametrize("read_ahead", [0, "20KB", "64MB"])
def test_batches_are_those_of_the_files(
    remote: tuple[Objects, Catalog], pixels: Any, read_ahead: int | str, workers: int, kind: Any
) -> None:
    release_idle()  # readers of this thread, which have bytes
    options = {"batch_size": 4, "workers": workers, "kind": kind, "read_ahead": read_ahead}
    with ClipLoader(plan_small(remote[1]), **options) as loader:
        np.testing.assert_array_equal(take_pixels(loader), pixels)
        stats = loader.stats()
    assert stats.requests > 0
    assert stats.bytes_fetched > 0
    assert stats.fetch_wait_seconds > 0


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_all_requests_are_counted(remote: tuple[Objects, Catalog], objects: Objects, kind: Any) -> None:
    release_idle()
    with ClipLoader(plan_small(remote[1]), batch_size=4, workers=2, kind=kind) as loader:
        list(loader)
        stats = loader.stats()
    assert stats.requests == len(objects.asked)
    assert stats.gap_bytes > 0


@pytest.mark.parametrize("read_ahead", [0, "64MB"])
@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_D08_requests_that_fail_are_counted_and_are_errors_of_their_clips(
    remote: tuple[Objects, Catalog], objects: Objects, pixels: Any, kind: Any, read_ahead: Any
) -> None:
    release_idle()
    lost, data = next(iter(objects.items()))
    del objects[lost]
    try:
        with ClipLoader(
            plan_small(remote[1]), batch_size=12, workers=1, kind=kind, read_ahead=read_ahead, on_error="skip"
        ) as loader:
            (batch,) = loader
            requests = loader.stats().requests
    finally:
        objects[lost] = data
    is_lost = np.array([lost in source for source in batch.sources])
    assert is_lost.sum() == 2
    assert (batch.ok == ~is_lost).all()
    assert all(isinstance(error, MissingMedia) for error in batch.errors if error is not None)
    np.testing.assert_array_equal(batch.data[batch.ok], pixels[batch.ok])
    assert requests == len(objects.asked)
    assert lost in objects.asked


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_clips_that_wait_for_a_worker_are_asked_for(
    remote: tuple[Objects, Catalog], objects: Objects, kind: Any
) -> None:
    plan = plan_small(remote[1], shuffle=False, clips_per_video=1)
    with ClipLoader(plan, batch_size=6, workers=1, kind=kind) as loader:
        objects.is_closed = True
        batches: list[ClipBatch] = []
        reader = threading.Thread(target=lambda: batches.extend(loader))
        reader.start()
        with objects.changed:
            # One worker waits for the first of them; none is answered.
            assert objects.changed.wait_for(lambda: len(set(objects.asked)) == 6, PATIENCE_SECONDS)
        objects.open()
        reader.join(PATIENCE_SECONDS)
    assert batches[0].ok.all()


def test_the_clips_of_one_batch_are_asked_for_together(remote: tuple[Objects, Catalog], objects: Objects) -> None:
    plan, batches = plan_small(remote[1], shuffle=False, clips_per_video=1), list[ClipBatch]()
    objects.is_closed = True
    decoder = load_decoder(plan)
    reader = threading.Thread(target=lambda: batches.append(load_batch(plan, range(6), decoder, BufferPools(0))))
    reader.start()
    with objects.changed:
        assert objects.changed.wait_for(lambda: len(set(objects.asked)) == 6, PATIENCE_SECONDS)
    objects.open()
    reader.join(PATIENCE_SECONDS)
    assert batches[0].ok.all()


def load_decoder(plan: EpochPlan) -> Any:
    with ClipLoader(plan, batch_size=1, workers=0) as loader:
        return loader._options.decoder_for(plan)


def test_what_the_cache_has_is_not_asked_for(remote: tuple[Objects, Catalog], objects: Objects, tmp_path: Path) -> None:
    plan = plan_clips(remote[1], Uniform(4), seed=7, size=(24, 32))
    with FrameCache(tmp_path / "cache") as cache:
        for is_filled in (False, True):
            objects.asked.clear()
            with ClipLoader(plan, batch_size=4, workers=2, cache=cache) as loader:
                list(loader)
            assert bool(objects.asked) is not is_filled


def test_as_few_frames_are_decoded_as_of_the_files(remote: tuple[Objects, Catalog]) -> None:
    counts = []
    for sources in (catalog(), remote[1]):
        with ClipLoader(plan_small(sources, shuffle=False, clips_per_video=1), batch_size=2, workers=0) as loader:
            list(loader)
            counts.append(loader.stats().counts.frames_decoded)
    assert counts[0] == counts[1] < 6 * 30


class _Ranges(BaseDecoder):
    """Lists ranges of some bytes; calls a function meanwhile, once."""

    name = "ranges"

    def __init__(self, nbytes: int, meanwhile: Any = None) -> None:
        self.nbytes, self.meanwhile = nbytes, meanwhile

    def list_ranges(self, *_: object) -> list[tuple[int, int]]:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return [(0, self.nbytes)]


def make_tasks(plan: EpochPlan) -> list[DecodeTask]:
    return split_batch(begin_batch(plan, plan.clips_at(np.arange(6)), BufferPools(0)))


def test_a_budget_bounds_what_is_asked_for(remote: tuple[Objects, Catalog], objects: Objects) -> None:
    plan = plan_small(remote[1], shuffle=False, clips_per_video=1)
    ahead, tasks = ReadAhead(plan.clips.sources, _Ranges(1000), 2500), make_tasks(plan)
    state = ahead._state.value
    for task in tasks:
        ahead.add(task)
    assert (state.nbytes, len(state.waiting)) == (3000, 3)  # the last one begins below it
    ahead.begin(tasks[4])  # left to its worker
    assert len(state.waiting) == 2
    ahead.begin(tasks[0])
    ahead.end(tasks[0])
    assert (state.nbytes, len(state.waiting)) == (3000, 1)
    for task in tasks[1:]:
        ahead.begin(task)
        ahead.end(task)
    assert (state.nbytes, len(state.fetched), len(state.waiting)) == (0, 0, 0)
    for task in tasks:
        ahead.add(task)
    ahead.close()
    assert (state.nbytes, len(state.fetched), len(state.waiting)) == (0, 0, 0)


def test_a_task_that_ends_while_it_is_asked_for_leaves_nothing(remote: tuple[Objects, Catalog]) -> None:
    plan = plan_small(remote[1], shuffle=False, clips_per_video=1)
    tasks, has_come, came_in_time = make_tasks(plan), threading.Event(), list[bool]()
    decoder = _Ranges(1000)
    ahead = ReadAhead(plan.clips.sources, decoder, 500)
    state: Any = ahead._state.value
    state.lock = AwaitedLock(has_come.set)

    def do_task() -> None:
        ahead.begin(tasks[1])
        ahead.end(tasks[1])
        has_come.set()

    worker = threading.Thread(target=do_task)

    def begin_meanwhile() -> None:
        worker.start()
        # It waits for the lock, and ends later; it must not end before.
        came_in_time.append(has_come.wait(PATIENCE_SECONDS))

    ahead.add(tasks[0])
    ahead.add(tasks[1])
    decoder.meanwhile = begin_meanwhile
    ahead.end(tasks[0])
    worker.join(PATIENCE_SECONDS)
    assert (state.nbytes, state.fetched, came_in_time) == (0, {}, [True])


def test_local_clips_take_no_lock() -> None:
    plan = plan_small(catalog(), shuffle=False, clips_per_video=1)
    ahead = ReadAhead(plan.clips.sources, _Ranges(1000), 2500)
    for task in make_tasks(plan):
        ahead.add(task)
    assert not ahead._state.value.is_used
