"""Repeated timings: median and interval, of the GPU by events, of decoding by the clock."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

MANY, FEW = 20, 5
SHORT = 0.2
"""Seconds; what takes less is repeated ``MANY`` times, else ``FEW`` times."""


def warm_up(torch: Any) -> None:
    """Let the device work for half a second, so that its clocks rise."""
    matrix = torch.randn(4096, 4096, device="cuda").to(torch.bfloat16)
    until = time.perf_counter() + 0.5
    while time.perf_counter() < until:
        matrix @ matrix
        torch.cuda.synchronize()


def summarise(seconds: list[float], unit: float = 1e3) -> dict[str, Any]:
    """Give median and interval in milliseconds.

    The interval is that of the median with a probability of at least 0.95 for 20 values (the 6th and the 15th), and
    smallest and largest of 5.
    """
    ordered = sorted(value * unit for value in seconds)
    skip = 5 if len(ordered) >= MANY else 0
    low, high = ordered[skip], ordered[-1 - skip]
    return {"ms": _round(statistics.median(ordered)), "interval": [_round(low), _round(high)], "repeats": len(ordered)}


def time_calls(call: Callable[[], Any], wait: Callable[[], Any] = lambda: None) -> dict[str, Any]:
    """Time a call by the clock, up to the end of ``wait``; the first call warms up."""
    return summarise(_repeat(lambda: _time_once(call, wait)))


def time_on_device(torch: Any, call: Callable[[], Any]) -> dict[str, Any]:
    """Time by events what a call gives the current stream to do; the first calls warm up."""

    def once() -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    for _ in range(3):
        call()
    torch.cuda.synchronize()
    return summarise(_repeat(once))


def time_somewhere(torch: Any, device: str, call: Callable[[], Any]) -> dict[str, Any]:
    """Time by events on a GPU, by the clock on the CPU."""
    return time_calls(call) if device == "cpu" else time_on_device(torch, call)


def run_threads(work: Callable[[int], Any], threads: int) -> None:
    """Call a function in several threads with their numbers; raise the first error of one."""
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=guarded, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if errors:
        raise errors[0]


def _repeat(once: Callable[[], float]) -> list[float]:
    first = once()
    return [once() for _ in range(MANY if first < SHORT else FEW)]


def _time_once(call: Callable[[], Any], wait: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    wait()
    return time.perf_counter() - begin


def _round(value: float) -> float:
    return float(f"{value:.4g}")
