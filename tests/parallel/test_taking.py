"""OrderedOutcomes.take waits for several outcomes at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from framefeed.errors import DeadlineExceeded
from framefeed.parallel import Ok, OrderedOutcomes, ordered_outcomes
from framefeed.parallel import _ordered as module
from tests.parallel.clocks import HandClock
from tests.parallel.living import wait_until
from tests.patience import PATIENCE_SECONDS


def test_several_outcomes_come_together_and_fewer_at_the_end() -> None:
    with ordered_outcomes(abs, range(7), workers=2, max_in_flight=5) as outcomes:
        assert outcomes.take(3) == [Ok(0), Ok(1), Ok(2)]
        assert next(outcomes) == Ok(3)
        assert outcomes.take(9) == [Ok(4), Ok(5), Ok(6)]
        with pytest.raises(StopIteration):
            outcomes.take(1)


def test_without_workers_one_item_is_read_at_a_time() -> None:
    read: list[int] = []
    items = (read.append(number) or number for number in range(5))
    with ordered_outcomes(abs, items, workers=0, max_in_flight=4) as outcomes:
        assert outcomes.take(3) == [Ok(0)]
        assert read == [0]


def test_outcomes_that_weigh_too_much_to_start_others_are_taken_at_once() -> None:
    with ordered_outcomes(
        abs, range(6), workers=2, max_in_flight=6, max_bytes=10, size_of=lambda _: 11, deadline_seconds=PATIENCE_SECONDS
    ) as outcomes:
        taken = []
        while len(taken) < 6:
            taken += outcomes.take(6 - len(taken))
        assert taken == [Ok(number) for number in range(6)]


def test_a_consumer_is_woken_when_no_other_call_may_start(monkeypatch: pytest.MonkeyPatch) -> None:
    # It would look by itself after that time only.
    monkeypatch.setattr(module, "LIVENESS_SECONDS", 10 * PATIENCE_SECONDS)
    release = threading.Event()

    def call(number: int) -> int:
        release.wait(PATIENCE_SECONDS)
        return number

    with ordered_outcomes(call, range(2), workers=1, max_in_flight=2, max_bytes=0, size_of=lambda _: 1) as outcomes:
        outcomes.fill()
        opener = threading.Thread(target=call_when_waited_for, args=(outcomes, 2, release.set))
        opener.start()
        assert outcomes.take(2) == [Ok(0)]
        opener.join(PATIENCE_SECONDS)


def call_when_waited_for(outcomes: OrderedOutcomes[int, int], weight: int, call: Callable[[], object]) -> None:
    wait_until(lambda: outcomes._run._awaited == weight)
    # The consumer has this lock until it waits.
    with outcomes._run._changed:
        pass
    call()


def test_an_error_of_the_items_comes_after_the_outcomes_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise KeyError("items")

    with ordered_outcomes(abs, items(), workers=1, max_in_flight=4) as outcomes:
        assert outcomes.take(4) == [Ok(1), Ok(2)]
        with pytest.raises(KeyError):
            outcomes.take(4)


def test_the_late_item_is_named_and_not_the_finished_one_before_it(hand_clock: HandClock) -> None:
    release = threading.Event()

    def call(number: int) -> int:
        if number == 1:
            # One worker: the item before is finished.
            hand_clock.advance_at_each_read(61)
            release.wait(PATIENCE_SECONDS)
        return number

    outcomes = ordered_outcomes(call, range(3), workers=1, max_in_flight=3, deadline_seconds=60)
    try:
        with pytest.raises(DeadlineExceeded, match=r"item 1 \(1\)") as caught:
            outcomes.take(3)
        assert caught.value.position == 1
    finally:
        release.set()
        outcomes.close()


def test_each_of_several_outcomes_has_the_whole_deadline(hand_clock: HandClock) -> None:
    def call(number: int) -> int:
        hand_clock.advance(40)
        hand_clock.wait_for_reads_after(hand_clock.reads + 2)
        return number

    with ordered_outcomes(call, range(4), workers=1, max_in_flight=4, deadline_seconds=60) as outcomes:
        assert len(outcomes.take(4)) == 4, "each came within the deadline, all of them together did not"


def test_a_take_ends_when_another_thread_closes_the_iterator() -> None:
    release = threading.Event()

    def call(number: int) -> int:
        if number == 1:
            release.wait(PATIENCE_SECONDS)
        return number

    outcomes = ordered_outcomes(call, range(3), workers=1, max_in_flight=3)
    closer = threading.Thread(target=call_when_waited_for, args=(outcomes, 3, partial(outcomes.close, 0)))
    closer.start()
    try:
        with pytest.raises(StopIteration):
            outcomes.take(3)
    finally:
        release.set()
        closer.join(PATIENCE_SECONDS)
