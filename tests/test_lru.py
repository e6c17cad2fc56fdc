"""The mapping of bounded weight keeps what a list of the most recently used would keep."""

from __future__ import annotations

import doctest
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed import _lru
from framefeed._lru import Lru

CALLS = st.lists(
    st.tuples(st.sampled_from(["get", "put", "pop"]), st.integers(0, 5), st.integers(1, 9)), min_size=1, max_size=60
)


class Busy:
    """A key that is slow to hash: something else happens meanwhile, once."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def __hash__(self) -> int:
        if len(self.calls) == 1:
            self.calls.pop()()
        elif self.calls:
            self.calls.pop()
        return 1


def test_a_finaliser_may_put_others_while_a_value_is_asked_for() -> None:
    recent, key = Lru[object, str](max_weight=2), Busy()
    recent.put(key, "mine")
    recent.put("other", "another")
    # At the second hash: between finding the value and noting its use.
    key.calls = [lambda: recent.put("third", "new"), lambda: None]
    assert recent.get(key) == "mine"
    assert list(recent) == ["other", "third"]
    assert recent.weight == 2


class Model:
    """The same with a list, oldest first."""

    def __init__(self, max_weight: int, min_count: int, max_count: int | None) -> None:
        self.items: list[tuple[int, int]] = []
        self.max_weight, self.min_count, self.max_count = max_weight, min_count, max_count

    def pop(self, key: int) -> int | None:
        values = [value for each, value in self.items if each == key]
        self.items = [item for item in self.items if item[0] != key]
        return values[0] if values else None

    def get(self, key: int) -> int | None:
        value = self.pop(key)
        if value is not None:
            self.items.append((key, value))
        return value

    def put(self, key: int, value: int) -> None:
        self.pop(key)
        self.items.append((key, value))
        while len(self.items) > self.min_count and sum(value for _, value in self.items) > self.max_weight:
            del self.items[0]
        while self.max_count is not None and len(self.items) > self.max_count:
            del self.items[0]


def check_calls(mapping: Lru[int, int], model: Model, calls: list[tuple[str, int, int]]) -> None:
    for call, key, value in calls:
        if call == "put":
            mapping.put(key, value)
            model.put(key, value)
        else:
            assert getattr(mapping, call)(key) == getattr(model, call)(key)
        assert list(mapping) == [each for each, _ in model.items]
        assert mapping.weight == sum(each for _, each in model.items)
        assert len(mapping) == len(model.items)


@given(CALLS, st.integers(0, 20), st.integers(0, 2), st.none() | st.integers(1, 4))
def test_any_calls_give_the_results_of_a_list(
    calls: list[tuple[str, int, int]], weight: int, least: int, most: int | None
) -> None:
    mapping = Lru[int, int](weight, lambda value: value, min_count=least, max_count=most)
    check_calls(mapping, Model(weight, least, most), calls)


def test_clear_removes_all_values() -> None:
    mapping = Lru[str, str](2)
    mapping.put("a", "1")
    mapping.clear()
    assert (len(mapping), mapping.weight, mapping.get("a")) == (0, 0, None)


def test_the_example_runs() -> None:
    assert doctest.testmod(_lru).failed == 0


class KeepsTheNewestPut(Lru[int, int]):
    """Getting a value does not make it a recent one."""

    def get(self, key: int) -> int | None:
        return self._values.get(key)


def test_a_mapping_that_keeps_the_oldest_is_caught() -> None:
    mapping = KeepsTheNewestPut(2, lambda value: value, min_count=0)
    with pytest.raises(AssertionError):
        check_calls(mapping, Model(2, 0, None), [("put", 1, 1), ("put", 2, 1), ("get", 1, 1), ("put", 3, 1)])
