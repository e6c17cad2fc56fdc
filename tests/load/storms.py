"""Kill, stop and crash the worker processes of a loader at random times, and check every batch.

Run as a program (``make chaos``): ``python -m tests.load.storms --seeds 200 --log build/chaos_loader.log``. Each seed
is an epoch of a loader with worker processes. After some batches a random worker gets a signal, whatever it does then;
the next one comes when every clip of that moment is delivered, so that no clip loses two workers to them. With some
seeds one file ends every worker that decodes it, and with some the epoch is left and resumed in another loader.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any

from framefeed.errors import DeadlineExceeded, WorkerLost
from framefeed.load._batch import ClipBatch
from framefeed.load._loader import ClipLoader
from framefeed.parallel import ProcessPool
from tests.fakes import add_noise
from tests.load.faulty import FaultyDecoder
from tests.makers import VIDEOS, catalog, plan_of
from tests.parallel.functions import shared_memory
from tests.parallel.living import all_gone, wait_until
from tests.patience import PATIENCE_SECONDS
from tests.seeds import read_options, report_seeds, try_seeds

SIGNALS = ("KILL", "STOP", "SEGV")
FAULTS = {"kill": WorkerLost, "segmentation fault": WorkerLost, "stopped": DeadlineExceeded}


@dataclass(frozen=True)
class Storm:
    """What happens in one epoch, all of it drawn from a seed."""

    options: dict[str, Any]
    clips_per_video: int
    strikes: dict[int, str]
    """Signals by the number of the batch after which they are sent."""
    fate: str | None
    """What the file of one row does to every worker."""
    row: int
    leave_after: int | None
    """Batches after which the loader is left, and another one begins at its state."""

    @classmethod
    def draw(cls, seed: int) -> Storm:
        rng = random.Random(seed)
        batch_size, prefetch = rng.randint(1, 5), rng.randint(1, 3)
        transform = rng.choice([None, add_noise])
        clips_per_video = rng.randint(2, 6)
        batches = -(-clips_per_video * VIDEOS // batch_size)
        strikes: dict[int, str] = {}
        after = rng.randint(1, prefetch + 1)
        while after < batches and len(strikes) < 2:
            strikes[after] = rng.choice(SIGNALS)
            # A worker that is stopped while it is idle is noticed at a later clip, which a next strike might hit.
            after += batches if strikes[after] == "STOP" else prefetch + rng.randint(2, 4)
        fate = rng.choice(list(FAULTS)) if seed % 5 == 4 else None
        if fate:
            clips_per_video = 2  # each clip of the file costs the start of two processes
        options = {
            "batch_size": batch_size, "prefetch": prefetch, "transform": transform, "workers": rng.randint(1, 3),
            "on_error": "skip", "deadline_seconds": PATIENCE_SECONDS,
        }  # fmt: skip
        leave_after = rng.randrange(batches) if seed % 3 == 2 else None
        # A file that ends its workers must not lose one of its tries to a strike.
        return cls(options, clips_per_video, {} if fate else strikes, fate, rng.randrange(VIDEOS), leave_after)


def list_processes(loader: ClipLoader) -> list[int]:
    pool = loader._workers._pool
    assert isinstance(pool, ProcessPool)
    children = list(pool._children._by_thread.values())
    return [child._running.value.process.pid for child in children if child._running.value.process is not None]


def strike(loader: ClipLoader, name: str, rng: random.Random) -> None:
    """Send a signal to a random worker process, if there is one, at a random moment of what it does."""
    sleep(rng.choice([0, 0.001, 0.005, 0.02]))
    processes = list_processes(loader)
    if processes:
        with suppress(ProcessLookupError):
            os.kill(rng.choice(processes), signal.Signals[f"SIG{name}"])


def split_into_clips(batch: ClipBatch) -> list[tuple[Any, ...]]:
    """All that a batch says about each of its clips, but not its error."""
    arrays = (batch.data, batch.pts_seconds, batch.valid, batch.positions, batch.columns["label"])
    return [(source, *(array[slot].tobytes() for array in arrays)) for slot, source in enumerate(batch.sources)]


def survive(seed: int, folder: Path) -> Counter[str]:
    """Run the epoch of a seed, and assert that all its batches are right; return how often each thing happened."""
    storm, rng = Storm.draw(seed), random.Random(seed)
    plan = plan_of(clips_per_video=storm.clips_per_video, seed=seed)
    lethal = str(catalog().source(storm.row)) if storm.fate else None
    with ClipLoader(plan, backend=FaultyDecoder({}, folder), **{**storm.options, "workers": 0}) as inline:
        expected = [split_into_clips(batch) for batch in inline]
    decoder = FaultyDecoder({lethal: storm.fate} if lethal and storm.fate else {}, folder)

    def make() -> ClipLoader:
        return ClipLoader(plan, kind="processes", backend=decoder, **storm.options)

    happened, number = Counter[str](), 0
    held = set(shared_memory(None))
    loader, processes = make(), set[int]()
    try:
        while number < len(expected):
            for batch in loader:
                check_batch(batch, expected[number], lethal, storm.fate, happened)
                number += 1
                processes.update(list_processes(loader))
                if number in storm.strikes:
                    strike(loader, storm.strikes[number], rng)
                    happened[f"strike {storm.strikes[number]}"] += 1
                if number == storm.leave_after:
                    break
            if number < len(expected):
                assert number == storm.leave_after, f"the epoch ended after {number} batches"
                state = loader.state_dict()
                loader.close()
                loader = make()
                loader.load_state_dict(state)
                happened["left and resumed"] += 1
                storm = Storm(**{**vars(storm), "leave_after": None})
    finally:
        loader.close()
    assert all_gone(processes), f"left behind: {processes}"
    del batch
    wait_until(lambda: set(shared_memory(None)) <= held)
    return happened


def check_batch(
    batch: ClipBatch, expected: list[tuple[Any, ...]], lethal: str | None, fate: str | None, happened: Counter[str]
) -> None:
    clips = split_into_clips(batch)
    assert len(clips) == len(expected)
    for slot, (clip, right) in enumerate(zip(clips, expected, strict=True)):
        error = batch.errors[slot]
        position = int(batch.positions[slot])
        if fate is not None and right[0] == lethal:
            assert type(error) is FAULTS[fate], f"clip {position}: {error!r}"
            assert error.source == lethal
            happened[type(error).__name__] += 1
        else:
            assert error is None, f"clip {position}: {error!r}"
            assert clip == right, f"clip {position}: wrong"


def run_seed(seed: int) -> Counter[str]:
    with tempfile.TemporaryDirectory(prefix="framefeed-chaos-") as name:
        return survive(seed, Path(name))


def main(words: Sequence[str] | None = None) -> int:
    options = read_options(__doc__, words)
    title = f"{options.seeds} epochs of ClipLoader(kind='processes')"
    verdict = "every batch right and in order, no process and no memory left"
    return report_seeds(title, try_seeds(run_seed, options), lambda: verdict, options)


if __name__ == "__main__":
    sys.exit(main())
