"""L16: an iteration that is left, restarted, nested, closed or dropped ends its work and never hangs."""

from __future__ import annotations

import gc
import signal
import threading
import weakref
from typing import Any

import pytest

from framefeed.errors import LoadError, UsageError
from framefeed.load._loader import ClipLoader
from framefeed.parallel import ordered_map
from tests.fakes import FlatDecoder
from tests.load.laws import content
from tests.makers import plan_of
from tests.parallel.living import wait_until, waits_for_notice
from tests.patience import PATIENCE_SECONDS

WORKERS = [0, 1, 2]


def make_loader_of(workers: int, **options: Any) -> ClipLoader:
    return ClipLoader(plan_of(), workers=workers, **{"batch_size": 2, "backend": FlatDecoder(), **options})


def list_worker_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("framefeed-")}


def wait_for_threads(started: set[threading.Thread]) -> None:
    for thread in started:
        thread.join(PATIENCE_SECONDS)
    assert not any(thread.is_alive() for thread in started)


@pytest.mark.parametrize("workers", WORKERS)
def test_L16_broken_off_and_begun_again_starts_anew(workers: int) -> None:
    loader = make_loader_of(workers)
    whole = [content(batch) for batch in make_loader_of(0)]
    for taken in (1, 3, 0, 6):
        for number, batch in enumerate(loader):
            if number == taken:
                break
            assert content(batch) == whole[number]
    assert loader.epoch == 1


@pytest.mark.parametrize("workers", WORKERS)
def test_L16_a_second_iteration_ends_the_first(workers: int) -> None:
    loader = make_loader_of(workers)
    first = iter(loader)
    next(first)
    second = iter(loader)
    with pytest.raises(UsageError, match="replaced it: use one iterator"):
        next(first)
    assert len(list(second)) == 6
    assert loader.epoch == 1


@pytest.mark.parametrize("workers", WORKERS)
def test_L16_restoring_ends_the_iteration(workers: int) -> None:
    loader = make_loader_of(workers)
    iterator = iter(loader)
    next(iterator)
    loader.load_state_dict(loader.state_dict())
    with pytest.raises(UsageError, match="load_state_dict was called"):
        next(iterator)
    assert len(list(loader)) == 5


@pytest.mark.parametrize("workers", WORKERS)
def test_L16_closing_ends_the_threads_and_keeps_the_batches(workers: int) -> None:
    before = list_worker_threads()
    with make_loader_of(workers) as loader:
        iterator = iter(loader)
        batch = next(iterator)
        expected = content(batch)
    assert list_worker_threads() == before
    assert content(batch) == expected
    loader.close()
    with pytest.raises(UsageError, match="closed"):
        next(iterator)
    with pytest.raises(UsageError, match="closed"):
        iter(loader)
    assert (loader.stats().batches, loader.state_dict()["delivered"], len(loader)) == (1, 1, 6)


def test_L16_closing_while_another_thread_waits_for_a_batch() -> None:
    proceed, reached = threading.Event(), threading.Event()

    def wait(name: str) -> None:
        reached.set()
        proceed.wait(PATIENCE_SECONDS)

    loader = make_loader_of(1, backend=FlatDecoder(wait))
    errors: list[Exception] = []

    def consume() -> None:
        try:
            next(iter(loader))
        except UsageError as error:
            errors.append(error)

    consumer = threading.Thread(target=consume)
    consumer.start()
    reached.wait(PATIENCE_SECONDS)
    # Closing waits for the clip that is being decoded, so it has to come from the side.
    closer = threading.Thread(target=loader.close)
    closer.start()
    wait_until(lambda: waits_for_notice(closer))
    proceed.set()
    consumer.join(PATIENCE_SECONDS)
    closer.join(PATIENCE_SECONDS)
    assert not consumer.is_alive()
    assert not closer.is_alive()
    assert len(errors) <= 1


def test_L16_a_forgotten_loader_ends_its_threads() -> None:
    before = list_worker_threads()
    loader = make_loader_of(2)
    iterator = iter(loader)
    next(iterator)
    started = list_worker_threads() - before
    assert started
    watched = [weakref.ref(loader), weakref.ref(iterator)]
    del loader, iterator
    gc.collect()
    assert [reference() for reference in watched] == [None, None]
    wait_for_threads(started)


def test_L16_an_abandoned_iterator_frees_what_was_made_ahead() -> None:
    loader = make_loader_of(2)
    iterator = iter(loader)
    batch = next(iterator)
    memory = weakref.ref(batch.data.base)
    del batch, iterator
    gc.collect()
    assert memory() is None
    loader.close()


def test_L16_a_loader_that_is_only_iterated_stays_alive() -> None:
    assert [len(batch) for batch in make_loader_of(2)] == [2] * 6


def test_L16_threads_are_kept_between_epochs() -> None:
    before = list_worker_threads()
    with make_loader_of(2) as loader:
        list(loader)
        first = list_worker_threads() - before
        list(loader)
        assert list_worker_threads() - before == first


@pytest.mark.parametrize("workers", WORKERS)
def test_P14_batches_and_frames_of_batches_can_be_kept(workers: int) -> None:
    with make_loader_of(workers, backend="auto") as loader:
        kept, frames = [(content(batch), batch) for batch in loader], []
        for _ in range(3):
            for batch in loader:
                frame = batch.data[-1, 2]
                frames.append((frame, frame.tobytes()))
                del batch
    assert all(content(batch) == expected for expected, batch in kept)
    assert all(frame.tobytes() == as_it_was for frame, as_it_was in frames)


@pytest.mark.parametrize("in_another_thread", [False, True])
def test_L24_no_handler_of_a_signal_is_installed(in_another_thread: bool) -> None:
    def handlers() -> dict[Any, Any]:
        return {number: signal.getsignal(number) for number in signal.valid_signals()}

    before, delivered = handlers(), []

    def load() -> None:
        with make_loader_of(2) as loader:
            delivered.append(len(list(loader)))
            list(ordered_map(abs, range(3), workers=1, kind="processes", max_in_flight=2))
            delivered.append(handlers() == before)

    if in_another_thread:
        thread = threading.Thread(target=load)
        thread.start()
        thread.join()
    else:
        load()
    assert delivered == [6, True]
    assert handlers() == before


def test_memory_is_used_again() -> None:
    addresses = set()
    with make_loader_of(2, prefetch=1) as loader:
        for _ in range(4):
            for batch in loader:
                addresses.add(batch.data.__array_interface__["data"][0])
    assert len(addresses) <= 5 < 4 * 6


def test_L16_an_error_that_the_decoder_keeps_does_not_keep_the_iteration() -> None:
    kept = ValueError("raised again and again")

    def refuse(name: str) -> None:
        raise kept

    loader = make_loader_of(1, backend=FlatDecoder(refuse))

    def fail() -> weakref.ref[object]:
        iterator = iter(loader)
        with pytest.raises(LoadError):
            next(iterator)
        return weakref.ref(iterator)

    watched = fail()
    loader.close()
    gc.collect()
    assert watched() is None
