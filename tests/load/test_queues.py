"""Three bounded queues of one catalog: each loader prepares a bounded number of clips, and waits for its consumer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from framefeed.load import ClipLoader
from framefeed.plan import Uniform, plan_clips
from tests.fakes import FlatDecoder
from tests.load.media import catalog

BATCH, PREFETCH, CLIPS_PER_VIDEO = 2, 3, 20
SECONDS = 30


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.001)


def test_each_part_is_a_queue_whose_producers_wait_for_the_consumer(make_loader: Callable[..., ClipLoader]) -> None:
    parts = catalog().split({"train": 0.4, "validation": 0.3, "test": 0.3}, seed=1, stratify="label")
    sources, loaders, decoders = {}, {}, {}
    for name, part in parts.items():
        plan = plan_clips(part, Uniform(4), clips_per_video=CLIPS_PER_VIDEO, seed=0)
        sources[name] = {source for batch in make_loader(plan, batch_size=BATCH) for source in batch.sources}
        decoders[name] = FlatDecoder()
        loaders[name] = make_loader(plan, batch_size=BATCH, workers=4, prefetch=PREFETCH, backend=decoders[name])
    assert sum(map(len, sources.values())) == len(set().union(*sources.values())) == len(catalog())
    ahead = BATCH * PREFETCH
    for name, loader in loaders.items():
        taken = []
        for number, batch in enumerate(loader, 1):
            taken += batch.positions.tolist()
            if number > 3:
                continue
            # The consumer stops: the producers fill the queue, and do no more.
            # One item of the bound is the one that is delivered next.
            wait_until(lambda loader=loader: loader.stats().ready >= ahead - 1 and not loader.stats().running)  # type: ignore[misc]
            assert loader.stats().max_ahead == ahead
            assert len(taken) < sum(clips for _, clips in decoders[name].calls) <= len(taken) + ahead < len(loader.plan)
        assert sorted(taken) == list(range(len(loader.plan)))
