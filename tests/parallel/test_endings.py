"""However an iteration ends, no thread or process is left running, and no call waits forever."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from framefeed._outcome import Ok
from framefeed.parallel._ordered import ordered_outcomes
from framefeed.parallel._ordered_map import ordered_map
from framefeed.parallel._pools import ThreadPool
from tests.parallel.laws import all_end, worker_threads
from tests.patience import PATIENCE_SECONDS


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    before = set(worker_threads())
    yield
    assert all_end([thread for thread in worker_threads() if thread not in before])


def leave_the_loop() -> None:
    for result in ordered_map(abs, count(), workers=2, max_in_flight=4):
        if result == 5:
            break


def raise_in_the_loop() -> None:
    def loop() -> None:
        for result in ordered_map(abs, count(), workers=2, max_in_flight=4):
            1 // (5 - result)

    with pytest.raises(ZeroDivisionError):
        loop()


def close() -> None:
    results = ordered_map(abs, count(), workers=2, max_in_flight=4)
    next(results)
    results.close()
    results.close()
    assert list(results) == []


def leave_with() -> None:
    with ordered_outcomes(abs, count(), workers=2, max_in_flight=4) as outcomes:
        assert next(outcomes) == Ok(0)
    assert list(outcomes) == []


def drop_in_a_cycle() -> None:
    cycle: list[Any] = [ordered_map(abs, count(), workers=2, max_in_flight=4)]
    cycle.append(cycle)
    next(cycle[0])
    del cycle
    gc.collect()


def never_begin() -> None:
    ordered_map(abs, count(), workers=2, max_in_flight=4)


def fail_in_the_function() -> None:
    with pytest.raises(ZeroDivisionError):
        list(ordered_map(lambda item: 1 // (5 - item), count(), workers=2, max_in_flight=4))


def come_to_the_end() -> None:
    results = ordered_map(abs, range(9), workers=2, max_in_flight=4)
    assert len(list(results)) == 9
    assert worker_threads() == []  # the iterator is still there


ENDINGS = [
    leave_the_loop,
    raise_in_the_loop,
    close,
    leave_with,
    drop_in_a_cycle,
    never_begin,
    fail_in_the_function,
    come_to_the_end,
]


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.__name__)
def test_L16_every_ending_stops_the_threads(ending: Callable[[], None]) -> None:
    ending()
    assert all_end(worker_threads())


def test_L16_what_has_not_begun_never_begins() -> None:
    begun = []
    first, release = threading.Event(), threading.Event()

    def function(item: int) -> int:
        begun.append(item)
        if item == 1:
            first.set()
            release.wait(PATIENCE_SECONDS)
        return item

    with ThreadPool(1) as pool:
        results = ordered_map(function, count(), pool=pool, max_in_flight=5)
        assert next(results) == 0
        assert first.wait(PATIENCE_SECONDS)
        del results
        release.set()
        done = threading.Event()
        pool.submit(done.set)
        assert done.wait(PATIENCE_SECONDS)
    assert begun == [0, 1]


def test_L16_close_waits_for_the_running_call_and_not_for_ever() -> None:
    begun, release = threading.Event(), threading.Event()
    finished: list[int] = []

    def function(item: int) -> None:
        if item == 1:
            begun.set()
            release.wait(PATIENCE_SECONDS)
            finished.append(item)

    for pool in (None, ThreadPool(1)):
        begun.clear()
        release.clear()
        finished.clear()
        results = ordered_map(function, range(9), workers=None if pool else 1, pool=pool, max_in_flight=9)
        next(results)
        assert begun.wait(PATIENCE_SECONDS)
        results.close(wait_seconds=0)
        assert finished == []
        release.set()
        results.close(wait_seconds=PATIENCE_SECONDS)
        assert finished == [1]


PREFETCHING = """
import sys, threading
from itertools import count
from framefeed.parallel import ThreadPool, ordered_map

begun = threading.Semaphore(0)

def function(item):
    begun.release()
    return sum(range(10_000))

def prefetching(**more):
    results = ordered_map(function, count(), max_in_flight=64, **more)
    next(results)
    begun.acquire()
    return results
"""

EXITS = {
    "at the end of the script": "results = prefetching(workers=4)",
    "held by a cycle": "results = [prefetching(workers=4)]; results.append(results); del results",
    "with a pool of its own": "pool = ThreadPool(4); results = prefetching(pool=pool)",
    "with an idle pool": "pool = ThreadPool(2); done = threading.Event(); pool.submit(done.set); done.wait()",
    "in a loop": "for _ in prefetching(workers=4): sys.exit()",
    "held by another module": "sys.results = prefetching(workers=4)",
    "with finished results": "results = prefetching(workers=1); [begun.acquire() for _ in range(60)]",
    "in a thread that has ended": "t = threading.Thread(target=lambda: prefetching(workers=2)); t.start(); t.join()",
}


def run_script(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


@pytest.mark.parametrize("script", EXITS.values(), ids=EXITS.keys())
def test_L17_the_interpreter_exits_quietly_in_the_middle_of_prefetching(script: str) -> None:
    ended = run_script(PREFETCHING + script)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_L17_an_error_that_nobody_catches_is_all_that_is_printed() -> None:
    ended = run_script(PREFETCHING + "for _ in prefetching(workers=4): raise SystemExit('no more')")
    assert (ended.returncode, ended.stderr) == (1, "no more\n")


FORKING = """
import os, threading, warnings
from framefeed.errors import UsageError
from framefeed.parallel import ordered_outcomes

warnings.simplefilter("ignore")  # later versions of Python warn of what is tried here
begun, release = threading.Event(), threading.Event()

def function(item):
    if item == 1:
        begun.set()
        release.wait()
    return item

outcomes = ordered_outcomes(function, range({number}), workers=1, max_in_flight=2)
next(outcomes)
begun.wait()
child = os.fork()
if child == 0:
    try:
        print(next(outcomes), flush=True)
    except UsageError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
release.set()
print(*outcomes)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
@pytest.mark.parametrize("number", [2, 9])
def test_a_forked_child_hears_that_its_workers_are_gone(number: int) -> None:
    ended = run_script(FORKING.format(number=number))
    assert ended.stderr == ""
    child, parent = ended.stdout.splitlines()
    assert "not in a forked process" in child
    assert parent == " ".join(f"Ok({item})" for item in range(1, number))
