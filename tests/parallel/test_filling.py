"""OrderedOutcomes.fill reads items and starts calls before the first outcome is asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from framefeed.parallel import Ok, ThreadPool, ordered_outcomes
from tests.patience import PATIENCE_SECONDS


def test_calls_begin_with_fill_and_as_many_as_may_be_in_flight() -> None:
    read: list[int] = []
    begun = threading.Semaphore(0)

    def items() -> Iterator[int]:
        for number in range(6):
            read.append(number)
            yield number

    def call(number: int) -> int:
        begun.release()
        return number

    with ThreadPool(2) as pool, ordered_outcomes(call, items(), pool=pool, max_in_flight=4) as outcomes:
        assert read == []
        outcomes.fill()
        assert read == [0, 1, 2, 3]
        assert all(begun.acquire(timeout=PATIENCE_SECONDS) for _ in range(4))
        assert next(outcomes) == Ok(0)
        outcomes.fill()
        assert read == [0, 1, 2, 3, 4]
        assert list(outcomes) == [Ok(number) for number in range(1, 6)]
        outcomes.fill()


def test_an_ended_iteration_is_not_filled() -> None:
    read: list[int] = []
    outcomes = ordered_outcomes(abs, (read.append(number) or number for number in range(9)), workers=1, max_in_flight=4)
    outcomes.close()
    outcomes.fill()
    assert read == []
