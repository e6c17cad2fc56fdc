from math import comb

import pytest

from framefeed.bench._measuring import (
    Contender,
    Rounds,
    Sample,
    Timings,
    as_json,
    measure,
    median_interval,
    still_in,
    turned,
)


class FakeClock:
    """Time passes only while a contender works."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0

    def __call__(self) -> Sample:
        return Sample(self.cpu, self.wall)

    def spend(self, cpu: float, wall: float) -> None:
        self.cpu += cpu
        self.wall += wall


def contender(clock: FakeClock, name: str, seconds: float, group: str = "") -> Contender:
    return Contender(
        name, lambda number: clock.spend(seconds * (1 + number % 3), 2 * seconds), (group,) if group else ()
    )


def test_ratios_are_taken_pair_by_pair() -> None:
    clock = FakeClock()
    samples = measure([contender(clock, "ours", 1.0), contender(clock, "peer", 2.0)], Rounds(20), clock, lambda: None)
    ratio = samples.ratio("peer", "ours")
    assert (ratio.median, ratio.low, ratio.high, ratio.count) == (2.0, 2.0, 2.0, 20)
    assert samples.ratio("peer", "ours", "wall").median == 2.0
    assert samples.median("ours", "wall") == 2.0


def test_what_cannot_be_best_of_its_group_stops_after_the_pilot() -> None:
    clock = FakeClock()
    contenders = [
        contender(clock, "ours", 1.0),
        contender(clock, "fast", 2.0, "peers"),
        contender(clock, "close", 2.4, "peers"),
        contender(clock, "slow", 9.0, "peers"),
        contender(clock, "alone", 9.0, "others"),
    ]
    samples = measure(contenders, Rounds(10, pilot=3, slack=1.3), clock, lambda: None)
    rounds = {name: len(runs) for name, runs in samples.of.items()}
    assert rounds == {"ours": 10, "fast": 10, "close": 10, "slow": 3, "alone": 10}
    assert samples.best(["fast", "close", "slow"]) == "fast"
    assert samples.ratio("slow", "ours").count == 3


def test_one_that_left_early_is_never_the_best() -> None:
    samples = Timings({"long": {0: Sample(2, 2), 1: Sample(2, 2)}, "left": {0: Sample(1, 1)}})
    assert samples.best(["long", "left"]) == "long"


def test_contenders_without_a_group_always_stay() -> None:
    samples = Timings({"a": {0: Sample(1, 1)}, "b": {0: Sample(100, 1)}})
    assert len(still_in([Contender("a", print), Contender("b", print)], samples, 1.1)) == 2


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_rounds_rotate_the_order_of_contenders(count: int) -> None:
    names = [Contender(str(number), print) for number in range(count)]
    orders = [[c.name for c in turned(names, number)] for number in range(2 * count)]
    assert all(sorted(order) == sorted(orders[0]) for order in orders)
    assert {order[0] for order in orders} == set(orders[0])
    for one, other in [(a.name, b.name) for a in names for b in names if a is not b]:
        before = sum(order.index(one) < order.index(other) for order in orders)
        assert before == count


@pytest.mark.parametrize("count", [1, 2, 5, 6, 20, 21, 60])
def test_the_interval_is_the_narrowest_of_order_statistics_with_the_coverage(count: int) -> None:
    interval = median_interval([float(value) for value in range(count)][::-1])
    rank = round(interval.low) + 1
    assert interval.high == count - rank
    assert interval.median == (count - 1) / 2
    assert interval.coverage == pytest.approx(1 - 2 * sum(comb(count, k) for k in range(rank)) / 2**count, abs=1e-12)
    if count >= 6:
        narrower = 1 - 2 * sum(comb(count, k) for k in range(rank + 1)) / 2**count
        assert narrower < 0.95 <= interval.coverage


def test_twenty_values_give_the_sixth_and_the_fifteenth() -> None:
    interval = median_interval([float(value) for value in range(1, 21)])
    assert (interval.low, interval.high, interval.median) == (6, 15, 10.5)
    assert as_json(interval) == {"median": 10.5, "low": 6.0, "high": 15.0, "coverage": 0.959, "pairs": 20}


def test_no_round_is_begun_that_would_end_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("framefeed.bench._measuring.time.perf_counter", lambda: clock[0])

    def work(number: int) -> None:
        clock[0] += 4.0

    for until, count in [(None, 6), (101.0, 1), (111.9, 2), (112.0, 3), (1000.0, 6)]:
        clock[0] = 100.0
        rounds = Rounds(pairs=6, until=until)
        samples = measure([Contender("it", work)], rounds, lambda: Sample(clock[0], clock[0]), lambda: None)
        assert len(samples.of["it"]) == count
    assert not Rounds(until=clock[0] + 1).has(2)
