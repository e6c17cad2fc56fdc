"""MemoryTier: a dictionary of bounded weight that forgets what was not used for longest."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.cache._state import MemoryTier
from framefeed.cache.store._format import Kind, StoredFrame

KIND = Kind("raw", "rgbp 1x1 2 0 p 0")
OVERHEAD = 400
steps = st.lists(
    st.tuples(st.sampled_from(["put", "get", "drop"]), st.integers(0, 5), st.integers(0, 700)), max_size=60
)


@given(steps, st.integers(0, 4000))
def test_it_behaves_like_a_dictionary_with_a_budget(script: list[tuple[str, int, int]], budget: int) -> None:
    tier, model = MemoryTier(budget), OrderedDict[int, bytes]()
    for what, number, size in script:
        if what == "put":
            tier.put(b"k", StoredFrame(number, KIND, bytes(size), size, 1, 2))
            if size + OVERHEAD <= budget:
                model.pop(number, None)
                model[number] = bytes(size)
                while sum(len(data) + OVERHEAD for data in model.values()) > budget:
                    model.popitem(last=False)
        elif what == "drop":
            tier.drop(b"k", number)
            model.pop(number, None)
        else:
            (held,) = tier.get(b"k", [number])
            assert (None if held is None else held.data) == model.get(number)
            if number in model:
                model.move_to_end(number)
        assert len(tier) == len(model)
        assert tier.nbytes == sum(len(data) + OVERHEAD for data in model.values()) <= budget
    assert tier.get(b"other", list(model)) == [None] * len(model)
    tier.clear()
    assert (len(tier), tier.nbytes) == (0, 0)


class Meeting(OrderedDict[Any, Any]):
    """Has another thread work in the middle of the first change, if that is possible."""

    def __init__(self) -> None:
        super().__init__()
        self.is_inside = threading.Event()
        self.is_done = threading.Event()

    def __setitem__(self, name: Any, held: Any) -> None:
        if not self.is_inside.is_set():
            self.is_inside.set()
            self.is_done.wait(0.2)  # The other one waits for the lock, and is done only afterwards.
        super().__setitem__(name, held)


def assert_counted(tier: Any) -> None:
    """The law: after threads have put and dropped at once, the tier weighs what its frames weigh."""
    frames = tier._frames._values = Meeting()

    def work() -> None:
        for number in (1, 2, 3, 1):
            tier.put(b"k", StoredFrame(number, KIND, bytes(100 + number), 0, 1, 2))
        tier.drop(b"k", 2)
        frames.is_done.set()

    first = threading.Thread(target=tier.put, args=(b"k", StoredFrame(1, KIND, bytes(150), 0, 1, 2)))
    first.start()
    assert frames.is_inside.wait(20)
    second = threading.Thread(target=work)
    second.start()
    for thread in (first, second):
        thread.join(20)
    assert tier.nbytes == sum(len(held.data) + OVERHEAD for held in frames.values()) <= tier.max_bytes


def test_threads_that_put_and_drop_at_once() -> None:
    assert_counted(MemoryTier(1600))


def test_a_memory_tier_without_its_lock_is_caught() -> None:
    tier: Any = MemoryTier(1600)
    tier._lock.value = nullcontext()
    with pytest.raises(AssertionError):
        assert_counted(tier)
