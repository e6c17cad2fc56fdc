"""MemoryTier: a dictionary of bounded weight that forgets what was not used for longest."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefeed.cache.memory import Held, MemoryTier
from framefeed.cache.stored import Kind

KIND = Kind("raw", "rgbp 1x1 2 0 p 0")
OVERHEAD = 400
steps = st.lists(
    st.tuples(st.sampled_from(["put", "get", "drop"]), st.integers(0, 5), st.integers(0, 700)), max_size=60
)


@given(steps, st.integers(0, 4000))
def test_it_is_the_obvious_dictionary(script: list[tuple[str, int, int]], budget: int) -> None:
    tier, model = MemoryTier(budget), OrderedDict[int, bytes]()
    for what, number, size in script:
        if what == "put":
            tier.put(b"k", number, Held(KIND, bytes(size), 1, 2))
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


class Switching(OrderedDict[Any, Any]):
    """Lets another thread go on in the middle of every change."""

    def pop(self, *args: Any) -> Any:
        time.sleep(0)
        found = super().pop(*args)
        time.sleep(0)
        return found

    def __setitem__(self, name: Any, held: Any) -> None:
        time.sleep(0)
        super().__setitem__(name, held)
        time.sleep(0)


def assert_counted(tier: Any) -> None:
    """The law: after threads have put, dropped and looked up, the tier weighs what its frames weigh."""
    tier._frames = Switching()
    barrier, errors = threading.Barrier(4), list[BaseException]()

    def work(seed: int) -> None:
        try:
            barrier.wait(20)
            for step in range(250):
                number = (step * 7 + seed) % 5
                tier.put(b"k", number, Held(KIND, bytes(100 + step % 3), 1, 2))
                tier.get(b"k", [number, (number + 1) % 5])
                tier.drop(b"k", (number + seed) % 5)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    assert tier.nbytes == sum(len(held.data) + OVERHEAD for held in tier._frames.values()) <= tier.max_bytes


def test_threads_that_put_and_drop_at_once() -> None:
    assert_counted(MemoryTier(1600))


def test_a_tier_without_its_lock_is_found_out() -> None:
    tier: Any = MemoryTier(1600)
    tier._lock = nullcontext()
    with pytest.raises((AssertionError, KeyError)):
        assert_counted(tier)
