from __future__ import annotations

import gc
import threading
import weakref
from functools import partial
from typing import Any

import pytest

from framefeed._outcome import Err
from framefeed.errors import DeadlineExceeded, UsageError, WorkerLost
from framefeed.parallel._gauge import Gauge
from framefeed.parallel._ordered import ordered_outcomes
from framefeed.parallel._ordered_map import ordered_map
from framefeed.parallel._pools import InlinePool, Pool, ThreadPool, run_next
from framefeed.parallel._processes import ProcessPool, open_pool
from tests.parallel.laws import all_end, worker_threads
from tests.parallel.living import wait_until
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the loss of a thread or of a task noticed soon."""
    monkeypatch.setattr("framefeed.parallel._ordered.LIVENESS_SECONDS", 0.001)


def test_kinds() -> None:
    assert isinstance(open_pool(0), InlinePool)
    assert isinstance(open_pool(3, "inline"), InlinePool)
    pool = open_pool(3)
    assert isinstance(pool, ThreadPool)
    assert pool.workers == 3
    with open_pool(3, "processes") as pool:
        assert isinstance(pool, ProcessPool)
        assert pool.workers == 3
    assert isinstance(open_pool(0, "processes"), InlinePool)


@pytest.mark.parametrize("pool", [InlinePool(), ThreadPool(2)], ids=repr)
def test_a_closed_pool_takes_no_work(pool: Pool) -> None:
    assert pool.close() is True
    assert pool.close() is True
    with pytest.raises(UsageError, match=r"closed.* takes no more work"):
        pool.submit(lambda: None)
    with pytest.raises(UsageError, match="takes no more work"):
        next(ordered_map(abs, [1], pool=pool, max_in_flight=1))


def test_a_pool_without_threads_is_refused() -> None:
    with pytest.raises(UsageError, match="InlinePool"):
        ThreadPool(0)


def test_threads_are_named_and_wait_for_their_work_at_exit() -> None:
    with ThreadPool(1, name="decode") as pool:
        threads: list[threading.Thread] = []
        done = threading.Event()
        pool.submit(lambda: (threads.append(threading.current_thread()), done.set()))
        assert done.wait(PATIENCE_SECONDS)
    assert threads[0].name == "framefeed-decode-0"
    assert not threads[0].daemon


def test_threads_are_reused_from_run_to_run() -> None:
    with ThreadPool(2) as pool:
        seen = {
            thread
            for _ in range(5)
            for thread in ordered_map(lambda _: threading.current_thread(), range(20), pool=pool, max_in_flight=4)
        }
        assert len(seen) <= 2


def test_a_run_leaves_a_given_pool_open() -> None:
    with ThreadPool(1) as pool:
        for _ in range(3):
            with ordered_map(abs, range(10), pool=pool, max_in_flight=2) as results:
                assert next(results) == 0
        assert list(ordered_map(abs, range(3), pool=pool, max_in_flight=2)) == [0, 1, 2]


def test_two_runs_share_a_pool() -> None:
    with ThreadPool(2) as pool:
        first = ordered_map(abs, range(50), pool=pool, max_in_flight=3)
        second = ordered_map(abs, range(50), pool=pool, max_in_flight=5)
        assert list(zip(first, second, strict=True)) == [(item, item) for item in range(50)]


def test_urgent_tasks_come_before_those_that_are_queued() -> None:
    order: list[str] = []
    begun, proceed = threading.Event(), threading.Event()
    with ThreadPool(1) as pool:
        pool.submit(lambda: (begun.set(), proceed.wait(PATIENCE_SECONDS)))
        assert begun.wait(PATIENCE_SECONDS)
        for name in "ab":
            pool.submit(partial(order.append, name))
        for name in "cd":
            run_next(pool).submit(partial(order.append, name))
        pool.submit(lambda: proceed.clear())
        proceed.set()
        wait_until(lambda: not proceed.is_set())
        assert "".join(order) == "cdab"
        # One that is submitted to a pool that waits is run at once.
        run_next(pool).submit(proceed.set)
        assert proceed.wait(PATIENCE_SECONDS)
    with pytest.raises(UsageError, match="closed"):
        run_next(pool).submit(proceed.set)


@pytest.mark.parametrize("is_urgent", [False, True])
def test_closing_drops_what_has_not_begun_and_waits_for_what_has(is_urgent: bool) -> None:
    begun, release, ran = threading.Event(), threading.Event(), []
    pool = ThreadPool(1)
    pool.submit(lambda: (begun.set(), release.wait(PATIENCE_SECONDS), ran.append("running")), is_urgent=is_urgent)
    pool.submit(lambda: ran.append("queued"), is_urgent=is_urgent)
    assert begun.wait(PATIENCE_SECONDS)
    assert pool.close(wait_seconds=0) is False
    release.set()
    assert pool.close(wait_seconds=PATIENCE_SECONDS) is True
    assert ran == ["running"]


@pytest.mark.parametrize("in_a_cycle", [False, True])
def test_L16_a_forgotten_pool_ends_its_threads(in_a_cycle: bool) -> None:
    pool: Any = ThreadPool(2)
    together = threading.Barrier(3)
    pool.submit(lambda: together.wait(PATIENCE_SECONDS))
    pool.submit(lambda: together.wait(PATIENCE_SECONDS))
    threads = worker_threads()
    together.wait(PATIENCE_SECONDS)
    if in_a_cycle:
        pool.itself = pool
    del pool
    gc.collect()
    assert all_end(threads)


def test_a_call_that_hangs_does_not_keep_the_pool_of_others() -> None:
    begun, release = threading.Event(), threading.Event()

    def hang(item: int) -> None:
        begun.set()
        release.wait(PATIENCE_SECONDS)

    pool = ThreadPool(2)
    watched = weakref.ref(pool)
    deadline_seconds = 0.001
    try:
        # On a busy machine the deadline may pass before the call begins; the call is then withdrawn.
        while not begun.is_set():
            outcomes = ordered_outcomes(hang, [1], pool=pool, max_in_flight=1, deadline_seconds=deadline_seconds)
            with pytest.raises(DeadlineExceeded):
                next(outcomes)
            deadline_seconds *= 2
        del outcomes, pool
        gc.collect()
        assert watched() is None
    finally:
        release.set()


def test_a_task_may_close_its_own_pool() -> None:
    pool = ThreadPool(1)
    answers: list[bool] = []
    done = threading.Event()
    pool.submit(lambda: (answers.append(pool.close()), done.set()))
    assert done.wait(PATIENCE_SECONDS)
    assert answers == [True]


def test_nested_work_on_the_same_pool_is_refused_instead_of_waiting_for_itself() -> None:
    with ThreadPool(1) as pool:
        (outcome,) = ordered_outcomes(
            lambda item: list(ordered_map(abs, [item], pool=pool, max_in_flight=1)), [1], pool=pool, max_in_flight=1
        )
        assert isinstance(outcome, Err)
        assert "one of its own threads" in str(outcome.error)
        nested = ordered_map(
            lambda item: list(ordered_map(abs, [item], workers=1, max_in_flight=1)), [1], pool=pool, max_in_flight=1
        )
        assert list(nested) == [[1]]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_is_replaced() -> None:
    with ThreadPool(1) as pool:
        pool.submit(lambda: 1 / 0)
        assert all_end(worker_threads())
        assert list(ordered_map(abs, range(5), pool=pool, max_in_flight=2)) == list(range(5))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_L04_an_item_whose_thread_dies_is_lost_and_runs_no_more(looks_often: None) -> None:
    def die(gauge: Gauge, running: int) -> None:
        patch.undo()
        raise MemoryError

    with (
        pytest.MonkeyPatch.context() as patch,
        ThreadPool(1) as pool,
        ordered_outcomes(abs, [-5], pool=pool, max_in_flight=1) as outcomes,
    ):
        patch.setattr(Gauge, "record", die)
        lost = next(outcomes)
        assert isinstance(lost, Err)
        with pytest.raises(WorkerLost, match=r"framefeed-worker-0 died while it worked on item 0 \(-5\)"):
            raise lost.error
        assert outcomes.gauge.read().running == 0


class ForgetfulPool:
    """Loses the first task it is given, as a thread does that dies with a task in its hand."""

    def __init__(self) -> None:
        self._pool = ThreadPool(1)
        self._lost = False
        self.workers = 1

    def submit(self, task: Any) -> None:
        if self._lost:
            self._pool.submit(task)
        self._lost = True

    def stop(self, worker: threading.Thread) -> None:
        self._pool.stop(worker)

    def abandon(self) -> None:
        self._pool.abandon()

    def close(self, wait_seconds: float = PATIENCE_SECONDS) -> bool:
        return self._pool.close(wait_seconds)


def test_work_lost_with_a_thread_is_started_again(looks_often: None) -> None:
    pool = ForgetfulPool()
    assert list(ordered_map(abs, [5], pool=pool, max_in_flight=1)) == [5]
    pool.close()


def test_a_consumer_whose_pool_is_closed_under_it_does_not_wait_for_ever(looks_often: None) -> None:
    begun, release = threading.Event(), threading.Event()

    def function(item: int) -> int:
        begun.set()
        release.wait(PATIENCE_SECONDS)
        return item

    pool = ThreadPool(1)
    results = ordered_map(function, range(3), pool=pool, max_in_flight=3)
    closer = threading.Thread(target=lambda: (begun.wait(PATIENCE_SECONDS), pool.abandon(), release.set()))
    closer.start()
    assert next(results) == 0
    with pytest.raises(UsageError, match="takes no more work"):
        next(results)
    closer.join()


@pytest.fixture
def no_room_for_threads() -> Any:
    """A stack larger than the address space: the system refuses every new thread."""
    before = threading.stack_size(1 << 47)
    yield
    threading.stack_size(before)


def test_fewer_threads_than_wished_for_do_the_work(no_room_for_threads: Any) -> None:
    with ThreadPool(4) as pool:
        with pytest.raises(WorkerLost, match="cannot start"):
            next(ordered_map(abs, range(3), pool=pool, max_in_flight=3))
        refused = threading.stack_size(0)
        done = threading.Event()
        pool.submit(done.set)
        assert done.wait(PATIENCE_SECONDS)
        threading.stack_size(refused)
        assert list(ordered_map(abs, range(20), pool=pool, max_in_flight=3)) == list(range(20))
        assert len(worker_threads()) == 1
