"""Count what is fetched by URL: each request for the work that it belongs to, whichever thread sends it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

from framefeed._per_process import PerProcess


@dataclass(slots=True)
class FetchCounts:
    """What was fetched by URL; ``+=`` adds two of them."""

    requests: int = 0  # number of requests that were sent, with repeated, failed and abandoned ones
    nbytes: int = 0  # bytes of their answers
    wait_seconds: float = 0.0  # seconds that reads waited for them
    # Largest gap over which ranges were merged to one request, where ranges were last asked for; 0 if none were.
    gap_bytes: int = 0

    def __iadd__(self, other: FetchCounts) -> Self:
        self.requests += other.requests
        self.nbytes += other.nbytes
        self.wait_seconds += other.wait_seconds
        self.gap_bytes = other.gap_bytes or self.gap_bytes
        return self


class FetchCounter:
    """A sum of counts; any thread may add to it."""

    def __init__(self) -> None:
        self._lock = PerProcess(threading.Lock)
        self._counts = FetchCounts()

    def add(self, counts: FetchCounts) -> None:
        """Add to the sum."""
        with self._lock.value:
            self._counts += counts

    def read(self) -> FetchCounts:
        """Return the sum."""
        with self._lock.value:
            return replace(self._counts)

    def take(self) -> FetchCounts:
        """Return the sum since the last call."""
        with self._lock.value:
            counts, self._counts = self._counts, FetchCounts()
        return counts


class _Thread(threading.local):
    def __init__(self) -> None:
        self.counter: FetchCounter | None = None


_thread = _Thread()


@contextmanager
def counting_fetches(counter: FetchCounter | None) -> Iterator[None]:
    """Count what the calling thread asks for in the block, also what comes or fails later; None counts nothing."""
    before, _thread.counter = _thread.counter, counter
    try:
        yield
    finally:
        _thread.counter = before


def get_fetch_counter() -> FetchCounter | None:
    """Return the counter of the calling thread's work, for requests that other threads make for it."""
    return _thread.counter


def count_fetch(counts: FetchCounts) -> None:
    """Count what the calling thread fetched or waited for."""
    if _thread.counter is not None:
        _thread.counter.add(counts)
