"""What a request costs in bytes, by host: so many are read beside those that are needed to save one request.

The first answers of a host tell, in each process: a request costs its wait for the first byte, in which the connection
could have given bytes at its rate.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple
from urllib.parse import urlsplit

from framefeed._lru import Lru
from framefeed._per_process import PerProcess

DEFAULT_GAP_BYTES = 2**18
"""At 50 MB/s these bytes take 5 ms, and a request 20."""
LEAST_GAP_BYTES = 2**16
MOST_GAP_BYTES = 2**22
FEWEST_ANSWERS = 4
MOST_ANSWERS = 16
"""The first ones of a host, which are kept."""
LEAST_BODY_BYTES = 2**16
"""A shorter body has come with its head, and tells no rate."""
_MOST_HOSTS = 1024
_LEAST_SECONDS = 1e-6


class AnswerTime(NamedTuple):
    """How long an answer with a body of ``nbytes`` took: from the request to its head, and from there to its end."""

    nbytes: int
    first_seconds: float
    body_seconds: float


def price_gap(answers: Sequence[AnswerTime]) -> int:
    """Compute how many bytes take as long as a request, within bounds; with too few answers, the default.

    >>> price_gap([AnswerTime(2**20, first_seconds=0.02, body_seconds=2**20 / 50e6)] * 4)
    1000000
    """
    answers = [each for each in answers if each.nbytes >= LEAST_BODY_BYTES]
    if len(answers) < FEWEST_ANSWERS:
        return DEFAULT_GAP_BYTES
    seconds = max(_LEAST_SECONDS, sum(each.body_seconds for each in answers))
    gap = median(each.first_seconds for each in answers) * sum(each.nbytes for each in answers) / seconds
    return round(min(max(gap, LEAST_GAP_BYTES), MOST_GAP_BYTES))


class GapPrices:
    """The first answers of each host, and what they say."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_host = Lru[str, tuple[list[AnswerTime], int]](_MOST_HOSTS)

    def learn(self, url: str, answer: AnswerTime) -> None:
        """Note how long an answer took, if the host's first ones are not there yet."""
        if answer.nbytes < LEAST_BODY_BYTES:
            return
        host = _find_host(url)
        with self._lock:
            answers, _ = self._by_host.get(host) or ([], 0)
            if len(answers) < MOST_ANSWERS:
                answers = [*answers, answer]
                self._by_host.put(host, (answers, price_gap(answers)))

    def find_gap(self, url: str) -> int:
        """Find the largest gap between two ranges of an object that are one request."""
        with self._lock:
            known = self._by_host.get(_find_host(url))
        return DEFAULT_GAP_BYTES if known is None else known[1]


GAP_PRICES = PerProcess(GapPrices)


def _find_host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]
