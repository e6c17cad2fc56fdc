"""The memory of a cache: it holds no more than it may, also where threads put and drop at once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from framefeed.cache._state import CacheOptions, CacheState
from framefeed.cache.store._format import Kind, StoredFrame
from tests.parallel.awaited import AwaitedLock
from tests.patience import PATIENCE_SECONDS

KIND = Kind("raw", "rgbp 1x1 2 0 p 0")
OVERHEAD = 400


def frame_of(number: int, size: int) -> StoredFrame:
    return StoredFrame(number, KIND, bytes(size), 0, 1, 2)


def state_of(memory_bytes: int) -> Any:
    return CacheState(CacheOptions("unused", memory_bytes=memory_bytes))


def test_a_frame_larger_than_the_memory_displaces_none() -> None:
    state = state_of(1000)
    for frame in (frame_of(1, 400), frame_of(2, 601)):
        state.keep_in_memory(b"k", frame)
    assert [state.memory.get((b"k", number)) is not None for number in (1, 2)] == [True, False]
    state.keep_in_memory(b"k", frame_of(3, 600))
    assert [state.memory.get((b"k", number)) is not None for number in (1, 2, 3)] == [False, False, True]
    assert state.memory.get((b"other", 3)) is None


class Meeting(OrderedDict[Any, Any]):
    """Has another thread work in the middle of the first change, if that is possible."""

    def __init__(self) -> None:
        super().__init__()
        self.is_inside = threading.Event()
        self.has_other_come = threading.Event()
        """It waits for the lock, or has done its work."""

    def __setitem__(self, name: Any, held: Any) -> None:
        if not self.is_inside.is_set():
            self.is_inside.set()
            assert self.has_other_come.wait(PATIENCE_SECONDS)
        super().__setitem__(name, held)


def assert_counted(state: Any, make_lock: Callable[..., Any] = AwaitedLock) -> None:
    """The law: after threads have put and dropped at once, the memory weighs what its frames weigh."""
    values = state.memory._values
    frames = values._values = Meeting()
    state.memory._lock = make_lock(frames.has_other_come.set)

    def work() -> None:
        for number in (1, 2, 3, 1):
            state.keep_in_memory(b"k", frame_of(number, 100 + number))
        state.memory.drop((b"k", 2))
        frames.has_other_come.set()

    first = threading.Thread(target=state.keep_in_memory, args=(b"k", frame_of(1, 150)))
    first.start()
    assert frames.is_inside.wait(PATIENCE_SECONDS)
    second = threading.Thread(target=work)
    second.start()
    for thread in (first, second):
        thread.join(PATIENCE_SECONDS)
    assert values.weight == sum(len(held.data) + OVERHEAD for held in frames.values()) <= 1600


def test_threads_that_put_and_drop_at_once() -> None:
    assert_counted(state_of(1600))


def test_a_memory_without_its_lock_is_caught() -> None:
    with pytest.raises(AssertionError):
        assert_counted(state_of(1600), nullcontext)
