"""The one runner: contenders in turns, round after round, and what may be concluded from their times.

A row says what is compared; `run_row` checks every contender's output, times those that are right, and writes one form
of result.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any, Literal

from framefeed.errors import MissingMedia
from framefeed.parallel import Err, catch_outcome

Metric = Literal["cpu", "wall"]
METRICS: Mapping[str, Metric] = {"CPU": "cpu", "wall": "wall"}
"""Name of a figure -> clock."""
NO_TIME = "no time was left: raise --minutes"
MOST_NAMED = 5
"""Wrong outputs of one contender that are listed."""
_WAIT = 0.01
"""Seconds."""
_MOST_WAITS = 100


@dataclass(frozen=True, slots=True)
class Reading:
    """What two clocks show, or what one run took, in seconds."""

    cpu: float
    wall: float

    def of(self, metric: Metric) -> float:
        """One of the two."""
        return self.cpu if metric == "cpu" else self.wall

    def __sub__(self, earlier: Reading) -> Reading:
        return Reading(self.cpu - earlier.cpu, self.wall - earlier.wall)

    def __truediv__(self, amount: float) -> Reading:
        return Reading(self.cpu / amount, self.wall / amount)


Run = Callable[[int], Any]
"""Does the work of one round, whose number chooses the clips; a `Reading` that it returns was taken elsewhere."""


def ready(run: Run) -> Callable[[], Run]:
    """Open a contender that needs no opening."""
    return lambda: run


def read_clocks() -> Reading:
    """Read both clocks."""
    return Reading(time.process_time(), time.perf_counter())


def take_time(work: Callable[[], object], clock: Callable[[], Reading] = read_clocks) -> Reading:
    """Do some work once, and say what it took."""
    before = clock()
    work()
    return clock() - before


@dataclass(frozen=True, slots=True)
class Rounds:
    """How often to run."""

    pairs: int = 20  # rounds in all; each runs every contender once
    pilot: int = 2  # after so many rounds only those stay that could still be the best of their group
    slack: float = 1.08  # how much slower than the best of its group a contender may be to stay
    until: float | None = None  # reading of ``time.perf_counter`` at which all is to be done; None for no end

    def has(self, seconds: float) -> bool:
        """Whether so much time is left."""
        return self.until is None or time.perf_counter() + seconds <= self.until

    def check_time_to_make(self, what: str) -> None:
        """Raise MissingMedia where no time is left; called again and again while media are made."""
        if not self.has(0):
            raise MissingMedia(f"no time was left to make {what}: raise --minutes")


@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """One thing that is timed."""

    name: str
    open: Callable[[], Run]  # gives the work of a round. What opening takes is not in the rounds
    # What must be installed for it; empty for framefeed and the bare system, whose failure ends the row.
    library: str = ""
    rule: str = ""  # key of the rule that it plays by
    # Contenders of a group compete for being its best, and leave after the pilot; those of none stay.
    groups: tuple[str, ...] = ()
    amount: float = 1  # units of work in a round: clips, files, frames
    most_rounds: int | None = None  # after so many rounds it leaves; None: never
    facts: Mapping[str, Any] = field(default_factory=dict)  # further columns of its line in the result


@dataclass(frozen=True, slots=True)
class Interval:
    """The median of some values, and where the true median lies."""

    median: float
    low: float
    high: float
    coverage: float
    count: int

    def scale(self, factor: float, shift: float = 0) -> Interval:
        """The same of each value times a positive factor, and more."""
        low, middle, high = (factor * value + shift for value in (self.low, self.median, self.high))
        return Interval(middle, low, high, self.coverage, self.count)


@dataclass(slots=True)
class Timings:
    """What the rounds took, a unit of work: contender -> round -> reading."""

    of: dict[str, dict[int, Reading]] = field(default_factory=dict)

    def add(self, name: str, number: int, took: Reading) -> None:
        """Note one run."""
        self.of.setdefault(name, {})[number] = took

    def median(self, name: str, metric: Metric = "cpu") -> float:
        """Median seconds of a round."""
        return float(median(took.of(metric) for took in self.of[name].values()))

    def ratio(self, slower: str, faster: str, metric: Metric = "cpu") -> Interval:
        """How many times the time of ``faster`` the other took, over the rounds that both ran."""
        one, other = self.of[slower], self.of[faster]
        both = sorted(one.keys() & other.keys())
        return median_interval([one[number].of(metric) / other[number].of(metric) for number in both])

    def best(self, names: Iterable[str], metric: Metric = "cpu") -> str:
        """The contender with the smallest median, among those that ran most often."""
        there = [name for name in names if name in self.of]
        most = max(len(self.of[name]) for name in there)
        return min((name for name in there if len(self.of[name]) == most), key=lambda name: self.median(name, metric))


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that a row is about, of all rounds or one; ``ours`` and ``against`` are contenders that it compares."""

    value: Interval | float
    ours: str = ""
    against: str = ""

    def as_json(self) -> dict[str, Any]:
        """Write it for a result."""
        if isinstance(self.value, Interval):
            of = self.value
            numbers: dict[str, Any] = {name: round(getattr(of, name), 4) for name in ("median", "low", "high")}
            numbers |= {"coverage": round(of.coverage, 3), "pairs": of.count}
        else:
            numbers = {"median": round(self.value, 4)}
        names = {"ours": self.ours, "against": self.against}
        return numbers | {key: name for key, name in names.items() if name}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Figures of a row that belong together, by what they were taken of, such as "CPU", the one that counts first.

    Goals and the README name figures by the key, which is unique within the row. The unit of times is "x".
    """

    key: str
    what: str
    figures: Mapping[str, Figure]
    unit: str = "x"


@dataclass(frozen=True, slots=True)
class Findings:
    """What a row concludes from the times, or measures without them; ``wrong`` is about framefeed's own output."""

    comparisons: Sequence[Comparison] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    wrong: Sequence[str] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """What is measured together."""

    key: str
    title: str
    contenders: Sequence[Contender] = ()  # what is timed, in the same rounds; none where a row has only findings
    # Makes the findings of the times of those contenders that are right.
    conclude: Callable[[Timings], Findings] = lambda timings: Findings()
    unit: str = ""  # what a round has some of: "clips", "files", "frames"
    rules: Mapping[str, str] = field(default_factory=dict)  # rule -> what it means
    # Compares the output of a contender with what is expected, and says what differs, a line each; None for a contender
    # that has no output.
    check: Callable[[Contender], list[str] | None] = lambda contender: None
    # The same after the rounds, of what the last of them gave.
    recheck: Callable[[Contender], list[str]] = lambda contender: []
    clock: Callable[[], Reading] = read_clocks  # of all that may be at work
    between: Callable[[], None] | None = None  # called before each run
    warms_up: bool = False  # whether there is a first round that does not count


class Failures(dict[str, str]):
    """Contenders of other libraries that raised, and what: other people's code must not end the others' row."""

    def attempt(self, contender: Contender, work: Callable[[Any], Any], argument: Any) -> Any:
        """Call a function; None where it raised."""
        outcome = catch_outcome(work, argument)
        if not isinstance(outcome, Err):
            return outcome.value
        if not contender.library or not isinstance(outcome.error, Exception):
            raise outcome.error
        self[contender.name] = f"{type(outcome.error).__name__}: {outcome.error}"
        return None


def run_row(row: Row, rounds: Rounds) -> dict[str, Any]:
    """Open and check the contenders of a row, time them, and write the result.

    Outputs are checked first: so whatever a library sets up at its first use is not timed. A contender whose output is
    wrong is shown as wrong, and no figure compares its time.
    """
    failures, wrong, checked = Failures(), dict[str, list[str]](), set[str]()
    runs = dict[str, Run]()
    for contender in row.contenders:
        run = failures.attempt(contender, lambda contender: contender.open(), contender)
        if contender.name not in failures:
            runs[contender.name] = run
            complaints = failures.attempt(contender, row.check, contender)
            wrong[contender.name] = complaints or []
            checked |= set() if complaints is None else {contender.name}
    between = row.between or partial(settle, row.clock)
    # What is wrong is shown, and must not put those out that are right.
    able = [replace(each, groups=(), most_rounds=rounds.pilot) if wrong[each.name] else each
            for each in row.contenders if each.name not in failures]  # fmt: skip
    if row.warms_up:
        measure(able, runs, Rounds(1), row.clock, between, failures)
    raw = measure([each for each in able if each.name not in failures], runs, rounds, row.clock, between, failures)
    timed = [each for each in row.contenders if each.name in raw.of and each.name not in failures]
    for contender in timed:
        wrong[contender.name] += row.recheck(contender)
    right = [each for each in timed if not wrong[each.name]]
    findings = row.conclude(
        Timings({each.name: {n: took / each.amount for n, took in raw.of[each.name].items()} for each in right})
    )
    return {
        "key": row.key,
        "title": row.title,
        "unit": row.unit,
        "rules": dict(row.rules),
        "contenders": [_describe(each, raw, wrong[each.name], each.name in checked) for each in timed],
        "failed": dict(failures),
        "comparisons": [
            {
                "key": each.key,
                "what": each.what,
                "unit": each.unit,
                "figures": {name: figure.as_json() for name, figure in each.figures.items()},
            }
            for each in findings.comparisons
            if each.figures
        ],
        "facts": dict(findings.facts),
        "wrong": list(findings.wrong),
    }


def _describe(contender: Contender, raw: Timings, wrong: Sequence[str], is_checked: bool) -> dict[str, Any]:
    rounds = list(raw.of[contender.name].values())
    return {
        "name": contender.name,
        "rule": contender.rule,
        "library": contender.library,
        "amount": contender.amount,
        "per_cpu_second": round(contender.amount / raw.median(contender.name), 3),
        "per_second": round(contender.amount / raw.median(contender.name, "wall"), 3),
        "num_wrong": len(wrong),
        "wrong": list(wrong[:MOST_NAMED]),
        "facts": dict(contender.facts),
        "is_checked": is_checked,
        "cpu_seconds": [round(took.cpu, 9) for took in rounds],
        "wall_seconds": [round(took.wall, 9) for took in rounds],
    }


def settle(clock: Callable[[], Reading] = read_clocks) -> None:
    """Wait until threads that a run left behind are done, so that the next one does not pay for them."""
    for _ in range(_MOST_WAITS):
        if take_time(partial(time.sleep, _WAIT), clock).cpu < _WAIT / 10:
            return


def measure(
    contenders: Sequence[Contender],
    runs: Mapping[str, Run],
    rounds: Rounds,
    clock: Callable[[], Reading],
    between: Callable[[], None],
    failures: Failures,
) -> Timings:
    """Run all contenders round after round, each round in another order; those that raise leave."""
    timings = Timings()
    staying = list(contenders)
    last = 0.0
    for number in range(rounds.pairs):
        if number and not rounds.has(last):
            break
        began = time.perf_counter()
        if number == rounds.pilot:
            staying = keep_best(staying, timings, rounds.slack)
        staying = [each for each in staying if each.most_rounds is None or number < each.most_rounds]
        for contender in rotate(staying, number):
            between()
            before = clock()
            given = failures.attempt(contender, runs[contender.name], number)
            took = given if isinstance(given, Reading) else clock() - before
            if contender.name in failures:
                staying = [each for each in staying if each is not contender]
            else:
                timings.add(contender.name, number, took)
        last = time.perf_counter() - began
    return timings


def rotate(contenders: Sequence[Contender], number: int) -> Iterator[Contender]:
    """The contenders in the order of a round: every one comes first, and each pair goes both ways round."""
    start = number // 2 % max(1, len(contenders))
    order = [*contenders[start:], *contenders[:start]]
    return iter(order if number % 2 == 0 else order[::-1])


def keep_best(contenders: Sequence[Contender], timings: Timings, slack: float) -> list[Contender]:
    """Those that always stay, and those whose median a unit comes near the best of a group of theirs."""
    best: dict[str, float] = {}
    medians = {each.name: timings.median(each.name) / each.amount for each in contenders}
    for contender in contenders:
        for group in contender.groups:
            best[group] = min(best.get(group, math.inf), medians[contender.name])
    return [
        each
        for each in contenders
        if not each.groups or any(medians[each.name] <= slack * best[group] for group in each.groups)
    ]


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Bound the median by order statistics: no assumption but that the values are independent.

    The k-th smallest and k-th largest of n values hold the median between them with probability
    1 - 2 P(B < k), B binomial with n and 1/2 (David and Nagaraja, Order Statistics, section 7.1). With few values even
    the widest interval has less than the confidence, and says so.
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


def compare_times(
    timings: Timings, ours: str, against: str, metrics: Sequence[Metric] = ("cpu", "wall")
) -> dict[str, Figure]:
    """How many times the time of ours another contender took, by metric; nothing where one of them was not timed."""
    if ours not in timings.of or against not in timings.of:
        return {}
    return {
        name: Figure(timings.ratio(against, ours, metric), ours, against)
        for name, metric in METRICS.items()
        if metric in metrics
    }
