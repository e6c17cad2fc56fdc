"""grain: a data set that its threads read ahead, in batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

# It warns on import where jax is missing, which these data sets do not need.
logging.getLogger("absl").setLevel(logging.ERROR)

import grain  # noqa: E402

from benchmarks.peers.kinds import Producers  # noqa: E402
from framefeed.decode import Pixels  # noqa: E402

PACKAGES = ("grain",)
_AHEAD = 2
"""Batches that are read ahead beyond those that the threads are at."""


def begin_batches(load: Callable[[int], Pixels], length: int, batch_size: int, producers: int) -> Iterator[Any]:
    """Read samples with threads, and batch them in order."""
    options = grain.ReadOptions(num_threads=producers, prefetch_buffer_size=producers + _AHEAD * batch_size)
    samples = grain.MapDataset.source(range(length)).map(load).to_iter_dataset(options)
    yield from samples.batch(batch_size)


PRODUCERS = [Producers("grain", begin_batches)]
