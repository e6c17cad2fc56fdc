from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed._outcome import Err, Ok
from framefeed.parallel._ordered import OrderedOutcomes, ordered_outcomes
from framefeed.parallel._pools import ThreadPool
from tests.parallel.laws import Setting, check_laws


@st.composite
def settings(draw: st.DrawFn) -> Setting:
    number = draw(st.integers(0, 12))
    return Setting(
        number=number,
        workers=draw(st.integers(0, 4)),
        max_in_flight=draw(st.integers(1, 6)),
        priorities=tuple(draw(st.permutations(range(number)))),
        failing=draw(st.frozensets(st.integers(0, 11), max_size=3)),
        max_bytes=draw(st.none() | st.sampled_from([0, 10, 25])),
    )


BACKWARDS = Setting(number=12, workers=3, max_in_flight=4, priorities=tuple(range(12, 0, -1)))


@given(settings())
def test_any_workers_bounds_and_completion_order_give_what_a_plain_loop_gives(setting: Setting) -> None:
    check_laws(ordered_outcomes, setting)


@given(st.lists(settings().filter(lambda setting: setting.workers > 0), min_size=2, max_size=3))
def test_the_laws_hold_on_the_threads_of_an_earlier_run(rows: list[Setting]) -> None:
    with ThreadPool(rows[0].workers) as pool:

        def on_the_pool(function: Any, items: Any, *, workers: int, **limits: Any) -> Any:
            return ordered_outcomes(function, items, pool=pool, **limits)

        for setting in rows:
            check_laws(on_the_pool, replace(setting, workers=rows[0].workers))


@given(
    settings(), st.lists(st.sampled_from([0.0, 1.0, 2.0, 30.0, float("inf"), float("nan")]), min_size=12, max_size=12)
)
def test_L06_the_laws_hold_for_any_predicted_costs(setting: Setting, costs: list[float]) -> None:
    def with_costs(function: Any, items: Any, **limits: Any) -> Any:
        return ordered_outcomes(function, items, cost_of=costs.__getitem__, **limits)

    check_laws(with_costs, setting)


@given(settings(), st.integers(1, 9))
def test_the_laws_hold_for_outcomes_that_are_taken_several_at_once(setting: Setting, count: int) -> None:
    @contextmanager
    def several_at_once(function: Any, items: Any, **limits: Any) -> Iterator[Iterator[Ok[int] | Err]]:
        with ordered_outcomes(function, items, **limits) as outcomes:
            yield take_all(outcomes, count)

    check_laws(several_at_once, setting)


def take_all(outcomes: OrderedOutcomes[int, int], count: int) -> Iterator[Ok[int] | Err]:
    while True:
        try:
            taken = outcomes.take(count)
        except StopIteration:
            return
        assert 1 <= len(taken) <= count
        yield from taken


def test_backwards_completion_keeps_the_laws() -> None:
    check_laws(ordered_outcomes, BACKWARDS)


def test_the_laws_catch_results_in_completion_order() -> None:
    @contextmanager
    def completion_order(
        function: Callable[[int], int], items: Iterable[int], *, workers: int, **_: Any
    ) -> Iterator[Iterator[Ok[int]]]:
        with ThreadPoolExecutor(workers) as executor:
            # The priorities below have these calls finish backwards.
            yield reversed([Ok(value) for value in executor.map(function, items)])

    with pytest.raises(AssertionError, match="instead of"):
        check_laws(completion_order, Setting(number=3, workers=3, max_in_flight=3, priorities=(2, 1, 0)))


def test_the_laws_catch_a_missing_bound() -> None:
    def unbounded(function: Any, items: Any, **limits: Any) -> Any:
        return ordered_outcomes(function, items, **{**limits, "max_in_flight": 100})

    with pytest.raises(AssertionError, match="in flight"):
        check_laws(unbounded, BACKWARDS)


def test_the_laws_catch_a_bound_that_is_off_by_one() -> None:
    def one_more(function: Any, items: Any, **limits: Any) -> Any:
        return ordered_outcomes(function, items, **{**limits, "max_in_flight": limits["max_in_flight"] + 1})

    with pytest.raises(AssertionError, match="in flight"):
        check_laws(one_more, BACKWARDS)


def test_the_laws_catch_too_many_calls_at_once() -> None:
    with pytest.raises(AssertionError, match="3 calls at once"):
        check_laws(ordered_outcomes, replace(BACKWARDS, max_calls=2))


def test_the_laws_catch_items_pulled_by_a_worker() -> None:
    @contextmanager
    def pulled_elsewhere(function: Any, items: Iterable[int], **_: Any) -> Iterator[list[Ok[int] | Err]]:
        pulled: list[int] = []
        thread = threading.Thread(target=lambda: pulled.extend(items))
        thread.start()
        thread.join()
        yield [Ok(function(item)) for item in pulled]

    with pytest.raises(AssertionError, match="consumer's thread"):
        check_laws(pulled_elsewhere, Setting(number=2, workers=1, max_in_flight=2, priorities=(0, 1)))
