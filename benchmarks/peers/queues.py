"""Threads and one bounded ``queue.Queue``, as the write-up of a producer/consumer loader has it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import Empty, Full, Queue
from typing import Any

import numpy as np

from benchmarks.peers.kinds import Producers
from framefeed.decode import Pixels

CAPACITY = 10
"""Batches in the queue: a producer that finds it full waits."""
_WAIT = 0.2
"""Seconds between two checks whether all is over."""


def begin_batches(load: Callable[[int], Pixels], length: int, batch_size: int, producers: int) -> Iterator[Any]:
    """Start threads, each of which makes whole batches; they come in the order in which they are ready."""
    ready: Queue[Any] = Queue(CAPACITY)
    numbers, taking, is_over = iter(range(length // batch_size)), threading.Lock(), threading.Event()

    def produce() -> None:
        while not is_over.is_set():
            with taking:
                number = next(numbers, None)
            if number is None:
                return
            batch = np.stack([load(number * batch_size + slot) for slot in range(batch_size)])
            while not is_over.is_set():
                try:
                    ready.put(batch, timeout=_WAIT)
                    break
                except Full:
                    continue

    threads = [threading.Thread(target=produce, daemon=True) for _ in range(producers)]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads) or not ready.empty():
            try:
                yield ready.get(timeout=_WAIT)
            except Empty:
                continue
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


PRODUCERS = [Producers("threads + queue.Queue", begin_batches, keeps_order=False)]
