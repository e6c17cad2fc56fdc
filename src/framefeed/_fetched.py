"""Count what the threads of this process fetch by URL: readers add, and who began the work takes the sum."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Self


@dataclass(slots=True)
class FetchCounts:
    """What was fetched by URL; ``+=`` adds two of them.

    Attributes:
        requests: Number of requests, repeated ones included.
        nbytes: Bytes of their answers.
        wait_seconds: Seconds that reads waited for them.
    """

    requests: int = 0
    nbytes: int = 0
    wait_seconds: float = 0.0

    def __iadd__(self, other: FetchCounts) -> Self:
        self.requests += other.requests
        self.nbytes += other.nbytes
        self.wait_seconds += other.wait_seconds
        return self


class _Thread(threading.local):
    def __init__(self) -> None:
        self.counts = FetchCounts()


_thread = _Thread()


def count_fetch(counts: FetchCounts) -> None:
    """Count what the calling thread fetched."""
    _thread.counts += counts


def take_fetch_counts() -> FetchCounts:
    """Return what the calling thread fetched since the last call."""
    counts, _thread.counts = _thread.counts, FetchCounts()
    return counts
