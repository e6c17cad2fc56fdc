"""Paired, alternating runs, and what may be concluded from them: pure arithmetic but for the clock passed in.

Facts of the machine that figures belong to.
"""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any, Literal

Metric = Literal["cpu", "wall"]
Run = Callable[[int], object]
"""Does the work of one round; the number of the round chooses the clips, the same for all contenders."""


NO_TIME = "no time was left: raise --minutes"
_WAIT = 0.01
"""Seconds."""
_MOST_WAITS = 100


@dataclass(frozen=True, slots=True)
class Sample:
    """What one run took, in seconds.

    Attributes:
        cpu: Of the whole process, all threads.
        wall: Of the clock on the wall.
    """

    cpu: float
    wall: float

    def of(self, metric: Metric) -> float:
        """One of the two."""
        return self.cpu if metric == "cpu" else self.wall

    def __sub__(self, earlier: Sample) -> Sample:
        return Sample(self.cpu - earlier.cpu, self.wall - earlier.wall)


def now() -> Sample:
    """Read both clocks."""
    return Sample(time.process_time(), time.perf_counter())


@dataclass(frozen=True, slots=True)
class Rounds:
    """How often to run.

    Attributes:
        pairs: Rounds in all; each runs every contender once.
        pilot: After so many rounds only those stay that could still be the best of their group.
        slack: How much slower than the best of its group a contender may be to stay.
        until: Reading of ``time.perf_counter`` at which all is to be done; None for no end.
    """

    pairs: int = 20
    pilot: int = 2
    slack: float = 1.08
    until: float | None = None

    def has(self, seconds: float) -> bool:
        """Whether so much time is left."""
        return self.until is None or time.perf_counter() + seconds <= self.until


@dataclass(frozen=True, slots=True)
class Contender:
    """One thing that is timed.

    Attributes:
        name: Unique within a measurement.
        run: The work of one round.
        groups: Contenders of a group compete for being its best; those of none always stay.
    """

    name: str
    run: Run
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Interval:
    """The median of some values, and where the true median lies.

    Attributes:
        median: Of the values.
        low: Lower end of the interval.
        high: Upper end.
        coverage: Probability that the interval holds the true median, whatever the distribution.
        count: How many values there were.
    """

    median: float
    low: float
    high: float
    coverage: float
    count: int


@dataclass(slots=True)
class Timings:
    """What all runs took: contender -> round -> sample."""

    of: dict[str, dict[int, Sample]] = field(default_factory=dict)

    def add(self, name: str, number: int, sample: Sample) -> None:
        """Note one run."""
        self.of.setdefault(name, {})[number] = sample

    def median(self, name: str, metric: Metric = "cpu") -> float:
        """Median seconds of a round."""
        return float(median(sample.of(metric) for sample in self.of[name].values()))

    def ratio(self, slower: str, faster: str, metric: Metric = "cpu") -> Interval:
        """How many times the time of ``faster`` the other took, over the rounds that both ran."""
        both = sorted(self.of[slower].keys() & self.of[faster].keys())
        return median_interval([self.of[slower][n].of(metric) / self.of[faster][n].of(metric) for n in both])

    def best(self, names: Sequence[str], metric: Metric = "cpu") -> str:
        """The contender with the smallest median, among those that ran most often."""
        most = max(len(self.of[name]) for name in names)
        return min((name for name in names if len(self.of[name]) == most), key=lambda name: self.median(name, metric))


def settle(clock: Callable[[], Sample] = now) -> None:
    """Wait until threads that a run left behind are done, so that the next one does not pay for them.

    Args:
        clock: Of all that may still be at work.
    """
    for _ in range(_MOST_WAITS):
        before = clock()
        time.sleep(_WAIT)
        if (clock() - before).cpu < _WAIT / 10:
            return


def measure(
    contenders: Sequence[Contender],
    rounds: Rounds,
    clock: Callable[[], Sample] = now,
    between: Callable[[], None] = settle,
) -> Timings:
    """Run all contenders round after round, each round in another order.

    Args:
        contenders: With unique names.
        rounds: How often.
        clock: Read before and after each run.
        between: Called before each run.
    """
    samples = Timings()
    staying = list(contenders)
    last = 0.0
    for number in range(rounds.pairs):
        if number and not rounds.has(last):
            break
        began = time.perf_counter()
        if number == rounds.pilot:
            staying = still_in(staying, samples, rounds.slack)
        for contender in turned(staying, number):
            between()
            before = clock()
            contender.run(number)
            samples.add(contender.name, number, clock() - before)
        last = time.perf_counter() - began
    return samples


def turned(contenders: Sequence[Contender], number: int) -> Iterator[Contender]:
    """The contenders in the order of a round: every one comes first, and each pair goes both ways round."""
    start = number // 2 % max(1, len(contenders))
    order = [*contenders[start:], *contenders[:start]]
    return iter(order if number % 2 == 0 else order[::-1])


def still_in(contenders: Sequence[Contender], samples: Timings, slack: float) -> list[Contender]:
    """Those that always stay, and those whose median comes near the best of a group of theirs."""
    best: dict[str, float] = {}
    for contender in contenders:
        for group in contender.groups:
            best[group] = min(best.get(group, math.inf), samples.median(contender.name))
    return [
        contender
        for contender in contenders
        if not contender.groups
        or any(samples.median(contender.name) <= slack * best[group] for group in contender.groups)
    ]


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Bound the median by order statistics: no assumption but that the values are independent.

    The k-th smallest and k-th largest of n values hold the median between them with probability
    1 - 2 P(B < k), B binomial with n and 1/2 (David and Nagaraja, Order Statistics, section 7.1).

    Args:
        values: At least one.
        confidence: Least coverage wanted; with few values the widest interval has less, and says so.
    """
    ordered = sorted(values)
    count = len(ordered)
    rank = 1
    while rank + 1 <= (count + 1) // 2 and _coverage(count, rank + 1) >= confidence:
        rank += 1
    return Interval(median(ordered), ordered[rank - 1], ordered[count - rank], _coverage(count, rank), count)


def _coverage(count: int, rank: int) -> float:
    below = sum(math.comb(count, successes) for successes in range(rank))
    return max(0.0, 1.0 - 2.0 * below / 2.0**count)


def as_json(interval: Interval, digits: int = 3) -> dict[str, Any]:
    """Write an interval for a report."""
    names: Mapping[str, float] = {"median": interval.median, "low": interval.low, "high": interval.high}
    return {name: round(value, digits) for name, value in names.items()} | {
        "coverage": round(interval.coverage, 3),
        "pairs": interval.count,
    }


_PACKAGES = ("framefeed", "av", "numpy", "pyarrow", "pillow", "torch")


def machine_facts() -> dict[str, Any]:
    """Processor, cores, memory, system and versions; nothing that names the machine or its user."""
    return {
        "processor": _processor(),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 2),
        "packages": {name: installed for name in _PACKAGES if (installed := _version(name))},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
