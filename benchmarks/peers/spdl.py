"""SPDL: a pipeline of threads that keeps the order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from spdl.pipeline import PipelineBuilder

from benchmarks.peers.kinds import Producers
from framefeed.decode import Pixels

PACKAGES = ("spdl", "spdl_io")


def begin_batches(load: Callable[[int], Pixels], length: int, batch_size: int, producers: int) -> Iterator[Any]:
    """Start a pipeline of threads that keeps the order."""
    builder = PipelineBuilder().add_source(range(length)).pipe(load, concurrency=producers, output_order="input")
    pipeline = builder.aggregate(batch_size).pipe(np.stack).add_sink(2).build(num_threads=producers)
    with pipeline.auto_stop():
        yield from pipeline


PRODUCERS = [Producers("SPDL", begin_batches)]
