"""A cached property: computed once, one value for all threads, and no lock that a fork could leave held (L01)."""

from __future__ import annotations

import os
import signal
import threading
import warnings

import pytest

from framefeed._cached import cached_property
from tests.parallel.living import wait_until
from tests.patience import PATIENCE_SECONDS


class Slow:
    """Its property waits for an event, and lists its computations."""

    def __init__(self, may_end: threading.Event) -> None:
        self.has_begun, self.may_end, self.calls = threading.Event(), may_end, list[None]()

    @cached_property
    def value(self) -> object:
        """Something."""
        self.calls.append(None)
        self.has_begun.set()
        assert self.may_end.wait(PATIENCE_SECONDS)
        return object()


def ended() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


def test_a_cached_property_is_computed_once_and_keeps_its_docstring() -> None:
    slow = Slow(ended())
    assert slow.value is slow.value
    assert len(slow.calls) == 1
    assert Slow.value.__doc__ == "Something."


def test_threads_that_compute_at_once_get_one_value() -> None:
    slow = Slow(threading.Event())
    values: list[object] = []
    threads = [threading.Thread(target=lambda: values.append(slow.value)) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(slow.calls) == len(threads))
    slow.may_end.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert len(values) == 4
    assert all(value is slow.value for value in values)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_L01_a_process_forked_while_a_thread_computes_can_compute() -> None:
    slow = Slow(threading.Event())
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    assert slow.has_begun.wait(PATIENCE_SECONDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks beside threads
        child = os.fork()
    if child == 0:
        signal.alarm(int(PATIENCE_SECONDS))
        done = False
        try:
            done = Slow(ended()).value is not None
        finally:
            os._exit(0 if done else 1)
    status = os.waitpid(child, 0)[1]
    slow.may_end.set()
    thread.join(PATIENCE_SECONDS)
    assert status == 0
