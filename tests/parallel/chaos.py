"""Kill, stop and crash worker processes at random times, and check that every item comes out once and in order.

Run as a program (``make chaos``): ``python -m tests.parallel.chaos --seeds 200 --log build/chaos_parallel.log``. Each
seed makes one run of `ordered_outcomes`. Signals come from two sides:

- items that send signals to their own process, once or twice: the seed says which items lose two workers;
- the consumer, which sends a signal to a random worker after some results, whatever that worker does then. It sends the
  next one when every item of that moment has come out, so that no item loses two workers to it.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from framefeed.errors import DeadlineExceeded, WorkerLost
from framefeed.parallel import Err, Ok, ProcessPool, ordered_outcomes
from framefeed.parallel._child import _is_stopped
from tests.parallel import functions
from tests.parallel.living import all_gone, hurry_calls_that_hang, lives, wait_until
from tests.patience import PATIENCE_SECONDS
from tests.seeds import Outcome, read_options, report_seeds

JOBS = 2
SIGNALS = ("KILL", "STOP", "SEGV")


@dataclass(frozen=True)
class Storm:
    """What happens in one run, all of it drawn from a seed."""

    workers: int
    window: int
    max_bytes: int | None
    fates: tuple[tuple[str, ...], ...]
    """For each item, the signals that its tries send to their own process, or "HANG"."""
    spins: tuple[int, ...]
    sizes: tuple[int, ...]
    strikes: tuple[tuple[int, str], ...]
    """Results after which the consumer sends a signal, and the signal."""

    @classmethod
    def draw(cls, seed: int) -> Storm:
        rng = random.Random(seed)
        number = rng.randint(12, 40)
        fates: list[tuple[str, ...]] = [()] * number
        strikes: list[tuple[int, str]] = []
        window = rng.randint(1, 10)
        if seed % 2:
            for item in rng.sample(range(number), rng.randint(1, 3)):
                fates[item] = tuple(rng.choices(SIGNALS, k=rng.randint(1, 2)))
            if rng.random() < 0.2:
                fates[rng.randrange(number)] = ("HANG",)
        else:
            after = rng.randint(1, window + 3)
            while after < number:
                strikes.append((after, rng.choice(SIGNALS)))
                # A worker that is stopped while it is idle is noticed at a later item, which a next strike might hit.
                after += number if strikes[-1][1] == "STOP" else window + rng.randint(1, 5)
        return cls(
            workers=rng.randint(1, 3),
            window=window,
            max_bytes=rng.choice([None, 0, 300_000]),
            fates=tuple(fates),
            spins=tuple(rng.choice([0, 3_000, 100_000, 1_000_000]) for _ in range(number)),
            sizes=tuple(rng.choice([0, 100, 20_000, 400_000]) for _ in range(number)),
            strikes=tuple(strikes),
        )

    def item(self, position: int, folder: Path) -> functions.Fate:
        path = str(folder / str(position))
        return functions.Fate(path, self.fates[position], self.spins[position], self.sizes[position])

    def expected_error(self, position: int) -> type[BaseException] | None:
        match self.fates[position]:
            case ("HANG",):
                return DeadlineExceeded
            case (_, last):
                return DeadlineExceeded if last == "STOP" else WorkerLost
        return None


def strike(pool: ProcessPool, name: str, rng: random.Random) -> None:
    """Send a signal to a random worker process, if there is one, at a random moment; return when it has arrived."""
    sleep(rng.choice([0, 0.001, 0.005, 0.02]))
    processes = [
        child._running.value.process
        for child in pool._children._by_thread.values()
        if child._running.value.process is not None
    ]
    if processes:
        struck = rng.choice(processes).pid
        with suppress(ProcessLookupError):
            os.kill(struck, signal.Signals[f"SIG{name}"])
            # On a busy machine, a process that was killed may still be sent an item, long after this.
            wait_until(lambda: not lives(struck) or (name == "STOP" and _is_stopped(struck)))


def survive(seed: int, folder: Path) -> Counter[str]:
    """Make the run of a seed, and assert that it is complete and in order; return how often each thing happened."""
    storm, rng = Storm.draw(seed), random.Random(seed)
    number, happened = len(storm.fates), Counter[str]()
    strikes = dict(storm.strikes)
    items = [storm.item(position, folder) for position in range(number)]
    pool = ProcessPool(storm.workers)
    workers: set[int] = set()
    with pool:
        with ordered_outcomes(
            functions.suffer, items, pool=pool, max_in_flight=storm.window, deadline_seconds=PATIENCE_SECONDS,
            max_bytes=storm.max_bytes, size_of=None if storm.max_bytes is None else count_bytes,
        ) as outcomes:  # fmt: skip
            for position in range(number):
                check_outcome(storm, position, next(outcomes), happened)
                if position in strikes:
                    strike(pool, strikes[position], rng)
                    happened[f"strike {strikes[position]}"] += 1
            assert next(outcomes, None) is None
        # The pool is usable afterwards, whatever was struck last.
        again = ordered_outcomes(functions.same, range(9), pool=pool, max_in_flight=4)
        assert list(again) == [Ok(item) for item in range(9)]
        workers = {
            child._running.value.process.pid
            for child in pool._children._by_thread.values()
            if child._running.value.process is not None
        }
    assert all_gone(workers), f"left behind: {[process for process in workers if lives(process)]}"
    return happened


def count_bytes(value: tuple[str, bytes]) -> int:
    return len(value[1])


def check_outcome(storm: Storm, position: int, outcome: Ok[Any] | Err, happened: Counter[str]) -> None:
    expected = storm.expected_error(position)
    if expected is None:
        assert isinstance(outcome, Ok), f"item {position}: {outcome.error}"
        name = str(position)
        assert outcome.value == (name, functions.make_content(name, storm.sizes[position])), f"item {position}: wrong"
    else:
        assert isinstance(outcome, Err), f"item {position}: no error"
        assert type(outcome.error) is expected, f"item {position}: {outcome.error!r}"
        assert outcome.error.position == position  # type: ignore[attr-defined]
        happened[expected.__name__] += 1
    for name in storm.fates[position]:
        happened[f"own {name}"] += 1


def check_tries(storm: Storm, folder: Path, happened: Counter[str]) -> None:
    """Nothing was tried again but for a signal."""
    tries = [len((folder / str(item)).read_text().split()) if (folder / str(item)).exists() else 0
             for item in range(len(storm.fates))]  # fmt: skip
    for position, fate in enumerate(storm.fates):
        if fate:
            assert tries[position] == (1 if fate == ("HANG",) else 2), f"item {position}: {tries[position]} tries"
        else:
            assert 1 <= tries[position] <= 2, f"item {position}: {tries[position]} tries"
    repeated = sum(count == 2 for count, fate in zip(tries, storm.fates, strict=True) if not fate)
    assert repeated <= len(storm.strikes)
    happened["tried again"] += repeated


def run_seed(seed: int) -> Counter[str]:
    with tempfile.TemporaryDirectory(prefix="framefeed-chaos-") as name, pytest.MonkeyPatch.context() as patch:
        logs = [Path(name) / str(item) for item, fate in enumerate(Storm.draw(seed).fates) if fate == ("HANG",)]
        hurry_calls_that_hang(
            patch, lambda process: any(log.exists() and str(process) in log.read_text().split() for log in logs)
        )
        happened = survive(seed, Path(name))
        check_tries(Storm.draw(seed), Path(name), happened)
    return happened


def iterate_seeds(options: argparse.Namespace) -> Iterator[Outcome]:
    # Not the function of this main program, which cannot be sent.
    from tests.parallel.chaos import run_seed

    seeds = range(options.first, options.first + options.seeds)
    with ordered_outcomes(run_seed, seeds, workers=JOBS, kind="processes", max_in_flight=2 * JOBS) as outcomes:
        for outcome in outcomes:
            yield outcome.error if isinstance(outcome, Err) else outcome.value


def main(words: Sequence[str] | None = None) -> int:
    options = read_options(__doc__, words)
    title = f"{options.seeds} runs of ordered_outcomes in worker processes"
    verdict = "complete, in order, nothing twice, no process left"
    return report_seeds(title, iterate_seeds(options), lambda: verdict, options)


if __name__ == "__main__":
    sys.exit(main())
