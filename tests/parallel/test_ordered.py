from __future__ import annotations

import gc
import threading
import traceback
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any, NoReturn

import pytest

from framefeed._outcome import Err, Ok
from framefeed.errors import DeadlineExceeded, UsageError
from framefeed.parallel._ordered import ordered_outcomes
from framefeed.parallel._ordered_map import OrderedValues, ordered_map
from framefeed.parallel._pools import InlinePool, ThreadPool
from tests.parallel.clocks import HandClock
from tests.parallel.laws import all_end, worker_threads
from tests.patience import PATIENCE_SECONDS

EVERY_NUMBER_OF_WORKERS = pytest.mark.parametrize("workers", range(5))


def gather(results: OrderedValues[Any, Any]) -> tuple[list[Any], BaseException]:
    """The results before the first error, and the error."""
    values: list[Any] = []
    try:
        values.extend(iter(lambda: next(results), object()))
    except BaseException as error:
        # `extend` keeps what it had when the iterator raised.
        return values, error
    raise AssertionError("no error came")


def raising(error: BaseException) -> NoReturn:
    raise error


@EVERY_NUMBER_OF_WORKERS
def test_L05_the_traceback_is_the_workers(workers: int) -> None:
    def decode_frame(item: int) -> float:
        return 1 / item

    _, error = gather(ordered_map(decode_frame, [0], workers=workers, max_in_flight=1))
    assert "decode_frame" in [frame.name for frame in traceback.extract_tb(error.__traceback__)]


class Awkward(Exception):
    """Cannot be hashed, pickled, compared, printed or rebuilt from its message."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, *, lock: Any) -> None:
        super().__init__()
        self.lock = lock

    def __eq__(self, other: object) -> bool:
        raise NotImplementedError

    def __repr__(self) -> str:
        raise NotImplementedError


@EVERY_NUMBER_OF_WORKERS
def test_L05_an_error_arrives_as_the_object_that_was_raised(workers: int) -> None:
    awkward = Awkward(lock=threading.Lock())
    (outcome,) = ordered_outcomes(raising, [awkward], workers=workers, max_in_flight=1)
    assert isinstance(outcome, Err)
    assert outcome.error is awkward
    assert "Awkward" in repr(outcome)


@EVERY_NUMBER_OF_WORKERS
def test_an_error_of_the_items_comes_after_the_results_of_the_items_before(workers: int) -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        raise OSError("the manifest ends here")

    values, error = gather(ordered_map(lambda item: item, items(), workers=workers, max_in_flight=8))
    assert values == [0, 1, 2]
    assert isinstance(error, OSError)
    assert "items" in [frame.name for frame in traceback.extract_tb(error.__traceback__)]


@EVERY_NUMBER_OF_WORKERS
def test_an_interrupt_of_the_items_comes_at_once_and_ends_the_iteration(workers: int) -> None:
    def items() -> Iterator[int]:
        yield 0
        raise KeyboardInterrupt

    outcomes = ordered_outcomes(lambda item: item, items(), workers=workers, max_in_flight=8)
    with pytest.raises(KeyboardInterrupt):
        list(outcomes)
    assert list(outcomes) == []


@EVERY_NUMBER_OF_WORKERS
def test_no_items_no_results(workers: int) -> None:
    assert list(ordered_map(raising, [], workers=workers, max_in_flight=1)) == []


@EVERY_NUMBER_OF_WORKERS
def test_an_iterator_that_has_ended_stays_ended(workers: int) -> None:
    results = ordered_map(lambda item: item, [1], workers=workers, max_in_flight=1)
    assert list(results) == [1]
    assert list(results) == []
    failed = ordered_map(raising, [OSError(), OSError()], workers=workers, max_in_flight=2)
    with pytest.raises(OSError):  # noqa: PT011 - it has no message
        next(failed)
    assert list(failed) == []


def test_nothing_is_pulled_before_the_first_result_is_asked_for() -> None:
    results = ordered_map(lambda item: item, (raising(OSError("pulled")) for _ in range(1)), max_in_flight=4)
    with pytest.raises(OSError, match="pulled"):
        next(results)


def test_inline_pulls_one_item_at_a_time() -> None:
    pulled = []

    def items() -> Iterator[int]:
        for item in count():
            pulled.append(item)
            yield item

    with ordered_map(lambda item: item, items(), kind="inline", workers=4, max_in_flight=4) as results:
        assert [next(results), next(results)] == [0, 1]
    assert pulled == [0, 1]


def test_L06_a_slow_head_lets_others_run_and_none_overtake() -> None:
    release = threading.Event()
    others = threading.Semaphore(0)

    def function(item: int) -> int:
        if item == 0:
            release.wait(PATIENCE_SECONDS)
        else:
            others.release()
        return item

    def release_after_the_others() -> None:
        for _ in range(7):
            others.acquire(timeout=PATIENCE_SECONDS)
        release.set()

    director = threading.Thread(target=release_after_the_others)
    director.start()
    results = ordered_map(function, range(64), workers=2, max_in_flight=8)
    # Seven others fit into the window beside the head; were they waiting for it, nobody would release it.
    assert next(results) == 0
    director.join()
    assert list(results) == list(range(1, 64))


def test_L06_a_costly_item_starts_before_those_that_wait_with_it() -> None:
    started: list[int] = []
    all_pulled, costly_begun = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield from range(8)
        all_pulled.set()

    def function(item: int) -> int:
        started.append(item)
        if item == 5:
            costly_begun.set()
        if item < 2:
            (costly_begun if item == 0 else all_pulled).wait(PATIENCE_SECONDS)
        return item

    def cost_of(item: int) -> float:
        return 20.0 if item == 5 else 1.0

    results = ordered_map(function, items(), workers=2, max_in_flight=9, cost_of=cost_of)
    assert list(results) == list(range(8))
    # The second thread starts before or after all items are read.
    assert [item for item in started if item != 5] == [0, 1, 2, 3, 4, 6, 7]
    assert started.index(5) in (1, 2)


@EVERY_NUMBER_OF_WORKERS
def test_an_error_of_cost_of_is_raised_at_once(workers: int) -> None:
    results = ordered_map(abs, [1, 2, 0, 3], workers=workers, max_in_flight=4, cost_of=lambda item: 1 / item)
    with pytest.raises(ZeroDivisionError):
        list(results)
    assert list(results) == []


@pytest.mark.parametrize("kind", ["threads", "inline"])
def test_L19_weights_of_items_bound_what_is_read(kind: str) -> None:
    weights = [3, 3, 2, 5, 1, 1, 1, 8, 4]
    read: list[int] = []
    items = (read.append(number) or number for number in range(len(weights)))
    with ordered_outcomes(abs, items, workers=2, kind=kind, max_in_flight=8, weight_of=weights.__getitem__) as outcomes:
        outcomes.fill()
        assert read == ([0] if kind == "inline" else [0, 1, 2])
        taken: list[int] = []
        while len(taken) < len(weights):
            outcome = next(outcomes)
            assert isinstance(outcome, Ok)
            outcomes.fill()
            taken.append(outcome.value)
            # The last one that is read may reach beyond the bound.
            assert sum(weights[number] for number in read if number not in taken) - weights[read[-1]] < 8
    assert taken == list(range(len(weights)))


def test_outcomes_of_a_weight_come_together() -> None:
    with ordered_outcomes(abs, range(1, 7), workers=2, max_in_flight=9, weight_of=lambda item: item) as outcomes:
        assert outcomes.take(3) == [Ok(1), Ok(2)]
        assert outcomes.take(4) == [Ok(3), Ok(4)]
        assert outcomes.take(100) == [Ok(5), Ok(6)]


@EVERY_NUMBER_OF_WORKERS
def test_a_weight_of_nothing_is_refused(workers: int) -> None:
    with pytest.raises(UsageError, match="weight of at least 1, got 0"):
        list(ordered_outcomes(abs, [1, 2], workers=workers, max_in_flight=4, weight_of=lambda _: 0))


def test_L19_finished_bytes_hold_back_further_work() -> None:
    started = []

    def function(item: int) -> int:
        started.append(item)
        return item

    drained = threading.Event()
    with ThreadPool(1) as pool:
        results = ordered_map(function, range(50), max_in_flight=20, max_bytes=25, size_of=lambda _: 10, pool=pool)
        for taken in range(1, 6):
            assert next(results) == taken - 1
            drained.clear()
            # One thread, first come first served: with this done, every earlier ticket is used up.
            pool.submit(drained.set)
            assert drained.wait(PATIENCE_SECONDS)
            assert len(started) == taken + 3  # three of 10 bytes are the first to pass 25
        assert list(results) == list(range(5, 50))


@EVERY_NUMBER_OF_WORKERS
def test_an_error_of_size_of_is_an_error_of_the_item(workers: int) -> None:
    outcomes = list(
        ordered_outcomes(
            lambda item: item, [b"1", None, b"3"], workers=workers, max_in_flight=3, max_bytes=9, size_of=len
        )
    )
    assert [type(outcome) for outcome in outcomes] == [Ok, Err, Ok]


def test_a_late_result_is_a_deadline_exceeded_that_names_the_item(hand_clock: HandClock) -> None:
    release = threading.Event()

    def function(item: str) -> str:
        if item.startswith("slow"):
            release.wait(PATIENCE_SECONDS)
        return item

    before = set(worker_threads())
    results = ordered_map(function, ["a", "slow" + "w" * 500, "b"], workers=2, max_in_flight=3, deadline_seconds=1.0)
    try:
        assert next(results) == "a"
        hand_clock.advance_at_each_read(2)
        with pytest.raises(DeadlineExceeded) as caught:
            next(results)
    finally:
        threads = set(worker_threads()) - before
        release.set()
    assert caught.value.position == 1
    assert caught.value.stage == "parallel"
    assert "item 1 ('slowww" in str(caught.value)
    assert "within 1.0 s" in str(caught.value)
    assert len(str(caught.value)) < 300
    assert list(results) == []
    assert all_end(list(threads))


def test_behind_a_deadline_no_end_waits_for_the_late_call(hand_clock: HandClock) -> None:
    release = threading.Event()

    def hang(_: int) -> None:
        hand_clock.advance_at_each_read(61)
        release.wait(2 * PATIENCE_SECONDS)

    with ThreadPoolExecutor(1) as other:
        outcomes = ordered_outcomes(hang, [1], workers=1, max_in_flight=1, deadline_seconds=60)
        try:
            with pytest.raises(DeadlineExceeded):
                next(outcomes)
            other.submit(outcomes.close, 2 * PATIENCE_SECONDS).result(PATIENCE_SECONDS)
        finally:
            release.set()


def test_a_deadline_counts_for_each_result_anew(hand_clock: HandClock) -> None:
    def items() -> Iterator[int]:
        for _ in range(4):
            yield hand_clock.reads

    def function(reads_before: int) -> int:
        # The result comes while the consumer waits for it, and after most of the deadline.
        hand_clock.wait_for_reads_after(reads_before)
        hand_clock.advance(40)
        return reads_before

    results = ordered_map(function, items(), workers=1, max_in_flight=1, deadline_seconds=60)
    assert len(list(results)) == 4, "each came within the deadline, all of them together did not"


@pytest.mark.parametrize("has_steps", [True, False])
def test_a_deadline_counts_for_each_step_anew(has_steps: bool, hand_clock: HandClock) -> None:
    def work(item: list[int]) -> int:
        for _ in range(3):
            item.append(1)
            hand_clock.wait_for_reads_after(hand_clock.reads + 1)  # the consumer has seen the step
            hand_clock.advance(40)
        return len(item)

    step_of: Any = len if has_steps else None
    with ordered_outcomes(work, [[]], workers=1, max_in_flight=1, step_of=step_of, deadline_seconds=60) as outcomes:
        if has_steps:
            assert next(outcomes) == Ok(3)
        else:
            with pytest.raises(DeadlineExceeded):
                next(outcomes)


def test_an_item_that_no_worker_took_is_named_in_the_deadline() -> None:
    release = threading.Event()
    with ThreadPool(1) as pool:
        pool.submit(lambda: release.wait(PATIENCE_SECONDS))
        results = ordered_map(abs, [7], pool=pool, max_in_flight=1, deadline_seconds=0.05)
        with pytest.raises(DeadlineExceeded, match=r"item 0 \(7\) .*no worker was free"):
            next(results)
        release.set()


def test_an_errors_traceback_holds_nothing_alive_once_the_error_is_gone() -> None:
    class Picture:
        pass

    pictures: list[weakref.ref[Picture]] = []

    def function(item: int) -> NoReturn:
        picture = Picture()
        pictures.append(weakref.ref(picture))
        raise OSError(item)

    gc.collect()
    gc.disable()
    try:
        with ThreadPool(1) as pool:
            for outcome in ordered_outcomes(function, range(3), pool=pool, max_in_flight=2):
                assert isinstance(outcome, Err)
            del outcome
            with pytest.raises(OSError, match="0"):
                next(ordered_map(function, range(1), pool=pool, max_in_flight=2))
            # The thread is done with the last task when it has done another.
            done = threading.Event()
            pool.submit(done.set)
            assert done.wait(PATIENCE_SECONDS)
        assert [picture() for picture in pictures] == [None] * 4
    finally:
        gc.enable()


def test_an_iterator_that_its_own_items_advance_raises_an_error() -> None:
    def items() -> Iterator[int]:
        yield next(results)

    results = ordered_map(lambda item: item, items(), workers=1, max_in_flight=2)
    with pytest.raises(UsageError, match="already advancing"):
        next(results)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"workers": 1, "max_in_flight": 0}, "max_in_flight: expected an integer of at least 1, got 0"),
        ({"workers": -1, "max_in_flight": 1}, "workers: expected an integer of at least 0, got -1"),
        ({"workers": 1, "max_in_flight": 1, "max_bytes": 10}, "size_of"),
        ({"workers": 1, "max_in_flight": 1, "max_bytes": -1, "size_of": len}, "max_bytes: expected .* got -1"),
        ({"workers": 1, "max_in_flight": 1, "cost_of": 3}, "cost_of"),
        ({"workers": 1, "max_in_flight": 1, "deadline_seconds": 0}, "deadline_seconds must be more than 0"),
        ({"workers": 1, "max_in_flight": 1, "kind": "fibres"}, "'inline', 'threads' or 'processes'"),
        ({"workers": 1, "max_in_flight": 1, "pool": InlinePool()}, "expected workers= or pool="),
    ],
)
@pytest.mark.parametrize("run", [ordered_map, ordered_outcomes])
def test_arguments_that_do_not_fit_are_refused_at_the_call(run: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(abs, [1], **arguments)


def test_without_a_number_of_workers_the_thread_budget_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMEFEED_THREADS", "3")
    together = threading.Barrier(3)
    list(ordered_map(lambda _: together.wait(PATIENCE_SECONDS), range(3), max_in_flight=3))


def test_outcomes_print_short() -> None:
    assert repr(Ok("p" * 10_000)).startswith("Ok('ppp")
    assert len(repr(Ok("p" * 10_000))) < 100
